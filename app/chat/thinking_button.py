"""The button of the composer that says whether the model thinks before it answers, and how much.

Knows the choices of a model; not which model, nor where a choice is kept.
"""

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtGui import QActionGroup
from PySide6.QtWidgets import QMenu

from app.chat.menu_button import MenuButton
from engine.request import Thinking

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
