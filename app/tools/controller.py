"""Keeps the panel of tools in step with the toolbox, and does what a person asks there.

Knows both; no process, and no pixels.
"""

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QMessageBox

from app import files
from app.steps import Stepper, Steps
from app.tools.panel import ToolsPanel
from app.tools.server_dialog import ServerDialog
from app.tools.server_now import ServerNow
from app.tools.toolbox import Toolbox
from engine.tools.configuration import Configuration
from engine.tools.protocol import OWN, Server
from models.in_words import one_line


class ToolsController(QObject):
    """Belongs to one panel."""

    def __init__(self, panel: ToolsPanel, toolbox: Toolbox) -> None:
        super().__init__(panel)
        self._panel, self._toolbox = panel, toolbox
        self._stepper = Stepper(self)
        self._log = ("", "")  # a server's name, and the end of its log
        page = panel.page
        panel.page_chosen.connect(self._read_log)
        panel.add.clicked.connect(self._add)
        page.switch.clicked.connect(self._switch)
        page.trust.clicked.connect(self._trust)
        page.restart.clicked.connect(self._restart)
        page.edit.clicked.connect(self._edit)
        page.remove.clicked.connect(self._remove)
        page.tools.switched.connect(self._switch_tool)
        page.tools.seen.connect(lambda tool: self._switch_tool(tool, True))
        page.folders.add.clicked.connect(self._ask_for_folder)
        page.folders.dropped.connect(self._drop_folder)
        page.tabs.currentChanged.connect(self._read_log)
        panel.finished.connect(self._stepper.close)
        toolbox.changed.connect(self._follow)
        toolbox.look()
        self._follow()

    def _follow(self) -> None:
        self.show()
        self._read_log()

    def show(self) -> None:
        """Show all as it is now."""
        box, (logged, log) = self._toolbox, self._log
        self._panel.say(str(box.problem or ""))
        self._panel.show_servers(
            [
                ServerNow(
                    server,
                    box.process.state(server.name),
                    box.configuration,
                    box.before,
                    log if server.name == logged else "",
                )
                for server in (Server(OWN), *box.configuration.servers)
            ]
        )

    def _read_log(self) -> None:
        server = self._panel.chosen

        def steps() -> Steps:
            self._log = server, (yield self._toolbox.log_of(server))
            self.show()

        if server != OWN:
            self._run(steps())

    # What a person does

    def _switch(self, on: bool) -> None:
        self._change(self._now.enabling(self._panel.chosen, on))

    def _trust(self, on: bool) -> None:
        self._change(self._now.trusting(self._panel.chosen, on))

    def _restart(self) -> None:
        self._toolbox.process.restart(self._panel.chosen)

    def _switch_tool(self, name: str, on: bool) -> None:
        tools = self._toolbox.process.state(self._panel.chosen).tools
        self._change(self._now.switched(*(one for one in tools if one.name == name), on=on))

    def _ask_for_folder(self) -> None:
        def take(path: Path) -> None:
            folder = str(path.absolute())
            if folder not in self._now.folders:
                self._change(replace(self._now, folders=(*self._now.folders, folder)))

        files.ask_for_folder(self._panel, "A folder that models may read", take)

    def _drop_folder(self, folder: str) -> None:
        kept = tuple(one for one in self._now.folders if one != folder)
        self._change(replace(self._now, folders=kept))

    def _add(self) -> None:
        def steps() -> Steps:
            dialog = ServerDialog(found=(yield self._toolbox.others()), parent=self._panel)
            dialog.made.connect(self._take)
            dialog.open()

        self._run(steps())

    def _take(self, servers: tuple[Server, ...]) -> None:
        """Add these, each with a name that no other server has."""
        now = self._now
        for server in servers:
            if server in now.servers:
                continue
            taken, name, number = {one.name for one in now.servers}, server.name, 2
            while name in taken:
                name, number = f"{server.name} {number}", number + 1
            now = now.adding(Configuration((replace(server, name=name),)))
            self._panel.chosen = name
        self._change(now)

    def _edit(self) -> None:
        before = next(one for one in self._now.servers if one.name == self._panel.chosen)

        def take(servers: tuple[Server, ...]) -> None:
            (server,) = servers
            if server.name == before.name:  # its tools stay on, as far as they are as they were
                kept = tuple(
                    server if one.name == before.name else one for one in self._now.servers
                )
                self._change(replace(self._now, servers=kept))
            else:
                self._toolbox.change(self._now.without(before.name))
                self._take(servers)

        dialog = ServerDialog(before, found={}, parent=self._panel)
        dialog.made.connect(take)
        dialog.open()

    def _remove(self) -> None:
        name = self._panel.chosen
        box = QMessageBox(self._panel)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setIcon(QMessageBox.Icon.Warning)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setText(f"Remove {one_line(name)}?")
        box.setInformativeText("Its command, its keys and its switches are forgotten.")
        remove = box.addButton("Remove", QMessageBox.ButtonRole.DestructiveRole)
        box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Cancel))
        remove.clicked.connect(lambda: self._change(self._now.without(name)))
        box.open()

    @property
    def _now(self) -> Configuration:
        return self._toolbox.configuration

    def _change(self, configuration: Configuration) -> None:
        self._toolbox.change(configuration)

    def _run(self, steps: Steps) -> None:
        self._stepper.run(steps, failed=lambda problem: self._panel.say(str(problem)))
