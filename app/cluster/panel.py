"""The panel of several Macs: the hostfile, a switch, a card for each Mac, and the steps to set up.

Knows its widgets. What a person does is sent as signals.
"""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.cluster.mac_list import MacList
from app.cluster.setup_steps import Progress, Step
from app.switch import Switch
from app.theme.card import Card
from app.theme.dialog import Dialog
from app.theme.icons import draw_sign
from app.theme.labels import ShortenedLabel, StatusLine, Tone, ToneLabel, closing
from app.theme.style import STYLE_SHEET, colours_of, small_font

_UNTRIED = (
    "Several Macs together hold a target that is too large for one. Never run over Thunderbolt "
    "yet: so far this was tried with several processes on one machine."
)
_DANGER = (
    "What the Macs send each other has neither a password nor encryption. Whoever is on that "
    "network could read the conversation, or take a Mac\u2019s place. A cable between the Macs "
    "needs no trust."
)


class StepSign(QWidget):
    """A step's number in a circle, or a check mark when it is done."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number
        self._progress: Progress = "later"
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_progress(self, progress: Progress) -> None:
        self._progress = progress
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(24, 24)

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = colours_of(self)
        box = QRectF(self.rect()).adjusted(1.5, 1.5, -1.5, -1.5)
        now = self._progress == "now"
        ink = colours.accepted if self._progress == "done" else colours.link if now else colours.bar
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(QColor(ink), 1.5))
            if now:
                painter.setBrush(QColor(ink))
            painter.drawEllipse(box)
            if self._progress == "done":
                draw_sign(painter, "check", box.adjusted(4, 4, -4, -4), ink)
                return
            painter.setFont(small_font(self.font(), scale=0.9))
            painter.setPen(QColor(colours.paper if now else colours.muted))
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, str(self._number))


class StepRow(QWidget):
    """A step: its title, and while it is not done, what is missing and what to do."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number
        self._sign = StepSign(number)
        self._title = ToneLabel(bold=True)
        self._finding = ToneLabel(tone="warning")
        self._remedy = ToneLabel()
        self._how = ToneLabel(tone="muted")
        texts = QVBoxLayout()
        texts.setSpacing(3)
        texts.setContentsMargins(0, 3, 0, 0)
        for label in (self._title, self._finding, self._remedy, self._how):
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            texts.addWidget(label)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(10)
        row.addWidget(self._sign, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(texts, 1)

    def show_step(self, step: Step) -> None:
        """Show the progress of this step."""
        found = step.finding
        self._sign.show_progress(step.progress)
        self._title.say(step.title, "muted" if step.progress == "later" else "text")
        self._finding.say(found.message if found else "")
        self._remedy.say(found.remedy if found else "")
        self._how.say(step.how if step.progress == "now" else "")
        self.setAccessibleName(f"Step {self._number}, {step.progress}: {step.title}")
        self.setAccessibleDescription(str(found) if found else self._how.words)


class TrustQuestion(Card):
    """Asks whether to trust a network. Signals: `answered(bool)`."""

    answered = Signal(bool)

    def __init__(self) -> None:
        super().__init__()
        self._title = ToneLabel(bold=True)
        self._reason = ToneLabel()
        self.trust = QPushButton("Trust everybody there")
        self.distrust = QPushButton("Trust nobody there")
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 11, 14, 12)
        column.setSpacing(6)
        column.addWidget(self._title)
        column.addWidget(self._reason)
        buttons = QHBoxLayout()
        for button, answer in ((self.trust, True), (self.distrust, False)):
            button.setAutoDefault(False)
            button.clicked.connect(lambda checked=False, answer=answer: self.answered.emit(answer))
            buttons.addWidget(button)
        buttons.addStretch(1)
        column.addLayout(buttons)

    def ask(self, mac: str, network: str, *, trusted: bool) -> None:
        """Ask about the network of a Mac. Hidden if `network` is empty."""
        self.setVisible(bool(network))
        title = (
            "You trust everybody on this network" if trusted else "Trust everybody on a network?"
        )
        self._title.say(title)
        self._reason.say(f"{mac} is on {network}, where others may be too. {_DANGER}")
        self.trust.setVisible(not trusted)
        self.distrust.setVisible(trusted)
        self.setAccessibleName(title)
        self.setAccessibleDescription(self._reason.words)


