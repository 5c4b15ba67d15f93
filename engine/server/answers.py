"""From what a client asks to the pieces of an answer. Knows the engine's events, and no dialect.

Each dialect makes an `Ask` of a request's body, and its own JSON of the pieces that come. They do
not see the engine's events, nor the marks by which a model tells reasoning and calls from prose.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from engine.events import (
    Done,
    Draft,
    Event,
    Failed,
    Prefill,
    PromptLogprobs,
    Text,
    TokenLogprob,
    Verdict,
)
from engine.request import Prompt, Request
from engine.server.errors import Refusal, of_failure
from engine.server.link import EngineLink
from engine.server.reading import CallStart, Part, Prose, Reader, Thought, everything_is_prose

SIDE_BY_SIDE = 8  # answers to one request that the engine is asked for at a time
WAITING_SECONDS = 10.0  # without a piece; proxies and clients give up after 30 and more
_SEEDS = 1 << 64
_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, which sets the choices' seeds far apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a client asks for: `n` answers to a prompt, and to each of `more_prompts`, numbered in
    this order. `reader` makes the reader of each, which finds reasoning and calls in its text."""

    prompt: Prompt
    more_prompts: tuple[Prompt, ...] = ()
    request: Request = field(default_factory=Request)
    n: int = 1
    reader: Callable[[], Reader] = everything_is_prose

    @property
    def answers(self) -> int:
        """How many there will be."""
        return self.n * (1 + len(self.more_prompts))

    def prompt_of(self, answer: int) -> Prompt:
        """What one of the answers is to."""
        return (self.prompt, *self.more_prompts)[answer // self.n]

    def request_of(self, answer: int) -> Request:
        """The request for one of the answers. The first to each prompt has the seed itself, the
        others have their own."""
        sampling, choice = self.request.sampling, answer % self.n
        if sampling is None or sampling.seed is None or choice == 0:
            return self.request
        seed = (sampling.seed + choice * _GOLDEN) % _SEEDS
        return replace(self.request, sampling=replace(sampling, seed=seed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The figures of one answer, in tokens.

    `prediction_accepted` and `prediction_rejected` are tokens of the client's prediction that were
    drafted; `draft` names what drafted last.
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
    """Nothing has come for a while: a moment to say that the answer will."""


@dataclass(frozen=True, slots=True)
class Began:
    """The prompt is being read, so nothing is wrong with the request. The first piece but for
    `Waiting` and `Broken`."""

    prompt_tokens: int
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Scored:
    """The log probabilities of the prompt's tokens; there may be several such pieces."""

    tokens: tuple[TokenLogprob, ...]


@dataclass(frozen=True, slots=True)
class Content:
    """Text for the reader of the answer, and its tokens' log probabilities where asked for."""

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
    """More of the JSON text of a call's arguments. All of a call's together are valid JSON."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The last piece. `stop_string`: the one that ended the answer, or empty.

    `reason` is "stop", "length", or "tool_calls" where the answer ended with calls. `logprobs` are
    those of tokens at the end that gave no text.
    """

    reason: str
    stop_string: str
    usage: Usage
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """The last piece of an answer that failed."""

    refusal: Refusal


Piece = Waiting | Began | Scored | Content | Reasoning | CallBegan | CallArguments | Ended | Broken


Watch = Callable[[int, str, Usage], None]
"""Is told how far the answer with that number has come, in which generation, after each event."""


async def pieces(
    link: EngineLink,
    ask: Ask,
    *,
    number: int = 0,
    watch: Watch = lambda answer, generation, usage: None,
) -> AsyncGenerator[Piece, None]:
    """The pieces of one answer; the last is an `Ended` or a `Broken`. Close it to cancel it."""
    request = ask.request_of(number)
    loop = asyncio.get_running_loop()
    async with link.generate(ask.prompt_of(number), request) as events:
        answer = _Answer(request, ask.reader())
        told = loop.time()
        while True:
            try:
                async with asyncio.timeout_at(told + WAITING_SECONDS):
                    event = await anext(events, None)
            except TimeoutError:
                told = loop.time()
                yield Waiting()
                continue
            if event is None:
                return
            made = list(answer.take(event))
            watch(number, events.id, answer.usage)
            for piece in made:
                told = loop.time()
                yield piece


async def choices(
    link: EngineLink, ask: Ask, *, watch: Watch = lambda answer, generation, usage: None
) -> AsyncGenerator[tuple[int, Piece], None]:
    """The pieces of all answers, each with the number of its answer."""
    queue: asyncio.Queue[tuple[int, Piece] | None] = asyncio.Queue(SIDE_BY_SIDE)
    room = asyncio.Semaphore(SIDE_BY_SIDE)

    async def feed(number: int) -> None:
        async with room, aclosing(pieces(link, ask, number=number, watch=watch)) as answer:
            async for piece in answer:
                await queue.put((number, piece))
        await queue.put(None)

    tasks = [asyncio.create_task(feed(number)) for number in range(ask.answers)]
    try:
        writing = ask.answers
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


class _Answer:
    """Makes pieces of the events of one generation."""

    def __init__(self, request: Request, reader: Reader) -> None:
        self._request = request
        self._reader = reader
        self.usage = Usage()
        self._began = False
        self._calls = 0
        self._drafter = ""
        self._scores: dict[tuple[int, int], TokenLogprob] = {}  # by round and place in it
        self._unread: list[TokenLogprob] = []  # those whose text was not told yet
        self._behind: list[TokenLogprob] = []  # that gave no text: parts of a character, or an end

    def take(self, event: Event) -> Iterator[Piece]:
        match event:
            case Prefill() if not self._began:
                self._began = True
                self.usage = replace(self.usage, prompt=event.total, cached=event.reused)
                yield Began(event.total, event.reused)
            case PromptLogprobs():
                yield Scored(event.tokens)
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
        drafted = len(verdict.judgements)
        usage = replace(
            self.usage,
            completion=self.usage.completion
            + verdict.accepted
            + (verdict.next is not None)
            + len(verdict.forced),
            rounds=self.usage.rounds + (not verdict.forced),
            drafted=self.usage.drafted + drafted,
            accepted=self.usage.accepted + verdict.accepted,
            forced=self.usage.forced + len(verdict.forced),
            draft=self._drafter if drafted else self.usage.draft,
        )
        if drafted and self._drafter == "prediction":
            usage = replace(
                usage,
                prediction_accepted=usage.prediction_accepted + verdict.accepted,
                prediction_rejected=usage.prediction_rejected + drafted - verdict.accepted,
            )
        self.usage = usage
        for place, score in enumerate(verdict.logprobs):
            self._scores[verdict.round, place] = score

    def _text(self, text: Text) -> Iterator[Piece]:
        for span in text.spans:
            score = self._scores.pop((span.round, span.index), None)
            if score is not None:
                self._behind.append(score)
                if span.length:
                    self._unread += self._behind
                    self._behind = []
        parts = self._reader.push(text.delta) if text.delta else []
        if parts and isinstance(parts[0], Thought):
            more = self.usage.reasoning + len(text.spans)
            self.usage = replace(self.usage, reasoning=more)
        yield from self._pieces(parts)

    def _pieces(self, parts: list[Part]) -> Iterator[Piece]:
        for part in parts:
            scores, self._unread = tuple(self._unread), []
            match part:
                case Prose():
                    yield Content(part.text, scores)
                case Thought():
                    yield Reasoning(part.text)
                case CallStart():
                    self._calls += 1
                    yield CallBegan(self._calls - 1, part.id, part.name)
                case _:
                    yield CallArguments(self._calls - 1, part.text)

    def _end(self, done: Done) -> Iterator[Piece]:
        yield from self._pieces(self._reader.finish())
        if done.reason == "cancelled":
            message = "The answer was stopped before its end."
            yield Broken(Refusal(503, "cancelled", message, again=True))
            return
        stop = next((stop for stop in self._request.stops if done.cut.startswith(stop)), "")
        reason = "tool_calls" if self._calls and done.reason == "stop" else done.reason
        yield Ended(reason, stop, self.usage, tuple(self._behind))
