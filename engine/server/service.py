"""The service that all endpoints share: one engine, its queue, its metrics. Knows no dialect."""

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from importlib.metadata import version
from pathlib import Path

from engine.process.protocol import Counted, Loaded
from engine.request import Prompt, Thinking
from engine.server.answers import Ask, Broken, Piece, Usage, choices
from engine.server.errors import crowded, not_loaded, of_failure
from engine.server.exchange import Call
from engine.server.link import EngineFailed, EngineLink
from engine.server.metrics import Metrics
from engine.server.replying import for_model
from engine.server.status import Board, RequestStatus
from engine.server.target import TargetFiles, TargetTexts

MOST_WAITING = 32


class Service:
    """The engine behind the endpoints.

    Attributes: `link`, `metrics`, `board`, and `fingerprint`: with another fingerprint the same
    seed may give another text.
    """

    def __init__(
        self, link: EngineLink, board: Board | None = None, *, most_waiting: int = MOST_WAITING
    ) -> None:
        """`most_waiting`: answers, beyond those that the engine writes side by side."""
        self.link = link
        self._most_waiting = most_waiting
        self.metrics = Metrics()
        self.board = board or Board()
        self.fingerprint = f"slipstream-{version('slipstream')}"
        self._files = TargetFiles()

    @property
    def loaded(self) -> Loaded:
        """The loaded pair. Raises Refusal while nothing is loaded."""
        if self.link.loaded is None:
            raise not_loaded()
        return self.link.loaded

    @property
    def model(self) -> str:
        """The target's name, for responses. Raises Refusal while nothing is loaded."""
        return Path(self.loaded.target).name

    async def marks(self) -> frozenset[str]:
        """The names of special and added tokens. Raises Refusal while nothing is loaded."""
        return (await self.texts()).marks

    async def answer(self, call: Call, ask: Ask) -> AsyncIterator[tuple[int, Piece]]:
        """Begin to answer; return an iterator of (number of the answer, piece).

        Waits for the first piece: a request that cannot be answered raises Refusal here, before the
        first byte. The answers are cancelled when the call ends.
        """
        loaded = self.loaded
        waiting = self.link.open - loaded.parallel
        if waiting >= self._most_waiting:
            raise crowded(waiting)
        texts = await self.texts()
        ask = await for_model(ask, texts.syntax, self._ending)
        watched = _Watched(call, ask.answers, self.metrics, self.board)
        call.held.callback(watched.end)
        answers = await call.held.enter_async_context(
            aclosing(choices(self.link, ask, watch=watched.see))
        )
        first = await anext(answers)
        if isinstance(first[1], Broken):
            raise first[1].refusal
        return await call.held.enter_async_context(aclosing(_with(first, answers)))

    async def count(self, prompt: Prompt, thinking: Thinking = "") -> int:
        """The number of tokens of a prompt. Raises Refusal."""
        return (await self._counted(prompt, thinking)).tokens

    async def _counted(self, prompt: Prompt, thinking: Thinking) -> Counted:
        _ = self.loaded
        try:
            return await self.link.count(prompt, thinking)
        except EngineFailed as failure:
            raise of_failure(failure.failed) from None

    async def texts(self) -> TargetTexts:
        """The target's template, and the syntax of its replies. Raises Refusal while nothing is
        loaded."""
        loaded = self.loaded
        return await self._files.texts(
            loaded.target, knows_tools=loaded.knows_tools, found=loaded.notation
        )

    async def _ending(self, ask: Ask) -> str:
        return (await self._counted(ask.prompt, ask.request.thinking)).ending


class _Watched:
    """Counts the progress of one request, and shows it on the board."""

    def __init__(self, call: Call, answers: int, metrics: Metrics, board: Board) -> None:
        self._id = call.id
        self._usages = [Usage()] * answers
        self._generations = [""] * answers
        self._metrics = metrics
        self._board = board
        self._began = time.monotonic()
        self._last = [0.0] * answers  # when each answer's last tokens came
        board.show(RequestStatus(call.id, call.path, call.client))

    def see(self, answer: int, generation: str, usage: Usage) -> None:
        before, self._usages[answer] = self._usages[answer], usage
        self._generations[answer] = generation
        count = self._metrics.count
        count("prompt_tokens_total", usage.prompt - before.prompt)
        count("cached_tokens_total", usage.cached - before.cached)
        count("generated_tokens_total", usage.completion - before.completion)
        count("forced_tokens_total", usage.forced - before.forced)
        count("rounds_total", usage.rounds - before.rounds)
        if usage.drafted > before.drafted:
            drafter = usage.draft
            count("drafted_tokens_total", usage.drafted - before.drafted, drafter=drafter)
            count("accepted_tokens_total", usage.accepted - before.accepted, drafter=drafter)
        if tokens := usage.completion - before.completion:
            self._time(answer, tokens, first=before.completion == 0)
        written = sum(one.completion for one in self._usages)
        self._board.progress(self._id, generations=tuple(filter(None, self._generations)))
        if usage.prompt:
            state = "writing" if written else "reading"
            self._board.progress(self._id, state=state, prompt_tokens=usage.prompt, tokens=written)

    def _time(self, answer: int, tokens: int, *, first: bool) -> None:
        now = time.monotonic()
        if first:
            self._metrics.time("time_to_first_token_seconds", now - self._began)
        else:
            seconds = (now - self._last[answer]) / tokens
            self._metrics.time("inter_token_seconds", seconds, tokens)
        self._last[answer] = now

    def end(self) -> None:
        self._metrics.time("request_seconds", time.monotonic() - self._began)
        self._board.remove(self._id)


async def _with(
    first: tuple[int, Piece], rest: AsyncIterator[tuple[int, Piece]]
) -> AsyncGenerator[tuple[int, Piece], None]:
    yield first
    async for numbered in rest:
        yield numbered
