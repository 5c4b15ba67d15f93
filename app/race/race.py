"""A race: the same prompt through plain and through speculative decoding, in turns.

The next turn goes to the answer with less time so far, so that other load on the machine slows
both. Both are greedy, so they must write the same. The decoding is timed, by the engine; reading
the prompt is not. Knows the engine; shows nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.engine_client.engine_process import EngineProcess
from app.rounds.trace import Trace
from engine.conversation.rounds import Token
from engine.conversation.stats import ENOUGH_PLAIN_ROUNDS, NoRatio, against_plain, tally
from engine.events import Done, Event, Failed, Stats, Verdict
from engine.near_ties import Fork
from engine.process.protocol import rival_of
from engine.request import ChatMessage, Request, Sampling
from models.errors import Problem

Racer = Literal["plain", "speculative"]
RACERS: tuple[Racer, Racer] = ("plain", "speculative")
MOST_TOKENS = 400
EXACT = Sampling(temperature=0.0)


@dataclass(frozen=True, slots=True)
class RaceDifference:
    """The first difference of two answers: their `place`-th tokens, from 1; None if an answer has
    ended.

    `fork` is the engine's measurement there; None if there is none.
    """

    place: int
    plain: Token | None
    speculative: Token | None
    fork: Fork | None = None

    @property
    def near_tie(self) -> bool:
        """Whether rounding explains it: then plain decoding may write either of them."""
        return self.fork is not None and self.fork.near_tie


@dataclass(frozen=True, slots=True)
class RaceResult:
    """The result of a race. Both answers begin with `tokens` equal tokens; `difference` is None if
    they are identical. `ratio` is the speed of speculative decoding divided by plain decoding's, or
    why it is not known."""

    tokens: int
    difference: RaceDifference | None
    plain: Stats
    speculative: Stats
    ratio: float | NoRatio


def compare_answers(plain: Trace, speculative: Trace) -> RaceResult:
    """Compare two answers to the same prompt, token by token.

    Times are compared between the speculative answer and the plain rounds of the same period: later
    plain rounds no longer shared the machine.
    """
    tokens, difference = 0, None
    for ours, theirs in zip_longest(plain.committed, speculative.committed):
        if ours is None or theirs is None or ours.id != theirs.id:
            fork = next((each.fork for each in speculative.events if isinstance(each, Done)), None)
            difference = RaceDifference(tokens + 1, ours, theirs, fork)
            break
        tokens += 1
    fast = tally(speculative.events)
    meanwhile = tally(_until(fast.decode_seconds, plain.events))
    enough = meanwhile.plain >= ENOUGH_PLAIN_ROUNDS
    ratio = against_plain(fast, meanwhile.plain_seconds / meanwhile.plain if enough else 0.0)
    return RaceResult(tokens, difference, tally(plain.events), fast, ratio)


def _until(seconds: float, events: Iterable[Event]) -> Iterator[Event]:
    """Iterate over the rounds that began within the first `seconds` of decoding."""
    passed = 0.0
    for event in events:
        if isinstance(event, Verdict):
            if passed >= seconds:
                return
            passed += event.seconds
        yield event


class Race(QObject):
    """Runs a race of a drafted answer against a plain answer to the same question.

    Attributes: `running`; `waits`, whether the race must wait for other answers; `traces`, by
    racer.

    Signals:
        happened(str, EventOrRound): the next event or round of a racer.
        finished(RaceResult): both answers ended.
        failed(Problem): the race failed, or was stopped.
    """

    happened = Signal(str, object)
    finished = Signal(RaceResult)
    failed = Signal(Problem)

    def __init__(self, engine: EngineProcess, *, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._engine = engine
        self._generation = ""
        self.running = self.waits = False
        self.traces = {racer: Trace() for racer in RACERS}
        engine.happened.connect(self._on_event)

    def start(self, messages: Sequence[ChatMessage], request: Request) -> None:
        """Start both answers, with the loaded drafter."""
        request = replace(request, sampling=EXACT, max_tokens=min(request.max_tokens, MOST_TOKENS))
        self.traces = {racer: Trace() for racer in RACERS}
        self.running, self.waits = True, self._engine.answering
        self._generation = self._engine.generate("race", messages, request, race=True)

    def stop(self) -> None:
        """Stop the race. `failed` is sent when it has stopped."""
        if self.running:
            self._engine.cancel(self._generation)

    def _on_event(self, event: Event) -> None:
        racers: dict[str, Racer] = {
            self._generation: "speculative",
            rival_of(self._generation): "plain",
        }
        racer = racers.get(event.generation)
        if racer is None or not self.running:
            return
        self.happened.emit(racer, self.traces[racer].push(event))
        if isinstance(event, Failed):
            self._give_up(Problem(event.message, event.remedy))
        elif isinstance(event, Done) and event.reason == "cancelled":
            self._give_up(Problem("The race was stopped.", "Start another race at any time."))
        elif isinstance(event, Done) and racer == "speculative":  # the last event
            self.running = False
            self.finished.emit(compare_answers(self.traces["plain"], self.traces["speculative"]))

    def _give_up(self, problem: Problem) -> None:
        self.running = False
        self.failed.emit(problem)
