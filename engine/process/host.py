"""The child process: commands in, responses out, as `engine.process.protocol` defines them.

The main thread owns MLX. It lets the scheduler write the answers side by side, and takes the
commands that have come between two rounds. A command that loads or unloads waits until no answer
runs. A reader thread parses the lines, refuses lines without a command, and notes a cancelled
generation at once.
"""

import os
import platform
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from io import BufferedIOBase
from math import ceil
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import BinaryIO, NoReturn

import mlx.core as mx
import mlx_lm

from engine.cluster.hosts import read_hosts
from engine.cluster.states import divided
from engine.conversation.gaps import gap_form, knows
from engine.conversation.kept_blocks import KeptBlocks, kept_blocks_folder
from engine.conversation.kept_prefixes import Unkept
from engine.conversation.loading import LoadedModel, attends_to, load
from engine.conversation.pair import make_policy, require_pair
from engine.conversation.pair_costs import Remark
from engine.conversation.proof import settle
from engine.conversation.scheduler import Job, Scheduler
from engine.conversation.session import Control, Session
from engine.conversation.template import abilities_for, reply_syntax
from engine.core.cache import QuantizedCaches
from engine.device import Wired, backend, free_memory, held_bytes
from engine.draft_length.calibrations import CalibrationStore, calibration_folder
from engine.earlier_answers import earlier_answers_folder
from engine.events import Done, Failed, Stats
from engine.pipes import Lines, claim_pipes
from engine.process import protocol
from engine.process.launch import TORN
from engine.process.led import LedMacs
from engine.process.macs import Cluster
from engine.process.protocol import (
    Count,
    Counted,
    Generate,
    Keep,
    Kept,
    Load,
    Memory,
    Response,
    SetDrafter,
    Unload,
    Work,
)
from engine.process.supervision import GRACE_SECONDS, grace_seconds
from engine.request import TooLong
from models.errors import Problem
from models.files import data_folder
from models.installed.last_used import mark_used
from models.installed.resolve import Drafters, heaviest, resolve_drafters, resolve_target
from models.memory.fit import DEFAULT_CONTEXT, MOST_CONTEXT
from models.memory.model_size import ModelSize
from models.model_folder import ModelFolder
from models.network import network_variables
from models.records import Fit
from models.this_process import Awake, open_many_files

Asked = Work | Count
Send = Callable[[Response | bytes], None]  # bytes: a line, as another process has written it


class Disconnected(Exception):
    """The other end no longer reads the responses."""


