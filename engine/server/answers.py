"""Turns a client's request into the pieces of an answer. Knows the engine's events, and no dialect.

Each dialect makes an `Ask` from a request's body, and its own JSON from the pieces. Dialects see
neither the engine's events nor a model's marks around reasoning and calls.
"""

import asyncio
import sys
import traceback
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from uuid import uuid4

from engine.events import (
    CallPiece,
    Done,
    Draft,
    Event,
    Failed,
    Prefill,
    Text,
    TokenLogprob,
    Verdict,
)
from engine.request import Prompt, Request
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

    `choice`: "none", "auto", "required", or the name of the tool that must be called; `parallel`:
    an answer may have several calls.

    `patterns`: by a tool's name, a regular expression for the text that is its only argument. It is
    enforced if the model writes its calls in JSON. `hidden`: the reasoning is not sent.
    """

    prompt: Prompt
    more_prompts: tuple[Prompt, ...] = ()
    request: Request = field(default_factory=Request)
    n: int = 1
    choice: str = "auto"
    parallel: bool = True
    patterns: Mapping[str, str] = field(default_factory=dict)
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
    """The figures of one answer, in tokens.

    `prediction_accepted` and `prediction_rejected` count drafted tokens of the client's prediction;
    `draft` names the last drafter.
    """

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    reasoning: int = 0
    prediction_accepted: int = 0
    prediction_rejected: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    forced: int = 0
    draft: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """No piece came for `WAITING_SECONDS`: the client needs a sign that the server still works."""


@dataclass(frozen=True, slots=True)
class Began:
    """The prompt is being read, so the request is valid. The first piece, except for `Waiting` and
    `Broken`."""

    prompt_tokens: int
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Content:
    """Text for the reader of the answer, and its tokens' log probabilities if asked for."""

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegan:
    """The model calls a tool: its call number `index`, from 0."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A piece of a call's arguments; all pieces of a call together are valid JSON."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The last piece. `stop_string`: the stop string that ended the answer, or "".

    `reason` is "stop", "length", or "tool_calls" if the answer ended with calls. `logprobs`: of
    tokens at the end that gave no text.
    """

    reason: str
    stop_string: str
    usage: Usage
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """The last piece of an answer that failed."""

    refusal: Refusal


Piece = Waiting | Began | Content | Reasoning | CallBegan | CallArguments | Ended | Broken
Pieces = AsyncIterator[tuple[int, Piece]]
"""The pieces of all answers to a request, each with the number of its answer."""
Watch = Callable[[int, Usage], None]
"""Called after each event with the answer's number and its usage so far."""


async def pieces(
    link: EngineLink,
    ask: Ask,
    *,
    number: int = 0,
    watch: Watch = lambda answer, usage: None,
) -> AsyncGenerator[Piece, None]:
    """Yield the pieces of one answer; the last is `Ended` or `Broken`. Close it to cancel it."""
    async with link.generate(ask.prompt_of(number), ask.request_of(number)) as events:
        answer = _Answer(ask)
        async for event in events:
            made = list(answer.take(event))
            watch(number, answer.usage)
            for piece in made:
                yield piece


async def choices(
    link: EngineLink, ask: Ask, *, watch: Watch = lambda answer, usage: None
) -> AsyncGenerator[tuple[int, Piece], None]:
    """Yield the pieces of all answers as (number of the answer, piece)."""
    queue: asyncio.Queue[tuple[int, Piece] | None] = asyncio.Queue(SIDE_BY_SIDE)
    left = iter(range(ask.answers))

    async def feed() -> None:
        for number in left:
            try:
                async with aclosing(pieces(link, ask, number=number, watch=watch)) as answer:
                    async for piece in answer:
                        await queue.put((number, piece))
            except Exception as error:
                traceback.print_exception(error, file=sys.stderr)
                await queue.put((number, Broken(broken())))
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
    """Yield the pieces of answers, and `Waiting` whenever none comes for `WAITING_SECONDS`."""
    async with aclosing(answers):
        while True:
            coming = asyncio.ensure_future(anext(answers, None))
            try:
                while not (await asyncio.wait((coming,), timeout=WAITING_SECONDS))[0]:
                    yield 0, Waiting()
                numbered = coming.result()
            finally:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)
            if numbered is None:
                return
            yield numbered


class _Answer:
    """Turns the events of one generation into pieces. Attribute: `usage` so far."""

    def __init__(self, ask: Ask) -> None:
        self.usage = Usage()
        self._stops = ask.request.stops
        self._drafter = ""
        self._scores: dict[tuple[int, int], TokenLogprob] = {}  # by round and place in it
        self._unread: list[TokenLogprob] = []  # for the text of the next piece
        self._behind: list[TokenLogprob] = []  # of tokens without text: half characters, an end
        self._calls = 0  # whole ones

    def take(self, event: Event) -> Iterator[Piece]:
        match event:
            case Prefill() if not self.usage.prompt:
                self.usage = replace(self.usage, prompt=event.total, cached=event.reused)
                yield Began(event.total, event.reused)
            case Prefill():  # tokens from the disk are counted after the first event
                self.usage = replace(self.usage, cached=event.reused)
            case Draft():
                self._drafter = event.drafter
            case Verdict():
                self._count(event)
            case Text():
                yield from self._text(event)
            case Done():
                yield from self._end(event)
            case Failed():
                yield Broken(of_failure(event))

    def _count(self, verdict: Verdict) -> None:
        drafted, written = len(verdict.judgements), verdict.accepted + len(verdict.forced)
        predicted = drafted if self._drafter == PREDICTION else 0
        kept = min(predicted, verdict.accepted)
        self.usage = replace(
            self.usage,
            completion=self.usage.completion + written + (verdict.next is not None),
            rounds=self.usage.rounds + (not verdict.forced),
            drafted=self.usage.drafted + drafted,
            accepted=self.usage.accepted + verdict.accepted,
            forced=self.usage.forced + len(verdict.forced),
            draft=self._drafter if drafted else self.usage.draft,
            prediction_accepted=self.usage.prediction_accepted + kept,
            prediction_rejected=self.usage.prediction_rejected + predicted - kept,
        )
        for place, score in enumerate(verdict.logprobs):
            self._scores[verdict.round, place] = score

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
                    yield Content(part, tuple(self._unread))
                    self._unread = []
                case "reasoning":
                    yield Reasoning(part)
                case "call":
                    yield from self._call(calls)
        while calls:
            yield from self._call(calls)

    def _call(self, pieces: deque[CallPiece]) -> Iterator[Piece]:
        """The pieces of calls up to the end of one."""
        while pieces:
            piece = pieces.popleft()
            if piece.name:
                yield CallBegan(self._calls, f"call_{uuid4().hex}", piece.name)
            if piece.arguments:
                yield CallArguments(self._calls, piece.arguments)
            if piece.ended:
                self._calls += 1
                return

    def _end(self, done: Done) -> Iterator[Piece]:
        if done.reason == "cancelled":
            message = "The answer was stopped before its end."
            yield Broken(Refusal(503, "cancelled", message, again=True))
            return
        stop = next((stop for stop in self._stops if done.cut.startswith(stop)), "")
        called = done.reason == "stop" and not stop and self._calls
        reason = "tool_calls" if called else done.reason
        yield Ended(reason, stop, self.usage, tuple(self._behind))
