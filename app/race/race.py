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
from engine.request import ChatMessage, Request
from engine.rounds import Token
from engine.stats import tally
from models.errors import Problem

Runner = Literal["plain", "speculative"]
RUNNERS: tuple[Runner, Runner] = ("plain", "speculative")
MOST_TOKENS = 400


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two answers part: the `place`-th token, from 1. None where one has ended there."""

    place: int
    plain: Token | None
    speculative: Token | None

    @property
    def margin(self) -> float | None:
        """How far apart the two tokens' probabilities are; None where one answer has ended."""
        match self.plain, self.speculative:
            case Token(p=float(one)), Token(p=float(other)):
                return abs(one - other)
        return None


@dataclass(frozen=True, slots=True)
class Result:
    """How a race went. `tokens` are those that both wrote; `difference` is None where that is
    all. `ratio` is how many times as fast speculative decoding was, None where nothing was
    measured."""

    tokens: int
    difference: Difference | None
    plain: Stats
    speculative: Stats

    @property
    def ratio(self) -> float | None:
        plain, speculative = (s.tokens_per_second for s in (self.plain, self.speculative))
        return speculative / plain if plain and speculative else None


def judge_race(plain: Trace, speculative: Trace) -> Result:
    """Compare two answers to the same prompt, token by token."""
    tokens, difference = 0, None
    for one, other in zip_longest(plain.committed, speculative.committed):
        if one is None or other is None or one.id != other.id:
            difference = Difference(tokens + 1, one, other)
            break
        tokens += 1
    return Result(tokens, difference, tally(plain.events), tally(speculative.events))


class Race(QObject):
    """Attributes: `running`; `traces`, by runner.

    Signals:
        happened(str, EventOrRound): one more step of a runner.
        finished(Result): both have ended by themselves.
        failed(Problem): one has not, or was stopped.
    """

    happened = Signal(str, object)
    finished = Signal(Result)
    failed = Signal(Problem)

    def __init__(
        self, engine: EngineProcess, loader: ModelLoader, *, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._engine, self._loader = engine, loader
        self._generations: dict[str, Runner] = {}
        self._asked: set[str] = set()  # for another drafting
        self.running = False
        self.traces = {runner: Trace() for runner in RUNNERS}
        engine.happened.connect(self._hear)
        engine.failed.connect(self._on_failed)

    def start(self, messages: Sequence[ChatMessage], request: Request) -> None:
        """Let both run. The engine does what it is asked for in order, so all is asked at once."""
        pair = self._loader.pair
        request = replace(
            request,
            sampling=replace(request.sampling, temperature=0.0),
            max_tokens=min(request.max_tokens, MOST_TOKENS),
        )
        self.traces = {runner: Trace() for runner in RUNNERS}
        self._generations, self._asked = {}, set()
        self.running = True
        self._loader.override()
        drafting = {"plain": ("none", "0"), "speculative": (pair.drafter, pair.draft_length)}
        for runner in RUNNERS:
            drafter, length = drafting[runner]
            self._asked.add(self._engine.use_drafting(drafter=drafter, draft_length=length))
            self._generations[self._engine.generate("race", messages, request)] = runner

    def stop(self) -> None:
        """End it; `failed` tells when it has."""
        for generation in self._generations:
            self._engine.cancel(generation)

    def _hear(self, event: Event) -> None:
        runner = self._generations.get(event.generation)
        if runner is None or not self.running:
            return
        self.happened.emit(runner, self.traces[runner].push(event))
        if isinstance(event, Failed):
            self._give_up(Problem(event.message, event.remedy))
        elif isinstance(event, Done) and event.reason == "cancelled":
            self._give_up(Problem("The race was stopped.", "Race again when you like."))
        elif isinstance(event, Done) and runner == "speculative":
            self._end()
            self.finished.emit(judge_race(self.traces["plain"], self.traces["speculative"]))

    def _on_failed(self, failed: Failed) -> None:
        if self.running and failed.generation in self._asked:
            self._give_up(Problem(failed.message, failed.remedy))

    def _give_up(self, problem: Problem) -> None:
        self._end()
        self.stop()
        self.failed.emit(problem)

    def _end(self) -> None:
        self.running = False
        self._loader.restore()