class ResponseLines:
    """Writes responses as whole lines, from any thread."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = Lock()

    def send(self, response: Response | bytes) -> None:
        """Write one line. Raises Disconnected."""
        if not isinstance(response, bytes):
            response = protocol.RESPONSES.to_line(response)
        with self._lock:
            self._write(response)

    def send_last(self, responses: Sequence[Response]) -> None:
        """Write these, and nothing else: a thread that tries waits for the end of the process."""
        self._lock.acquire()
        with suppress(Disconnected):
            for response in responses:
                self._write(protocol.RESPONSES.to_line(response))

    def _write(self, line: bytes) -> None:
        try:
            self._stream.write(line)
            self._stream.flush()
        except OSError as error:
            raise Disconnected from error


class CommandQueue:
    """The commands that are not done yet. One thread fills it, another empties it.

    Has no locks of its own, so that a signal handler may call `stop`. Attributes: `stopped`;
    `at_stop`, to be called then; `owed`, the commands without a last response, by their ids;
    `wish`, to be called with each wish to cancel or to hurry, by the thread that reads.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._queue: SimpleQueue[Asked | None] = SimpleQueue()
        self._cancelled: set[str] = set()
        self._hurried: set[str] = set()
        self.owed: dict[str, Work | Count] = {}
        self.stopped = False
        self.at_stop: Callable[[], None] = lambda: None
        self.wish: Callable[[protocol.Cancel | protocol.Hurry], None] = lambda wish: None

    def read(self, stream: BufferedIOBase) -> None:
        """Queue the commands in `stream` until `quit` or its end; then `stop`."""
        with suppress(Disconnected, OSError):
            for line in read_lines(stream):
                try:
                    command = protocol.parse_command(line)
                except protocol.InvalidCommand as bad:
                    self._send(Failed(bad.id, bad.message, bad.remedy, "request"))
                    continue
                if isinstance(command, protocol.Quit):
                    break
                if not isinstance(command, protocol.Cancel | protocol.Hurry):
                    self.owed[command.id] = command
                    self._queue.put(command)
                elif command.id in self.owed:
                    hurry = isinstance(command, protocol.Hurry)
                    (self._hurried if hurry else self._cancelled).add(command.id)
                    self.wish(command)
        self.stop()

    def stop(self) -> None:
        """Cancel everything, generations that are still queued included."""
        self.stopped = True
        self.at_stop()
        self._queue.put(None)

    @property
    def waiting(self) -> bool:
        """Whether `take` returns at once."""
        return not self._queue.empty()

    def take(self) -> Asked | None:
        """Wait for the next command. None at the end."""
        return self._queue.get()

    def note(self, response: Response | bytes) -> None:
        """Note that a response may end a command."""
        match response:
            case Done(id) | Failed(id) | protocol.Loaded(id) | Counted(id) | Kept(id):
                self._forget(id)
            case protocol.Unloaded(id) if isinstance(self.owed.get(id), Unload):
                self._forget(id)

    def _forget(self, id: str) -> None:
        """Forget a command that has ended: its id may be used again."""
        self.owed.pop(id, None)
        self._cancelled.discard(id)
        self._hurried.discard(id)

    def cancelled(self, generation: str) -> bool:
        """Whether a generation must end."""
        return self.stopped or generation in self._cancelled

    def hurried(self, generation: str) -> bool:
        """Whether the reasoning of a generation must end."""
        return generation in self._hurried


def read_lines(stream: BufferedIOBase) -> Iterator[bytes]:
    """The lines of a stream, as `Lines` splits them; the last one may lack its end."""
    lines = Lines(protocol.LONGEST_LINE_BYTES)
    while data := stream.read1(1 << 16):
        yield from lines.feed(data)
    if rest := lines.rest():
        yield rest


