"""Texts with a button that copies them."""

from collections.abc import Callable

from PySide6.QtCore import QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QPushButton, QWidget

_SAID_MS = 1500
_WIDEST = 640  # pixels of an address


class CopyField(QWidget):
    """A text with a copy button. Attribute: `text`, which is copied; another text may be shown."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.text = ""
        self.field = QLineEdit()
        self.field.setReadOnly(True)
        self.field.setAccessibleName(name)
        self.button = CopyButton(f"Copy the {name.lower()}", lambda: self.text)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        self.setMaximumWidth(_WIDEST)
        row.addWidget(self.field, 1)
        row.addWidget(self.button)

    def show_text(self, text: str, *, shown: str = "") -> None:
        self.text = text
        self.field.setText(shown or text)
        self.field.setCursorPosition(0)
        self.button.setEnabled(bool(text))


class CopyButton(QPushButton):
    """Copies a text, and shows "Copied" for a moment."""

    def __init__(self, name: str, text: Callable[[], str]) -> None:
        super().__init__("Copy")
        self._text = text
        self.setAccessibleName(name)
        self.setAutoDefault(False)
        self._back = QTimer(self, singleShot=True, interval=_SAID_MS)
        self._back.timeout.connect(lambda: self.setText("Copy"))
        self.clicked.connect(self._copy)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._text())
        self.setText("Copied")
        self._back.start()
