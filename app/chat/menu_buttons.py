"""The buttons of the composer that open a menu: how much the model thinks before it answers, and
which tools it may call in this conversation.

Knows the choices of a model, tools and permissions; not which model, nor where a choice is kept.
"""

from collections.abc import Sequence
from functools import partial
from itertools import groupby

from PySide6.QtCore import QPoint, QSize, Qt, Signal
from PySide6.QtGui import QActionGroup, QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QMenu

from app.layout import menu_on
from app.theme.icons import draw_behind
from app.theme.style import colours_of
from engine.request import Thinking
from engine.tools.protocol import Offered
from engine.tools.turn import Permissions
from models.in_words import one_line

_OPENS = " \u25be"
_MAKERS = "Model default"
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
_UNASKED = ": runs automatically"


class MenuButton(QAbstractButton):
    """Opens what `choices_menu` returns, above it."""

    def __init__(self) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.clicked.connect(self._open)

    def choices_menu(self) -> QMenu:
        """Return the menu with the choices."""
        return menu_on(self)

    def say(self, text: str, *, name: str) -> None:
        """Show this text, with a name for screen readers."""
        self.setText(text)
        self.setAccessibleName(name)
        self.updateGeometry()
        self.update()

    def _open(self) -> None:
        menu = self.choices_menu()
        menu.popup(self.mapToGlobal(QPoint(0, -menu.sizeHint().height())))

    def sizeHint(self) -> QSize:
        return QSize(self.fontMetrics().horizontalAdvance(self.text() + _OPENS) + 16, 28)

    minimumSizeHint = sizeHint

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, box = colours_of(self), self.rect().toRectF().adjusted(1, 1, -1, -1)
        with QPainter(self) as painter:
            painter.setPen(QColor(draw_behind(painter, self, box, colours)))
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, self.text() + _OPENS)


class ThinkingButton(MenuButton):
    """Hidden for a model that offers no choice.

    Attributes: `choices`, the model's, without its default; `thinking`, the chosen one.
    Signals: `chosen(str)`: the user chose this.
    """

    chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.choices: tuple[Thinking, ...] = ()
        self.thinking: Thinking = ""
        self.setToolTip("How much the model thinks before answering")
        self.show_choices((), "")

    def show_choices(self, choices: Sequence[str], thinking: Thinking) -> None:
        """Offer these choices, and show the chosen one."""
        self.choices = tuple(choice for choice in _NAMES if choice and choice in choices)
        self.thinking = thinking
        text = f"Thinking: {_NAMES[thinking].lower()}" if thinking else "Thinking"
        self.say(text, name=f"Thinking: {_NAMES[thinking]}")
        self.setVisible(bool(self.choices))

    def choices_menu(self) -> QMenu:
        """Return the menu with the choices."""
        menu = super().choices_menu()
        group = QActionGroup(menu)
        for choice in ("", *self.choices):
            action = menu.addAction(_NAMES[choice], partial(self.chosen.emit, choice))
            action.setCheckable(True)
            action.setChecked(choice == self.thinking)
            group.addAction(action)
        return menu


class ToolsButton(MenuButton):
    """Hidden if no tools are set up.

    Attributes: `tools`, which are switched on; `permissions`, of the conversation.
    Signals: `permitted(Permissions)`: the user chose this; `settings_asked()`: show the settings of
    tools.
    """

    permitted = Signal(Permissions)
    settings_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.tools: tuple[Offered, ...] = ()
        self.permissions = Permissions()
        self.setToolTip("Tools for this conversation")
        self.show_tools((), self.permissions, set_up=False)

    def show_tools(
        self, tools: Sequence[Offered], permissions: Permissions, *, set_up: bool
    ) -> None:
        """Show these tools and permissions. `set_up`: the user has set up any tools, perhaps
        none that can be used now."""
        self.tools = tuple(sorted(tools, key=lambda tool: (tool.server, tool.name)))
        self.permissions = permissions
        on = sum((tool.server, tool.name) not in permissions.never for tool in self.tools)
        text = f"Tools: {on}" if on else "Tools: off"
        self.say(text, name=f"Tools: {on} of {len(self.tools)} enabled")
        self.setVisible(set_up)

    def choices_menu(self) -> QMenu:
        """Return the menu: each tool on or off here, and which of them run without asking."""
        menu, now = super().choices_menu(), self.permissions
        for server, tools in groupby(self.tools, key=lambda tool: tool.server):
            menu.addSection(_written(server))
            for tool in tools:
                key = frozenset({(server, tool.name)})
                believed = tool.read_only and server in now.trusted
                unasked = (believed or key <= now.always) and not key <= now.never
                action = menu.addAction(_written(tool.name) + _UNASKED * unasked)
                action.setCheckable(True)
                action.setChecked(not key <= now.never)
                other = Permissions(always=now.always - key, never=now.never ^ key)
                action.triggered.connect(partial(self.permitted.emit, other))
        if self.tools:
            menu.addSeparator()
            everything = frozenset((tool.server, tool.name) for tool in self.tools)
            off = menu.addAction("Turn all off here")
            never = now.never | everything
            off.triggered.connect(partial(self.permitted.emit, Permissions(never=never)))
            off.setEnabled(never != now.never)
            again = menu.addAction("Ask before every call again")
            again.triggered.connect(partial(self.permitted.emit, Permissions(never=now.never)))
            again.setEnabled(bool(now.always))
        menu.addSeparator()
        menu.addAction("Set up tools…", self.settings_asked.emit)
        return menu


def _written(name: str) -> str:
    """A server's words as a menu shows them: with no letter as a key."""
    return one_line(name).replace("&", "&&")