class Host:
    """Runs the commands of a queue on the thread that calls `run`."""

    def __init__(
        self,
        queue: CommandQueue,
        send: Send,
        *,
        end: Callable[[Sequence[Response]], None] = lambda last: None,
        cluster: Cluster | None = None,
    ) -> None:
        """`end` ends the process with its last responses, from any thread: when one of several Macs
        is lost. `cluster`: where this is rank 0 of several, which hold the targets."""
        self._queue = queue
        self._tell = send
        self._end = end
        self._cluster = cluster
        if cluster is not None:
            cluster.changed = lambda ranks: self._pass_on(protocol.Ranks(ranks))
        self._led: LedMacs | None = None  # does all commands, once several Macs lead
        self._reading = False  # whether an answer is being written
        self._target: LoadedModel | None = None
        self._loaded = Load("", "")  # with the drafting of now
        self._batching, self._room = False, 0
        self._unkept: Unkept | None = None  # as it was printed last
        self._scheduler: Scheduler | None = None  # replaced after an unexpected error
        self._later: deque[Asked] = deque()  # waits until no answer runs; and all after it
        self._awake, self._wired = Awake(), Wired(data_folder() / ".wired.lock")
        queue.at_stop = self._wired.release

    def run(self) -> None:
        """Run commands until the queue ends. Raises Disconnected."""
        try:
            self._run()
        finally:
            self._awake.keep(False)
            self._wired.keep(False)
            if self._led is not None:
                self._led.leave()

    def _run(self) -> None:
        ended = False
        while not ended or self._answering or self._later:
            self._awake.keep(self._busy)
            self._wired.keep(self._answering)
            if not ended and (self._queue.waiting or not (self._busy or self._keep())):
                command = self._queue.take()
                ended = command is None
                if command is not None:
                    self._take(command)
            elif self._later and (isinstance(self._later[0], Generate) or not self._answering):
                self._do_safely(self._later.popleft())
            else:
                self._step()

    @property
    def _busy(self) -> bool:
        return self._answering or bool(self._later)

    @property
    def _answering(self) -> bool:
        return self._scheduler is not None and self._scheduler.busy

    def _keep(self) -> bool:
        """Write caches of prompts about documents. Returns whether there may be more to write.
        Prints once why nothing is written."""
        if self._scheduler is None:
            return False
        try:
            more = self._scheduler.keep()
        except Exception as error:  # a prompt that is not kept is read again
            traceback.print_exception(error)
            return False
        unkept = self._scheduler.session.unkept
        if unkept not in (None, self._unkept):
            self._unkept = unkept
            print(unkept.value, file=sys.stderr)
        return more

    @property
    def _remarks(self) -> tuple[str, ...]:
        """Why something of the latest answer could not be stored."""
        session = self._usable_scheduler().session
        disturbed = (Remark.BUSY_ANSWERING.value,) * session.disturbed
        return disturbed if session.unkept is None else (*disturbed, session.unkept.value)

    def _take(self, command: Asked) -> None:
        """Do a command now, or keep it for later."""
        at_once = isinstance(command, Generate) or self._led is not None
        if isinstance(command, Count) or (at_once and not self._later):
            self._do_safely(command)
        else:
            self._later.append(command)

    def _step(self) -> None:
        assert self._scheduler is not None
        self._reading = True
        for event in self._scheduler.step():
            self._send(event)
        self._reading = False

    def _do_safely(self, command: Asked) -> None:
        try:
            self._do(command)
        except Disconnected:
            raise
        except Exception as error:
            reads = not isinstance(command, Count | Generate)
            torn = reads and not isinstance(error, Problem)
            self._send(self._failure(command.id, error, torn=torn))

    def _send(self, response: Response | bytes) -> None:
        if isinstance(response, Done) and response.remark:
            print(response.remark, file=sys.stderr)
        self._queue.note(response)
        self._tell(response)

    def _pass_on(self, response: Response | bytes) -> None:
        with suppress(Disconnected):  # the next response finds out, or the end of the commands
            self._send(response)

    def _failure(self, id: str, error: Exception, *, torn: bool) -> Failed:
        """The response to a failed command. If several Macs may have been `torn` from a pass, they
        are out of step, and this process ends."""
        cluster = self._cluster
        if isinstance(error, Problem):  # of this answer alone, unless it left the Macs in mid-pass
            torn = torn and cluster is not None and cluster.over
        if torn and cluster is not None and isinstance(error, RuntimeError):  # of the connection
            cluster.torn(error)
        failed = failure(id, error)
        if torn and cluster is not None:
            self._on_loss(Problem(failed.message, failed.remedy))
        return failed

    def _on_loss(self, problem: Problem) -> None:
        """Fail all commands that are not done, and end the process. Called from any thread: the one
        that reads may never come back."""
        ids = [*self._queue.owed, ""]
        self._end([Failed(id, problem.message, problem.remedy) for id in ids])

    def _do(self, command: Asked) -> None:
        if isinstance(command, Load) and command.macs.hosts and self._cluster is None:
            self._begin_to_lead(command)
        if self._led is not None:
            self._led.do(command)
            # A wish may have come before the command that it is about was passed on.
            if self._queue.cancelled(command.id):
                self._led.wish(protocol.Cancel(command.id))
            if self._queue.hurried(command.id):
                self._led.wish(protocol.Hurry(command.id))
            return
        match command:
            case Generate() if self._queue.cancelled(command.id):
                self._send(Done(command.id, "cancelled", Stats()))
            case Generate():
                self._generate(command)
            case _ if self._queue.stopped:
                pass
            case Count():
                session = self._usable_scheduler().session
                tokens = session.encode(command.prompt, thinking=command.thinking)
                self._send(Counted(command.id, len(tokens)))
            case Load():
                self._load(command)
            case SetDrafter():
                self._change_drafting(command)
            case Keep():
                while not self._queue.waiting and self._keep():
                    pass
                self._send(Kept(command.id, self._remarks))
            case Unload():
                self._unload(command.id)

    def _begin_to_lead(self, command: Load) -> None:
        """Have several Macs do this and what follows, unless they do already. Raises `Problem`,
        before anything is unloaded."""
        if self._led is not None:
            return
        led = LedMacs(
            command.macs.hosts,
            read_hosts(Path(command.macs.hosts)),
            send=self._pass_on,
            lost=self._on_loss,
            stopped=lambda: self._queue.stopped,
        )
        led.join(command)
        self._queue.wish, self._led = led.wish, led
        self._make_room(command.id)

    def _load(self, command: Load) -> None:
        # A command that is refused before loading leaves the old model loaded.
        folder = resolve_target(command.target)
        policy = make_policy(command.draft_length)
        drafters = resolve_drafters(command.drafter, folder, bits=command.memory.drafter_bits)
        caches = quantized_caches(folder, command.memory)
        here = None if self._cluster else require_room(folder, drafters, command.memory)
        loading = protocol.Loading(
            command.id, command.target, command.drafter, command.draft_length, measured=0.0
        )
        self._send(loading)
        if self._cluster is None:
            self._make_room(command.id)
            target = load(folder)
        else:
            target = self._cluster.load(
                folder,
                mode=None if command.macs.mode == "auto" else command.macs.mode,
                drafter=weighed(drafters),
                context=command.memory.context or DEFAULT_CONTEXT,
                cache_bits=command.memory.cache_bits or None,
                make_room=partial(self._make_room, command.id),
            )
        fitting = here.largest_context if command.fitting and here else target.context_length
        longest = min(command.memory.context or fitting, target.context_length)
        sampling = command.sampling or target.sampling
        target = replace(target, context_length=longest, sampling=sampling)
        mark_used(folder.path)
        settle(target, command.exact, quantized=caches, again=command.measure)
        session = Session(
            target,
            drafter=drafters,
            policy=policy,
            quantized=caches,
            calibrations=CalibrationStore(calibration_folder()),
            earlier=earlier_answers_folder() if command.learn else None,
            kept=None
            if command.keep_bytes == 0
            else KeptBlocks(kept_blocks_folder(), most_bytes=command.keep_bytes),
        )
        self._loaded = command
        remark = self._calibrate(session, loading, again=command.measure)
        remark = " ".join(filter(None, (target.remark, remark)))
        if self._cluster is not None:
            remark = " ".join(filter(None, (divided(self._cluster.ranks), remark)))
        self._target = target
        self._room = self._room_with(here)
        several = command.parallel > 1 and command.exact != "on"
        self._batching = several and session.decoder.shares
        self._schedule(session)
        self._send_loaded(command.id, remark)

    def _change_drafting(self, command: SetDrafter) -> None:
        session = self._usable_scheduler().session
        now = self._loaded
        drafter = now.drafter if command.drafter is None else command.drafter
        length = now.draft_length if command.draft_length is None else command.draft_length
        if command.measure and (drafter == "none" or length != "auto"):
            raise Problem(
                "There is nothing to measure: only an automatic draft length needs it.",
                "Choose a drafter and the draft length Auto first.",
            )
        policy = make_policy(length)  # a new one: the old one has measured the old drafter
        folder, room = session.target.folder, self._room
        drafters = None
        if command.drafter is not None:
            drafters = resolve_drafters(drafter, folder, bits=now.memory.drafter_bits)
            here = None
            if self._cluster is None:
                here = require_room(folder, drafters, now.memory)
            else:
                bits = now.memory.cache_bits or None
                self._cluster.draft_with(weighed(drafters), cache_bits=bits)
            room = self._room_with(here)
        loading = protocol.Loading(command.id, str(folder.path), drafter, length, measured=0.0)
        self._send(loading)
        before = session.another()
        if drafters is not None:
            session.use_drafter(drafters)
        session.policy = policy
        try:
            remark = self._calibrate(session, loading, again=command.measure)
        except Exception:
            self._schedule(before)  # the caches of `session` may refer to a failed pass
            raise
        self._loaded, self._room = replace(now, drafter=drafter, draft_length=length), room
        self._schedule(session)
        self._send_loaded(command.id, remark)

    def _room_with(self, here: Fit | None) -> int:
        """The most tokens of all conversations, with a pair that takes so much memory on this Mac;
        on several Macs, with the pair planned last."""
        if self._cluster is not None and self._cluster.plan is not None:
            return room_tokens(self._cluster.plan.fits)
        return room_tokens(() if here is None else (here,))

    def _calibrate(
        self, session: Session, loading: protocol.Loading, *, again: bool = False
    ) -> str:
        """Calibrate, and report every tenth of it. Returns the remarks as a line."""
        reported = -1

        def report(share: float) -> None:
            nonlocal reported
            if int(10 * share) > reported:
                reported = int(10 * share)
                self._send(replace(loading, measured=share))

        def cancelled() -> bool:
            return self._queue.cancelled(loading.id)

        remarks = session.calibrate(progress=report, cancelled=cancelled, again=again)
        return " ".join(remark.value for remark in remarks)

    def _generate(self, command: Generate) -> None:
        scheduler = self._usable_scheduler()
        job = Job(
            command.id,
            command.prompt,
            command.request,
            Control(
                cancelled=lambda: self._queue.cancelled(command.id),
                hurried=lambda: self._queue.hurried(command.id) and not command.race,
                compare=lambda: scheduler.alone and not self._queue.waiting and not self._later,
            ),
            first=bool(command.conversation),
            rival=protocol.rival_of(command.id) if command.race else "",
        )
        for event in scheduler.add(job):
            self._send(event)

    def _schedule(self, session: Session) -> None:
        """Answer with this session, and with copies of it at the same time, from now on."""
        self._scheduler = Scheduler(
            session,
            parallel=self._loaded.parallel,
            room=self._room,
            batching=self._batching,
            fail=lambda id, error: self._failure(id, error, torn=self._reading),
        )

    def _make_room(self, id: str) -> None:
        """Unload before a load, as there may be no room for both."""
        if self._target is not None:
            self._unload(id)

    def _unload(self, id: str) -> None:
        self._scheduler = self._target = None
        free_memory()
        self._send(protocol.Unloaded(id))

    def _usable_scheduler(self) -> Scheduler:
        if self._scheduler is None:
            raise Problem("No model is loaded.", "Load one first.")
        return self._scheduler

    def _send_loaded(self, id: str, remark: str) -> None:
        session, now = self._usable_scheduler().session, self._loaded
        target = session.target
        template = abilities_for(target.tokenizer, tools=True)
        self._send(
            protocol.Loaded(
                id,
                str(target.folder.path),
                now.drafter,
                now.draft_length,
                target.precision,
                target.context_length,
                session.decoder.vocabulary,
                remark,
                memory=now.memory,
                sampling=target.sampling,
                parallel=now.parallel,
                exact=target.promise.now,
                macs=now.macs,
                thinking=template.choices,
                reasons=reply_syntax(target.tokenizer).reasons,
                fills_gaps=gap_form(knows(target.tokenizer)) is not None,
                sees=session.sees,
                held_bytes=held_bytes(),
            )
        )


