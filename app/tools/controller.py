"""Keeps the panel of tools in step with the toolbox, and does what the user asks there.

Knows both; no process, and no pixels.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QMessageBox

from app import files
from app.steps import Stepper, Steps
from app.theme.dialog import ask
from app.tools.panel import ToolsPanel
from app.tools.server_dialog import ServerDialog
from app.tools.server_rows import Place, Row, rows_of
from app.tools.toolbox import Toolbox
from engine.tools.configuration import Configuration
from engine.tools.protocol import OWN, Server
from models.in_words import one_line


class ToolsController(QObject):
    """Belongs to one panel."""

    def __init__(self, panel: ToolsPanel, toolbox: Toolbox) -> None:
        super().__init__(panel)
        self._panel, self._toolbox = panel, toolbox
        self._logs: dict[str, str] = {}  # by server, as they were read last
        self._stepper = Stepper(self)
        # Queued, as the rows that follow may replace the ticked one.
        panel.ticked.connect(self._tick, Qt.ConnectionType.QueuedConnection)
        panel.add.clicked.connect(self._add)
        panel.tree.currentItemChanged.connect(self._read_log)
        panel.folder.clicked.connect(self._ask_for_folder)
        panel.restart.clicked.connect(lambda: toolbox.process.restart(panel.chosen.server))
        panel.edit.clicked.connect(self._edit)
        panel.remove.clicked.connect(self._remove)
        panel.finished.connect(self._stepper.close)
        toolbox.changed.connect(self.show)
        toolbox.look()
        self.show()

    @property
    def _now(self) -> Configuration:
        return self._toolbox.configuration

    def show(self) -> None:
        """Show all as it is now."""
        box, rows = self._toolbox, list[Row]()
        for server in (Server(OWN), *self._now.servers):
            state, log = box.process.state(server.name), self._logs.get(server.name, "")
            rows += rows_of(server, state, self._now, log=log)
        self._panel.line.say(str(box.problem or ""))
        self._panel.show_rows(rows)
        self._read_log()

    def _read_log(self, *_: object) -> None:
        """Read the log of the chosen server, and show all again if it is another."""
        place, logs = self._panel.chosen, self._logs

        def steps() -> Steps:
            log = yield self._toolbox.log_of(place.server)
            if log != logs.get(place.server, ""):
                logs[place.server] = log
                self.show()

        if place.kind == "server":
            self._run(steps())

    def _run(self, steps: Steps) -> None:
        self._stepper.run(steps, failed=lambda problem: self._panel.line.say(str(problem)))

    # What the user does

    def _tick(self, place: Place, on: bool) -> None:
        now, change = self._now, self._toolbox.change
        match place.kind:
            case "tool" | "reading":
                tools = self._toolbox.process.state(place.server).tools
                meant = [
                    tool
                    for tool in tools
                    if (tool.read_only if place.kind == "reading" else tool.name == place.name)
                ]
                change(now.switched(*meant, on=on))
            case "trust":
                change(now.trusting(place.server, on))
            case _:
                change(now.enabling(place.server, on))

    def _ask_for_folder(self) -> None:
        def take(path: Path) -> None:
            folders = dict.fromkeys((*self._now.folders, str(path.absolute())))
            self._toolbox.change(replace(self._now, folders=tuple(folders)))

        files.ask_for_folder(self._panel, "A folder that models may read", take)

    def _add(self) -> None:
        def steps() -> Steps:
            self._open(None, found=(yield self._toolbox.others()))

        self._run(steps())

    def _edit(self) -> None:
        name = self._panel.chosen.server
        self._open(next(one for one in self._now.servers if one.name == name), found=())

    def _open(self, edited: Server | None, *, found: Sequence[tuple[str, Server]]) -> None:
        dialog = ServerDialog(edited, found=found, parent=self._panel)
        dialog.accepted.connect(lambda: self._take(dialog.servers, edited))
        dialog.open_once()

    def _take(self, servers: Sequence[Server], edited: Server | None) -> None:
        """Have these in place of the edited server, each with a name of its own."""
        now = self._now
        if edited and servers[0].name == edited.name:  # tools that are as they were stay on
            kept = (servers[0] if one.name == edited.name else one for one in now.servers)
            self._toolbox.change(replace(now, servers=tuple(kept)))
            return
        if edited:
            now = now.without(edited.name)
        for server in servers:
            if server in now.servers:
                continue
            taken, name, number = {one.name for one in now.servers}, server.name, 2
            while name in taken:
                name, number = f"{server.name} {number}", number + 1
            now = now.adding(Configuration((replace(server, name=name),)))
            self._panel.chosen = Place(name)
        self._toolbox.change(now)

    def _remove(self) -> None:
        place, now = self._panel.chosen, self._now
        if place.kind == "folder":
            kept = tuple(one for one in now.folders if one != place.name)
            self._toolbox.change(replace(now, folders=kept))
            return
        question = f"Remove {one_line(place.server)}?"
        detail = "Its command, its keys and its switches are forgotten."

        def remove() -> None:
            self._toolbox.change(self._now.without(place.server))

        box = ask(self._panel, "Remove a server", question, detail, verb="Remove", then=remove)
        box.setIcon(QMessageBox.Icon.Warning)
