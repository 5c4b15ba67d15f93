"""Columns and rows of widgets, written as they are seen: `column_of(title, row_of(field, button))`;
and widgets that are all made alike.

A part is a widget, a layout, a number of pixels that are left free, or `Free` room; with a number,
`(field, 1)`, it takes that share of the free room, and with an alignment only the room it needs.
"""

from collections.abc import Callable
from typing import NamedTuple

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLayout,
    QMenu,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)


class Free(NamedTuple):
    """Room that takes this share of the free width or height."""

    share: int = 1


FREE = Free()
Part = QWidget | QLayout | int | Free | tuple[QWidget | QLayout, int | Qt.AlignmentFlag]
Margins = int | tuple[int, int, int, int]


def column_of(
    *parts: Part, on: QWidget | None = None, margins: Margins | None = None, gap: int | None = None
) -> QVBoxLayout:
    """Return a layout with these parts below each other, `gap` pixels apart. It is laid out on the
    widget `on`, or is a part of another layout."""
    return _filled(QVBoxLayout(on) if on else QVBoxLayout(), parts, margins=margins, gap=gap)


def row_of(
    *parts: Part, on: QWidget | None = None, margins: Margins | None = None, gap: int | None = None
) -> QHBoxLayout:
    """Return a layout with these parts next to each other; as `column_of`."""
    return _filled(QHBoxLayout(on) if on else QHBoxLayout(), parts, margins=margins, gap=gap)


def scrolled(page: QWidget, name: str) -> QScrollArea:
    """Return a page that scrolls if it is too high; `name` is for screen readers."""
    area = QScrollArea()
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setWidgetResizable(True)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setWidget(page)
    area.setAccessibleName(name)
    return area


def quiet_tabs(name: str) -> QTabWidget:
    """Return pages with tabs; `name` is for screen readers."""
    tabs = QTabWidget()
    tabs.setDocumentMode(True)
    tabs.setAccessibleName(name)
    bar = tabs.tabBar()
    bar.setDrawBase(False)
    bar.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # also after a click
    bar.setCursor(Qt.CursorShape.PointingHandCursor)
    return tabs


def text_button(
    text: str, act: Callable[[], object] | None = None, *, name: str = "", tip: str = ""
) -> QPushButton:
    """Return a button that Enter in a field does not press. `name` is for screen readers, if the
    text is not enough."""
    button = QPushButton(text)
    button.setAutoDefault(False)
    button.setAccessibleName(name)
    button.setToolTip(tip)
    if act is not None:
        button.clicked.connect(lambda: act())
    return button


def text_area(
    text: str = "", *, name: str = "", hint: str = "", lines: int = 0, fixed: bool = False
) -> QPlainTextEdit:
    """Return a field for a plain text, which Tab leaves. `name` is for screen readers, and `hint`
    is shown while it is empty. It is as high as this many `lines`; a `fixed` text is only read."""
    area = QPlainTextEdit(text)
    area.setTabChangesFocus(True)
    area.setReadOnly(fixed)
    area.setAccessibleName(name)
    area.setPlaceholderText(hint)
    if lines:
        area.setFixedHeight(lines * area.fontMetrics().lineSpacing() + 12)
    return area


def menu_on(widget: QWidget) -> QMenu:
    """Return a menu for this widget, which is deleted when it closes."""
    menu = QMenu(widget)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return menu


def _filled[Box: QBoxLayout](
    box: Box, parts: tuple[Part, ...], *, margins: Margins | None, gap: int | None
) -> Box:
    if margins is not None:
        box.setContentsMargins(*((margins,) * 4 if isinstance(margins, int) else margins))
    if gap is not None:
        box.setSpacing(gap)
    for part in parts:
        match part:
            case int():
                box.addSpacing(part)
            case Free(share):
                box.addStretch(share)
            case (QWidget() as widget, Qt.AlignmentFlag() as alignment):
                box.addWidget(widget, 0, alignment)
            case (QWidget() as widget, int(share)):
                box.addWidget(widget, share)
            case (QLayout() as layout, int(share)):
                box.addLayout(layout, share)
            case QWidget():
                box.addWidget(part)
            case QLayout():
                box.addLayout(part)
    return box
