"""A card in an answer that asks the user whether a call may run, and with which arguments.

Its words come from the model and the server, and are shown as plain text. Knows a call; not how it
runs.
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont, QFontDatabase, QFontMetricsF
from PySide6.QtWidgets import QPushButton, QWidget

from app.conversations.answer_steps import laid_out
from app.layout import FREE, column_of, row_of, text_area
from app.theme.labels import ToneLabel
from app.theme.widgets import Card
from engine.tools.steps import StepCall
from engine.tools.turn import Decision
from models.in_words import CONTROLS, one_line

_MOST_LINES = 10  # of the arguments, before they scroll
_PADDING = 8  # pixels: of the field, with its edge
_HIDDEN = re.compile(f"{CONTROLS.pattern}|\xa0")  # or changed by the field
_BUTTONS: tuple[tuple[Decision, str, str], ...] = (  # in the order of the Tab key
    ("once", "Run once", "Run this call; ask again next time"),
    ("refuse", "Refuse", "Skip this call; the model continues without it"),
    ("always", "Always allow here", "Run every call of this tool in this conversation"),
    ("never", "Never", "Refuse every call of this tool in this conversation"),
)


@dataclass(frozen=True, slots=True)
class Approval:
    """A call that waits for the user. `read_only`: its server says that it changes nothing.
    `repeats`: the same call ran before. `among`: the number of calls that wait. `fault` returns why
    it cannot run with some arguments, or nothing."""

    call: StepCall
    read_only: bool
    repeats: bool
    among: int
    fault: Callable[[str], str]


class ApprovalCard(Card):
    """Attributes: `arguments`, the field; `buttons`, by their decisions; `fault`, the line that
    names the fault in the arguments.

    Signals: `decided(str, str, str)`: on the call with this id the user decided so, with these
    arguments.
    """

    decided = Signal(str, str, str)

    def __init__(self) -> None:
        super().__init__()
        self._approval: Approval | None = None
        self._title, self._about = ToneLabel(scale=1.1, bold=True), ToneLabel(tone="muted")
        self.arguments = text_area(name="Arguments, as JSON")
        self.fault = ToneLabel(tone="warning")
        fixed = QFont()  # without a size of its own, so that it is zoomed with the window
        fixed.setFamilies(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).families())
        self.arguments.setFont(fixed)
        self.arguments.textChanged.connect(self._check)
        self.arguments.document().documentLayout().documentSizeChanged.connect(self._fit)
        self.arguments.verticalScrollBar().rangeChanged.connect(self._fit)  # as it wraps otherwise
        self.buttons: dict[Decision, QPushButton] = {}
        for decision, words, tip in _BUTTONS:
            button = self.buttons[decision] = QPushButton(words)
            button.setToolTip(tip)
            button.setProperty("chief", decision == "once")  # see the style sheet
            button.setAutoDefault(True)  # so that Return presses it when it has the focus
            button.clicked.connect(partial(self._decide, decision))
        buttons = [*self.buttons.values()]
        rows = (row_of(*buttons[:2], FREE), row_of(*buttons[2:], FREE))
        asked = (self._title, self._about, self.arguments, self.fault)
        column_of(*asked, *rows, on=self, margins=(14, 10, 14, 12), gap=6)

    def show_approval(self, approval: Approval) -> None:
        """Ask about this call. What the user wrote in the field stays while the call is the
        same."""
        before, self._approval = self._approval, approval
        call = approval.call
        name = one_line(call.tool or call.name)
        self._title.say(f"Allow the model to call {name}?")
        more = f"{approval.among - 1} more after this" if approval.among > 1 else ""
        reads = "marked as read-only by its server" if approval.read_only else ""
        again = "ran before with the same arguments" if approval.repeats else ""
        server = f"Server: {one_line(call.server)}"
        self._about.say(" · ".join(filter(None, (server, reads, again, more))))
        self.setAccessibleName(f"The model wants to call {name}")
        if before is None or before.call.id != call.id:
            written = _HIDDEN.sub(lambda m: json.dumps(m[0])[1:-1], laid_out(call.arguments))
            self.arguments.setPlainText(written)
            for button in self.buttons.values():  # a button that was pressed would be pressed again
                button.clearFocus()
        self._check()

    def _check(self) -> None:
        """Show the fault in the arguments, if any. Such a call can only be refused."""
        if self._approval is None:
            return
        fault = self._approval.fault(self.arguments.toPlainText())
        self.fault.say(f"This cannot run: {fault}." if fault else "")
        for decision in ("once", "always"):
            self.buttons[decision].setEnabled(not fault)

    def _fit(self, *_: object) -> None:
        """Make the field as high as its lines."""
        document = self.arguments.document()
        lines = min(max(1, round(document.size().height())), _MOST_LINES)  # not pixels
        around = 2 * (_PADDING + document.documentMargin())
        spacing = QFontMetricsF(document.defaultFont()).lineSpacing()
        self.arguments.setFixedHeight(math.ceil(lines * spacing + around))

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
