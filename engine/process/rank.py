"""A rank's process, started by MLX's launcher: rank 0's answers, as any engine; the others follow.

The main thread owns MLX. One thread reads what the launcher passes on, and ends the process with
the launcher; another says once a second that this rank is there, and rank 0's in which wait it is.
"""

import os
import platform
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread, get_ident
from time import monotonic, sleep
from types import FrameType
from typing import BinaryIO, NoReturn

from engine.cluster import group as ranks
from engine.cluster.follower import Follower, OutOfStep
from engine.cluster.hosts import Hosts, read_hosts
from engine.cluster.leader import LeadingDecoder
from engine.cluster.orders import NotAnOrder
from engine.cluster.share import ModelPart, RankShare, load_part
from engine.core.decoder import Decoder
from engine.device import begin, fetch, finish, free_memory, held_bytes, wait
from engine.pipes import claim_pipes
from engine.process import host
from engine.process.launch import SAID, TORN, Beat, Broken, Hello
from engine.process.macs import (
    LOAD,
    WORK,
    Cluster,
    Find,
    Found,
    Loaded,
    Refused,
    Word,
    digest,
    exchange,
    refusal,
)
from models.errors import Problem
from models.installed.store import inventory
from models.memory.machine import this_machine
from models.model_folder import ModelFolder, inspect

_BEAT_SECONDS = 1.0
_JOIN_SECONDS = 120
_MOST_REASON = 300
_CALLS = (begin, fetch, finish, wait, ranks.add_up, ranks.agrees, ModelPart.settle)
_WAITS = {call.__code__ for call in _CALLS}


class Voice:
    """What this rank says of itself, from any thread."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._lock = stream, Lock()
        self.rank = int(os.environ["MLX_RANK"])

    def say(self, said: Hello | Beat | Broken) -> None:
        """Say this. Ends the process if the launcher is gone."""
        with self._lock:
            try:
                self._stream.write(SAID.to_line(said))
                self._stream.flush()
            except OSError:
                os._exit(TORN)

    def beat(self, state: Callable[[], Beat]) -> None:
        """Say this state, now and once a second for the rest of the process's life."""

        def beat() -> None:
            while True:
                self.say(state())
                sleep(_BEAT_SECONDS)

        Thread(target=beat, name="beats", daemon=True).start()

    def torn(self, error: Exception) -> NoReturn:
        """End this process after an error that may have left the ranks in the middle of a pass."""
        reason = " ".join(str(error).split())[:_MOST_REASON] or "the ranks are out of step"
        remedy = error.remedy if isinstance(error, Problem) else ""
        self.say(Broken(self.rank, error.message if isinstance(error, Problem) else reason, remedy))
        os._exit(TORN)


class Following:
    """What the other ranks do. Attribute: `follower`, of the loaded part; None without one."""

    def __init__(self, group: ranks.Group, next_word: Callable[[], str]) -> None:
        """`next_word` waits for the next `LOAD` or `WORK`."""
        self._group, self._next_word = group, next_word
        self.follower: Follower | None = None

    def run(self) -> NoReturn:
        """Load and obey without end. Raises `NotAnOrder`, `OutOfStep` or RuntimeError if the ranks
        have lost each other."""
        while True:
            if self.follower is None:
                while self._next_word() != LOAD:
                    pass
            else:
                self.follower.run(lambda: self._next_word() == WORK)
            self._load()
            free_memory()  # of its part, where another Mac could not load its own

    def _load(self) -> None:
        (wanted,) = exchange(self._group)
        try:
            folder = find(wanted)
            own: Word = Found(this_machine().once_freed(held_bytes()))
        except Problem as problem:
            own = refusal(problem)
        exchange(self._group, own)
        (made,) = exchange(self._group)
        if isinstance(made, Refused):
            return
        self.follower = None
        free_memory()
        share = RankShare(made.mode, self._group.rank(), self._group.size(), made.split)
        try:
            _, part = load_part(folder, share, self._group, expand=made.expand)
            self.follower, own = Follower(part), Loaded(part.size_bytes)
        except Problem as problem:
            own = refusal(problem)
        if any(isinstance(each, Refused) for each in exchange(self._group, own)):
            self.follower = None

    def beat(self) -> Beat:
        """The state of this rank."""
        rank, follower = self._group.rank(), self.follower
        return Beat(rank, follower.number, follower.waits) if follower else Beat(rank)


