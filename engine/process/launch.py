"""The ranks of several Macs: started by MLX's own launcher, and watched from outside.

Knows processes, lines and time; not MLX, which may hold up a rank's process without end. The
launcher starts a rank on each Mac, on other Macs with ssh, and ends all when one ends. It passes on
each rank's standard output: a line of JSON for each report of the rank on itself. Commands for rank
0 and its responses use a socket of this Mac, because the launcher passes lines on late, and never
the end of its own input.
"""

import os
import re
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import randrange
from threading import Condition, Lock, Thread, current_thread
from time import monotonic
from typing import Any

import psutil

from engine.cluster.hosts import HERE, Hosts
from engine.cluster.states import RankState
from engine.pipes import Lines
from engine.process.client import FOLDER
from engine.process.protocol import LONGEST_RESPONSE_BYTES
from models.errors import Problem
from models.json_lines import Language, named_by_class
from models.memory.machine import Machine
from models.typed_json import WrongJson

TORN = 75  # how a rank exits that has said why, or with which another one is lost
JOIN = b"join\n"  # what the launcher passes on to all ranks once all have started
WAKING = b"load\n", b"work\n"  # lines that it passes on for rank 0
_ENDED_BY_LAUNCHER = -15
_EXITED = re.compile(rb"Node with rank (\d+) (?:exited with code (-?\d+)|was killed)")
_PORTS = range(20000, 32000)  # below the ports that systems give away themselves
# Not what libraries log ([ring], [transformers]), nor the launcher, which fails to end others.
_SAYS = re.compile(r"(?!\[\w+\]|subprocess\.|Traceback|Exception in thread)\S.*\w")
_END_SECONDS = 1.0
_HELD_UP_SECONDS = 2.0
_AGAIN = "Check the Macs, their cables and their memory, then ask again."


@dataclass(frozen=True, slots=True)
class Hello:
    """A rank's first line: it has started. RDMA needs the same `system`, too."""

    rank: int
    slipstream: str
    mlx: str
    mlx_lm: str
    system: str
    machine: Machine


@dataclass(frozen=True, slots=True)
class Beat:
    """Says once a second that a rank is there, once all are connected.

    `number`, of the newest message on the ring; `waits`: that message has yet to arrive; `works`:
    the ranks are loading or answering; `stood`: the seconds for which rank 0 has been in one wait.
    """

    rank: int
    number: int = 0
    waits: bool = False
    works: bool = False
    stood: float = 0.0


@dataclass(frozen=True, slots=True)
class Broken:
    """A rank's last line: why it ends, with a `remedy` where it knows one."""

    rank: int
    reason: str
    remedy: str = ""


