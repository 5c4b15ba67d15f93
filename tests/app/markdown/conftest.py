"""What most tests of the chat need: a font and colours, and views that are shown."""

from collections.abc import Callable

import pytest
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.markdown.formats import Formats
from app.markdown.streaming import StreamingMarkdown
from app.markdown.view import TextView
from app.theme.palette import LIGHT


@pytest.fixture
def formats(qapp: QApplication) -> Formats:
    font = QFont("DejaVu Sans")
    font.setPointSizeF(10)
    return Formats(font, LIGHT)


@pytest.fixture
def show(qtbot: QtBot, formats: Formats) -> Callable[[str], TextView]:
    """A view with a finished Markdown text, on the screen."""

    windows: list[QWidget] = []  # qtbot does not keep them

    def make(text: str) -> TextView:
        window = QWidget()
        windows.append(window)
        qtbot.addWidget(window)
        window.resize(700, 900)
        view = TextView(formats, StreamingMarkdown())
        view.setParent(window)
        view.resize(700, 400)
        window.show()
        view.text.append(text)
        view.text.finish()
        view.text.settle()
        view.place_buttons()
        return view

    return make
