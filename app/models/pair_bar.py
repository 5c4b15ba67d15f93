"""The pair bar: which target answers, which drafter guesses for it, and how far ahead.

Knows names and how loading stands; not which models there are, nor who loads them. What cannot
be chosen stands there with the reason.
"""

from typing import Literal

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPalette, QResizeEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.models.choice_box import Choice, ChoiceBox
from app.models.choices import drafter_choices
from app.status_line import StatusLine
from app.theme.palette import palette_for

Standing = Literal["empty", "loading", "loaded", "failed"]

LONGEST_DRAFT = 16
_FIND, _OPEN_TARGET, _OPEN_DRAFTER = "find", "open target", "open drafter"
_BETWEEN_ANSWERS = "Can be changed when the answer is over."


class PairBar(QWidget):
    """Three boxes to choose from, and how loading stands.

    Attributes: `standing`; `target`, `drafter` and `length`, what is chosen.

    Signals:
        pair_chosen(str, str, str): a person chose another target (its path), drafter or draft
            length, the latter two written as for `engine.pair`.
        open_target_asked, open_drafter_asked: ask for a file or a folder.
        more_targets_asked, more_drafters_asked: show what else there is, and what is not here.
        retry_asked: load what failed again.
    """

    pair_chosen = Signal(str, str, str)
    open_target_asked = Signal()
    open_drafter_asked = Signal()
    more_targets_asked = Signal()
    more_drafters_asked = Signal()
    retry_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.standing: Standing = "empty"
        self._answering = False
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
            box.chosen.connect(self._tell)
        self._target.task_chosen.connect(self._do)
        self._drafter.task_chosen.connect(self._do_for_drafter)
        self._retry.clicked.connect(self.retry_asked)
        self.setAccessibleName("Models")
        self._fit()
        self.set_empty()

    def _arrange(self) -> None:
        row = QHBoxLayout()
        row.setSpacing(8)
        for box, text, width, stretch in (
            (self._target, "Target", 10, 4),
            (self._drafter, "Drafter", 8, 2),
            (self._length, "Draft length", 4, 0),
        ):
            label = QLabel(text)
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setBuddy(box)
            box.setMinimumContentsLength(width)
            box.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
            if stretch:
                box.setMaximumWidth(280)
            row.addWidget(label)
            row.addWidget(box, stretch)
            row.addSpacing(8)
        row.addWidget(self._status, 4)
        self._target.setPlaceholderText("Choose a model…")
        self._progress.setParent(self)  # on the bar's lower edge: nothing moves when it comes
        self._progress.setRange(0, 0)  # how long it takes, nobody knows
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
        """Offer these targets; their values are paths."""
        self._target.set_choices(
            choices,
            tasks=((_FIND, "Find more models…"), (_OPEN_TARGET, "Open model folder or GGUF…")),
        )
        self._enable()

    def set_drafters(self, choices: tuple[Choice, ...]) -> None:
        """Offer these drafters; see `app.models.choices`."""
        self._drafter.set_choices(
            choices,
            tasks=((_FIND, "All drafters, and why…"), (_OPEN_DRAFTER, "Choose drafter folder…")),
        )

    def set_pair(self, target: str, *, drafter: str, length: str) -> None:
        """Show what is chosen, without telling. What was not offered is offered from now on."""
        self._target.set_value(target)
        self._drafter.set_value(drafter)
        self._length.set_value(length)
        self._enable()

    def set_answering(self, answering: bool) -> None:
        """Whether an answer is being written: the pair is changed between answers only."""
        self._answering = answering
        self._enable()

    def set_empty(self) -> None:
        """Nothing is loaded, nothing is being loaded."""
        self._show("empty", "No model yet")

    def set_loading(self, what: str) -> None:
        """`what`, a model's or a drafter's name, is being loaded."""
        self._show("loading", f"Loading {what}…")

    def set_measuring(self, share: float) -> None:
        """What the pair costs on this machine is being measured, once; so much is done."""
        self._show("loading", f"Measuring: {share:.0%}")
        self._status.setToolTip("How long drafts and passes take on this machine is measured once.")

    def set_loaded(self, *, precision: str, context_length: int) -> None:
        """The pair can answer. `precision` in words; `context_length` in tokens."""
        self._show("loaded", "Ready")
        tip = f"Weights: {precision}\nContext: {context_length:,} tokens"
        self._status.setToolTip(tip)
        self._status.setAccessibleDescription(tip.replace("\n", ". "))

    def set_failed(self, message: str, remedy: str, *, retry: bool = True) -> None:
        """Loading failed: what is wrong, what to do, and whether to offer to try again."""
        self._show("failed", "Not loaded")
        self._failure.say(f"{message} {remedy}".strip(), "warning")
        self._failure.show()
        self._retry.setVisible(retry)

    @property
    def said(self) -> str:
        """How loading stands, in words."""
        return self._failure.text if self.standing == "failed" else self._status.text

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
        colours = palette_for(self.palette().color(QPalette.ColorRole.Window).name())
        with QPainter(self) as painter:
            painter.setPen(colours.edge)
            painter.drawLine(0, self.height() - 1, self.width(), self.height() - 1)

    def _fit(self) -> None:
        words = self._status.fontMetrics()
        self._status.setMinimumWidth(words.horizontalAdvance("No model yet") + 2 * words.height())

    def _show(self, standing: Standing, text: str) -> None:
        self.standing = standing
        self._status.say(text, "good" if standing == "loaded" else "plain")
        self._status.setToolTip(text if standing == "loading" else "")
        self._status.setAccessibleDescription("")
        self._progress.setVisible(standing == "loading")
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

    def _do(self, task: str) -> None:
        (self.more_targets_asked if task == _FIND else self.open_target_asked).emit()

    def _do_for_drafter(self, task: str) -> None:
        (self.more_drafters_asked if task == _FIND else self.open_drafter_asked).emit()

    def _tell(self) -> None:
        self._enable()
        self.pair_chosen.emit(self.target, self.drafter, self.length)


def _lengths() -> tuple[Choice, ...]:
    """Automatic, or a number of tokens."""
    numbers = (Choice(str(n), str(n)) for n in range(1, LONGEST_DRAFT + 1))
    return (
        Choice("auto", "Auto", "As long as it pays here"),
        Choice("0", "0", "Drafts nothing"),
        *numbers,
    )
