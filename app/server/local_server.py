"""The local server as the window runs it: a process that is switched on and off, and restarted.

Passes lines between the server and the window's engine, both ways. The server may ask for answers
and counts under ids of its own; the model is the window's. The server is not informed when the
model is unloaded: its next request waits until the model is loaded again. When the server ends for
any reason, its requests to the engine are cancelled. Knows nothing of how it is shown.
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
from app.settings import Settings
from engine.events import Done, Event, Failed, Stats
from engine.process.client import Question, is_guest
from engine.process.protocol import (
    LONGEST_LINE_BYTES,
    RESPONSES,
    Cancel,
    Count,
    Counted,
    Generate,
    InvalidCommand,
    Loaded,
    Ready,
    Response,
    Unloaded,
    parse_command,
)
from engine.process.supervision import Supervisor
from engine.server.keys import read_key
from engine.server.status import STATUSES, ModelStatus, ServerStatus
from models.errors import Problem
from models.typed_json import WrongJson

_OFF = ServerStatus()
_OTHER_MODELS = ("--allow", "all", "--keep", "10m")
_REFUSED = "A local server may only ask for answers and counts, with ids of its own."
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

    Signals: `changed()`: its state, its status, its problem, or the loaded model.
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
        self._engine, self._loader = engine, loader
        self._command = tuple(command) or server_command()
        self._talks = False  # whether lines pass between the server and the engine
        self._ready: Ready | None = None
        self._loaded: Loaded | None = None
        self._open: set[str] = set()  # generations that are not over
        self._held: dict[str, Question] = {}  # until the model is loaded again
        self.on = False
        self.status = _OFF
        self.problem = ""
        self._supervisor = Supervisor()  # the user starts it again
        self._process = ChildProcess(
            limit=LONGEST_LINE_BYTES,
            supervisor=self._supervisor,
            log=log,
            parent=self,
        )
        self._process.began.connect(self._on_began)
        self._process.said.connect(self._on_line)
        self._process.ended.connect(self._on_ended)
        engine.ready.connect(self._on_ready)
        engine.loading.connect(self._tell)
        engine.loaded.connect(self._on_loaded)
        engine.unloaded.connect(self._on_unloaded)
        engine.died.connect(self._on_unloaded)
        engine.told_guest.connect(self._on_told)
        engine.hung.connect(self._on_hung)
        loader.loaded_now.connect(self._release)
        loader.failed.connect(self._on_not_loaded)
        for change in (loader.loaded_now, loader.failed, engine.unloaded, engine.died):
            change.connect(self.changed)

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
    def loaded(self) -> Loaded | None:
        """The window's own model."""
        return self._loader.loaded

    @property
    def can_wake(self) -> bool:
        """Whether the model was unloaded, and is loaded again when it is asked."""
        return self._loader.resting

    @property
    def models(self) -> tuple[ModelStatus, ...]:
        """Models that clients may request; the window's own comes first, also while it is
        unloaded, which the server does not know."""
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
        self._hang_up()
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

    # The process

    def _on_began(self) -> None:
        self._talks = True
        for known in (self._ready, self._loaded):
            if known is not None:
                self._tell(known)

    def _on_line(self, line: bytes) -> None:
        """Carry out a line of the server, unless it is ending."""
        if not self._talks:
            return
        try:
            status = STATUSES.read(line)
        except WrongJson:
            self._on_command(line)
        else:
            self.status = status
            self.problem = f"{status.problem} {_ANOTHER_PORT}" if status.problem else ""
            self.changed.emit()

    def _on_ended(self, reason: str, status: int | None) -> None:
        self._hang_up()
        self.status = _OFF
        if self._process.death is not None:
            words = self._process.last_words
            self.problem = self.problem or f"The local server quit unexpectedly. {reason}{words}"
        self.changed.emit()

    def _hang_up(self) -> None:
        """Cancel the server's requests."""
        self._talks = False
        self._held.clear()
        generations, self._open = self._open, set()
        for generation in generations:
            self._engine.cancel(generation)

    # From the server to the engine

    def _on_command(self, line: bytes) -> None:
        try:
            command = parse_command(line)
        except InvalidCommand as invalid:
            self._refuse(invalid.id, str(invalid))
            return
        match command:
            case Generate(race=False) | Count() if is_guest(command.id):
                self._ask(command)
            case Cancel() if self._held.pop(command.id, None) is not None:
                self._on_told(Done(command.id, "cancelled", Stats()))
            case Cancel() if is_guest(command.id):
                self._engine.cancel(command.id)
            case _:
                self._refuse(getattr(command, "id", ""), _REFUSED)

    def _ask(self, question: Question) -> None:
        if isinstance(question, Generate):
            self._open.add(question.id)
        self._log.hide(texts_of(question.prompt))
        if self._loader.resting or self._held:
            self._held[question.id] = question
            self._loader.wake()
        else:
            self._engine.pass_on(question)

    def _refuse(self, id: str, why: str) -> None:
        self._tell(Failed(id, why, "Install Slipstream again.", "request"))

    # From the engine to the server

    def _tell(self, response: Response) -> None:
        if self._talks:
            self._process.write(RESPONSES.to_line(response))

    def _on_ready(self, ready: Ready) -> None:
        self._ready = ready
        self._tell(ready)

    def _on_loaded(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._tell(loaded)

    def _on_unloaded(self, reason: str = "") -> None:
        """Do not tell the server of a model that is loaded again when it is asked."""
        if not self._loader.resting:
            self._loaded = None
            self._tell(Unloaded(""))

    def _on_told(self, answer: Event | Counted) -> None:
        if isinstance(answer, Done | Failed):
            self._open.discard(answer.generation)
        self._tell(answer)

    def _on_hung(self, seconds: float) -> None:
        """Restart an engine that owes a program an answer: programs cannot press Restart."""
        if self._open:
            self._engine.restart()

    def _release(self) -> None:
        """Send the requests that were held back until the model was loaded."""
        held, self._held = self._held, {}
        for question in held.values():
            self._engine.pass_on(question)

    def _on_not_loaded(self, problem: Problem) -> None:
        """Refuse the requests that were held back, if no model is loaded any more."""
        if self._loader.loaded is not None:
            return
        held, self._held = self._held, {}
        for id in held:
            self._on_told(Failed(id, problem.message, problem.remedy))
        self._on_unloaded()
