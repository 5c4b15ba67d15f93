"""A follower's process: `python -m engine follow`, started by rank 0's, here or over ssh.

The main thread owns MLX and obeys. A reader thread answers pings at any time, and ends the process
at once when the control connection ends: a follower never outlives its leader.
"""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from time import sleep
from typing import BinaryIO, NoReturn

from engine.cluster import control
from engine.cluster import group as ranks
from engine.cluster.control import (
    Broken,
    Find,
    FollowerMessage,
    Found,
    Join,
    Joined,
    LeaderMessage,
    Load,
    Loaded,
    Meet,
    Ping,
    Pong,
    Quit,
    Refused,
    Work,
)
from engine.cluster.follower import Follower, OutOfStep
from engine.cluster.links import this_mac
from engine.cluster.orders import NotAnOrder
from engine.cluster.share import RankShare, load_part
from engine.device import free_memory, held_bytes
from engine.pipes import claim_pipes
from models.errors import Problem
from models.installed.store import inventory
from models.memory.machine import this_machine
from models.model_folder import ModelFolder, inspect
from models.typed_json import WrongJson

JOIN_SECONDS = 30.0
_SILENCE_SECONDS = 60  # without a ping: rank 0's process is gone, or its Mac
_MOST_REASON = 300


class Control:
    """The control connection, from the follower's side. Pongs describe `follower`."""

    def __init__(self, commands: BinaryIO, responses: BinaryIO) -> None:
        self._commands, self._responses = commands, responses
        self._lock = Lock()
        self._told: SimpleQueue[LeaderMessage] = SimpleQueue()
        self._quiet = 0
        self.follower: Follower | None = None

    def start(self) -> None:
        """Start the reader and the watcher: threads that last as long as the process."""
        Thread(target=self._read, daemon=True).start()
        Thread(target=self._watch, daemon=True).start()

    def say(self, message: FollowerMessage) -> None:
        """Send a message. Ends the process if rank 0's no longer reads."""
        with self._lock:
            try:
                self._responses.write(control.to_line(message))
                self._responses.flush()
            except OSError:
                os._exit(1)

    def take(self) -> LeaderMessage:
        """Wait for the next message."""
        return self._told.get()

    def _read(self) -> None:
        for line in iter(lambda: self._commands.readline(control.LONGEST_LINE_BYTES), b""):
            self._quiet = 0
            try:
                message = control.from_line(line)
            except WrongJson:
                self.say(control.ANOTHER_LANGUAGE)
                continue
            if isinstance(message, Quit):
                break
            if isinstance(message, Ping):
                follower = self.follower
                pong = Pong(follower.number, follower.waits) if follower else Pong(0, False)
                self.say(pong)
            elif isinstance(message, LeaderMessage):
                self._told.put(message)
        os._exit(0)

    def _watch(self) -> None:
        while self._quiet < _SILENCE_SECONDS:
            sleep(1)
            self._quiet += 1
        os._exit(1)


class Rank:
    """Carries out the leader's messages, and holds the parts that they need."""

    def __init__(self, connection: Control) -> None:
        self._control = connection
        self._group: ranks.Group | None = None
        self._rank = self._size = 0
        self._found: ModelFolder | None = None
        self._next: LeaderMessage | None = None  # what came instead of more work

    def run(self) -> None:
        """Do what the messages ask for, for ever."""
        while True:
            message, self._next = self._next or self._control.take(), None
            try:
                self._do(message)
            except Problem as problem:
                self._control.say(Refused(problem.message, problem.remedy))
            except (OutOfStep, NotAnOrder, RuntimeError) as error:
                reason = " ".join(str(error).split())[:_MOST_REASON] or "the ranks are out of step"
                self._control.say(Broken(reason))

    def _do(self, message: LeaderMessage) -> None:
        match message:
            case Meet(addresses):
                self._control.say(this_mac(addresses))
            case Join():
                self._join(message)
            case Find():
                self._found = find(message)
                machine = this_machine().once_freed(held_bytes())
                self._control.say(Found(str(self._found.path), machine))
            case Load():
                self._load(message)
            case Work():
                self._work()

    def _join(self, message: Join) -> None:
        try:
            self._group = ranks.join(
                message.rank,
                message.addresses,
                backend=message.backend,
                devices=message.devices,
                seconds=JOIN_SECONDS,
            )
        except ranks.NotJoined as error:
            raise Problem(f"It could not connect: {error}.", "Check the cables.") from error
        self._rank, self._size = message.rank, len(message.addresses)
        if not ranks.is_as_told(self._group, message.secret, message.total):
            raise Problem("Another program has the place of a Mac.", "End it, and try again.")
        self._control.say(Joined())

    def _load(self, message: Load) -> None:
        assert self._group is not None
        assert self._found is not None
        self._control.follower = None
        free_memory()
        share = RankShare(message.mode, self._rank, self._size, message.split)
        _, part = load_part(self._found, share, self._group, expand=message.expand)
        self._control.follower = Follower(part)
        self._control.say(Loaded(part.size_bytes))

    def _work(self) -> None:
        follower = self._control.follower
        assert follower is not None
        woken = iter([True])

        def awake() -> bool:
            if next(woken, False):
                return True
            message = self._control.take()
            if isinstance(message, Work):
                return True
            self._next = message
            return False

        follower.run(awake)


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


def digest(folder: ModelFolder) -> str:
    """Identifies a config, however it is written down."""
    return sha256(json.dumps(dict(folder.config), sort_keys=True).encode()).hexdigest()[:16]


def _candidates(wanted: Find) -> Iterator[ModelFolder]:
    """Yield the folders in which the target may be, the likeliest first."""
    with suppress(Problem):
        yield inspect(Path(wanted.path))
    entries = inventory()
    entries.sort(key=lambda entry: entry.record.name != wanted.name)
    for entry in entries:
        if isinstance(entry.folder, ModelFolder):
            yield entry.folder


def main() -> NoReturn:
    """Follow until the control connection ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Control(*claim_pipes())
    connection.start()
    Rank(connection).run()
    os._exit(0)
