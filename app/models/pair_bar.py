"""The pill that names the pair, its page to choose another, and the progress of loading.

Knows names and the status of loading; not where records of models come from, nor who loads them.
Unavailable choices are listed with the reason.
"""

from collections.abc import Sequence
from typing import Literal

from PySide6.QtCore import QPoint, QPointF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QAbstractButton,
    QFrame,
    QProgressBar,
    QSizePolicy,
    QWidget,
)

from app.choice_box import Choice, ChoiceBox
from app.layout import FREE, Part, column_of, row_of, text_button
from app.models.formatting import drafter_name, drafts_in_words, target_name
from app.theme.labels import StatusLine, ToneLabel, plain_label, plain_tip
from app.theme.style import colours_of, zoomed
from models import in_words
from models.records import Candidate, Installed

PairStatus = Literal["empty", "loading", "loaded", "failed"]

LONGEST_DRAFT = 16
_TREES = (4, 8, 16, 32)  # tokens
_FIND, _OPEN_FOLDER, _OPEN_FILE = "find", "open folder", "open file"
_OPEN_DRAFTER = "open drafter"
_PAGE_WIDTH = 400  # pixels
_BETWEEN_ANSWERS = "Available when the answer has finished."
_MEANING = (
    "The draft model (the drafter) guesses the next tokens, and the model (the target) checks them "
    "all at once. So the answer is the model\u2019s own, only sooner."
)
_OWN = (
    Choice("auto", "Automatic", "The best drafter for this model"),
    Choice("lookup", "Lookup", "Copies text that followed the same words earlier"),
    Choice("suffix", "Suffix", "Copies what most often followed the same words"),
    Choice("lookahead", "Lookahead", "The model\u2019s own guesses about what comes later"),
    Choice("head", "Head", "A small network trained for this model"),
    Choice("early-exit", "Early exit", "The model\u2019s own first layers"),
    Choice("none", "None", "Plain decoding, for comparison"),
)