def require_room(folder: ModelFolder, drafters: Drafters, memory: Memory) -> Fit | None:
    """Return the memory that a pair and one conversation need, once this process has freed all that
    it holds; None if their sizes are not known. Raises Problem unless there is room."""
    return require_pair(
        folder,
        drafters,
        context=memory.context or DEFAULT_CONTEXT,
        cache_bits=memory.cache_bits or None,
        freed_bytes=held_bytes(),
    )


def weighed(drafters: Drafters) -> ModelSize | None:
    """The size of the heaviest; None if it is not known, which loading reports."""
    with suppress(Problem):
        return heaviest(drafters)
    return None


def room_tokens(fits: Sequence[Fit]) -> int:
    """The most tokens of all conversations together in the caches of each Mac."""

    def on(mac: Fit) -> int:
        each = (mac.cache_bytes + mac.drafter_cache_bytes) / mac.context
        spare = mac.available_bytes - mac.needed_bytes
        return mac.context + int(spare / max(each, 1.0))

    return min(map(on, fits), default=MOST_CONTEXT)


def quantized_caches(folder: ModelFolder, memory: Memory) -> QuantizedCaches | None:
    """The caches that were asked for; None for the model's own. Raises Problem if this model's
    cannot be quantized."""
    if not memory.cache_bits:
        return None
    caches = QuantizedCaches(bits=memory.cache_bits)
    if not attends_to(caches, folder):
        raise Problem(
            f"The caches of {folder.name} cannot be quantized.",
            "Choose the model\u2019s own numbers for them.",
        )
    return caches