SAID = Language[Hello | Beat | Broken]("said", named_by_class(Hello, Beat, Broken))


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The seconds after which ranks are given up.

    Attributes: `start`, until all are connected; `silence`, without a beat while they work;
    `round`, for one wait of a pass; `broken`, until the launcher says who ended.
    """

    start: float = 90.0
    silence: float = 15.0
    round: float = 60.0
    broken: float = 3.0


def silent_link(beats: Sequence[Beat]) -> int:
    """The rank whose states do not arrive, by what each said last, rank 0's first: the first after
    rank 0 that has sent all of its own and waits for more to do, or, without such a rank, the last.
    """
    others = beats[1:]
    newest = max(beat.number for beat in others)
    done = (beat.rank for beat in others if beat.waits and beat.number == newest)
    return next(done, others[-1].rank)


class Launch:
    """The ranks of `hosts`, from their start to `close`, which any thread may call.

    Another thread watches them: it calls `heard` with each line of rank 0, `complained` with those
    of standard error, and `lost` once if the ranks cannot go on. Then they have been ended. Before
    `meet` returns, that is raised there.
    """

    def __init__(
        self,
        hosts: Hosts,
        *,
        heard: Callable[[bytes], None] = lambda line: None,
        lost: Callable[[Problem], None] = lambda problem: None,
        complained: Callable[[bytes], object] = lambda line: None,
        deadlines: Deadlines | None = None,
    ) -> None:
        self._hosts, self._heard, self._lost = hosts, heard, lost
        self._complained = complained
        self._deadlines = deadlines or Deadlines()
        self._began = monotonic()
        self._closing: float | None = None  # when it began
        self._met = self._works = False
        self._problem: Problem | None = None
        self._changed = Condition()
        self._hellos: dict[int, Hello] = {}
        self._beats: dict[int, tuple[float, Beat]] = {}
        self._broken: dict[int, Broken] = {}
        self._exits: dict[int, int] = {}
        self._complaint = ""
        self._ended: float | None = None  # when a rank or the launcher was seen to end
        self._rank_0: socket.socket | None = None
        self._writing = Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="macs-")
        folder = Path(self._folder.name)
        (folder / "hosts.json").write_text(hosts.to_json())
        (folder / "launcher.json").write_text(hosts.from_here.to_json())
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "rank-0"))
        self._listener.listen(1)
        port = randrange(_PORTS.start, _PORTS.stop)
        self._launcher = subprocess.Popen(
            [
                *(sys.executable, "-m", "engine.process.launcher"),
                *("--hostfile", str(folder / "launcher.json")),
                *("--backend", hosts.backend or "ring", "--starting-port", str(port)),
                *("--python", sys.executable, "--", "-m", "engine", "rank"),
                *(str(folder / "rank-0"), hosts.backend or "ring"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=FOLDER,
            bufsize=0,
            start_new_session=True,  # Ctrl-C in a terminal ends an answer, not a Mac
        )
        self._sources: dict[Any, Callable[[], None]] = {self._listener: self._accept}
        for stream, take in (
            (self._launcher.stdout, self._on_said),
            (self._launcher.stderr, self._on_complaint),
        ):
            self._sources[stream] = partial(self._read, stream, Lines(1 << 20), take)
        self._watcher = Thread(target=self._watch, name="watcher of the Macs", daemon=True)
        self._watcher.start()

    @property
    def states(self) -> tuple[RankState, ...]:
        """The state of each rank, as far as it is known here."""
        return tuple(map(self._state, range(len(self._hosts.hosts))))

    def _state(self, rank: int) -> RankState:
        state, hello = RankState(rank, self._hosts.name(rank), "starting"), self._hellos.get(rank)
        if hello is None:
            return state
        own = hello.machine
        return replace(state, state="ready", chip=own.name, free_bytes=own.available_bytes)

    def meet(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Wait until all ranks are connected. Raises `Problem`, also where it is `stopped`; then
        they have ended."""
        with self._changed:
            while self._closing is None and not (self._met or self._problem or stopped()):
                self._changed.wait(0.1)
            if self._met:
                return
        self.close()
        raise self._problem or Problem("Joining the Macs was stopped.", "Load the model again.")

    @property
    def pid(self) -> int:
        """The id of the launcher's process."""
        return self._launcher.pid

    @property
    def machines(self) -> list[Machine]:
        """Each Mac's memory, rank 0's first, once they have met."""
        return [self._hellos[rank].machine for rank in range(len(self._hosts.hosts))]

    def write(self, line: bytes) -> None:
        """Send rank 0 a line, from any thread. Where it has ended, `lost` says so."""
        assert self._rank_0 is not None
        with self._writing, suppress(OSError):
            self._rank_0.sendall(line)

    def close(self) -> None:
        """End all ranks. Passes on what rank 0 still says."""
        self._closing = self._closing or monotonic()
        if self._rank_0 is not None:
            with suppress(OSError):
                self._rank_0.shutdown(socket.SHUT_WR)  # the end of its input
        if current_thread() is not self._watcher:
            self._watcher.join()

    # What they say

    def _accept(self) -> None:
        self._rank_0 = connection = self._listener.accept()[0]
        del self._sources[self._listener]
        lines = Lines(LONGEST_RESPONSE_BYTES)
        self._sources[connection] = partial(self._read, connection, lines, self._on_rank_0)

    def _read(self, source: Any, lines: Lines, take: Callable[[bytes], None]) -> None:
        with suppress(ConnectionError):
            data = os.read(source.fileno(), 1 << 16)
            if data:
                for line in lines.feed(data):
                    take(line)
                return
        del self._sources[source]
        self._ended = self._ended or monotonic()

    def _on_rank_0(self, line: bytes) -> None:
        if line in WAKING:
            self._tell_all(line)
        else:
            self._heard(line)

    def _tell_all(self, line: bytes) -> None:
        assert self._launcher.stdin is not None
        with suppress(OSError):
            self._launcher.stdin.write(line)

    def _on_said(self, line: bytes) -> None:
        try:
            said = SAID.read(line)
        except WrongJson:  # over ssh, standard error comes the same way
            self._on_complaint(line)
            return
        match said:
            case Hello(rank):
                self._hellos[rank] = said
                if len(self._hellos) == len(self._hosts.hosts) and self._differ() is None:
                    self._tell_all(JOIN)  # looking for one another, ranks do not wait for long
            case Beat(rank):
                self._beats[rank] = monotonic(), said
            case Broken(rank):
                self._broken[rank] = said

    def _on_complaint(self, line: bytes) -> None:
        if found := _EXITED.search(line):
            self._exits[int(found[1])] = int(found[2] or _ENDED_BY_LAUNCHER)
            self._ended = self._ended or monotonic()  # rank 0 may take long to notice
            return
        self._complained(line)
        text = line.decode(errors="replace").rstrip()
        if _SAYS.match(text):
            self._complaint = text[:200]

    # Watching

    def _watch(self) -> None:
        problem, began = None, monotonic()
        try:
            while problem is None and not self._over():
                for source in select.select([*self._sources], [], [], 0.2)[0]:
                    self._sources[source]()
                began, before = monotonic(), began
                if began - before > _HELD_UP_SECONDS:  # by a slow listener, or by being stopped:
                    self._works = False  # not all that was said meanwhile is read
                problem = self._judge() if self._closing is None else None
        except Exception as error:  # threads that wait must hear of it
            problem = Problem(f"Rank 0 cannot be understood: {error}", _AGAIN)
        self._end()
        with self._changed:
            self._problem = problem
            self._changed.notify_all()
        if problem is not None and self._met:
            self._lost(problem)

    def _over(self) -> bool:
        """Whether the ranks were to end, and have, or had the time for it."""
        since = self._closing
        ended = self._launcher.poll() is not None and self._rank_0 not in self._sources
        return since is not None and (ended or monotonic() - since > _END_SECONDS)

    def _judge(self) -> Problem | None:
        """Why the ranks cannot go on; None if they can."""
        now, size = monotonic(), len(self._hosts.hosts)
        if not self._met:
            problem = self._differ() or self._refused()
            if problem is not None:
                return problem
            if len(self._beats) == size and self._rank_0 is not None:
                with self._changed:
                    self._met = True
                    self._changed.notify_all()
            elif now - self._began > self._deadlines.start:
                return self._apart()
        if self._ended is not None:
            over = self._launcher.poll() is not None and len(self._sources) <= 1
            late = now - self._ended > self._deadlines.broken
            return self._why_ended() if over or late else None
        works = any(beat.works for _, beat in self._beats.values())
        if works and not self._works:  # until now a Mac had leave to sleep, or was not heard
            self._beats = {rank: (now, beat) for rank, (_, beat) in self._beats.items()}
        self._works = works
        if not works:
            return None
        for rank, (heard, _) in self._beats.items():
            if now - heard > self._deadlines.silence:
                return self._problem_of(rank, "does not answer any more.")
        if any(beat.stood >= self._deadlines.round for _, beat in self._beats.values()):
            beats = [self._beats[rank][1] for rank in sorted(self._beats)]
            return self._problem_of(silent_link(beats), "sends nothing any more.")
        return None

    def _problem_of(self, rank: int, what: str, remedy: str = _AGAIN) -> Problem:
        return Problem(f"{self._hosts.name(rank)} {what}", remedy)

    def _differ(self) -> Problem | None:
        """Whether a Mac has other versions than this one, in words."""
        if (own := self._hellos.get(0)) is None:
            return None
        for rank, other in self._hellos.items():
            compared = [
                ("Slipstream", own.slipstream, other.slipstream),
                ("MLX", own.mlx, other.mlx),
                ("mlx-lm", own.mlx_lm, other.mlx_lm),
            ]
            if self._hosts.backend.startswith("jaccl"):
                compared.append(("macOS", own.system, other.system))
            for product, here, there in compared:
                if here != there:
                    has = f"has {product} {there}, and this Mac has {here}."
                    return self._problem_of(rank, has, "Install the same version on both.")
        return None

    def _refused(self) -> Problem | None:
        """What a rank itself knows a remedy for."""
        for rank, broken in self._broken.items():
            if broken.remedy:
                return Problem(f"{self._hosts.name(rank)}: {broken.reason}", broken.remedy)
        return None

    def _apart(self) -> Problem:
        """Why not all are connected."""
        for rank in range(len(self._hosts.hosts)):
            if rank not in self._hellos:
                return self._problem_of(rank, "does not answer.", self._to_start(rank))
        places = (
            f"{self._hosts.name(rank)} at {' and '.join(host.ips) or 'no address'}"
            for rank, host in enumerate(self._hosts.hosts)
        )
        return Problem(
            f"The Macs do not find each other on their links: {', '.join(places)}.",
            "Check the cables, and that no other program uses these links.",
        )

    def _to_start(self, rank: int) -> str:
        ssh = self._hosts.hosts[rank].ssh if rank else HERE
        there = "" if ssh == HERE else f"ssh {ssh} works without a password, and "
        return f"Check that {there}this Slipstream is at the same place there."

    def _why_ended(self) -> Problem:
        """Why a rank or the launcher ended: mostly because another rank did."""
        said = f": {self._complaint.rstrip('.')}." if self._complaint else "."
        for rank, code in sorted(self._exits.items(), reverse=True):
            if code in (0, TORN, _ENDED_BY_LAUNCHER):
                continue
            if rank not in self._hellos:
                what = f"The process on {self._hosts.name(rank)} could not be started{said}"
                return Problem(what, self._to_start(rank))
            return Problem(f"The process on {self._hosts.name(rank)} ended{said}", _AGAIN)
        if not self._met:
            return (
                self._apart()
                if self._broken
                else Problem(f"The Macs cannot be joined{said}", _AGAIN)
            )
        for rank, broken in self._broken.items():
            what = f"A pass failed on {self._hosts.name(rank)}: {broken.reason.rstrip('.')}."
            return Problem(what, _AGAIN)
        return Problem("MLX's launcher ended, and the Macs with it.", _AGAIN)

    def _end(self) -> None:
        """Kill what has not ended: here, or with its ssh, whose end a Mac notices."""
        processes = [psutil.Process(self._launcher.pid)] if self._launcher.poll() is None else []
        processes += [child for each in processes for child in each.children(recursive=True)]
        for each in processes:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self._launcher.wait()
        for source in (
            self._listener,
            self._rank_0,
            *(self._launcher.stdin, self._launcher.stdout, self._launcher.stderr),
        ):
            if source is not None:
                source.close()
        self._folder.cleanup()


def ask_machines(hosts: Hosts) -> list[tuple[str, Machine]]:
    """Each Mac's name and memory, once all have been connected. Raises `Problem`."""
    with closing(Launch(hosts)) as launch:
        launch.meet()
    return [(hosts.name(rank), machine) for rank, machine in enumerate(launch.machines)]
