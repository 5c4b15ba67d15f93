"""The pair bar: the target, its drafter, and the draft length.

Knows names and the status of loading; not where records of models come from, nor who loads them.
Unavailable choices are listed with the reason.
"""

from collections.abc import Sequence
from typing import Literal

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.choice_box import Choice, ChoiceBox
from app.models.formatting import drafter_name, target_name
from app.theme.labels import StatusLine, plain_label
from app.theme.style import colours_of
from models.records import Candidate, Installed

PairStatus = Literal["empty", "loading", "loaded", "failed"]

LONGEST_DRAFT = 16
_TREES = (4, 8, 16, 32)  # tokens
_FIND, _OPEN_FOLDER, _OPEN_FILE = "find", "open folder", "open file"
_COMBINE, _OPEN_DRAFTER = "combine", "open drafter"
_BETWEEN_ANSWERS = "You can change this when the answer has finished."
_NO_MODEL = "No model loaded"
_OWN = (
    Choice("auto", "Automatic", "Picks the best of the drafters that work"),
    Choice("lookup", "Lookup", "Copies text that followed the same words earlier"),
    Choice("suffix", "Suffix", "Copies what most often followed the same words"),
    Choice("lookahead", "Lookahead", "The target\u2019s own guesses about what comes later"),
    Choice("recycling", "Token recycling", "What the target found likely there before"),
    Choice("head", "Head", "A small network trained for this target"),
    Choice("early-exit", "Early exit", "The target\u2019s own first layers"),
    Choice("none", "None", "Plain decoding, for comparison"),
)


