"""Starts, asks, watches and ends the other ranks' processes, from rank 0's side.

Knows processes and control connections; nothing of models, and no MLX. A thread for each follower
reads its messages. Another one, the watcher, asks whether it is still there. Neither ever waits for
a pass, so they notice a pass that would never end.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from threading import Condition, Event, Thread, current_thread
from time import monotonic, sleep
from typing import IO

from engine.cluster import control
from engine.cluster.control import (
    Broken,
    FollowerMessage,
    Hello,
    LeaderMessage,
    Meet,
    Ping,
    Pong,
    Quit,
    Refused,
    Work,
)
from engine.cluster.hosts import ClusterHost, Hosts
from engine.cluster.states import RankState, State
from models.errors import Problem
from models.memory.machine import Machine, this_machine
from models.typed_json import WrongJson

_SAYS = re.compile(r"\w")
_END_SECONDS = 2.0  # for a process to end when it is told to
AGAIN = "Check the Macs, their cables and their memory, then ask again."
_SSH = ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The seconds after which a rank is given up.

    Attributes: `start`, until it says hello; `join`, until all are connected and have shown who
    they are; `silence`, without an answer to a ping while it works; `round`, for one wait of a
    pass; `broken`, for a wait after a pass has failed; `beat`, between two pings.
    """

    start: float = 60.0
    join: float = 40.0
    silence: float = 15.0
    round: float = 60.0
    broken: float = 2.0
    beat: float = 1.0