class PairBar(QWidget):
    """The pill, and the status of loading next to it.

    Attributes: `page`, which the pill opens; `status`; `target`, `drafter` and `length`, the chosen
    values.

    Signals:
        pair_chosen(str, str, str): the user chose another target (its path), drafter or draft
            length; the latter two in the format of `engine.conversation.pair`.
        open_folder_asked, open_file_asked: ask for a target's folder, or for a GGUF file.
        open_drafter_asked: ask for a drafter's folder.
        library_asked, more_drafters_asked: show all models or all drafters, downloaded or not.
        memory_asked: show the settings of context and memory.
        retry_asked: load again after a failure.
    """

    pair_chosen = Signal(str, str, str)
    open_folder_asked = Signal()
    open_file_asked = Signal()
    open_drafter_asked = Signal()
    library_asked = Signal()
    more_drafters_asked = Signal()
    memory_asked = Signal()
    retry_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.status: PairStatus = "empty"
        self._activity = self._activity_tip = ""
        self._loaded_tip = ""
        self.page, self._pill = PairPage(self), Pill()
        self._status = StatusLine()
        self._progress = QProgressBar(self)  # over the lower edge, so that nothing moves
        self._failure = StatusLine(wraps=True)
        self._retry = text_button("Try again", self.retry_asked.emit)
        self._arrange()
        self.set_targets(())
        self.set_drafters(drafter_choices(()))
        self.page.length.set_choices(_lengths())
        self.set_pair("", drafter="auto", length="auto")
        for box in self.page.boxes:
            box.chosen.connect(self._emit_pair)
        self.page.model.task_chosen.connect(self._on_task)
        self.page.drafter.task_chosen.connect(self._on_task)
        self.page.library.clicked.connect(self.library_asked)
        self.page.memory.clicked.connect(self.memory_asked)
        self._pill.clicked.connect(self.open)
        self.setAccessibleName("Models")
        self.set_empty()

    def _arrange(self) -> None:
        self._row = row_of((self._pill, 3), (self._status, 1), gap=12)
        self._progress.setRange(0, 0)  # the remaining time is unknown
        self._progress.setTextVisible(False)
        self._progress.setAccessibleName("Loading")
        below = row_of((self._failure, 1), self._retry, gap=10)
        column_of(self._row, below, on=self, margins=(12, 8, 12, 6), gap=8)

    @property
    def target(self) -> str:
        return self.page.model.value

    @property
    def drafter(self) -> str:
        return self.page.drafter.value

    @property
    def length(self) -> str:
        return self.page.length.value

    def add_button(self, button: QWidget) -> None:
        """Add a button at the right end."""
        self._row.addWidget(button)
        self.setTabOrder(self._retry, button)

    def open(self) -> None:
        """Show the page below the pill, within the screen."""
        place = self._pill.mapToGlobal(QPoint(0, self._pill.height() + 4))
        self.page.fit()
        room = self.screen().availableGeometry()
        furthest = QPoint(room.right() - self.page.width(), room.bottom() - self.page.height())
        self.page.move(min(place.x(), furthest.x()), min(place.y(), furthest.y()))
        self.page.show()
        self.page.model.setFocus(Qt.FocusReason.PopupFocusReason)

    def set_targets(self, choices: tuple[Choice, ...]) -> None:
        """List these targets; their values are paths."""
        tasks = ((_OPEN_FOLDER, "Load a model folder…"), (_OPEN_FILE, "Load a GGUF file…"))
        self.page.model.set_choices(choices, tasks=tasks)
        self._show_pair()

    def set_drafters(self, choices: tuple[Choice, ...]) -> None:
        """List these drafters; see `drafter_choices`."""
        self.page.drafter.set_choices(
            choices,
            tasks=(
                (_FIND, "Compare all draft models…"),
                (_OPEN_DRAFTER, "Load a draft model\u2019s folder…"),
            ),
        )
        self._show_pair()

    def set_pair(self, target: str, *, drafter: str, length: str) -> None:
        """Show the chosen pair without a signal. A value that was not listed is added."""
        for box, value in zip(self.page.boxes, (target, drafter, length), strict=True):
            box.set_value(value)
        self._show_pair()

    def set_answering(self, answering: bool) -> None:
        """Set whether an answer is being written: the pair can only be changed between answers."""
        self.page.set_answering(answering)

    def set_empty(self) -> None:
        """Show that no model is loaded or being loaded."""
        self._show("empty", "No model loaded")

    def set_resting(self) -> None:
        """Show that the model was unloaded until the next request."""
        self._show("empty", "Unloaded")
        self._status.setToolTip("The next message loads the model again.")

    def set_loading(self, what: str) -> None:
        """Show that `what`, the name of a model or drafter, is being loaded."""
        self._show("loading", f"Loading {what}…")

    def set_measuring(self, share: float) -> None:
        """Show the share of the pair's calibration that is done."""
        self._show("loading", f"Measuring this machine, {share:.0%}")
        self._status.setToolTip("Slipstream measures this machine once (calibration).")

    def set_loaded(self, *, precision: str, context_length: int, exact: str) -> None:
        """Show that the pair is ready. `context_length` in tokens, the rest in words: `exact` as of
        an `Exactness`."""
        wide, _, packed = precision.partition(" from ")
        weights = f"{packed}, computed as {wide}" if packed else wide
        facts = f"Weights: {weights}", f"Context: {context_length:,} tokens", f"Text is {exact}"
        self._loaded_tip = "\n".join(facts)
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

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._progress.setGeometry(0, self.height() - 3, self.width(), 3)

    def _show_pair(self) -> None:
        """Name the chosen pair on the pill."""
        model = self.page.model.currentText()
        drafts = drafts_in_words(self.drafter, self.length)
        self._pill.show_words(in_words.short_model(model) if model else "Choose a model", drafts)
        self._pill.setToolTip(plain_tip(f"{model}\n{drafts}".strip()))
        self.page.describe()

    def _show_loaded(self) -> None:
        self._show("loaded", self._activity or "Ready")
        self.page.facts.say(self._loaded_tip)
        tip = "\n".join(filter(None, (self._activity_tip, self._loaded_tip)))
        self._status.setToolTip(plain_tip(tip))
        self._status.setAccessibleDescription(tip.replace("\n", ". "))

    def _show(self, status: PairStatus, text: str) -> None:
        self.status = status
        ready = status == "loaded" and not self._activity
        self._status.say(text, "good" if ready else "muted")
        self._status.setToolTip(plain_tip(text) if status == "loading" else "")
        self._status.setAccessibleDescription("")
        self.page.facts.say("")
        self._progress.setVisible(status == "loading")
        self._failure.hide()
        self._retry.hide()

    def _on_task(self, task: str) -> None:
        self.page.close()
        {
            _FIND: self.more_drafters_asked,
            _OPEN_FOLDER: self.open_folder_asked,
            _OPEN_FILE: self.open_file_asked,
            _OPEN_DRAFTER: self.open_drafter_asked,
        }[task].emit()

    def _emit_pair(self) -> None:
        self._show_pair()
        self.pair_chosen.emit(self.target, self.drafter, self.length)


