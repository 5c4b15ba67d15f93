"""Opens a link after the user has seen the full address and agreed."""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QMessageBox, QWidget

from app.markdown.inline import is_web
from app.markdown.lines import parts_of_line
from app.theme.dialog import ask

_LONGEST_LINE = 60  # characters: a label cuts off a longer word, such as the end of a host's name
_MOST_LINES = 20


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
    words, role = "Open this address in your browser?", QMessageBox.ButtonRole.AcceptRole
    then = partial(opening, address)
    lines = [part for _, part in parts_of_line(address, _LONGEST_LINE)]
    lines[_MOST_LINES:-2] = "\u2026" * (len(lines) > _MOST_LINES + 2)  # the buttons need room, too
    box = ask(parent, "Open link", words, "\n".join(lines), verb="Open", then=then, role=role)
    box.setIcon(QMessageBox.Icon.Question)
    box.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return box
