"""The button of the composer that says which tools the model may call in this conversation, and
what runs without asking.

Knows tools and permissions; not where they are stored.
"""

from collections.abc import Sequence
from functools import partial
from itertools import groupby

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMenu

from app.chat.menu_button import MenuButton
from engine.tools.protocol import Offered
from engine.tools.turn import Permissions
from models.in_words import one_line

_UNASKED = ": runs automatically"


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
            off.triggered.connect(partial(self.permitted.emit, Permissions(never=everything)))
            off.setEnabled(not everything <= now.never)
            again = menu.addAction("Ask before every call again")
            again.triggered.connect(partial(self.permitted.emit, Permissions(never=now.never)))
            again.setEnabled(bool(now.always))
        menu.addSeparator()
        menu.addAction("Set up tools…", self.settings_asked.emit)
        return menu


def _written(name: str) -> str:
    """A server's words as a menu shows them: with no letter as a key."""
    return one_line(name).replace("&", "&&")
