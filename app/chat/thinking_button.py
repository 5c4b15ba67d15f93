"""The button of the composer that says whether the model thinks before it answers, and how much.

Knows the choices of a model; not which model, nor where a choice is kept.
"""

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QPoint, QSize, Qt, Signal
from PySide6.QtGui import QActionGroup, QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QMenu

from app.theme.icons import draw_behind
from app.theme.palette import Palette
from app.theme.style import colours_of
from engine.request import Thinking

_OPENS = " \u25be"
_MAKERS = "As the model’s makers set it"
_NAMES: dict[Thinking, str] = {
    "": _MAKERS,
    "on": "On",
    "off": "Off",
    "minimal": "Minimal",
    "low": "Low",
    "medium": "Medium",
    "high": "High",
    "xhigh": "Very high",
    "max": "Maximum",
}


class ThinkingButton(QAbstractButton):
    """Hidden for a model that offers no choice.

    Attributes: `choices`, those of the model, beside its makers' way; `thinking`, the chosen way.
    Signals: `chosen(str)`: a person chose this.
    """

    chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.choices: tuple[Thinking, ...] = ()
        self.thinking: Thinking = ""
        self._colours = colours_of(self)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setToolTip("Whether the model thinks before it answers, and how much")
        self.clicked.connect(self._open)
        self.show_choices((), "")

    def show_choices(self, choices: Sequence[str], thinking: Thinking) -> None:
        """Offer these choices, and show the chosen one."""
        self.choices = tuple(choice for choice in _NAMES if choice and choice in choices)
        self.thinking = thinking
        self.setText(f"Thinking: {_NAMES[thinking].lower()}" if thinking else "Thinking")
        self.setAccessibleName(f"Thinking: {_NAMES[thinking]}")
        self.setVisible(bool(self.choices))
        self.updateGeometry()
        self.update()

    def show_colours(self, colours: Palette) -> None:
        """Use these colours."""
        self._colours = colours
        self.update()

    def choices_menu(self) -> QMenu:
        """Return the menu with the choices."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        group = QActionGroup(menu)
        for choice in ("", *self.choices):
            action = menu.addAction(_NAMES[choice], partial(self.chosen.emit, choice))
            action.setCheckable(True)
            action.setChecked(choice == self.thinking)
            group.addAction(action)
        return menu

    def _open(self) -> None:
        menu = self.choices_menu()
        menu.popup(self.mapToGlobal(QPoint(0, -menu.sizeHint().height())))

    def sizeHint(self) -> QSize:
        return QSize(self.fontMetrics().horizontalAdvance(self.text() + _OPENS) + 16, 28)

    minimumSizeHint = sizeHint

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, box = self._colours, self.rect().toRectF().adjusted(1, 1, -1, -1)
        with QPainter(self) as painter:
            painter.setPen(QColor(draw_behind(painter, self, box, colours)))
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, self.text() + _OPENS)