class PairPage(QFrame):
    """Opens below the pill: a box and its explanation for each part of the pair.

    Attributes: the boxes `model`, `drafter` and `length`; `facts` of the loaded model; the buttons
    `library` and `memory`.
    """

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self._answering = False
        self.model, self.drafter = ChoiceBox("Model"), ChoiceBox("Draft model")
        self.length = ChoiceBox("How far ahead")
        self.boxes = (self.model, self.drafter, self.length)
        self._lines = {box: ToneLabel(tone="muted", scale=0.92) for box in self.boxes}
        self.facts = ToneLabel(tone="muted", scale=0.92)
        self._meaning = ToneLabel(tone="muted", scale=0.92)
        self.library = text_button("Library", self.close)
        self.memory = text_button("Context and memory…", self.close)
        self._arrange()
        self._meaning.say(_MEANING)

    def _arrange(self) -> None:
        parts: list[Part] = []
        for box in self.boxes:
            box.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
            title = plain_label(box.accessibleName(), bold=True, buddy=box)
            facts = (self.facts,) if box is self.model else ()
            parts += [title, box, self._lines[box], *facts, 10]
        buttons = row_of(self.library, self.memory, FREE)
        column_of(*parts, self._meaning, 12, buttons, on=self, margins=(18, 16, 18, 16), gap=4)
        self.model.setPlaceholderText("Choose a model…")
        self.setAccessibleName("Model and drafts")

    def fit(self) -> None:
        """Take the height that all texts need; `adjustSize` would stop at a part of the screen."""
        width = zoomed(self, _PAGE_WIDTH)
        if (layout := self.layout()) is not None:
            layout.activate()
        self.resize(width, self.heightForWidth(width))

    def set_answering(self, answering: bool) -> None:
        """Set whether an answer is being written, which locks the boxes."""
        self._answering = answering
        self.describe()

    def describe(self) -> None:
        """Explain the chosen values, and lock the boxes that cannot be changed."""
        for box in self.boxes:
            box.setEnabled(not self._answering)
            self._lines[box].say(box.accessibleDescription())
        if self.drafter.value == "none":
            self.length.setEnabled(False)
        if self._answering:
            self._lines[self.length].say(_BETWEEN_ANSWERS)
        if self.isVisible():
            self.fit()


