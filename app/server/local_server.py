"""The local server as the window runs it: a process that is switched on and off, and restarted.

Knows the process, its status and its key; not what passes through it, nor how it is shown. When it
ends, whichever way, what it had asked the engine for is cancelled.
"""

import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path

from PySide6.QtCore import QObject, Signal

import engine
from app.engine_client.child_process import ChildProcess
from app.engine_client.engine_log import EngineLog, texts_of
from app.engine_client.engine_process import EngineProcess
from app.models.loader import ModelLoader
from app.server.following import Following
from app.server.relay import Relay
from app.settings import Settings
from engine.process.client import Question
from engine.process.protocol import LONGEST_LINE_BYTES, Generate
from engine.server.keys import read_key
from engine.server.status import ServerStatus
from models.errors import Problem

_FOLDER = Path(engine.__file__).parents[1]  # where `-m engine` finds this copy
_OFF = ServerStatus()
_ANOTHER_PORT = "Choose another port, or start it again."


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

    Attributes: `status`, as the server told it last; `following`, what the engine does for its
    requests; `problem`, why it cannot be asked, in a line or two, empty where nothing is wrong.

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
        self._child: ChildProcess | None = None
        self._wanted = False
        self._ending = False
        self._complaint = ""
        self.status = _OFF
        self.following = Following()
        self.problem = ""
        self._relay.asked.connect(self._on_asked)
        self._relay.told.connect(self.following.push)

    @property
    def state(self) -> ServerState:
        if self._child is not None and self._ending:
            return ServerState.ENDING
        if self.problem:
            return ServerState.FAILED
        if self._child is None:
            return ServerState.OFF
        return ServerState.ON if self.status.address else ServerState.STARTING

    @property
    def can_wake(self) -> bool:
        """Whether the model was unloaded, and is loaded again when it is asked."""
        return self._loader.resting

    @property
    def pid(self) -> int:
        """Of its process; 0 where there is none."""
        return self._child.pid if self._child else 0

    @property
    def on(self) -> bool:
        """Whether a person wants it to be on."""
        return self._wanted

    @property
    def key(self) -> str:
        """What clients must show. Raises Problem."""
        return read_key(self._key_file)

    def switch(self, on: bool) -> None:
        """Switch it on or off."""
        self._wanted = on
        if not on:
            self.problem = ""
        if self._child is not None:
            self._end()
        elif on:
            self._launch()
        self.changed.emit()

    def restart(self) -> None:
        """Start it again, with the port that is set now."""
        self.switch(True)

    def close(self) -> None:
        """End it, and wait for that: 3.5 seconds at most."""
        self._wanted, self._ending = False, True
        if self._child is not None:
            self._child.close()
        self._log.close()

    def _launch(self) -> None:
        self.problem, self._complaint = "", ""
        try:
            _ = self.key
        except Problem as problem:
            self.problem = str(problem)
            return
        port, key_file = str(self._settings.server_port), str(self._key_file)
        command = (*self._command, "--attached", "--port", port, "--key-file", key_file)
        self._child = child = ChildProcess(
            command, folder=_FOLDER, limit=LONGEST_LINE_BYTES, parent=self
        )
        child.said.connect(self._on_line)
        child.complained.connect(self._on_complaint)
        child.ended.connect(self._on_ended)
        child.start()
        self._log.note(f"started, process {child.pid}")
        self._relay.begin(child.write)

    def _end(self) -> None:
        """End the process. What is wanted then is found when it has ended."""
        self._ending = True
        self._relay.end()
        if self._child is not None:
            self._child.end()

    def _on_line(self, line: bytes) -> None:
        status = self._relay.hear(line)
        if status is None or self._ending:
            return
        self.status = status
        self.problem = f"{status.problem} {_ANOTHER_PORT}" if status.problem else ""
        self.changed.emit()

    def _on_complaint(self, line: bytes) -> None:
        self._log.complaint(line)
        self._complaint = self._log.tail[-1]

    def _on_ended(self, reason: str, status: int | None) -> None:
        self._log.note(f"ended: {reason}")
        self._relay.end()
        self.following.clear()
        if self._child is not None:
            self._child.deleteLater()
        self._child, self.status = None, _OFF
        ended, self._ending = self._ending, False
        if ended and self._wanted:
            self._launch()
        elif not ended:
            words = f" Its last words: {self._complaint}" if self._complaint else ""
            self.problem = self.problem or f"The local server ended by itself. {reason}{words}"
        self.changed.emit()

    def _on_asked(self, question: Question) -> None:
        self._log.hide(texts_of(question.prompt))
        if isinstance(question, Generate):
            self.following.begin(question.id)
