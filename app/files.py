"""Asks the user for a file, and writes files. Nothing waits: the answer comes later.

A dialog starts in the folder that was chosen last; at first, in Documents.
"""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QStandardPaths, Qt
from PySide6.QtWidgets import QApplication, QFileDialog, QWidget

from models import files

_LAST_FOLDER = "last folder"  # a property of the application


def ask_to_open(parent: QWidget, title: str, kinds: str, then: Callable[[Path], None]) -> None:
    """Ask for an existing file; `kinds` is a name filter of Qt."""
    dialog = _dialog(parent, title, kinds)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
    dialog.fileSelected.connect(lambda path: then(Path(path)))
    dialog.open()


def ask_to_open_several(
    parent: QWidget, title: str, then: Callable[[list[Path]], None], *, kinds: str = ""
) -> None:
    """Ask for existing files; `kinds` is a name filter of Qt, empty for all kinds."""
    dialog = _dialog(parent, title, kinds)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
    dialog.filesSelected.connect(lambda paths: then([Path(path) for path in paths]))
    dialog.open()


def ask_for_folder(parent: QWidget, title: str, then: Callable[[Path], None]) -> None:
    """Ask for an existing folder."""
    dialog = _dialog(parent, title, "")
    dialog.setFileMode(QFileDialog.FileMode.Directory)
    dialog.fileSelected.connect(lambda path: then(Path(path)))
    dialog.open()


def ask_to_save(parent: QWidget, title: str, suggestion: str, then: Callable[[Path], None]) -> None:
    """Ask for the name of a new file. The dialog asks before replacing one."""
    name = file_name(suggestion)
    suffix = name.rpartition(".")[2]
    dialog = _dialog(parent, title, f"*.{suffix}")
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setDefaultSuffix(suffix)
    dialog.selectFile(name)
    dialog.fileSelected.connect(lambda path: then(Path(path)))
    dialog.open()


def write_text(path: Path, text: str) -> None:
    """Write a file, completely or not at all. Raises Problem."""
    with files.writing(path):
        files.write_text(path, text)


def file_name(suggestion: str) -> str:
    """Return a name that every file system accepts, with the same suffix."""
    stem, _, suffix = suggestion.rpartition(".")
    return f"{files.file_stem(stem) or 'Conversation'}.{suffix}"


def last_folder() -> str:
    """Return the folder in which the next dialog starts."""
    application = QApplication.instance()
    last = str(application.property(_LAST_FOLDER) or "") if application else ""
    places = QStandardPaths.StandardLocation
    documents = QStandardPaths.writableLocation(places.DocumentsLocation)
    home = QStandardPaths.writableLocation(places.HomeLocation)
    return next((folder for folder in (last, documents) if folder and Path(folder).is_dir()), home)


def set_last_folder(folder: str) -> None:
    """Start the next dialog in this folder, if it exists."""
    if application := QApplication.instance():
        application.setProperty(_LAST_FOLDER, folder)


def _dialog(parent: QWidget, title: str, kinds: str) -> QFileDialog:
    dialog = QFileDialog(parent, title, last_folder())
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    if parent.property("remembers") is not False:
        dialog.fileSelected.connect(lambda path: set_last_folder(str(Path(path).parent)))
    if kinds:
        dialog.setNameFilter(kinds)
    return dialog
