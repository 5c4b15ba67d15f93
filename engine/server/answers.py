"""Turns a client's request into the pieces of an answer. Knows the engine's events, and no dialect.

Each dialect makes an `Ask` from a request's body, and its own JSON from the pieces. Dialects see
neither a generation's rounds nor a model's marks around reasoning and calls.
"""

import asyncio
import sys
import traceback
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from uuid import uuid4

from engine.conversation.stats import update
from engine.events import (
    CallPiece,
    Done,
    Draft,
    Event,
    Failed,
    Prefill,
    Stats,
    Text,
    TokenLogprob,
    Verdict,
)
from engine.request import Prompt, Request
from engine.server.bodies import loads
from engine.server.errors import Refusal, broken, of_failure
from engine.server.link import EngineLink
from engine.stretches import Stretch, cut, divided

PREDICTION = "prediction"  # the drafter that copies the client's prediction
SIDE_BY_SIDE = 8  # answers to one request that the engine writes at a time
WAITING_SECONDS = 10.0  # without a piece; proxies and clients give up after 30 and more
_SEEDS = 1 << 64
_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, which sets the choices' seeds far apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A client's request: `n` answers to `prompt`, then to each of `more_prompts`, in this order.
    `hidden`: the reasoning is not sent."""

    prompt: Prompt
    more_prompts: tuple[Prompt, ...] = ()
    request: Request = field(default_factory=Request)
    n: int = 1
    hidden: bool = False

    @property
    def answers(self) -> int:
        """The number of answers."""
        return self.n * (1 + len(self.more_prompts))

    def prompt_of(self, answer: int) -> Prompt:
        """The prompt of answer number `answer`."""
        return (self.prompt, *self.more_prompts)[answer // self.n]

    def request_of(self, answer: int) -> Request:
        """The request for answer number `answer`. The first answer to each prompt has the client's
        seed, the others have seeds derived from it."""
        sampling, choice = self.request.sampling, answer % self.n
        if sampling is None or sampling.seed is None or choice == 0:
            return self.request
        seed = (sampling.seed + choice * _GOLDEN) % _SEEDS
        return replace(self.request, sampling=replace(sampling, seed=seed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The figures of one answer so far, in tokens.

    `prediction_accepted` and `prediction_rejected` count drafted tokens of the client's prediction;
    `draft` names the last drafter.
    """

    stats: Stats = field(default_factory=Stats)
    reasoning: int = 0
    prediction_accepted: int = 0
    prediction_rejected: int = 0
    draft: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """Text for the reader of the answer, or of the model's reasoning. `logprobs`: of the tokens of
    the content, if they are asked for."""

    kind: Literal["content", "reasoning"]
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of an answer. `stop_string`: the stop string that ended it, or "".

    `reason` is "stop", "length", or "tool_calls" if the answer ended with calls. `logprobs`: of
    tokens at the end that gave no text.
    """

    reason: str
    stop_string: str
    usage: Usage
    logprobs: tuple[TokenLogprob, ...] = ()


Piece = None | Prefill | Said | CallPiece | Ended | Refusal
"""A piece of an answer. The first one is `Prefill`: the prompt is being read, so the request is
valid. The last one is `Ended`, or the `Refusal` of an answer that failed. None: no piece came for
`WAITING_SECONDS`, and the client needs a sign that the server still works."""
Pieces = AsyncIterator[tuple[int, Piece]]
"""The pieces of all answers to a request, each with the number of its answer."""
Watch = Callable[[int, Usage], None]
"""Called after each event with the answer's number and its usage so far."""


def call_id() -> str:
    """Return an id for a call that the model makes."""
    return f"call_{uuid4().hex}"


