"""The window's side of the engine's child process: started, watched, restarted.

Runs the process of an `EngineClient`, whose laws say what becomes of each command. Knows neither
what an answer looks like nor what a conversation is. It keeps these promises and those laws:

- Events are emitted in the order in which the engine sent them.
- No method but `stop` waits, and no response is emitted before the id of its command was returned.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from uuid import uuid4

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine_client.child_process import GRACE_SECONDS, ChildProcess
from app.engine_client.engine_log import EngineLog, texts_of
from app.engine_client.watchdog import Watchdog
from engine.cluster.states import RankState
from engine.events import Done, Failed
from engine.process.asking import Garbled, OtherVersion
from engine.process.client import (
    Delivery,
    EngineClient,
    Question,
    Work,
    host_command,
    is_guest,
)
from engine.process.protocol import (
    LONGEST_RESPONSE_BYTES,
    PROTOCOL,
    Count,
    Counted,
    Generate,
    Load,
    Loaded,
    Loading,
    Macs,
    Memory,
    Ranks,
    Ready,
    SetDrafter,
    Unload,
    Unloaded,
)
from engine.process.supervision import Death, Supervisor, grace_seconds
from engine.request import ChatMessage, Request, chat

_DELAYS_SECONDS = (0.2, 1.0, 4.0, 10.0)
_MEMORY = Memory()
_THIS_MAC = Macs()


class EngineState(Enum):
    """The present work of the engine, as far as the window needs to know."""

    STOPPED = "stopped"  # no process, and none is wanted
    STARTING = "starting"  # it has not greeted yet
    EMPTY = "empty"  # runs, with no model
    LOADING = "loading"  # a model or a drafter
    LOADED = "loaded"  # ready to answer, or answering
    WAITING = "waiting"  # it died, and will be restarted soon
    GIVEN_UP = "given up"  # it died too often; `restart` and `load` try again


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The seconds for which the engine may be silent while a response is due."""

    starting_seconds: float = 60.0
    loading_seconds: float = 180.0
    answering_seconds: float = 60.0