class Pill(QAbstractButton):
    """A rounded button with the names of the model and its drafts, and a sign that it opens."""

    def __init__(self) -> None:
        super().__init__()
        self._drafts = ""
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)

    def show_words(self, model: str, drafts: str) -> None:
        """Show these names; `drafts` may be empty."""
        self._drafts = f" \u00b7 {drafts}" if drafts else ""
        self.setText(model)
        self.setAccessibleName(f"Model and drafts: {model}{self._drafts}")
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        line = self.fontMetrics().height()
        words = QFontMetrics(self._bold).horizontalAdvance(self.text())
        words += self.fontMetrics().horizontalAdvance(self._drafts)
        return QSize(words + 3 * line, line + 14)

    def minimumSizeHint(self) -> QSize:
        return QSize(120, self.sizeHint().height())

    @property
    def _bold(self) -> QFont:
        font = QFont(self.font())
        font.setWeight(QFont.Weight.DemiBold)
        return font

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, line = colours_of(self), self.fontMetrics().height()
        box = self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            awake = self.underMouse() or self.isDown()
            painter.setBrush(QColor(colours.hover if awake else colours.card))
            painter.setPen(QColor(colours.link if self.hasFocus() else colours.edge))
            painter.drawRoundedRect(box, box.height() / 2, box.height() / 2)
            inside = self.rect().adjusted(line - 2, 0, -round(1.8 * line), 0)
            for text, font, colour in (
                (self.text(), self._bold, colours.text),
                (self._drafts, self.font(), colours.muted),
            ):
                painter.setFont(font)
                painter.setPen(QColor(colour))
                metrics = painter.fontMetrics()
                shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, inside.width())
                painter.drawText(inside, Qt.AlignmentFlag.AlignVCenter, shown)
                inside.setLeft(inside.left() + metrics.horizontalAdvance(shown))
            painter.setPen(QPen(QColor(colours.muted), 1.6))
            middle, side = QPointF(box.right() - line, box.center().y() + 1), 0.22 * line
            steps = (QPointF(-side, -side), QPointF(0, 0), QPointF(side, -side))
            painter.drawPolyline(QPolygonF([middle + step for step in steps]))


def _lengths() -> tuple[Choice, ...]:
    """Return the draft lengths: automatic, or a number of tokens in a chain or a tree."""
    numbers = (
        Choice(str(n), f"{n} token{'s' if n > 1 else ''}") for n in range(1, LONGEST_DRAFT + 1)
    )
    trees = (
        Choice(f"tree:{n}", f"Tree of {n}", "With alternatives, or a chain as deep") for n in _TREES
    )
    return (
        Choice("auto", "Automatic", "As many tokens as pay off (draft length)"),
        Choice("0", "0 tokens", "No drafting"),
        *numbers,
        *trees,
    )


def target_choices(
    installed: Sequence[Installed], *, starter: Choice, opened: Sequence[str]
) -> tuple[Choice, ...]:
    """Return the starter model, the paths that the user `opened`, and the installed models.

    Models that only draft are left out.
    """
    known = {model.path for model in installed}
    choices = {starter.value: starter}
    for path in opened:
        if path not in known:
            choices[path] = Choice(path, target_name(path), path.rpartition("/")[0], tip=path)
    for model in installed:
        if model.role == "chat" and model.origin != "starter":
            bits = "" if model.quantization_bits is None else f"{model.quantization_bits}-bit"
            owner, _, name = model.name.rpartition("/")
            facts = (bits, in_words.size(model.size_bytes), owner or model.model_type)
            choices[model.path] = Choice(
                model.path,
                name,
                ", ".join(filter(None, facts)),
                reason=f"{model.problem} {model.remedy}".strip(),
                tip=f"{model.name}\n{model.path}",
            )
    return tuple(choices.values())


def drafter_choices(
    candidates: Sequence[Candidate], *, opened: Sequence[str] = (), chosen: str = ""
) -> tuple[Choice, ...]:
    """Return all drafters, the unsuitable ones with the reason. The user chose the folders
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
            reason = "Not downloaded. See \u201cCompare all draft models\u201d below."
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
