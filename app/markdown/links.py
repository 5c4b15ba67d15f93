"""Opens a link after the user has seen the full address and agreed."""

from collections.abc import Callable

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QMessageBox, QWidget

from app.markdown.inline import is_web


def open_in_browser(address: str) -> None:
    """Open the address in the system's browser."""
    QDesktopServices.openUrl(QUrl(address, QUrl.ParsingMode.StrictMode))


def ask_to_open(
    parent: QWidget, address: str, *, opening: Callable[[str], None] = open_in_browser
) -> QMessageBox | None:
    """Ask whether to open a web address. `opening` is called if the user agrees.

    Returns the question at once, without waiting; None for any other address.
    """
    if not is_web(address):
        return None
    question = QMessageBox(parent)
    question.setTextFormat(Qt.TextFormat.PlainText)
    question.setIcon(QMessageBox.Icon.Question)
    question.setWindowTitle("Open link")
    question.setText("Open this address in your browser?")
    question.setInformativeText(address)
    question.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    yes = question.addButton("Open", QMessageBox.ButtonRole.AcceptRole)
    cancel = question.addButton(QMessageBox.StandardButton.Cancel)
    question.setDefaultButton(QMessageBox.StandardButton.Cancel)
    question.setEscapeButton(cancel)
    question.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    question.buttonClicked.connect(lambda button: opening(address) if button is yes else None)
    question.open()
    return question