def find(wanted: Find) -> ModelFolder:
    """The model with the same weights and config on this Mac. Raises `Problem`."""
    same_name = False
    for folder in _candidates(wanted):
        with suppress(Problem):
            if folder.fingerprint == wanted.fingerprint and digest(folder) == wanted.config:
                folder.check()
                return folder
            same_name = same_name or folder.name == Path(wanted.path).name
    if same_name:
        raise Problem(
            f"Its {wanted.name} has other weights, or another config.json.",
            "Download it again on both Macs, or remove it there and copy it from here.",
        )
    raise Problem(f"{wanted.name} is not on it.", wanted.remedy)


def _candidates(wanted: Find) -> Iterator[ModelFolder]:
    """Yield the folders in which the target may be, the likeliest first."""
    with suppress(Problem):
        yield inspect(Path(wanted.path))
    entries = inventory()
    entries.sort(key=lambda entry: entry.record.name != wanted.name)
    for entry in entries:
        if isinstance(entry.folder, ModelFolder):
            yield entry.folder


def main(place: str, backend: str) -> NoReturn:
    """Be a rank until the launcher ends, or an error does. `place`: rank 0's socket, on its Mac."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    commands, responses = claim_pipes()
    voice, words = Voice(responses), SimpleQueue[str]()
    connection = socket.socket(socket.AF_UNIX)
    if voice.rank == 0:
        connection.connect(place)
    slipstream, mlx, mlx_lm = map(metadata.version, ("slipstream", "mlx", "mlx-lm"))
    system = platform.mac_ver()[0] or platform.system()
    voice.say(Hello(voice.rank, slipstream, mlx, mlx_lm, system, this_machine()))

    def listen() -> None:
        for line in commands:
            words.put(line.decode(errors="replace").strip())
        os._exit(TORN)

    Thread(target=listen, name="launcher", daemon=True).start()
    words.get()
    try:
        signal.alarm(_JOIN_SECONDS)  # MLX holds Python's lock while it waits for the others
        group = ranks.join(backend)
        signal.alarm(0)
        if voice.rank == 0:
            lead(group, connection, read_hosts(Path(place).with_name("hosts.json")), voice)
        following = Following(group, words.get)
        voice.beat(following.beat)
        following.run()
    except (OutOfStep, NotAnOrder, RuntimeError, Problem) as error:
        voice.torn(error)


class Waits:
    """The waits of the thread that makes this, in which rank 0 of a cluster reads.

    A wait for a rank that sends nothing never ends, and MLX neither reports nor interrupts it. All
    that can be known is that a thread has been in the same call for long. A thread that is held up
    by a slow listener is blocked elsewhere, which is not a wait.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._thread = get_ident()
        self._before: tuple[FrameType, int] | None = None
        self._since = 0.0

    def now(self) -> tuple[FrameType, int] | None:
        """The wait that the thread is in; None for none. Two values are equal for the same wait."""
        frame, leader = sys._current_frames().get(self._thread), self._cluster.leader
        if frame is None or leader is None or not _is_wait(frame):
            return None
        return frame, leader.number

    def beat(self) -> Beat:
        """The state of rank 0, with how long it has been in the same wait as at each beat since."""
        now, leader = self.now(), self._cluster.leader
        if now is None or now != self._before:
            self._before, self._since = now, monotonic()
        return Beat(
            rank=0,
            number=leader.number if leader else 0,
            works=self._cluster.loading or (leader is not None and not leader.resting),
            stood=monotonic() - self._since,
        )


def _is_wait(frame: FrameType) -> bool:
    reading: FrameType | None = frame
    while reading is not None and reading.f_code is not Decoder.prefill.__code__:
        reading = reading.f_back
    if reading is not None and not isinstance(reading.f_locals["self"], LeadingDecoder):
        return False  # a drafter, which reads alone, may take long
    return reading is frame or frame.f_code in _WAITS


def lead(group: ranks.Group, connection: socket.socket, hosts: Hosts, voice: Voice) -> NoReturn:
    """Answer what comes over the connection, as an engine whose targets are on all ranks."""

    def begun(send: host.Send) -> Cluster:
        cluster = Cluster(
            group, hosts, wake=lambda word: send(f"{word}\n".encode()), torn=voice.torn
        )
        waits = Waits(cluster)
        voice.beat(waits.beat)
        return cluster

    host.serve(connection.makefile("rb"), connection.makefile("wb"), lead=begun)
    os._exit(TORN)
