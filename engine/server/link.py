"""The server's side of one engine, over a pair of byte streams. Knows no HTTP, and no process.

It keeps these promises:

- Each generation's events end with exactly one Done or Failed, also where the engine is gone.
- A generation that is left before its end is cancelled; what still comes of it is dropped.
- What is not read does not hold the engine up: a generation whose events pile up ends as failed.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import uuid4

from engine.cluster.states import RankState
from engine.events import Done, Event, Failed
from engine.protocol import (
    LONGEST_LINE_BYTES,
    PROTOCOL,
    Cancel,
    Command,
    Count,
    Counted,
    Generate,
    Load,
    Loaded,
    Loading,
    Ranks,
    Ready,
    Response,
    Unloaded,
    command_to_json,
    response_from_json,
)
from engine.request import Prompt, Request
from models.errors import Problem

READ_LIMIT_BYTES = 8 * LONGEST_LINE_BYTES  # a prompt's log probabilities are one line
PREFIX = "http-"  # of all ids here; the window has its own in the same engine
_MOST_EVENTS = 20_000  # not read yet, of one generation
_GONE = "The engine ended before the answer was done."
_AGAIN = "Try again in a moment."


class EngineFailed(Exception):
    """The engine answered a command with a failure."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message)
        self.failed = failed


