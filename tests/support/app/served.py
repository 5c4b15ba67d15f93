"""A local server with a fake process, and an engine with another, and no window."""

from pathlib import Path

from PySide6.QtCore import QSettings

from app.engine_client.engine_log import EngineLog
from app.engine_client.engine_process import EngineProcess
from app.models.loader import ModelLoader
from app.server.local_server import LocalServer
from app.settings import Settings
from engine.process.protocol import RESPONSES
from tests.support.app.engine_listener import TIMEOUT_SECONDS, Listener
from tests.support.app.fake_commands import OpeningCommands
from tests.support.app.window_maker import fake_host, fake_server

MODEL = Path("/models/tiny")


class WatchedEngine(EngineProcess):
    """Attribute: `cancelled`, the generations that it was asked to cancel."""

    def __init__(self, log, *, command):
        super().__init__(log, command=command, delays_seconds=(0.01,))
        self.cancelled = []

    def cancel(self, generation):
        self.cancelled.append(generation)
        super().cancel(generation)


class Served:
    """Attributes: `engine`, `heard` of it, `loader`, `server`."""

    def __init__(self, qtbot, folder, steps, server, *, command=(), model=MODEL):
        """`command` replaces the fake host."""
        self._qtbot, self._record = qtbot, folder / "record"
        self.engine = WatchedEngine(EngineLog(folder), command=command or fake_host(folder, steps))
        self.heard = Listener(self.engine, qtbot)
        self.settings = Settings(
            QSettings(str(folder / "settings.ini"), QSettings.Format.IniFormat)
        )
        self.key_file = folder / "server-key"
        self.loader = ModelLoader(
            self.engine, self.settings, commands=OpeningCommands(lambda target: model)
        )
        self.server = LocalServer(
            self.engine,
            self.loader,
            EngineLog(folder, name="server"),
            settings=self.settings,
            key_file=self.key_file,
            command=fake_server(folder, server.replace("RECORD", f"record:{self._record}")),
        )
        self.loader.begin()
        self.heard.until_told("loaded")

    def until(self, holds):
        self._qtbot.waitUntil(lambda: bool(holds()), timeout=TIMEOUT_SECONDS * 1000)

    def until_state(self, state):
        self.until(lambda: self.server.state is state)

    def received(self):
        """What the server's process was told, as far as it wrote that down."""
        if not self._record.exists():
            return []
        lines = self._record.read_text(encoding="utf-8").splitlines(keepends=True)
        return [RESPONSES.read(line.encode()) for line in lines if line.endswith("\n")]
