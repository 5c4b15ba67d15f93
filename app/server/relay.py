"""Passes lines between the local server and the window's engine, both ways.

A server may ask for answers and counts under ids of its own; the model is the window's. The server
is not informed when the model is unloaded: its next request waits until the model is loaded again.
Knows the protocol; no process of the server's.
"""

from collections.abc import Callable
from contextlib import suppress

from PySide6.QtCore import QObject, Signal

from app.engine_client.engine_process import EngineProcess
from app.models.loader import ModelLoader
from engine.events import Done, Event, Failed, Stats
from engine.process.client import Question, is_guest
from engine.process.protocol import (
    RESPONSES,
    Cancel,
    Command,
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
from engine.server.status import STATUSES, ServerStatus
from models.errors import Problem
from models.typed_json import WrongJson

Write = Callable[[bytes], None]
_REFUSED = "A local server may only ask for answers and counts, with ids of its own."


class Relay(QObject):
    """Passes lines on while there is a server, from `begin` to `end`.

    Signal: `asked(Question)`: the server asks the engine for something.
    """

    asked = Signal(object)

    def __init__(
        self, engine: EngineProcess, loader: ModelLoader, *, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._engine, self._loader = engine, loader
        self._write: Write | None = None
        self._ready: Ready | None = None
        self._loaded: Loaded | None = None
        self._open: set[str] = set()  # generations that are not over
        self._held: dict[str, Question] = {}  # until the model is loaded again
        engine.ready.connect(self._on_ready)
        engine.loading.connect(self._tell)
        engine.loaded.connect(self._on_loaded)
        engine.unloaded.connect(self._on_unloaded)
        engine.died.connect(self._on_unloaded)
        engine.told_guest.connect(self._on_told)
        engine.hung.connect(self._on_hung)
        loader.loaded_now.connect(self._release)
        loader.failed.connect(self._on_failed)

    def begin(self, write: Write) -> None:
        """There is a server that takes lines: tell it what there is."""
        self._write = write
        for known in (self._ready, self._loaded):
            if known is not None:
                self._tell(known)

    def end(self) -> None:
        """Cancel the server's requests: it has ended."""
        self._write = None
        self._held.clear()
        generations, self._open = self._open, set()
        for generation in generations:
            self._engine.cancel(generation)

    def hear(self, line: bytes) -> ServerStatus | None:
        """Carry out a line of the server, unless it is ending. Returns its status if the line is
        one."""
        if self._write is None:
            return None
        with suppress(WrongJson):
            return STATUSES.read(line)
        try:
            command = parse_command(line)
        except InvalidCommand as invalid:
            self._refuse(invalid.id, str(invalid))
        else:
            self._do(command)
        return None

    def _do(self, command: Command) -> None:
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
        self.asked.emit(question)
        if self._loader.resting or self._held:
            self._held[question.id] = question
            self._loader.wake()
        else:
            self._engine.pass_on(question)

    def _release(self) -> None:
        """Send the requests that were held back until the model was loaded."""
        held, self._held = self._held, {}
        for question in held.values():
            self._engine.pass_on(question)

    def _on_failed(self, problem: Problem) -> None:
        """Refuse the requests that were held back, if no model is loaded any more."""
        if self._loader.loaded is not None:
            return
        held, self._held = self._held, {}
        for id in held:
            self._on_told(Failed(id, problem.message, problem.remedy))
        self._on_unloaded()

    def _on_hung(self, seconds: float) -> None:
        """Restart an engine that owes a program an answer: programs cannot press Restart."""
        if self._open:
            self._engine.restart()

    def _refuse(self, id: str, why: str) -> None:
        self._tell(Failed(id, why, "Install Slipstream again.", "request"))

    def _on_ready(self, ready: Ready) -> None:
        self._ready = ready
        self._tell(ready)

    def _on_loaded(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._tell(loaded)

    def _on_unloaded(self, reason: str = "") -> None:
        if not self._loader.resting:
            self._loaded = None
            self._tell(Unloaded(""))

    def _on_told(self, answer: Event | Counted) -> None:
        if isinstance(answer, Done | Failed):
            self._open.discard(answer.generation)
        self._tell(answer)

    def _tell(self, response: Response) -> None:
        if self._write is not None:
            self._write(RESPONSES.to_line(response))
