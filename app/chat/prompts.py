"""Saved prompts: a slash at the start of a message lists them, to be chosen, renamed or deleted.

Knows how prompts are written as text, and shows them; not where they are stored.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QListWidget, QListWidgetItem

from app.conversations.records import title_from
from app.conversations.stored_json import read_or
from app.theme.labels import plain_tip
from models.in_words import one_line

_MOST_SHOWN = 6  # lines
_GAP = 3  # pixels around each
_PROMPT = Qt.ItemDataRole.UserRole


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text to begin messages with."""

    name: str
    text: str


Prompts = tuple[Prompt, ...]


def prompts_to_json(prompts: Prompts) -> str:
    """Return the prompts as JSON, a line for each."""
    return "\n".join(json.dumps(asdict(prompt)) for prompt in prompts)


def prompts_from_json(text: str) -> Prompts:
    """Return the prompts that `prompts_to_json` wrote, without unreadable ones."""
    found = (read_or(Prompt, line, None) for line in text.split("\n"))
    return tuple(prompt for prompt in found if prompt is not None)


def with_prompt(prompts: Prompts, text: str) -> Prompts:
    """Return the prompts with one of this text at the end, named by its first words."""
    name = title_from(text) or "Prompt"
    return (*(prompt for prompt in prompts if prompt.text != text), Prompt(name, text))


class PromptList(QListWidget):
    """The prompts whose names have the text after a slash. Hidden while no name does.

    Attributes: `saved`, which returns all prompts; `keep`, which stores them. Signals:
    `chosen(str)`: the text of a prompt.
    """

    chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.saved: Callable[[], Prompts] = tuple
        self.keep: Callable[[Prompts], object] = len
        self.setAccessibleName("Saved prompts")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setSpacing(_GAP)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the message field has it
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        self.addAction("Rename\tF2", self.rename)
        self.addAction("Delete\tShift+Delete", self.delete)
        self.itemClicked.connect(self._choose)
        self.itemChanged.connect(self._on_renamed)
        self.hide()

    def look(self, text: str) -> None:
        """Show the prompts for the text of a message, if it begins with a slash."""
        words = text[1:].casefold().split()
        asks = text.startswith("/") and "\n" not in text
        found = [
            prompt
            for prompt in (self.saved() if asks else ())
            if all(word in prompt.name.casefold() for word in words)
        ]
        with QSignalBlocker(self):
            self.clear()
            for prompt in found:
                item = QListWidgetItem(one_line(prompt.name), self)
                item.setFlags(item.flags() | Qt.ItemFlag.ItemIsEditable)
                item.setData(_PROMPT, prompt)
                item.setToolTip(plain_tip(prompt.text))
        self.setCurrentRow(0)
        line = self.sizeHintForRow(0) + 2 * _GAP
        self.setFixedHeight(line * min(len(found), _MOST_SHOWN) + 4)
        self.setVisible(bool(found))

    def take_key(self, event: QKeyEvent) -> bool:
        """Handle a key of the message field. Returns whether it was for the list."""
        key, keys = event.key(), Qt.Key
        shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if self.isHidden() or shift != (key == keys.Key_Delete):
            return False
        match key:
            case keys.Key_Up | keys.Key_Down:
                by = 1 if key == keys.Key_Down else -1
                self.setCurrentRow((self.currentRow() + by) % self.count())
            case keys.Key_Return | keys.Key_Enter | keys.Key_Tab:
                self._choose(self.currentItem())
            case keys.Key_Escape:
                self.hide()
            case keys.Key_F2:
                self.rename()
            case keys.Key_Delete:
                self.delete()
            case _:
                return False
        return True

    def rename(self) -> None:
        """Let the user rename the current prompt."""
        self.editItem(self.currentItem())

    def delete(self) -> None:
        """Delete the current prompt."""
        gone = self.takeItem(self.currentRow()).data(_PROMPT)
        self.keep(tuple(prompt for prompt in self.saved() if prompt != gone))
        self.setVisible(self.count() > 0)

    def _on_renamed(self, item: QListWidgetItem) -> None:
        before: Prompt = item.data(_PROMPT)
        after = Prompt(item.text().strip() or before.name, before.text)
        self.keep(tuple(after if prompt == before else prompt for prompt in self.saved()))
        with QSignalBlocker(self):
            item.setData(_PROMPT, after)

    def _choose(self, item: QListWidgetItem) -> None:
        self.hide()
        self.chosen.emit(item.data(_PROMPT).text)