class PairBar(QWidget):
    """Three boxes to choose from, and the status of loading.

    Attributes: `status`; `target`, `drafter` and `length`, the chosen values.

    Signals:
        pair_chosen(str, str, str): a person chose another target (its path), drafter or draft
            length; the latter two in the format of `engine.conversation.pair`.
        open_folder_asked, open_file_asked: ask for a target's folder, or for a GGUF file.
        open_drafter_asked: ask for a drafter's folder.
        combine_asked: show the dialog that combines drafters.
        more_targets_asked, more_drafters_asked: show all of them, downloaded or not.
        retry_asked: load again after a failure.
    """

    pair_chosen = Signal(str, str, str)
    open_folder_asked = Signal()
    open_file_asked = Signal()
    open_drafter_asked = Signal()
    combine_asked = Signal()
    more_targets_asked = Signal()
    more_drafters_asked = Signal()
    retry_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.status: PairStatus = "empty"
        self._answering = False
        self._activity = self._activity_tip = ""
        self._loaded_tip = ""
        self._target = ChoiceBox("Target model")
        self._drafter = ChoiceBox("Drafter")
        self._length = ChoiceBox("Draft length")
        self._status = StatusLine()
        self._progress = QProgressBar()
        self._failure = StatusLine(wraps=True)
        self._retry = QPushButton("Try again")
        self._arrange()
        self.set_targets(())
        self.set_drafters(drafter_choices(()))
        self._length.set_choices(_lengths())
        self.set_pair("", drafter="auto", length="auto")
        for box in (self._target, self._drafter, self._length):
            box.chosen.connect(self._emit_pair)
        self._target.task_chosen.connect(self._on_target_task)
        self._drafter.task_chosen.connect(self._on_drafter_task)
        self._retry.clicked.connect(self.retry_asked)
        self.setAccessibleName("Models")
        self._fit()
        self.set_empty()

    def _arrange(self) -> None:
        row = QHBoxLayout()
        row.setSpacing(8)
        for box, text, width, stretch in (
            (self._target, "Target", 10, 4),
            (self._drafter, "Drafter", 7, 2),
            (self._length, "Draft length", 5, 0),
        ):
            label = plain_label(text, buddy=box)
            box.setMinimumContentsLength(width)
            box.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
            if stretch:
                box.setMaximumWidth(280)
            row.addWidget(label)
            row.addWidget(box, stretch)
            row.addSpacing(8)
        row.addWidget(self._status, 4)
        self._target.setPlaceholderText("Choose a model…")
        self._progress.setParent(
            self
        )  # over the bar's lower edge, so that nothing moves when it appears
        self._progress.setRange(0, 0)  # the remaining time is unknown
        self._progress.setTextVisible(False)
        self._progress.setAccessibleName("Loading")
        below = QHBoxLayout()
        below.setSpacing(10)
        below.addWidget(self._failure, 1)
        below.addWidget(self._retry)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 8, 14, 8)
        column.setSpacing(8)
        column.addLayout(row)
        column.addLayout(below)

    @property
    def target(self) -> str:
        return self._target.value

    @property
    def drafter(self) -> str:
        return self._drafter.value

    @property
    def length(self) -> str:
        return self._length.value

    def set_targets(self, choices: tuple[Choice, ...]) -> None:
        """List these targets; their values are paths."""
        self._target.set_choices(
            choices,
            tasks=(
                (_FIND, "Find more models…"),
                (_OPEN_FOLDER, "Load a model folder…"),
                (_OPEN_FILE, "Load a GGUF file…"),
            ),
        )
        self._enable()

    def set_drafters(self, choices: tuple[Choice, ...]) -> None:
        """List these drafters; see `drafter_choices`."""
        self._drafter.set_choices(
            choices,
            tasks=(
                (_FIND, "Compare all drafters…"),
                (_COMBINE, "Combine drafters…"),
                (_OPEN_DRAFTER, "Load a drafter folder…"),
            ),
        )

    def set_pair(self, target: str, *, drafter: str, length: str) -> None:
        """Show the chosen pair without a signal. A value that was not listed is added."""
        self._target.set_value(target)
        self._drafter.set_value(drafter)
        self._length.set_value(length)
        self._enable()

    def set_answering(self, answering: bool) -> None:
        """Set whether an answer is being written: the pair can only be changed between answers."""
        self._answering = answering
        self._enable()

    def set_empty(self) -> None:
        """Show that no model is loaded or being loaded."""
        self._show("empty", _NO_MODEL)

    def set_resting(self) -> None:
        """Show that the model was unloaded until the next request."""
        self._show("empty", "Unloaded")
        self._status.setToolTip("The next message loads the model again.")

    def set_loading(self, what: str) -> None:
        """Show that `what`, the name of a model or drafter, is being loaded."""
        self._show("loading", f"Loading {what}…")

    def set_measuring(self, share: float) -> None:
        """Show the share of the pair's calibration that is done."""
        self._show("loading", f"Calibrating: {share:.0%}")
        self._status.setToolTip(
            "Slipstream measures once how long drafts and passes take on this machine."
        )

    def set_loaded(self, *, precision: str, context_length: int) -> None:
        """Show that the pair is ready. `precision` is a text, `context_length` in tokens."""
        self._loaded_tip = f"Weights: {precision}\nContext: {context_length:,} tokens"
        self._show_loaded()

    def set_activity(self, word: str, *, tip: str = "") -> None:
        """Show the activity of the loaded pair; empty: it is ready. `tip` is the tooltip."""
        if (word, tip) != (self._activity, self._activity_tip):
            self._activity, self._activity_tip = word, tip
            if self.status == "loaded":
                self._show_loaded()

    def set_failed(self, message: str, remedy: str, *, retry: bool = True) -> None:
        """Show that loading failed, with a button if trying again may help."""
        self._show("failed", "Not loaded")
        self._failure.say(f"{message} {remedy}".strip(), "warning")
        self._failure.show()
        self._retry.setVisible(retry)

    @property
    def status_text(self) -> str:
        """The status as it is shown."""
        return self._failure.text if self.status == "failed" else self._status.text

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self.update()
        elif event.type() == QEvent.Type.FontChange:
            self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._progress.setGeometry(0, self.height() - 3, self.width(), 3)

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = colours_of(self)
        with QPainter(self) as painter:
            painter.setPen(colours.edge)
            painter.drawLine(0, self.height() - 1, self.width(), self.height() - 1)

    def _fit(self) -> None:
        words = self._status.fontMetrics()
        self._status.setMinimumWidth(words.horizontalAdvance(_NO_MODEL) + 2 * words.height())

    def _show_loaded(self) -> None:
        self._show("loaded", self._activity or "Ready")
        tip = "\n".join(filter(None, (self._activity_tip, self._loaded_tip)))
        self._status.setToolTip(tip)
        self._status.setAccessibleDescription(tip.replace("\n", ". "))

    def _show(self, status: PairStatus, text: str) -> None:
        self.status = status
        ready = status == "loaded" and not self._activity
        self._status.say(text, "good" if ready else "muted")
        self._status.setToolTip(text if status == "loading" else "")
        self._status.setAccessibleDescription("")
        self._progress.setVisible(status == "loading")
        self._failure.hide()
        self._retry.hide()
        self._enable()

    def _enable(self) -> None:
        free = not self._answering
        for box in (self._target, self._drafter, self._length):
            box.setEnabled(free)
            box.setStatusTip("" if free else _BETWEEN_ANSWERS)
        if self.drafter == "none":
            self._length.setEnabled(False)
        self.setToolTip("" if free else _BETWEEN_ANSWERS)

    def _on_target_task(self, task: str) -> None:
        {
            _FIND: self.more_targets_asked,
            _OPEN_FOLDER: self.open_folder_asked,
            _OPEN_FILE: self.open_file_asked,
        }[task].emit()

    def _on_drafter_task(self, task: str) -> None:
        {
            _FIND: self.more_drafters_asked,
            _COMBINE: self.combine_asked,
            _OPEN_DRAFTER: self.open_drafter_asked,
        }[task].emit()

    def _emit_pair(self) -> None:
        self._enable()
        self.pair_chosen.emit(self.target, self.drafter, self.length)


