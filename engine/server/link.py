"""The server's side of one engine, over a pair of byte streams. Knows no HTTP, and no process.

Runs an `EngineClient`, whose laws say how each command ends, and makes two more promises:

- A generation that is left before its end is cancelled, and the rest of its events are dropped.
- A slow reader does not stop the engine: a generation with too many unread events fails.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

from engine.cluster.states import RankState
from engine.events import Done, Event, Failed
from engine.process.client import GUEST, Delivery, EngineClient, Question
from engine.process.protocol import Count, Counted, Generate, Load, Loaded, Ranks
from engine.request import Prompt, Request, Thinking
from models.errors import Problem

_MOST_EVENTS = 20_000  # not read yet, of one generation
_GONE = "The engine stopped before the answer was complete."
_AGAIN = "Try again in a moment."


class EngineFailed(Exception):
    """The engine answered a command with a failure."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message)
        self.failed = failed


class Generation:
    """The events of one generation: an asynchronous iterator. It ends after a Done or a Failed."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.left = False  # the reader has left
        self.over = False  # its last event was added
        self._events: asyncio.Queue[Event] = asyncio.Queue()

    def __aiter__(self) -> "Generation":
        return self

    async def __anext__(self) -> Event:
        """May be cancelled, by a time limit for instance: nothing is lost."""
        if self.over and self._events.empty():
            raise StopAsyncIteration
        return await self._events.get()

    def add(self, event: Event) -> None:
        if not self.left and not self.over:
            self.over = isinstance(event, Done | Failed)
            self._events.put_nowait(event)

    @property
    def piled_up(self) -> bool:
        return self._events.qsize() >= _MOST_EVENTS


class EngineLink:
    """One engine at a time. Attributes: `ranks_changed`, called when `ranks` has changed; `heard`,
    the number of its lines so far; `remark`, the newest one of an answer."""

    def __init__(self, *, thinking: Thinking = "", thinking_budget: int | None = None) -> None:
        """`thinking` and `thinking_budget`: of requests that have none."""
        self._thinking, self._thinking_budget = thinking, thinking_budget
        self.ranks_changed: Callable[[], None] = lambda: None
        self.heard, self.remark = 0, ""
        self._client = EngineClient(without_engine=_AGAIN)
        self._writer: asyncio.StreamWriter | None = None
        self._generations: dict[str, Generation] = {}
        self._asked: dict[str, asyncio.Future[Any]] = {}  # loads and counts

    @property
    def loaded(self) -> Loaded | None:
        """The pair that the engine has now, if any."""
        return self._client.loaded

    @property
    def ranks(self) -> tuple[RankState, ...]:
        """The Macs that hold the target together, as the engine saw them last."""
        return self._client.ranks

    @property
    def confessed(self) -> str:
        """The engine's message about itself, which may be why it ended; empty without one."""
        return self._client.confessed

    @property
    def due(self) -> bool:
        """Whether the engine has something to answer now."""
        return self.loaded is not None and isinstance(self._client.next, Question)

    @property
    def open(self) -> int:
        """The number of generations that the engine has not ended, also those without a reader."""
        return len(self._generations)

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take responses from an engine until its stream ends; another may follow later. Raises
        Problem where the engine writes a line that is not of this protocol."""
        self._writer = writer
        self._client.begin()
        self._write()
        try:
            while line := await _read_line(reader):
                self.heard += 1
                if (delivery := self._client.hear(line)) is not None:
                    self._deliver(delivery)
        finally:
            self._writer = None
            for delivery in self._client.lose(_GONE, _AGAIN, another=False):
                self._deliver(delivery)

    async def load(self, command: Load) -> Loaded:
        """Load a pair, in the engine of the next `run` if there is none. Raises EngineFailed."""
        loaded: Loaded = await self._ask(command)
        return loaded

    async def count(self, prompt: Prompt, thinking: Thinking = "") -> Counted:
        """Return how many tokens a prompt has, and how it ends. Raises EngineFailed."""
        counted: Counted = await self._ask(Count(_id(), prompt, thinking or self._thinking))
        return counted

    @asynccontextmanager
    async def generate(
        self, prompt: Prompt, request: Request, *, conversation: str = ""
    ) -> AsyncIterator[Generation]:
        """The events of an answer. To leave this cancels it where it is not over."""
        request = replace(
            request, thinking=request.thinking or self._thinking, keep_instructions=True
        )
        if request.thinking_budget is None:
            request = replace(request, thinking_budget=self._thinking_budget)
        generation = Generation(_id())
        if refusal := self._client.ask(Generate(generation.id, conversation, prompt, request)):
            generation.add(refusal)
        else:
            self._generations[generation.id] = generation
            self._write()
        try:
            yield generation
        finally:
            generation.left = True
            self._cancel(generation)

    def _cancel(self, generation: Generation) -> None:
        self._client.cancel(generation.id)
        self._write()

    async def _ask(self, command: Load | Count) -> Any:
        if refusal := self._client.ask(command):
            raise EngineFailed(refusal)
        self._write()
        future = self._asked[command.id] = asyncio.get_running_loop().create_future()
        try:
            return await future
        finally:
            del self._asked[command.id]

    def _write(self) -> None:
        if (data := self._client.to_send()) and self._writer is not None:
            self._writer.write(data)

    def _deliver(self, delivery: Delivery) -> None:
        match delivery:
            case (Loaded() | Counted() | Failed() as response, Load() | Count() as command):
                self.remark = "" if isinstance(response, Loaded) else self.remark
                self._settle(command.id, response)
            case (response, Generate() as command) if isinstance(response, Event):
                self._pass_on(response, self._generations[command.id])
            case (Ranks(), _):
                self.ranks_changed()

    def _pass_on(self, event: Event, generation: Generation) -> None:
        generation.add(event)
        if isinstance(event, Done):
            self.remark = event.remark or self.remark
        if isinstance(event, Done | Failed):
            del self._generations[generation.id]
        elif generation.piled_up and not generation.left:
            message, remedy = "The client did not read the answer.", "Read streams as they arrive."
            generation.add(Failed(generation.id, message, remedy))
            self._cancel(generation)

    def _settle(self, id: str, response: Loaded | Counted | Failed) -> None:
        future = self._asked.get(id)
        if future is None or future.done():
            return
        if isinstance(response, Failed):
            future.set_exception(EngineFailed(response))
        else:
            future.set_result(response)


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """The next line, or nothing at the end. Lines that are cut off by the end are not read."""
    with suppress(ConnectionError):
        try:
            line = await reader.readline()
        except ValueError:
            raise Problem(
                "The engine sent a line that is too long.", "Ask for fewer log probabilities."
            ) from None
        return line if line.endswith(b"\n") else b""
    return b""


def _id() -> str:
    return GUEST + uuid4().hex