def failure(id: str, error: Exception) -> Failed:
    """The response to a failed command. An unexpected error is also written to standard error."""
    if isinstance(error, TooLong):
        where = {"tokens": error.tokens, "context": error.context}
        return Failed(id, error.message, error.remedy, "too long", **where)
    if isinstance(error, Problem):
        return Failed(id, error.message, error.remedy, "request")
    with suppress(OSError):
        traceback.print_exception(error)
    reason = next(iter(str(error).splitlines()), "").rstrip(".")
    message = f"{type(error).__name__}: {reason}." if reason else f"{type(error).__name__}."
    return Failed(id, message, "Try again; if it fails again, load the model again.")


def ready() -> protocol.Ready:
    """Return the host's first message, which greets the client."""
    return protocol.Ready(
        protocol=protocol.PROTOCOL,
        python=platform.python_version(),
        mlx=mx.__version__,  # type: ignore[attr-defined] # its stubs lack it
        mlx_lm=mlx_lm.__version__,
        device=f"{mx.device_info()['device_name']} ({backend().name})",
    )


def main() -> NoReturn:
    """Serve until `quit`, SIGTERM, or the end of standard input or output."""
    if network_variables():
        import models.hub  # noqa: F401  # names one at which other libraries only fail
    commands, responses = claim_pipes()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is the window's
    serve(commands, responses)
    os._exit(0)  # at once, as nothing ends the reader thread's read


def serve(
    commands: BufferedIOBase,
    responses: BinaryIO,
    *,
    lead: Callable[[Send], Cluster] | None = None,
) -> None:
    """Run commands until `quit`, SIGTERM, or the end of either stream. With `lead` this is
    rank 0 of several Macs: it is given what writes responses, and returns what loads on them all.
    """
    open_many_files()
    writer = ResponseLines(responses)
    send = writer.send
    queue = CommandQueue(send)

    def stop() -> None:
        queue.stop()
        # Ends the process if a long pass or a full pipe holds it.
        signal.alarm(ceil(grace_seconds(held_bytes())))

    def read() -> None:
        try:
            queue.read(commands)
        finally:
            stop()

    def end(last: Sequence[Response]) -> NoReturn:
        queue.at_stop()
        signal.alarm(GRACE_SECONDS)
        writer.send_last(last)
        os._exit(1 if lead is None else TORN)

    signal.signal(signal.SIGTERM, lambda *_: stop())
    with suppress(Disconnected):
        if lead is None:
            send(ready())
        # Before the first word of an end.
        host = Host(queue, send, end=end, cluster=lead and lead(send))
        Thread(target=read, name="reader", daemon=True).start()
        host.run()


if __name__ == "__main__":
    main()
