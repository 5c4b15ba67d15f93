"""The local server as the window runs it: a process that is switched on and off, and restarted.

Knows the process, its status and its key; not the lines that pass through it, nor how it is shown.
When it ends for any reason, its requests to the engine are cancelled.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.engine_client.child_process import ChildProcess
from app.engine_client.engine_log import EngineLog, texts_of
from app.engine_client.engine_process import EngineProcess
from app.models.loader import ModelLoader
from app.server.relay import Relay
from app.settings import Settings
from engine.process.client import Question
from engine.process.protocol import LONGEST_LINE_BYTES
from engine.process.supervision import Supervisor
from engine.server.keys import read_key
from engine.server.status import ModelStatus, ServerStatus
from models.errors import Problem

_OFF = ServerStatus()
_OTHER_MODELS = ("--allow", "all", "--keep", "10m")
_ANOTHER_PORT = "Choose another port, or restart the server."


class ServerState(Enum):
    """Whether programs can ask."""

    OFF = "off"
    STARTING = "starting"
    ON = "on"
    FAILED = "failed"  # see `LocalServer.problem`
    ENDING = "ending"


def server_command() -> tuple[str, ...]:
    """The beginning of the command that starts the server; in a bundle with the Python inside."""
    return (sys.executable, "-X", "faulthandler", "-m", "engine", "serve")


class LocalServer(QObject):
    """Off until `switch`.

    Attributes: `on`, whether the user wants it to be on; `status`, the server's latest;
    `problem`, why it cannot be asked, in a line or two, empty where nothing is wrong.

    Signals: `changed()`: its state, its status or its problem.
    """

    changed = Signal()

    def __init__(
        self,
        engine: EngineProcess,
        loader: ModelLoader,
        log: EngineLog,
        *,
        settings: Settings,
        key_file: Path,
        command: Sequence[str] = (),
        parent: QObject | None = None,
    ) -> None:
        """`command` replaces `server_command`."""
        super().__init__(parent)
        self._log, self._settings, self._key_file = log, settings, key_file
        self._loader = loader
        self._command = tuple(command) or server_command()
        self._relay = Relay(engine, loader, parent=self)
        self._supervisor = Supervisor()  # the user starts it again
        self._process = ChildProcess(
            limit=LONGEST_LINE_BYTES,
            supervisor=self._supervisor,
            log=log,
            parent=self,
        )
        self._process.began.connect(lambda: self._relay.begin(self._process.write))
        self._process.said.connect(self._on_line)
        self._process.ended.connect(self._on_ended)
        self.on = False
        self.status = _OFF
        self.problem = ""
        self._relay.asked.connect(self._on_asked)

    @property
    def state(self) -> ServerState:
        if self._supervisor.child == "ending":
            return ServerState.ENDING
        if self.problem:
            return ServerState.FAILED
        if self._supervisor.plan != "on":
            return ServerState.OFF
        return ServerState.ON if self.status.address else ServerState.STARTING

    @property
    def can_wake(self) -> bool:
        """Whether the model was unloaded, and is loaded again when it is asked."""
        return self._loader.resting

    @property
    def models(self) -> tuple[ModelStatus, ...]:
        """Models that clients may request; the window's own comes first, also while it is
        unloaded, which the server does not know: see `Relay`."""
        models = self.status.models
        if not self.can_wake or not models:
            return models
        return replace(models[0], state="not loaded"), *models[1:]

    @property
    def pid(self) -> int:
        """The id of its process; 0 if there is none."""
        return self._process.pid

    @property
    def key(self) -> str:
        """The secret key that clients must send. Raises Problem."""
        return read_key(self._key_file)

    def switch(self, on: bool) -> None:
        """Switch it on or off. If it is on, start it again, with the settings of now."""
        self.on, self.problem = on, ""
        self._relay.end()
        try:
            _ = self.key if on else ""
        except Problem as problem:
            on, self.problem = False, str(problem)
        port, key_file = str(self._settings.server_port), str(self._key_file)
        options = ("--attached", "--port", port, "--key-file", key_file)
        others = _OTHER_MODELS if self._settings.server_models else ()
        self._process.command = self._command + options + others
        if on:
            self._process.replace()
        else:
            self._process.stop()
        self.changed.emit()

    def restart(self) -> None:
        """Start it again, with the port that is set now."""
        self.switch(True)

    def close(self) -> None:
        """End it, and wait for that: 3.5 seconds at most."""
        self._process.close()
        self._log.close()

    def _on_line(self, line: bytes) -> None:
        if (status := self._relay.hear(line)) is None:
            return
        self.status = status
        self.problem = f"{status.problem} {_ANOTHER_PORT}" if status.problem else ""
        self.changed.emit()

    def _on_ended(self, reason: str, status: int | None) -> None:
        self._relay.end()
        self.status = _OFF
        if self._process.death is not None:
            words = self._process.last_words
            self.problem = self.problem or f"The local server quit unexpectedly. {reason}{words}"
        self.changed.emit()

    def _on_asked(self, question: Question) -> None:
        self._log.hide(texts_of(question.prompt))