def arguments_in(arguments: str) -> dict[str, Any]:
    """A call's arguments as an object; {} if the answer ended within them."""
    try:
        value = loads(arguments or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


async def choices(
    link: EngineLink, ask: Ask, watch: Watch
) -> AsyncGenerator[tuple[int, Piece], None]:
    """Yield the pieces of all answers, each with the number of its answer. Close it to cancel
    them."""
    queue: asyncio.Queue[tuple[int, Piece] | None] = asyncio.Queue(SIDE_BY_SIDE)
    left = iter(range(ask.answers))

    async def feed() -> None:
        for number in left:
            try:
                request = ask.request_of(number)
                async with link.generate(ask.prompt_of(number), request) as events:
                    answer = _Answer(request.stops)
                    async for event in events:
                        made = list(answer.take(event))
                        watch(number, answer.usage)
                        for piece in made:
                            await queue.put((number, piece))
            except Exception as error:
                traceback.print_exception(error, file=sys.stderr)
                await queue.put((number, broken()))
        await queue.put(None)

    writing = min(SIDE_BY_SIDE, ask.answers)
    tasks = [asyncio.create_task(feed()) for _ in range(writing)]
    try:
        while writing:
            numbered = await queue.get()
            if numbered is None:
                writing -= 1
            else:
                yield numbered
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def kept_alive(
    answers: AsyncGenerator[tuple[int, Piece], None],
) -> AsyncGenerator[tuple[int, Piece], None]:
    """Yield the pieces of answers, and None whenever none comes for `WAITING_SECONDS`."""
    async with aclosing(answers):
        while True:
            coming = asyncio.ensure_future(anext(answers, None))
            try:
                while not (await asyncio.wait((coming,), timeout=WAITING_SECONDS))[0]:
                    yield 0, None
                numbered = coming.result()
            finally:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)
            if numbered is None:
                return
            yield numbered


class _Answer:
    """Turns the events of one generation into pieces. Attribute: `usage` so far."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.usage = Usage()
        self._stops = stops
        self._drafter = ""
        self._scores: dict[tuple[int, int], TokenLogprob] = {}  # by round and place in it
        self._unread: list[TokenLogprob] = []  # for the text of the next piece
        self._behind: list[TokenLogprob] = []  # of tokens without text: half characters, an end
        self._called = False  # a call is whole

    def take(self, event: Event) -> Iterator[Piece]:
        first = not self.usage.stats.prompt_tokens
        self.usage = replace(self.usage, stats=update(self.usage.stats, event))
        match event:
            case Prefill() if first:
                yield event
            case Draft():
                self._drafter = event.drafter
            case Verdict():
                self._judged(event)
            case Text():
                yield from self._text(event)
            case Done():
                yield self._end(event)
            case Failed():
                yield of_failure(event)

    def _judged(self, verdict: Verdict) -> None:
        for place, score in enumerate(verdict.logprobs):
            self._scores[verdict.round, place] = score
        if drafted := len(verdict.judgements):
            self.usage = replace(self.usage, draft=self._drafter)
            if self._drafter == PREDICTION:
                kept, before = verdict.accepted, self.usage
                self.usage = replace(
                    before,
                    prediction_accepted=before.prediction_accepted + kept,
                    prediction_rejected=before.prediction_rejected + drafted - kept,
                )

    def _text(self, text: Text) -> Iterator[Piece]:
        rest: Sequence[Stretch] = text.parts
        for span in text.spans:
            its, rest = cut(rest, span.length)
            kinds = {stretch.kind for stretch in its}
            if "reasoning" in kinds:
                self.usage = replace(self.usage, reasoning=self.usage.reasoning + 1)
            score = self._scores.pop((span.round, span.index), None)
            if score is not None:
                self._behind.append(score)
                if span.length:
                    self._unread += self._behind if "content" in kinds else ()
                    self._behind = []
        calls = deque(text.calls)
        for kind, part in divided(text.delta, text.stretches):
            match kind:
                case "content":
                    yield Said(kind, part, tuple(self._unread))
                    self._unread = []
                case "reasoning":
                    yield Said(kind, part)
                case "call":
                    yield from self._call(calls)
        while calls:
            yield from self._call(calls)

    def _call(self, pieces: deque[CallPiece]) -> Iterator[CallPiece]:
        """Yield the pieces of calls up to the end of one."""
        ended = False
        while pieces and not ended:
            ended = pieces[0].ended
            yield pieces.popleft()
        self._called |= ended

    def _end(self, done: Done) -> Ended | Refusal:
        if done.reason == "cancelled":
            message = "The answer was stopped before its end."
            return Refusal(503, "cancelled", message, again=True)
        stop = next((stop for stop in self._stops if done.cut.startswith(stop)), "")
        called = done.reason == "stop" and not stop and self._called
        reason = "tool_calls" if called else done.reason
        return Ended(reason, stop, self.usage, tuple(self._behind))
