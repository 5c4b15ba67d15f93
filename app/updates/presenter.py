"""Joins the window with what is known of newer versions: its menu, its notices, a dialog."""

import sys

from PySide6.QtCore import QObject, Qt

from app.models.commands import Commands
from app.notices import Offer
from app.updates.controller import UpdateKeeper
from app.updates.dialog import UpdateDialog
from app.updates.origin import Origin
from app.updates.release import Release
from app.window import Window
from models.errors import Problem

_MATTER = "update"


def check_command() -> tuple[str, ...]:
    """What asks for the feed; in a bundle this is the Python inside it."""
    return (sys.executable, "-m", "app.updates.check")


class ShownUpdates(QObject):
    """Attributes: `keeper`."""

    def __init__(self, window: Window, *, origin: Origin, commands: Commands | None = None) -> None:
        """`commands` stand in for those that ask the feed."""
        super().__init__(window)
        self._window = window
        self.keeper = keeper = UpdateKeeper(
            window.settings,
            origin=origin,
            commands=commands or Commands(check_command(), parent=self),
            parent=self,
        )
        automatic = window.menus.actions["automatic_updates"]
        automatic.setVisible(origin.configured)
        automatic.setChecked(keeper.automatic)
        automatic.toggled.connect(self._on_toggled)
        window.menus.actions["updates"].triggered.connect(lambda checked=False: keeper.check())
        keeper.found.connect(self._on_found)
        keeper.current.connect(self._on_current)
        keeper.failed.connect(self._on_failed)

    def show(self) -> None:
        """What was announced."""
        if self.keeper.release is not None:
            dialog = UpdateDialog(self.keeper.release, self._window, version=self.keeper.version)
            dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            dialog.show()

    def _on_toggled(self, on: bool) -> None:
        self.keeper.automatic = on

    def _on_found(self, release: Release, asked: bool) -> None:
        if asked:
            self._window.notices.take_back(_MATTER)
            self.show()
        else:
            line = f"Slipstream {release.version} can be had."
            self._window.notices.say(_MATTER, line, offer=Offer("Show it", self.show))

    def _on_current(self) -> None:
        line = f"There is nothing newer than this Slipstream, {self.keeper.version}."
        self._window.notices.say(_MATTER, line, seconds=8.0)

    def _on_failed(self, problem: Problem) -> None:
        self._window.notices.say(_MATTER, str(problem))
