"""Texts with a button that copies them."""

from collections.abc import Callable

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLineEdit, QPushButton, QWidget

from app.layout import row_of, text_button
from app.steps import timer

_SAID_MS = 1500
_WIDEST = 640  # pixels of an address


class CopyField(QWidget):
    """A text with a copy button. Dots replace a `secret` until the user shows it."""

    def __init__(self, name: str, *, secret: bool = False) -> None:
        super().__init__()
        self.field = QLineEdit()
        self.field.setReadOnly(True)
        self.field.setAccessibleName(name)
        self.button = CopyButton(f"Copy the {name.lower()}", self.field.text)
        self.show_button = text_button("Show", name=f"Show the {name.lower()}")
        self.show_button.setCheckable(True)
        self.show_button.setVisible(secret)
        self.show_button.toggled.connect(self._reveal)
        self._reveal(not secret)
        self.setMaximumWidth(_WIDEST)
        row_of((self.field, 1), self.show_button, self.button, on=self, margins=0)

    def show_text(self, text: str) -> None:
        self.field.setText(text)
        self.field.setCursorPosition(0)
        self.button.setEnabled(bool(text))
        self.show_button.setEnabled(bool(text))

    def _reveal(self, shown: bool) -> None:
        modes = QLineEdit.EchoMode
        self.field.setEchoMode(modes.Normal if shown else modes.Password)
        self.show_button.setText("Hide" if shown else "Show")


class CopyButton(QPushButton):
    """Copies a text, and shows "Copied" for a moment."""

    def __init__(self, name: str, text: Callable[[], str], *, label: str = "Copy") -> None:
        """`name` is for screen readers."""
        super().__init__(label)
        self._text = text
        self.setAccessibleName(name)
        self.setAutoDefault(False)
        self._back = timer(self, _SAID_MS, lambda: self.setText(label))
        self.clicked.connect(self._copy)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._text())
        self.setText("Copied")
        self._back.start()
