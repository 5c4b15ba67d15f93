"""The dialog of several Macs: the hostfile, a switch, and a report as text. Knows its widgets."""

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QPlainTextEdit, QPushButton, QWidget

from app.layout import column_of, row_of
from app.switch import Switch
from app.theme.dialog import Dialog
from app.theme.labels import ShortenedLabel, StatusLine, Tone, closing
from app.theme.style import STYLE_SHEET


class MacsPanel(Dialog):
    """Not modal, so that the chat can go on. Attributes: its parts.

    Signals: `switched(bool)`; `choice_asked()`: choose a hostfile; `check_asked()`.
    """

    switched = Signal(bool)
    choice_asked = Signal()
    check_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.switch, self.line = Switch("Use several Macs"), StatusLine(wraps=True)
        self.file = ShortenedLabel(elide=Qt.TextElideMode.ElideMiddle)
        self.choose, self.check = QPushButton("Choose\u2026"), QPushButton("Check")
        self.report = QPlainTextEdit()
        self.report.setReadOnly(True)
        self.report.setTabChangesFocus(True)
        self.report.setAccessibleName("The Macs")
        self.setWindowTitle("Several Macs")
        self.setModal(False)
        self.setStyleSheet(STYLE_SHEET)
        for button in (self.choose, self.check):
            button.setAutoDefault(False)
        first = row_of((self.switch, Qt.AlignmentFlag.AlignTop), (self.line, 1))
        file = row_of((self.file, 1), self.choose, self.check)
        parts = (first, file, (self.report, 1), closing(self))
        column_of(*parts, on=self, margins=(20, 18, 20, 14), gap=12)
        self.resize(600, 440)
        self.switch.clicked.connect(self.switched)
        self.choose.clicked.connect(self.choice_asked)
        self.check.clicked.connect(self.check_asked)

    def show_state(self, line: str, tone: Tone, *, on: bool, possible: bool) -> None:
        """Show whether the Macs are used, and their state in a line. `possible`: the switch is
        enabled."""
        self.switch.failed = tone == "warning"
        self.switch.setChecked(on)
        self.switch.setEnabled(possible)
        self.switch.update()
        self.line.say(line, tone)

    def show_file(self, path: str, *, action: str) -> None:
        """Show the hostfile. `action`: the label of the button next to it; empty to disable it."""
        name = Path(path).name if path else "No hostfile is chosen."
        self.file.say(name, "text" if path else "muted", tip=path)
        self.check.setText(action or "Check")
        self.check.setEnabled(bool(action))

    def show_report(self, text: str) -> None:
        """Show this report on the Macs."""
        if text != self.report.toPlainText():
            self.report.setPlainText(text)
