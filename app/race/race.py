"""A race: the same prompt through plain and through speculative decoding, one after the other.

Both are greedy, so that they must write the same. What is timed is the decoding, as the engine
measures it; the second finds the prompt in the cache, so reading that is left out for both.
Knows the engine; shows nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.engine_client.engine_process import EngineProcess
from app.models.loader import ModelLoader
from app.rounds.trace import Trace
from engine.events import Done, Event, Failed, Stats
from engine.request import ChatMessage, Request, Sampling
from engine.rounds import Token
from engine.stats import tally
from models.errors import Problem

Racer = Literal["plain", "speculative"]
RACERS: tuple[Racer, Racer] = ("plain", "speculative")
MOST_TOKENS = 400


@dataclass(frozen=True, slots=True)
class RaceDifference:
    """Where two answers differ first: their `place`-th tokens, from 1; None where one has ended."""

    place: int
    plain: Token | None
    speculative: Token | None

    @property
    def margin(self) -> float | None:
        """The difference of the two probabilities; None where one answer has ended."""
        match self.plain, self.speculative:
            case Token(p=float(plain)), Token(p=float(speculative)):
                return abs(plain - speculative)
        return None


@dataclass(frozen=True, slots=True)
class RaceResult:
    """How a race went. `tokens` is how many both answers begin with; `difference` is None where
    they are identical. `ratio` is how many times as fast speculative decoding was, None where
    nothing was measured."""

    tokens: int
    difference: RaceDifference | None
    plain: Stats
    speculative: Stats

    @property
    def ratio(self) -> float | None:
        plain, speculative = (s.tokens_per_second for s in (self.plain, self.speculative))
        return speculative / plain if plain and speculative else None


def compare_answers(plain: Trace, speculative: Trace) -> RaceResult:
    """Compare two answers to the same prompt, token by token."""
    tokens, difference = 0, None
    for ours, theirs in zip_longest(plain.committed, speculative.committed):
        if ours is None or theirs is None or ours.id != theirs.id:
            difference = RaceDifference(tokens + 1, ours, theirs)
            break
        tokens += 1
    return RaceResult(tokens, difference, tally(plain.events), tally(speculative.events))


class Race(QObject):
    """Attributes: `running`; `traces`, by racer.

    Signals:
        happened(str, EventOrRound): one more step of a racer.
        finished(RaceResult): both answers ended by themselves.
        failed(Problem): one answer failed, or the race was stopped.
    """

    happened = Signal(str, object)
    finished = Signal(RaceResult)
    failed = Signal(Problem)

    def __init__(
        self, engine: EngineProcess, loader: ModelLoader, *, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._engine, self._loader = engine, loader
        self._generations: dict[str, Racer] = {}
        self._drafting_requests: set[str] = set()
        self.running = False
        self.traces = {racer: Trace() for racer in RACERS}
        engine.happened.connect(self._on_event)
        engine.failed.connect(self._on_failed)

    def start(self, messages: Sequence[ChatMessage], request: Request) -> None:
        """Start both. The engine works on its commands in order, so all are sent at once."""
        pair = self._loader.pair
        request = replace(
            request,
            sampling=replace(request.sampling or Sampling(), temperature=0.0),
            max_tokens=min(request.max_tokens, MOST_TOKENS),
        )
        self.traces = {racer: Trace() for racer in RACERS}
        self._generations, self._drafting_requests = {}, set()
        self.running = True
        self._loader.override()
        drafting = {"plain": ("none", "0"), "speculative": (pair.drafter, pair.draft_length)}
        for racer in RACERS:
            drafter, length = drafting[racer]
            self._drafting_requests.add(
                self._engine.use_drafting(drafter=drafter, draft_length=length)
            )
            self._generations[self._engine.generate("race", messages, request)] = racer

    def stop(self) -> None:
        """Stop the race; `failed` is emitted when it has stopped."""
        for generation in self._generations:
            self._engine.cancel(generation)

    def _on_event(self, event: Event) -> None:
        racer = self._generations.get(event.generation)
        if racer is None or not self.running:
            return
        self.happened.emit(racer, self.traces[racer].push(event))
        if isinstance(event, Failed):
            self._give_up(Problem(event.message, event.remedy))
        elif isinstance(event, Done) and event.reason == "cancelled":
            self._give_up(Problem("The race was stopped.", "Race again when you like."))
        elif isinstance(event, Done) and racer == "speculative":
            self._end()
            self.finished.emit(compare_answers(self.traces["plain"], self.traces["speculative"]))

    def _on_failed(self, failed: Failed) -> None:
        if self.running and failed.generation in self._drafting_requests:
            self._give_up(Problem(failed.message, failed.remedy))

    def _give_up(self, problem: Problem) -> None:
        self._end()
        self.stop()
        self.failed.emit(problem)

    def _end(self) -> None:
        self.running = False
        self._loader.restore()
