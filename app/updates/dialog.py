"""A newer version, as it was announced, and a way to its page. Installs nothing."""

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLabel,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from app.markdown.links import open_in_browser
from app.markdown.page import neutral
from app.updates.release import Release


class UpdateDialog(QDialog):
    """Not modal. All texts are plain, whatever is in them. Attributes: `notes`, `button`."""

    def __init__(
        self,
        release: Release,
        parent: QWidget | None = None,
        *,
        version: str,
        opening: Callable[[str], None] = open_in_browser,
    ) -> None:
        """`version` is ours; `opening` is called with the page's address."""
        super().__init__(parent)
        self.setWindowTitle("A newer Slipstream")
        title = _label(f"Slipstream {release.version} can be had. This is {version}.")
        self.notes = QPlainTextEdit("\n".join(map(neutral, release.notes.splitlines())))
        self.notes.setReadOnly(True)
        self.notes.setTabChangesFocus(True)
        self.notes.setAccessibleName("What is new")
        facts = QFormLayout()
        facts.addRow("Page", _label(release.page))
        facts.addRow("Size", _label(f"{release.size_bytes / 1e6:.1f} MB"))
        facts.addRow("SHA-256", _label(release.sha256))
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self.button = buttons.addButton("Open the page", QDialogButtonBox.ButtonRole.ActionRole)
        self.button.clicked.connect(lambda: opening(release.page))
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.addWidget(title)
        column.addWidget(self.notes, 1)
        column.addLayout(facts)
        column.addWidget(buttons)
        self.resize(620, 420)


def _label(text: str) -> QLabel:
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label
