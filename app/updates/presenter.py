"""Shows newer versions: in menus, notices and a dialog of the windows. Installs nothing."""

import sys
from collections.abc import Callable

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLabel,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from app.commands import CommandRunner
from app.markdown.links import open_in_browser
from app.notices import Offer
from app.updates.controller import UpdateController
from app.updates.feed import Origin, Release
from app.window import Window
from app.windows import Windows
from models.errors import Problem
from models.in_words import clean, size

_MATTER = "update"


def check_command() -> tuple[str, ...]:
    """The command that checks the feed; in a bundle, with its own Python."""
    return (sys.executable, "-m", "app.updates.check")


class UpdatePresenter(QObject):
    """Attributes: `controller`."""

    def __init__(
        self, windows: Windows, *, origin: Origin, commands: CommandRunner | None = None
    ) -> None:
        """`commands` replace those that check the feed."""
        super().__init__(windows)
        self._windows, self._origin = windows, origin
        self.controller = controller = UpdateController(
            windows.application.settings,
            origin=origin,
            commands=commands
            or CommandRunner(check_command(), name="The update check", parent=self),
            parent=self,
        )
        controller.found.connect(self._on_found)
        controller.current.connect(self._on_current)
        controller.failed.connect(self._on_failed)
        windows.opened.connect(self._serve)
        for window in windows.all:
            self._serve(window)

    def _serve(self, window: Window) -> None:
        """Offer checks in the menu of a window."""
        automatic = window.menus.actions["automatic_updates"]
        for action in (automatic, window.menus.actions["updates"]):
            action.setVisible(self._origin.configured)
        automatic.setChecked(self.controller.automatic)
        automatic.toggled.connect(self._on_toggled)
        window.menus.connect_commands({"updates": self.controller.check})

    def show(self) -> None:
        """Show the announced version."""
        if self.controller.release is not None:
            dialog = UpdateDialog(
                self.controller.release, self._windows.current, version=self.controller.version
            )
            dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            dialog.show()

    def _on_toggled(self, on: bool) -> None:
        self.controller.automatic = on
        for window in self._windows.all:
            window.menus.actions["automatic_updates"].setChecked(on)

    def _on_found(self, release: Release, asked: bool) -> None:
        if asked:
            self._windows.current.notices.take_back(_MATTER)
            self.show()
        else:
            line = f"Slipstream {release.version} is available."
            self._windows.current.notices.say(_MATTER, line, offer=Offer("Show", self.show))

    def _on_current(self) -> None:
        line = f"Slipstream {self.controller.version} is the newest version."
        self._windows.current.notices.say(_MATTER, line, seconds=8.0)

    def _on_failed(self, problem: Problem) -> None:
        self._windows.current.notices.say(_MATTER, str(problem))


class UpdateDialog(QDialog):
    """A newer version, and a way to its page. Not modal, and all in plain text.

    Attributes: `notes`, `button`.
    """

    def __init__(
        self,
        release: Release,
        parent: QWidget | None = None,
        *,
        version: str,
        opening: Callable[[str], None] = open_in_browser,
    ) -> None:
        """`version` is this copy's; `opening` is called with the page's address."""
        super().__init__(parent)
        self.setWindowTitle("A newer version of Slipstream")
        title = _label(f"Slipstream {release.version} is available. You have {version}.")
        self.notes = QPlainTextEdit("\n".join(map(clean, release.notes.splitlines())))
        self.notes.setReadOnly(True)
        self.notes.setTabChangesFocus(True)
        self.notes.setAccessibleName("What is new")
        facts = QFormLayout()
        facts.addRow("Page", _label(release.page))
        facts.addRow("Size", _label(size(release.size_bytes)))
        facts.addRow("SHA-256", _label(release.sha256))
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
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