class Generation:
    """The events of one generation: an asynchronous iterator. It ends behind a Done or a Failed."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.over = False  # nothing more will come
        self.left = False  # nobody reads it any more
        self._events: deque[Event] = deque()
        self._more = asyncio.Event()

    def __aiter__(self) -> "Generation":
        return self

    async def __anext__(self) -> Event:
        """May be cancelled, by a time limit for instance: nothing is lost."""
        while not self._events:
            if self.over:
                raise StopAsyncIteration
            self._more.clear()
            await self._more.wait()
        return self._events.popleft()

    def add(self, event: Event) -> None:
        if self.left or self.over:
            return
        self.over = isinstance(event, Done | Failed)
        self._events.append(event)
        self._more.set()

    @property
    def piled_up(self) -> bool:
        return len(self._events) >= _MOST_EVENTS


class EngineLink:
    """One engine. Attributes: `loaded`, the pair that it has now, if any; `changed`, called with no
    arguments whenever that is another one; `ranks`, the Macs that hold it together, as the engine
    saw them last, with `ranks_changed`; `confessed`, what it said of itself, which may be why it
    ends."""

    def __init__(self) -> None:
        self.loaded: Loaded | None = None
        self.ranks: tuple[RankState, ...] = ()
        self.ranks_changed: Callable[[], None] = lambda: None
        self.confessed = ""
        self.changed: Callable[[], None] = lambda: None
        self._writer: asyncio.StreamWriter | None = None
        self._generations: dict[str, Generation] = {}
        self._asked: dict[str, asyncio.Future[Any]] = {}  # loads and counts

    @property
    def open(self) -> int:
        """How many generations the engine has not ended yet, those that nobody reads included."""
        return len(self._generations)

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take responses from the engine until its stream ends. Raises Problem where what it writes
        is not of this protocol. An engine at a time; there may be another one later."""
        self._writer, self.confessed = writer, ""
        try:
            while line := await _read_line(reader):
                try:
                    response = response_from_json(line.decode())
                except ValueError:
                    raise Problem(
                        "The engine wrote what is no response.", "Install Slipstream again."
                    ) from None
                self._take(response)
        finally:
            self._writer = None
            self._lose()

    async def load(self, command: Load) -> Loaded:
        """Load a pair. Raises EngineFailed."""
        loaded: Loaded = await self._ask(command)
        return loaded

    async def count(self, prompt: Prompt) -> Counted:
        """How many tokens a prompt has, and how it ends. Raises EngineFailed."""
        counted: Counted = await self._ask(Count(_id(), prompt))
        return counted

    @asynccontextmanager
    async def generate(
        self, prompt: Prompt, request: Request, *, conversation: str = ""
    ) -> AsyncIterator[Generation]:
        """The events of an answer. To leave this cancels it where it is not over."""
        generation = Generation(_id())
        if refusal := self._send(Generate(generation.id, conversation, prompt, request)):
            generation.add(refusal)
        else:
            self._generations[generation.id] = generation
        try:
            yield generation
        finally:
            self._leave(generation)

    def _leave(self, generation: Generation) -> None:
        generation.left = True
        if not generation.over and generation.id in self._generations:
            self._write(Cancel(generation.id))

    async def _ask(self, command: Load | Count) -> Any:
        future = self._asked[command.id] = asyncio.get_running_loop().create_future()
        try:
            if refusal := self._send(command):
                raise EngineFailed(refusal)
            return await future
        finally:
            del self._asked[command.id]

    def _send(self, command: Generate | Load | Count) -> Failed | None:
        """Send a command; returns the failure where that cannot be done."""
        line = _line(command)
        if len(line) > LONGEST_LINE_BYTES:
            message = f"The request is over {LONGEST_LINE_BYTES >> 20} MB."
            return Failed(command.id, message, "Send less.", "request")
        if self._writer is None:
            return Failed(command.id, "The engine is not running.", _AGAIN)
        self._writer.write(line)
        return None

    def _write(self, command: Command) -> None:
        if self._writer is not None:
            self._writer.write(_line(command))

    def _take(self, response: Response) -> None:
        match response:
            case Ready():
                if response.protocol != PROTOCOL:
                    raise Problem(
                        f"The engine speaks protocol {response.protocol}, not {PROTOCOL}.",
                        "Install Slipstream again.",
                    )
            case Loading():
                pass
            case Ranks():
                self.ranks = response.ranks
                self.ranks_changed()
            case Failed("", message):
                self.confessed = message
            case Loaded():
                self._now_loaded(response)
                self._settle(response.id, response)
            case Unloaded():
                self._now_loaded(None)
            case Counted():
                self._settle(response.id, response)
            case Failed() if response.generation not in self._generations:
                self._settle(response.generation, response)
            case _:
                self._pass_on(response)

    def _pass_on(self, event: Event) -> None:
        generation = self._generations.get(event.generation)
        if generation is None:
            return
        generation.add(event)
        if isinstance(event, Done | Failed):
            del self._generations[event.generation]
        elif generation.piled_up and not generation.left:
            message, remedy = "The answer was not read.", "Read it as it is written."
            generation.add(Failed(generation.id, message, remedy))
            self._write(Cancel(generation.id))

    def _settle(self, id: str, response: Loaded | Counted | Failed) -> None:
        future = self._asked.get(id)
        if future is None or future.done():
            return
        if isinstance(response, Failed):
            future.set_exception(EngineFailed(response))
        else:
            future.set_result(response)

    def _now_loaded(self, loaded: Loaded | None) -> None:
        if loaded != self.loaded:
            self.loaded = loaded
            self.changed()

    def _lose(self) -> None:
        """The engine is gone."""
        generations, self._generations = self._generations, {}
        for generation in generations.values():
            generation.add(Failed(generation.id, _GONE, _AGAIN))
        for id in self._asked:
            self._settle(id, Failed(id, _GONE, _AGAIN))
        self._now_loaded(None)


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """The next line, or nothing at the end. Lines that are cut off by the end are not read."""
    with suppress(ConnectionError):
        try:
            line = await reader.readline()
        except ValueError:
            raise Problem(
                "The engine wrote a line that is too long.", "Ask for fewer log probabilities."
            ) from None
        return line if line.endswith(b"\n") else b""
    return b""


def _id() -> str:
    return PREFIX + uuid4().hex


def _line(command: Command) -> bytes:
    return command_to_json(command).encode() + b"\n"