class _Line:
    """The control connection to a follower.

    Attributes: `rank`, `host`; `reply`, the last reply until it is taken; `greeted`, whether it has
    said hello; `pong`, the last; `asked`, whether a ping has no answer yet; `quiet`, the beats
    since then; `broken`, why a pass failed there.
    """

    def __init__(
        self, rank: int, host: ClusterHost, command: Sequence[str], environment: Sequence[str]
    ):
        self.rank, self.host = rank, host
        self.reply: FollowerMessage | None = None
        self.pong = Pong(message=0, waits=False)
        self.asked = False
        self.quiet = 0
        self.broken = ""
        self.greeted = False
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 # closed in `close`
        variables = dict(variable.split("=", 1) for variable in environment)
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                env={**os.environ, **variables} if host.is_here else None,
                start_new_session=True,  # Ctrl-C in a terminal is rank 0's alone
            )
        except OSError as error:
            self._complaints.close()
            reason = error.strerror or type(error).__name__
            raise Problem(
                f"{command[0]} cannot be started for {host.ssh}: {reason}.",
                "Check that it is there.",
            ) from error

    def tell(self, message: LeaderMessage) -> None:
        """Send a message. Does nothing if the follower has ended, which its reader notices."""
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):
            self._process.stdin.write(control.to_line(message))
            self._process.stdin.flush()

    def heard(self) -> Iterator[FollowerMessage]:
        """Its messages until it ends. The output of a shell is ignored."""
        stream = self._process.stdout
        assert stream is not None
        for line in iter(lambda: stream.readline(control.LONGEST_LINE_BYTES), b""):
            try:
                message = control.from_line(line)
            except WrongJson:
                if line.startswith(b"{"):
                    yield control.ANOTHER_LANGUAGE
                continue
            if not isinstance(message, LeaderMessage):
                yield message

    def complaint(self) -> str:
        """The last line that it wrote to standard error."""
        with suppress(OSError, ValueError):
            self._complaints.seek(-min(self._complaints.seek(0, os.SEEK_END), 4096), os.SEEK_END)
            lines = self._complaints.read().decode(errors="replace").split("\n")
            return next((line.strip()[:200] for line in reversed(lines) if _SAYS.search(line)), "")
        return ""

    def kill(self) -> None:
        """End it at once: the process here, or ssh, with which the process there ends."""
        self._process.kill()

    def close(self, reader: Thread) -> None:
        """Wait until it has ended, and its reader."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if reader is not current_thread():
            reader.join()
        self._process.stdout.close()
        self._complaints.close()


class Followers:
    """A process on each of `hosts`, of ranks 1 and up.

    `standing` returns the wait that the reading thread is in, or None: for `Deadlines.round`.
    Attribute: `states`, of all ranks.
    """

    def __init__(
        self,
        hosts: Sequence[ClusterHost],
        *,
        environment: Sequence[str] = (),
        deadlines: Deadlines,
        changed: Callable[[tuple[RankState, ...]], None],
        lost: Callable[[Problem], None],
        standing: Callable[[], object] = lambda: None,
        command: Callable[[ClusterHost, Sequence[str]], list[str]] | None = None,
    ) -> None:
        """Raises `Problem` if a process cannot be started."""
        self.states = tuple(
            RankState(rank, host.ssh, "starting") for rank, host in enumerate(hosts)
        )
        self._deadlines, self._changed, self._lost = deadlines, changed, lost
        self._standing = standing
        self._happened = Condition()
        self._problem: Problem | None = None
        self._asking = self._awake = self._told = False
        self._joined = self._lost_one = False
        self._until: tuple[float, Problem] | None = None
        self._closed = Event()
        self._lines: list[_Line] = []
        self._readers: list[Thread] = []
        command = command or follower_command
        self._watcher = Thread(target=self._watch, name="watcher", daemon=True)
        self._watcher.start()
        try:
            for rank, host in enumerate(hosts[1:], start=1):
                line = _Line(rank, host, command(host, environment), environment)
                self._lines.append(line)
                self._readers.append(Thread(target=self._read, args=(line,), daemon=True))
                self._readers[-1].start()
        except Problem:
            self.close()
            raise
        changed(self.states)

    def name(self, rank: int) -> str:
        """The name of a Mac for people, with the rank if it runs several processes."""
        host = self.states[rank].host
        alone = sum(state.host == host for state in self.states) == 1
        return host if alone else f"{host} (rank {rank})"

    def ask[T](
        self, messages: Sequence[LeaderMessage], kind: type[T], *, seconds: float | None = None
    ) -> list[T]:
        """Send each follower its message. Returns the replies. Raises `Problem` as `replies`."""
        with (
            self._happened
        ):  # one that ends before `replies` is raised there, and told nowhere else
            self._asking = True
        self.tell(messages)
        return self.replies(kind, seconds=seconds)

    def tell(self, messages: Sequence[LeaderMessage]) -> None:
        """Send each follower its message."""
        for line, message in zip(self._lines, messages, strict=True):
            line.reply = None
            line.tell(message)

    def replies[T](self, kind: type[T], *, seconds: float | None = None) -> list[T]:
        """The replies of all followers, of one kind.

        Raises `Problem` if a follower refuses, is lost, or does not reply within `seconds`. Then
        all are ended.
        """
        with self._happened:
            self._asking = True
            answered = self._happened.wait_for(self._all_replied, seconds)
            self._asking = False
        if not answered:
            silent = next(line for line in self._lines if line.reply is None)
            self._lose(silent.rank, f"{self.name(silent.rank)} does not answer.", raised=True)
        if self._lost_one or self._closed.is_set():
            raise self._ended()
        found: list[T] = []
        refused = [self._refusal(line) for line in self._lines if isinstance(line.reply, Refused)]
        for line in self._lines:
            reply, line.reply = line.reply, None
            if isinstance(reply, kind):
                found.append(reply)
        if refused:
            raise refused[0]
        assert len(found) == len(self._lines)
        return found

    def joined(self) -> None:
        """Note that all are connected. From now on the callback `lost` hears of a lost follower."""
        self._joined = True
        self.rest()

    def wake(self) -> None:
        """Have the followers listen on the ring."""
        self._set_awake(True, "working")
        self.tell([Work()] * len(self._lines))

    def rest(self) -> None:
        """Note that the followers have gone to rest."""
        self._set_awake(False, "ready")

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Give up followers that answer no ping inside: their Macs have no leave to sleep."""
        self._set_awake(True, "loading")
        try:
            yield
        finally:
            self._set_awake(False, "ready")

    @contextmanager
    def within(self, seconds: float, otherwise: Problem) -> Iterator[None]:
        """Give up all followers if the block takes longer than `seconds`."""
        self._until = monotonic() + seconds, otherwise
        try:
            yield
        finally:
            self._until = None

    def change(self, rank: int, **changes: object) -> None:
        """Change the state of a rank."""
        with self._happened:
            states = list(self.states)
            states[rank] = replace(states[rank], **changes)  # type: ignore[arg-type]
            self.states = tuple(states)
        self._changed(self.states)

    def why(self, otherwise: Problem) -> Problem:
        """Return the reason why rank 0's own part failed, or `otherwise` if nothing else becomes
        known. Waits a little, as it may be noticed only later that a rank is lost or refuses. Ends
        all followers."""

        def refusal() -> Problem | None:
            refused = (line for line in self._lines if isinstance(line.reply, Refused))
            return next(map(self._refusal, refused), None)

        with self._happened:
            self._asking = True
            self._happened.wait_for(lambda: self._problem or refusal(), self._deadlines.broken)
            self._asking = False
        self._end(refusal() or otherwise, raised=True)
        return self._ended()

    def close(self) -> None:
        """End the followers. Safe from any thread but their own, and more than once."""
        with self._happened:
            self._closed.set()
            self._problem = self._problem or Problem("The Macs were left.", "Load the model again.")
            self._happened.notify_all()
        for line in self._lines:
            line.tell(Quit())
        for line, reader in zip(self._lines, self._readers, strict=True):
            line.close(reader)
        if self._watcher is not current_thread():
            self._watcher.join()

    def _refusal(self, line: _Line) -> Problem:
        assert isinstance(line.reply, Refused)
        return Problem(f"{self.name(line.rank)}: {line.reply.message}", line.reply.remedy)

    def _ended(self) -> Problem:
        """Return the reason why all were ended. If it went to the callback `lost`, first wait for
        the end of this process, so that the reason is not given twice."""
        with self._happened:
            self._happened.wait_for(lambda: self._problem)
        assert self._problem is not None
        if self._told:
            sleep(_END_SECONDS)
        return self._problem

    def _all_replied(self) -> bool:
        return self._problem is not None or all(line.reply is not None for line in self._lines)

    def _set_awake(self, awake: bool, state: State) -> None:
        with self._happened:
            self._awake = awake
            for line in self._lines:
                line.quiet = 0
            before = self.states
            if not self._lost_one:
                self.states = tuple(replace(each, state=state) for each in before)
        if self.states != before:
            self._changed(self.states)

    def _read(self, line: _Line) -> None:
        for message in line.heard():
            with self._happened:
                match message:
                    case Pong():
                        line.pong, line.asked, line.quiet = message, False, 0
                    case Broken(reason):
                        line.broken = reason
                    case _:
                        line.greeted = True
                        line.reply = message
                self._happened.notify_all()
        name, detail = self.name(line.rank), line.complaint()
        said = f": {detail.rstrip('.')}." if detail else "."
        if line.greeted:
            self._lose(line.rank, f"The process on {name} ended{said}")
            return
        there = "" if line.host.is_here else f"ssh {line.host.ssh} works without a password, and "
        remedy = f"Check that {there}this Slipstream is at the same place there."
        problem = Problem(f"The process on {name} could not be started{said}", remedy)
        self._end(problem, rank=line.rank)

    def _watch(self) -> None:
        stood, before, broken = 0.0, None, 0.0
        beat = self._deadlines.beat
        while not self._closed.wait(beat):
            for line in self._lines:
                if not line.asked:  # a Mac that sleeps must not be sent ping after ping
                    line.asked = True
                    line.tell(Ping())
                line.quiet += self._awake
                if line.quiet * beat > self._deadlines.silence:
                    self._lose(line.rank, f"{self.name(line.rank)} does not answer any more.")
            until = self._until  # the thread that waits may take it back meanwhile
            if until is not None and monotonic() > until[0]:
                self._end(until[1])
            now = self._standing()
            stood, before = (stood + beat if now is not None and now == before else 0.0), now
            if stood >= self._deadlines.round:
                rank = self._silent_link()
                self._lose(rank, f"{self.name(rank)} sends nothing any more.")
            broken += beat * any(line.broken for line in self._lines)
            if broken > self._deadlines.broken:
                line = next(line for line in self._lines if line.broken)
                message = f"A pass failed on {self.name(line.rank)}: {line.broken}."
                self._lose(line.rank, message)

    def _silent_link(self) -> int:
        """The rank whose states do not arrive: the first that has sent all of its own and waits for
        more to do, or, without such a rank, the last."""
        newest = max(line.pong.message for line in self._lines)
        done = (line.rank for line in self._lines if line.pong == Pong(newest, waits=True))
        return next(done, self._lines[-1].rank)

    def _lose(self, rank: int, message: str, *, raised: bool = False) -> None:
        self._end(Problem(message, AGAIN), rank=rank, raised=raised)

    def _end(self, problem: Problem, *, rank: int | None = None, raised: bool = False) -> None:
        """End all followers because of `problem`, once. The callback `lost` gets it; while they are
        being joined, rank 0 waits for replies and raises it instead."""
        with self._happened:
            if self._lost_one or self._closed.is_set():
                return
            self._lost_one = True
            self._told = self._joined or not (raised or self._asking)
            if rank is not None:
                states = list(self.states)
                states[rank] = replace(states[rank], state="lost", detail=problem.message)
                self.states = tuple(states)
        for line in self._lines:
            line.kill()
        try:
            self._changed(self.states)
        finally:  # waiting threads must be woken, even if the states cannot be shown
            with self._happened:
                self._problem = problem
                self._happened.notify_all()
            if self._told:
                self._lost(problem)


def ask_machines(
    hosts: Hosts,
    *,
    deadlines: Deadlines | None = None,
    command: Callable[[ClusterHost, Sequence[str]], list[str]] | None = None,
) -> list[tuple[str, Machine]]:
    """Each Mac's name and memory; they are not joined. Raises `Problem`."""
    deadlines = deadlines or Deadlines()
    followers = Followers(
        hosts.each,
        environment=hosts.environment,
        deadlines=deadlines,
        changed=lambda ranks: None,
        lost=lambda problem: None,
        command=command,
    )
    try:
        asked = [Meet(host.addresses) for host in hosts.each[1:]]
        others = followers.ask(asked, Hello, seconds=deadlines.start)
    finally:
        followers.close()
    machines = [this_machine(), *(each.machine for each in others)]
    return [(followers.name(rank), machine) for rank, machine in enumerate(machines)]


def follower_command(host: ClusterHost, environment: Sequence[str]) -> list[str]:
    """The command that starts a follower on a Mac: this Python, at the same place there."""
    follow = [sys.executable, "-m", "engine", "follow"]
    if host.is_here:
        return follow
    return [*_SSH, "--", host.ssh, shlex.join(["env", *environment, *follow])]
