"""A card in an answer that asks a person whether a call may run, and with which arguments.

What it shows is the model's and the server's: plain text, whatever it says. Knows a call; not how
it runs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFontDatabase, QFontMetricsF
from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from app.conversations.answer_steps import laid_out
from app.markdown.formats import Formats
from app.theme.card import Card
from app.theme.labels import plain_label
from app.theme.style import set_ink, small_font
from engine.tools.steps import StepCall
from engine.tools.turn import Decision
from models.in_words import clean, one_line

_MOST_LINES = 10  # of the arguments, before they scroll
_PADDING = 5  # pixels: of the field, with its edge
_BUTTONS: tuple[tuple[Decision, str, str], ...] = (  # in the order of the Tab key
    ("once", "Run once", "Run this call, and ask again about the next"),
    ("refuse", "Refuse", "Do not run this call. The model goes on without it"),
    ("always", "Always in this conversation", "Run all calls of this tool in this conversation"),
    ("never", "Never", "Refuse all calls of this tool in this conversation"),
)


@dataclass(frozen=True, slots=True)
class Approval:
    """A call that waits for a person. `read_only`: its server says that it changes nothing.
    `among`: the number of calls that wait. `fault` returns why it cannot run with some arguments,
    or nothing."""

    call: StepCall
    read_only: bool
    among: int
    fault: Callable[[str], str]


class ApprovalCard(Card):
    """Attributes: `arguments`, the field; `buttons`, by their decisions; `fault`, the line that
    says what is wrong with the arguments.

    Signals: `decided(str, str, str)`: on the call with this id a person decided so, with these
    arguments.
    """

    decided = Signal(str, str, str)

    def __init__(self, formats: Formats) -> None:
        super().__init__()
        self._approval: Approval | None = None
        self._title = plain_label(wraps=True)
        self._about = plain_label(wraps=True)
        self.arguments = QPlainTextEdit()
        self.arguments.setAccessibleName("Arguments, as JSON")
        self.arguments.setTabChangesFocus(True)
        self.arguments.textChanged.connect(self._check)
        self.arguments.document().documentLayout().documentSizeChanged.connect(self._fit)
        self.fault = plain_label(wraps=True)
        self.buttons: dict[Decision, QPushButton] = {}
        for decision, words, tip in _BUTTONS:
            button = self.buttons[decision] = QPushButton(words)
            button.setToolTip(tip)
            button.setAutoDefault(True)  # so that Return presses it when it has the focus
            button.clicked.connect(partial(self._decide, decision))
        self._arrange()
        self.set_formats(formats)

    def _arrange(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 10, 14, 12)
        column.setSpacing(6)
        for part in (self._title, self._about, self.arguments, self.fault):
            column.addWidget(part)
        once, refuse, *of_all = self.buttons.values()
        for buttons in ((once, refuse), of_all):
            row = QHBoxLayout()
            row.setSpacing(8)
            for button in buttons:
                row.addWidget(button)
            row.addStretch(1)
            column.addLayout(row)

    def show_approval(self, approval: Approval) -> None:
        """Ask about this call. What a person wrote in the field stays while the call is the
        same."""
        before, self._approval = self._approval, approval
        call = approval.call
        name = one_line(call.tool or call.name)
        self._title.setText(f"May the model call {name}?")
        more = f"{approval.among - 1} more after this" if approval.among > 1 else ""
        reads = "it says that this changes nothing" if approval.read_only else ""
        server = f"A tool of the server {one_line(call.server)}"
        self._about.setText(" · ".join(filter(None, (server, reads, more))))
        self.setAccessibleName(f"The model wants to call {name}")
        if before is None or before.call.id != call.id:
            self.arguments.setPlainText(clean(laid_out(call.arguments)))
            for button in self.buttons.values():  # a button that was pressed would be pressed again
                button.clearFocus()
        self._check()

    def set_formats(self, formats: Formats) -> None:
        """Use another font and other colours."""
        colours = formats.colours
        small = small_font(formats.font, scale=0.9)
        fixed = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        fixed.setPointSizeF(small.pointSizeF())
        self.arguments.setFont(fixed)
        for part in (self._about, self.fault, *self.buttons.values()):
            part.setFont(small)
        title = formats.font.__class__(formats.font)
        title.setBold(True)
        self._title.setFont(title)
        for label, colour in (
            (self._title, colours.text),
            (self._about, colours.muted),
            (self.fault, colours.warning),
        ):
            set_ink(label, colour)
        self._fit()

    def _check(self) -> None:
        """Say what is wrong with the arguments. Then the call can only be refused."""
        if self._approval is None:
            return
        fault = self._approval.fault(self.arguments.toPlainText())
        line = f"This cannot run: {fault}." if fault else ""
        self.fault.setText(clean(line))
        self.fault.setVisible(bool(line))
        for decision in ("once", "always"):
            self.buttons[decision].setEnabled(not fault)

    def _fit(self, *_: object) -> None:
        """Make the field as high as its lines."""
        document = self.arguments.document()
        lines = max(1, round(document.size().height()))  # it is in lines, not in pixels
        policy = Qt.ScrollBarPolicy
        bar = policy.ScrollBarAsNeeded if lines > _MOST_LINES else policy.ScrollBarAlwaysOff
        self.arguments.setVerticalScrollBarPolicy(bar)
        around = 2 * (_PADDING + document.documentMargin())
        spacing = QFontMetricsF(document.defaultFont()).lineSpacing()
        self.arguments.setFixedHeight(math.ceil(min(lines, _MOST_LINES) * spacing + around))

    def _decide(self, decision: Decision) -> None:
        if self._approval is not None:
            arguments = self.arguments.toPlainText()
            self.decided.emit(self._approval.call.id, decision, arguments)


def in_tab_order(card: ApprovalCard, behind: QWidget) -> None:
    """Make Tab go from a widget through the card."""
    before = behind
    for part in (card.arguments, *card.buttons.values()):
        part.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        QWidget.setTabOrder(before, part)
        before = part
