"""The server's side of one engine, over a pair of byte streams. Knows no HTTP, and no process.

Runs an `EngineClient`, whose laws say how each command ends, and makes two more promises:

- A generation that is left before its end is cancelled, and the rest of its events are dropped.
- A slow reader does not stop the engine: a generation with too many unread events fails.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Self
from uuid import uuid4

from engine.cluster.states import RankState
from engine.events import Done, Event, Failed
from engine.process.client import GUEST, Delivery, EngineClient, Question
from engine.process.protocol import Count, Counted, Generate, Load, Loaded, Ranks, Response
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


class Answer[Item: Response]:
    """The responses to one command: an asynchronous iterator, which ends after the last one."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.left = False  # the reader has left
        self.over = False  # its last response was added
        self._items: asyncio.Queue[Item] = asyncio.Queue()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        """May be cancelled, by a time limit for instance: nothing is lost."""
        if self.over and self._items.empty():
            raise StopAsyncIteration
        return await self._items.get()

    def add(self, item: Item) -> None:
        if not self.left and not self.over:
            self.over = isinstance(item, Done | Failed | Loaded | Counted)
            self._items.put_nowait(item)

    @property
    def piled_up(self) -> bool:
        return self._items.qsize() >= _MOST_EVENTS


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
        self._answers: dict[str, Answer[Any]] = {}

    @property
    def loaded(self) -> Loaded | None:
        """The pair that the engine has now, if any."""
        return self._client.loaded

    @property
    def ranks(self) -> tuple[RankState, ...]:
        """The Macs that hold the target together, as the engine saw them last."""
        return self._client.ranks

    @property
    def own_failure(self) -> str:
        """The engine's message about itself, which may be why it ended; empty without one."""
        return self._client.own_failure

    @property
    def held_bytes(self) -> int:
        """The bytes of the engine's models and caches."""
        return self._client.held_bytes

    @property
    def due(self) -> bool:
        """Whether the engine has something to answer now."""
        return self.loaded is not None and isinstance(self._client.next, Question)

    @property
    def open(self) -> int:
        """The number of generations that the engine has not ended, also those without a reader."""
        return sum(isinstance(command, Generate) for command in self._client.owed.values())

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
        loaded: Loaded = await self._end_of(command)
        return loaded

    async def count(self, prompt: Prompt, thinking: Thinking = "") -> Counted:
        """Return how many tokens a prompt has, and how it ends. Raises EngineFailed."""
        counted: Counted = await self._end_of(Count(_id(), prompt, thinking or self._thinking))
        return counted

    @asynccontextmanager
    async def generate(
        self, prompt: Prompt, request: Request, *, conversation: str = ""
    ) -> AsyncIterator[Answer[Event]]:
        """The events of an answer. To leave this cancels it where it is not over."""
        request = replace(
            request, thinking=request.thinking or self._thinking, keep_instructions=True
        )
        if request.thinking_budget is None:
            request = replace(request, thinking_budget=self._thinking_budget)
        answer = self._ask(Generate(_id(), conversation, prompt, request))
        try:
            yield answer
        finally:
            answer.left = True
            self._cancel(answer.id)

    def _cancel(self, generation: str) -> None:
        self._client.cancel(generation)
        self._write()

    def _ask(self, command: Question | Load) -> Answer[Any]:
        answer = Answer[Any](command.id)
        if refusal := self._client.ask(command):
            answer.add(refusal)
        else:
            self._answers[command.id] = answer
            self._write()
        return answer

    async def _end_of(self, command: Load | Count) -> Any:
        (*_, last) = [response async for response in self._ask(command)]
        if isinstance(last, Failed):
            raise EngineFailed(last)
        return last

    def _write(self) -> None:
        if (data := self._client.to_send()) and self._writer is not None:
            self._writer.write(data)

    def _deliver(self, delivery: Delivery) -> None:
        response, command = delivery
        if isinstance(response, Ranks):
            self.ranks_changed()
        if command is None or (answer := self._answers.get(command.id)) is None:
            return
        if isinstance(response, Loaded):
            self.remark = ""
        if isinstance(response, Done):
            self.remark = response.remark or self.remark
        answer.add(response)
        if command.id not in self._client.owed:
            del self._answers[command.id]
        elif answer.piled_up and not answer.left:
            message, remedy = "The client did not read the answer.", "Read streams as they arrive."
            answer.add(Failed(command.id, message, remedy))
            self._cancel(command.id)


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
