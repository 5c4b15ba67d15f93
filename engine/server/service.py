"""What all endpoints share: one engine, and who may ask it. Knows no dialect and no HTTP."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from importlib.metadata import version
from pathlib import Path

from engine.protocol import Loaded
from engine.request import Prompt
from engine.server.answers import Ask, Broken, Piece, choices
from engine.server.errors import crowded, not_loaded, of_failure
from engine.server.exchange import Call
from engine.server.link import EngineFailed, EngineLink

MOST_WAITING = 32  # answers, beyond those that the engine writes side by side


class Service:
    """The engine behind the endpoints. Attribute: `link`."""

    def __init__(self, link: EngineLink) -> None:
        self.link = link

    @property
    def loaded(self) -> Loaded:
        """What answers. Raises Refusal while nothing is loaded."""
        if self.link.loaded is None:
            raise not_loaded()
        return self.link.loaded

    @property
    def model(self) -> str:
        """The name of what answers, in responses."""
        return Path(self.loaded.target).name

    @property
    def fingerprint(self) -> str:
        """Of what answers: another one may write another text for the same seed."""
        return f"slipstream-{version('slipstream')}"

    async def answer(self, call: Call, ask: Ask) -> AsyncIterator[tuple[int, Piece]]:
        """The pieces of the answers to `ask`, each with the number of its answer.

        They begin with something that is no failure: a request that cannot be answered raises its
        Refusal here, before the first byte. They end with the call, whether they were read or not.
        """
        loaded = self.loaded
        waiting = self.link.open - loaded.parallel
        if waiting >= MOST_WAITING:
            raise crowded(waiting)
        answers = await call.held.enter_async_context(aclosing(choices(self.link, ask)))
        first = await anext(answers)
        if isinstance(first[1], Broken):
            raise first[1].refusal
        return await call.held.enter_async_context(aclosing(_with(first, answers)))

    async def count(self, prompt: Prompt) -> int:
        """How many tokens a prompt has. Raises Refusal."""
        _ = self.loaded
        try:
            return await self.link.count(prompt)
        except EngineFailed as failure:
            raise of_failure(failure.failed) from None


async def _with(
    first: tuple[int, Piece], rest: AsyncIterator[tuple[int, Piece]]
) -> AsyncGenerator[tuple[int, Piece], None]:
    yield first
    async for numbered in rest:
        yield numbered