class EngineProcess(QObject):
    """The engine, kept running until `stop`.

    After a death it restarts, after a longer wait each time, and loads the same pair
    again. Deaths are forgotten once a generation is done, or when the user asks for `restart` or
    `load`.

    Signals:
        state_changed(EngineState): see the property `state`. Emitted before the signal that says
            why.
        ready(Ready): a process is ready for commands; nothing is loaded in it yet.
        loading(Loading), loaded(Loaded): also after a death, when it loads the same pair again.
        unloaded(): the model is gone until the next `loaded`.
        ranks_changed(): see the property `ranks`.
        happened(Event): an event of a generation that is not over.
        counted(Counted): the answer to `count`.
        told_guest(Event | Counted): the same for the guest's requests.
        failed(Failed): a failure that belongs to no generation. `generation` is the id of the
            `load` or `use_drafting` that failed; empty if the process itself failed.
        hung(float): a response is due, and nothing was received for this many seconds. Offer to
            restart the engine.
        responsive(): something was received after all, or the process was replaced: take the offer
            back.
        died(str): the process ended, and why. Emitted after the Failed of every generation that was
            not over; nothing is loaded until the next `loaded`. Not emitted for `restart` and
            `stop`.
    """

    state_changed = Signal(EngineState)
    ready = Signal(Ready)
    loading = Signal(Loading)
    loaded = Signal(Loaded)
    unloaded = Signal()
    ranks_changed = Signal()
    happened = Signal(object)
    counted = Signal(Counted)
    told_guest = Signal(object)
    failed = Signal(Failed)
    hung = Signal(float)
    died = Signal(str)

    def __init__(
        self,
        log: EngineLog,
        *,
        command: Sequence[str] = (),
        patience: Patience | None = None,
        delays_seconds: Sequence[float] = _DELAYS_SECONDS,
        parent: QObject | None = None,
    ) -> None:
        """`command` replaces `host_command`; `delays_seconds` are the pauses of a `Supervisor`."""
        super().__init__(parent)
        self._log = log
        self._command = tuple(command)
        self._patience = patience or Patience()
        self._supervisor = Supervisor(delays_seconds)
        self._process = ChildProcess(
            self._command or host_command(),
            limit=LONGEST_RESPONSE_BYTES,
            supervisor=self._supervisor,
            log=log,
            parent=self,
        )
        self._process.began.connect(self._on_began)
        self._process.said.connect(self._hear)
        self._process.ended.connect(self._on_ended)
        self._client = EngineClient(protocol=PROTOCOL)
        self._told = EngineState.STOPPED
        self._watchdog = Watchdog(parent=self)
        self._watchdog.silent.connect(self._on_silence)
        self.responsive = self._watchdog.speaking

    @property
    def state(self) -> EngineState:
        """The work that the engine is at."""
        if self._supervisor.plan != "on":
            return EngineState(self._supervisor.plan)
        if not self._client.greeted:
            return EngineState.STARTING
        if self._client.loading:
            return EngineState.LOADING
        return EngineState.LOADED if self._client.loaded else EngineState.EMPTY

    @property
    def ranks(self) -> tuple[RankState, ...]:
        """The Macs that hold the target together, as this process saw them last, or the Mac that
        died; empty if the target is on this Mac alone."""
        return self._client.ranks

    @property
    def log_path(self) -> Path | None:
        """The file of the log; None if it cannot be written."""
        return self._log.path

    @property
    def answering(self) -> bool:
        """Whether a generation is not over, the guest's included."""
        return self._client.generating

    @property
    def hanging(self) -> bool:
        """Whether `hung` was emitted, and `responsive` has not been since."""
        return self._watchdog.timed_out

    @property
    def pid(self) -> int:
        """The id of the child process; 0 if there is none."""
        return self._process.pid

    # What to do

    def start(self) -> None:
        """Start the process if there is none."""
        self._process.start()

    def load(
        self,
        target: Path,
        *,
        drafter: str = "none",
        draft_length: str = "auto",
        memory: Memory = _MEMORY,
        parallel: int = 4,
        learn: bool = False,
        keep_bytes: int | None = None,
        macs: Macs = _THIS_MAC,
    ) -> str:
        """Load a model folder and a drafter instead of the current ones; starts the process.

        A process that has led several Macs, or has other command buffers, is replaced at once where
        it does not suit; its unfinished load is dropped.

        Drafter and draft length as for `engine.conversation.pair`, the rest as in `Load`. Returns
        the id that `loading`, `loaded` or `failed` will carry.
        """
        folder = str(target.expanduser().absolute())
        command = Load(
            uuid4().hex,
            folder,
            drafter,
            draft_length,
            memory,
            parallel,
            learn=learn,
            keep_bytes=keep_bytes,
            macs=macs,
        )
        had_model, lost = False, list[Delivery]()
        program = self._command or host_command(folder)
        if not self._client.suits(macs) or program != self._process.command:
            self._process.command = program
            had_model = self._client.loaded is not None
            lost = self._lose(
                "Another model was loaded before it was done.", "Send it again.", another=False
            )
            self._process.replace(kill=True)
        self._client.ask(command)
        self._client.expect()
        self._process.start()
        self._write()
        self._update_state()
        # A load that is not done did not fail: this one replaces it.
        self._deliver(*(each for each in lost if isinstance(each.command, Question)))
        if had_model:
            self.unloaded.emit()
        return command.id

    def use_drafting(self, *, drafter: str | None = None, draft_length: str | None = None) -> str:
        """Change the drafter or draft length from the next answer on; None keeps the current one.

        Returns the id that `loading`, `loaded` or `failed` will carry.
        """
        return self._ask(SetDrafter(uuid4().hex, drafter, draft_length))

    def measure_again(self) -> str:
        """Calibrate the pair again. Returns the id as `use_drafting` does."""
        return self._ask(SetDrafter(uuid4().hex, measure=True))

    def unload(self) -> str:
        """Unload the model, after the earlier requests.

        `unloaded` follows. It is not loaded again after a death.
        """
        return self._ask(Unload(uuid4().hex))

    def generate(
        self,
        conversation: str,
        messages: Sequence[ChatMessage],
        request: Request,
        *,
        tools: str = "",
        race: bool = False,
    ) -> str:
        """Answer a chat; several at a time. Returns the generation's id. `tools` as in `Prompt`.

        The plain answer of a `race`, which runs alone, is the generation `rival_of` that.
        """
        prompt = replace(chat(messages), tools=tools)
        command = Generate(uuid4().hex, conversation, prompt, request, race=race)
        self._log.hide(texts_of(command.prompt))
        return self._ask(command)

    def count(self, messages: Sequence[ChatMessage]) -> str:
        """Count the tokens of a chat. Returns the id that `counted` will carry, if it can be."""
        return self._ask(Count(uuid4().hex, chat(messages)))

    def pass_on(self, command: Question) -> None:
        """Ask for something on behalf of the guest, who has chosen the id: see `is_guest`."""
        self._log.hide(texts_of(command.prompt))
        self._ask(command)

    def hurry(self, generation: str) -> None:
        """End the reasoning of a generation; nothing happens if it does not reason."""
        self._client.hurry(generation)
        self._write()

    def cancel(self, generation: str) -> None:
        """End a generation; nothing happens if it is over."""
        if (over := self._client.cancel(generation)) is not None:
            self._deliver_soon(over)
        self._write()

    def restart(self) -> None:
        """Start a new process at once with the same pair: for an engine that hangs."""
        self._log.note("restart asked for")
        had_model = self._client.loaded is not None
        lost = self._lose(
            "The engine was restarted before it was done.", "Send it again.", another=True
        )
        self._process.replace(kill=True)
        self._update_state()
        self._deliver(*lost)
        if had_model:
            self.unloaded.emit()

    def stop(self) -> None:
        """End the process. Takes 4 seconds at most, 12 with a large pair, usually some hundredths.

        Its last events are emitted meanwhile, so that an answer may end as `cancelled`.
        """
        self._process.close()
        lost = self._lose(
            "The engine was stopped before it was done.", "Start it again.", another=False
        )
        self._update_state()
        self._deliver(*lost)
        self._log.note("stopped")
        self._log.close()

    # Asking

    def _ask(self, command: Work | Question) -> str:
        if (refusal := self._client.ask(command)) is not None:
            self._deliver_soon(Delivery(refusal, command))
        else:
            self._write()
            self._update_state()
        return command.id

    def _write(self) -> None:
        self._process.write(self._client.to_send())

    def _deliver_soon(self, delivery: Delivery) -> None:
        """Pass it on once the caller has the id."""
        QTimer.singleShot(0, self, lambda: self._deliver(delivery))

    # The life of a process

    def _on_began(self) -> None:
        were = self._client.ranks
        self._client.begin()
        self._write()
        if were:
            self.ranks_changed.emit()
        self._update_state()

    def _on_ended(self, reason: str, status: int | None) -> None:
        if (death := self._process.death) is None:
            return  # its end was asked for
        if self._client.own_failure:
            reason = self._client.own_failure
        elif status:
            reason += self._process.last_words
        self._report(death, reason)

    def _fail(self, reason: str, *, remedy: str = "") -> None:
        """Give up this process, which still runs. With a `remedy` no other is started."""
        if (death := self._process.fail(for_good=remedy != "")) is not None:
            self._report(death, reason, remedy=remedy)

    def _report(self, death: Death, reason: str, *, remedy: str = "") -> None:
        """Report each request that a death ends, and why."""
        self._log.note(f"died: {reason}")
        given_up = death.pause_seconds is None
        again = "Restart the engine and try again" if given_up else "Try again"
        lost = self._lose(
            f"The engine died before it was done. {reason}",
            remedy or f"{again}; if it dies again, choose a smaller model or drafter.",
            another=not given_up,
        )
        self._update_state()
        self._deliver(*lost)
        self.died.emit(reason)
        if given_up:
            times = "" if remedy else f"The engine died {death.count} times in a row. "
            self.failed.emit(
                Failed("", times + reason, remedy or "Choose another model, or restart the engine.")
            )

    def _lose(self, message: str, remedy: str, *, another: bool) -> list[Delivery]:
        """Expect nothing more of this process. Returns as `EngineClient.lose`."""
        self._watchdog.rest()
        return self._client.lose(message, remedy, another=another)

    # Answers

    def _hear(self, line: bytes) -> None:
        try:
            delivery = self._client.hear(line)
        except Garbled:
            self._log.note(f"a line of {len(line)} bytes that is not a response")
            if not self._client.excuses(line):
                # Something may be missing: no answer is better than one with a gap.
                self._fail("It sent something that is not a response.")
            return
        except OtherVersion as other:
            self._fail(other.message, remedy=other.remedy)
            return
        self._watchdog.heard()
        self._process.grace_seconds = grace_seconds(self._client.held_bytes, GRACE_SECONDS)
        if delivery is not None and isinstance(delivery.response, Done):
            self._supervisor.forget()
        self._update_state()
        if delivery is not None:
            self._deliver(delivery)

    def _deliver(self, *deliveries: Delivery) -> None:
        """Pass responses on, to whom each concerns."""
        for response, command in deliveries:
            if isinstance(command, Question):
                if is_guest(command.id):
                    self.told_guest.emit(response)
                elif isinstance(response, Counted):
                    self.counted.emit(response)
                else:
                    self.happened.emit(response)
                continue
            match response:
                case Ready():
                    self.ready.emit(response)
                case Loading():
                    self.loading.emit(response)
                case Loaded():
                    self.loaded.emit(response)
                case Unloaded():
                    self.unloaded.emit()
                case Ranks():
                    self.ranks_changed.emit()
                case Failed():
                    self.failed.emit(response)

    # Watching

    def _update_state(self) -> None:
        """Update the watchdog, and emit `state_changed` if the state is another."""
        seconds = self._patience_seconds()
        if self._supervisor.plan != "on" or seconds is None:
            self._watchdog.rest()
        else:
            self._watchdog.expect(seconds)
        if (state := self.state) is not self._told:
            self._told = state
            self.state_changed.emit(state)

    def _patience_seconds(self) -> float | None:
        """Return how long the engine may be silent at its work; None if no response is due."""
        if not self._client.greeted:
            return self._patience.starting_seconds
        match self._client.next:
            case None:
                return None
            case Generate() | Count():
                return self._patience.answering_seconds
            case _:
                return self._patience.loading_seconds

    def _on_silence(self, seconds: float) -> None:
        self._log.note(f"silent for {seconds:.0f} s, {self.state.value}")
        self.hung.emit(seconds)
