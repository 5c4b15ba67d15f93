"""The button of the composer that says which tools the model may call in this conversation, and
what runs without asking.

Knows tools and what is allowed; not where that is kept.
"""

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Literal

from PySide6.QtCore import Signal
from PySide6.QtGui import QActionGroup
from PySide6.QtWidgets import QMenu

from app.chat.menu_button import MenuButton
from engine.tools.protocol import Offered
from engine.tools.turn import Permissions
from models.in_words import one_line

Rule = Literal["ask", "always", "never"]
_RULES: dict[Rule, str] = {
    "ask": "Ask before each call",
    "always": "Run without asking",
    "never": "Off in this conversation",
}
_BELIEVED = "Run without asking while it only reads, as its server is trusted"
_SIGNS: dict[Rule, str] = {"ask": "", "always": ": runs without asking", "never": ": off"}


class ToolsButton(MenuButton):
    """Hidden if no tools are set up.

    Attributes: `tools`, those that are switched on; `permissions`, of the conversation.
    Signals: `permitted(Permissions)`: a person chose this; `settings_asked()`: show the settings of
    tools.
    """

    permitted = Signal(Permissions)
    settings_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.tools: tuple[Offered, ...] = ()
        self.permissions = Permissions()
        self.setToolTip("Which tools the model may call in this conversation")
        self.show_tools((), self.permissions, set_up=False)

    def show_tools(
        self, tools: Sequence[Offered], permissions: Permissions, *, set_up: bool
    ) -> None:
        """Show these tools and what is allowed. `set_up`: a person has set up any tools, perhaps
        none that can be used now."""
        self.tools = tuple(sorted(tools, key=lambda tool: (tool.server, tool.name)))
        self.permissions = permissions
        on = sum(rule_of(tool, permissions) != "never" for tool in self.tools)
        text = f"Tools: {on}" if on else "Tools: off"
        self.say(text, name=f"Tools: {on} of {len(self.tools)} may be called here")
        self.setVisible(set_up)

    def choices_menu(self) -> QMenu:
        """Return the menu: for each tool, what is allowed; and for all of them."""
        menu = super().choices_menu()
        for server, tools in groupby(self.tools, key=lambda tool: tool.server):
            menu.addSection(_written(server))
            for tool in tools:
                self._add(menu, tool)
        if self.tools:
            menu.addSeparator()
            everything = frozenset((tool.server, tool.name) for tool in self.tools)
            off = menu.addAction("Switch all off in this conversation")
            off.triggered.connect(partial(self.permitted.emit, Permissions(never=everything)))
            again = menu.addAction("Ask about all of them again")
            again.triggered.connect(partial(self.permitted.emit, Permissions()))
            kept = (self.permissions.always, self.permissions.never)
            again.setEnabled(any(kept))
            off.setEnabled(not everything <= self.permissions.never)
        menu.addSeparator()
        menu.addAction("Tools in Settings…", self.settings_asked.emit)
        return menu

    def _add(self, menu: QMenu, tool: Offered) -> None:
        chosen = rule_of(tool, self.permissions)
        choices = menu.addMenu(_written(tool.name) + _SIGNS[chosen])
        group = QActionGroup(choices)
        believed = tool.read_only and tool.server in self.permissions.trusted
        for rule, words in _RULES.items():
            if rule == "always" and believed:
                continue
            action = choices.addAction(_BELIEVED if rule == "ask" and believed else words)
            action.setCheckable(True)
            action.setChecked(rule == chosen)
            group.addAction(action)
            action.triggered.connect(partial(self._choose, tool, rule))

    def _choose(self, tool: Offered, rule: Rule) -> None:
        key = {(tool.server, tool.name)}
        always, never = self.permissions.always - key, self.permissions.never - key
        self.permitted.emit(
            Permissions(
                always=always | key if rule == "always" else always,
                never=never | key if rule == "never" else never,
            )
        )


def rule_of(tool: Offered, permissions: Permissions) -> Rule:
    """Return what is allowed of a tool."""
    key = (tool.server, tool.name)
    return "never" if key in permissions.never else "always" if key in permissions.always else "ask"


def _written(name: str) -> str:
    """A server's words as a menu shows them: with no letter as a key."""
    return one_line(name).replace("&", "&&")