class MacsPanel(Dialog):
    """The window of the Macs that hold a target together. It is not modal, so that the chat can go
    on. Attributes: its parts.

    Signals: `switched(bool)`; `choice_asked()`: choose a hostfile; `making_asked()`: make a
    hostfile; `check_asked()`; `trust_answered(bool)`.
    """

    switched = Signal(bool)
    choice_asked = Signal()
    making_asked = Signal()
    check_asked = Signal()
    trust_answered = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.switch = Switch("Use several Macs")
        self.line = StatusLine(wraps=True)
        self.file = ShortenedLabel(elide=Qt.TextElideMode.ElideMiddle)
        self.choose, self.make = QPushButton("Choose\u2026"), QPushButton("Make\u2026")
        self.check = QPushButton("Check")
        self.macs = MacList()
        self.trust = TrustQuestion()
        self.steps: list[StepRow] = []
        self._steps = QVBoxLayout()
        self.setWindowTitle("Several Macs")
        self.setModal(False)
        self.setStyleSheet(STYLE_SHEET)
        self._arrange()
        self.switch.clicked.connect(self.switched)
        self.choose.clicked.connect(self.choice_asked)
        self.make.clicked.connect(self.making_asked)
        self.check.clicked.connect(self.check_asked)
        self.trust.answered.connect(self.trust_answered)

    def _arrange(self) -> None:
        first = QHBoxLayout()
        first.setSpacing(12)
        first.addWidget(self.switch, 0, Qt.AlignmentFlag.AlignTop)
        first.addWidget(self.line, 1, Qt.AlignmentFlag.AlignVCenter)
        untried = ToneLabel(tone="muted")
        untried.say(_UNTRIED)
        names = ToneLabel()
        names.setWordWrap(False)
        names.say("Hostfile")
        file = QHBoxLayout()
        file.setSpacing(8)
        file.addWidget(names)
        file.addWidget(self.file, 1)
        for button in (self.choose, self.make, self.check):
            button.setAutoDefault(False)
            file.addWidget(button)
        inner = QWidget()
        below = QVBoxLayout(inner)
        below.setContentsMargins(0, 0, 6, 0)
        below.setSpacing(14)
        below.addWidget(self.macs)
        below.addWidget(self.trust)
        heading = ToneLabel(bold=True)
        heading.say("What to set up")
        below.addWidget(heading)
        self._steps.setSpacing(12)
        below.addLayout(self._steps)
        below.addStretch(1)
        scroll = QScrollArea()
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        scroll.setAccessibleName("The Macs, and what to set up")
        scroll.setWidget(inner)
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 18, 20, 14)
        column.setSpacing(14)
        column.addLayout(first)
        column.addWidget(untried)
        column.addLayout(file)
        column.addWidget(scroll, 1)
        column.addWidget(closing(self))
        self.setMinimumSize(480, 420)
        self.resize(660, 680)

    def show_state(self, line: str, tone: Tone, *, on: bool, possible: bool) -> None:
        """Show whether the Macs are used, and their state in a line. `possible`: the switch is
        enabled."""
        self.switch.failed = tone == "warning"
        self.switch.setChecked(on)
        self.switch.setEnabled(possible)
        self.switch.update()
        self.line.say(line, tone)

    def show_file(self, path: str, *, action: str) -> None:
        """Show the path of the hostfile. `action` is the label of the button beside it."""
        name = Path(path).name if path else "No hostfile is chosen."
        self.file.say(name, "text" if path else "muted", tip=path)
        self.check.setText(action or "Check")
        self.check.setEnabled(bool(action))

    def show_steps(self, steps: Sequence[Step]) -> None:
        """Show these steps."""
        while len(self.steps) < len(steps):
            self.steps.append(StepRow(len(self.steps) + 1))
            self._steps.addWidget(self.steps[-1])
        for row, step in zip(self.steps, steps, strict=True):
            row.show_step(step)
