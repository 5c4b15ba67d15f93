"""The dialog for what new conversations in a folder begin with: an instruction, and files.

Knows texts and paths; reads no file, and stores nothing.
"""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtWidgets import (
    QListWidget,
    QListWidgetItem,
    QWidget,
)

from app import files
from app.conversations.records import Folder
from app.layout import FREE, column_of, row_of, text_area, text_button
from app.theme.dialog import Dialog
from app.theme.labels import accepting, plain_label
from models.in_words import one_line

_WORDS = "New conversations in this folder start with these. Existing ones do not change."


class FolderDialog(Dialog):
    """Attributes: `instruction` and `files`, the paths, as the user has them now."""

    def __init__(self, folder: Folder, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(f"{one_line(folder.name) or 'Folder'}: instruction and files")
        hint = "For example: Answer in German, briefly."
        self._instruction = text_area(folder.instruction, name="Instruction", hint=hint)
        self._list = QListWidget()
        self._list.setAccessibleName("Files")
        self._remove = text_button("Remove", self._remove_chosen)
        self.add(folder.files)
        self._list.itemSelectionChanged.connect(self._enable)
        beside = row_of(text_button("Add files…", self._ask), self._remove, FREE)
        words = plain_label(_WORDS, wraps=True)
        instruction = plain_label("Instruction (system prompt)", buddy=self._instruction)
        files = plain_label("Files", buddy=self._list)
        parts = (words, instruction, (self._instruction, 2), files, (self._list, 1))
        column_of(*parts, beside, accepting(self, "Save"), on=self, gap=8)
        self.resize(520, 460)
        self._enable()

    @property
    def instruction(self) -> str:
        return self._instruction.toPlainText().strip()

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(self._list.item(row).toolTip() for row in range(self._list.count()))

    def add(self, paths: Sequence[str]) -> None:
        """Add the files at these paths that are not listed yet."""
        for path in dict.fromkeys(paths):
            if path not in self.files:
                item = QListWidgetItem(one_line(Path(path).name) or path)
                item.setToolTip(path)
                self._list.addItem(item)

    def _ask(self) -> None:
        files.ask_to_open_several(
            self, "Add files to the folder", lambda paths: self.add([*map(str, paths)])
        )

    def _remove_chosen(self) -> None:
        for item in self._list.selectedItems():
            self._list.takeItem(self._list.row(item))

    def _enable(self) -> None:
        self._remove.setEnabled(bool(self._list.selectedItems()))