def _lengths() -> tuple[Choice, ...]:
    """Return the draft lengths: automatic, or a number of tokens in a chain or a tree."""
    numbers = (Choice(str(n), str(n)) for n in range(1, LONGEST_DRAFT + 1))
    trees = (
        Choice(f"tree:{n}", f"Tree {n}", "With alternatives, or a chain as deep") for n in _TREES
    )
    return (
        Choice("auto", "Auto", "As long as drafting pays off"),
        Choice("0", "0", "No drafting"),
        *numbers,
        *trees,
    )


def target_choices(
    installed: Sequence[Installed], *, starter: Choice, opened: Sequence[str]
) -> tuple[Choice, ...]:
    """Return the starter model, the paths that a person `opened`, and the installed models.

    Models that only draft are left out.
    """
    known = {model.path for model in installed}
    choices = {starter.value: starter}
    for path in opened:
        if path not in known:
            choices[path] = Choice(path, target_name(path), path.rpartition("/")[0], tip=path)
    for model in installed:
        if model.role == "chat" and model.origin != "starter":
            bits = "" if model.quantization_bits is None else f"{model.quantization_bits}-bit, "
            owner, _, name = model.name.rpartition("/")
            choices[model.path] = Choice(
                model.path,
                name,
                f"{bits}{owner or model.model_type}",
                reason=f"{model.problem} {model.remedy}".strip(),
                tip=f"{model.name}\n{model.path}",
            )
    return tuple(choices.values())


def drafter_choices(
    candidates: Sequence[Candidate], *, opened: Sequence[str] = (), chosen: str = ""
) -> tuple[Choice, ...]:
    """Return all drafters, the unsuitable ones with the reason. A person chose the folders
    `opened`.

    Before the candidates are known, every drafter can be chosen, and the engine decides. `chosen`
    is always listed.
    """
    known = {candidate.drafter: candidate for candidate in candidates}
    choices: dict[str, Choice] = {}
    for own in _OWN:
        refused = known.pop(own.value, None)
        reason = refused.reason if refused is not None and not refused.works else ""
        choices[own.value] = Choice(own.value, own.name, own.line, reason)
    for candidate in known.values():
        reason = "" if candidate.works else candidate.reason
        if candidate.obstacle == "not installed":
            reason = "Not downloaded. See \u201cCompare all drafters\u201d below."
        drafter = candidate.drafter
        choices[drafter] = Choice(
            drafter, drafter_name(drafter), candidate.reason, reason, tip=drafter
        )
    for path in opened:
        if path not in choices:
            choices[path] = Choice(path, target_name(path), "Chosen by you", tip=path)
    if chosen and chosen not in choices:
        line = "Asked in this order" if "+" in chosen else "Chosen by you"
        choices[chosen] = Choice(chosen, drafter_name(chosen), line, tip=chosen)
    return tuple(choices.values())
