"""Saved prompts: a slash at the start of a message lists them; a dialog renames and deletes them.

Knows how prompts are written as text, and shows them; not where they are stored.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QFrame,
    QListWidget,
    QListWidgetItem,
    QPlainTextEdit,
    QPushButton,
    QWidget,
)

from app.conversations.records import title_from
from app.conversations.stored_json import read_or
from app.layout import FREE, column_of, row_of
from app.theme.dialog import Dialog
from app.theme.labels import closing, plain_label
from models.in_words import one_line

_MOST_SHOWN = 6  # lines
_TEXT = Qt.ItemDataRole.UserRole
_STEPS = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
_CHOOSING = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Tab)


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
    found = (read_or(Prompt, line, None) for line in text.split("\n"))  # type: ignore[arg-type]
    return tuple(prompt for prompt in found if prompt is not None)


def with_prompt(prompts: Prompts, text: str) -> Prompts:
    """Return the prompts with one of this text at the end, named by its first words."""
    name = title_from(text) or "Prompt"
    return (*(prompt for prompt in prompts if prompt.text != text), Prompt(name, text))


class PromptList(QListWidget):
    """The prompts whose names have the text after a slash. Hidden where there are none.

    Attribute: `saved`, which returns all prompts. Signals: `chosen(str)`: the text of a prompt.
    """

    chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.saved: Callable[[], Prompts] = tuple
        self._closed = ""  # the text for which the user closed it
        self.setAccessibleName("Saved prompts")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the message field has it
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.itemClicked.connect(self._choose)
        self.hide()

    def look(self, text: str) -> None:
        """Show the prompts for the text of a message, if it begins with a slash."""
        words = text[1:].casefold().split()
        asks = text.startswith("/") and "\n" not in text and text != self._closed
        found = [
            prompt
            for prompt in (self.saved() if asks else ())
            if all(word in prompt.name.casefold() for word in words)
        ]
        self._closed = self._closed if text == self._closed else ""
        self.clear()
        for prompt in found:
            item = QListWidgetItem(one_line(prompt.name), self)
            item.setData(_TEXT, prompt.text)
            item.setToolTip(prompt.text)
        self.setCurrentRow(0)
        self.setFixedHeight(self.sizeHintForRow(0) * min(len(found), _MOST_SHOWN) + 4)
        self.setVisible(bool(found))

    def take_key(self, event: QKeyEvent, text: str) -> bool:
        """Handle a key of the message field with this text. Returns whether it was for the list."""
        key = Qt.Key(event.key())
        if self.isHidden() or event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            return False
        if by := _STEPS.get(key):
            self.setCurrentRow((self.currentRow() + by) % self.count())
        elif key in _CHOOSING:
            self._choose(self.currentItem())
        elif key == Qt.Key.Key_Escape:
            self._closed = text
            self.hide()
        else:
            return False
        return True

    def _choose(self, item: QListWidgetItem) -> None:
        self.hide()
        self.chosen.emit(item.data(_TEXT))


class PromptsDialog(Dialog):
    """Shows the saved prompts, to be renamed, changed and deleted. Each change applies at once."""

    def __init__(
        self, prompts: Prompts, keep: Callable[[Prompts], None], *, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._store = keep
        self.setWindowTitle("Saved prompts")
        self.names, self.text = QListWidget(), QPlainTextEdit()
        self.names.setAccessibleName("Names")
        self.text.setAccessibleName("Text")
        self.text.setTabChangesFocus(True)
        self.rename, self.delete = QPushButton("Rename"), QPushButton("Delete")
        for button in (self.rename, self.delete):
            button.setAutoDefault(False)
        for prompt in prompts:
            item = QListWidgetItem(prompt.name, self.names)
            item.setFlags(item.flags() | Qt.ItemFlag.ItemIsEditable)
            item.setData(_TEXT, prompt.text)
        none = "To save a prompt, write it as a message and choose Edit, Save message as prompt."
        how = "Type / at the start of a message to list your prompts."
        left = column_of((self.names, 1), row_of(self.rename, self.delete, FREE))
        note = plain_label(how if prompts else none, tone="muted", wraps=True)
        column_of(note, row_of((left, 2), (self.text, 3), gap=12), closing(self), on=self)
        self.resize(640, 400)
        self.names.currentRowChanged.connect(lambda row: self._show())
        self.names.itemChanged.connect(lambda item: self._keep())
        self.text.textChanged.connect(self._on_text)
        self.rename.clicked.connect(lambda: self.names.editItem(self.names.currentItem()))
        self.delete.clicked.connect(self._delete)
        self.names.setCurrentRow(self.names.count() - 1)  # the newest
        self._show()

    def _show(self) -> None:
        item = self.names.currentItem()
        for part in (self.text, self.rename, self.delete):
            part.setEnabled(item is not None)
        self.text.setPlainText(item.data(_TEXT) if item is not None else "")

    def _on_text(self) -> None:
        item, text = self.names.currentItem(), self.text.toPlainText()
        if item is not None and item.data(_TEXT) != text:
            item.setData(_TEXT, text)  # `itemChanged` follows

    def _delete(self) -> None:
        self.names.takeItem(self.names.currentRow())
        self._keep()

    def _keep(self) -> None:
        items = (self.names.item(row) for row in range(self.names.count()))
        prompts = (Prompt(item.text().strip() or "Prompt", item.data(_TEXT)) for item in items)
        self._store(tuple(prompts))
