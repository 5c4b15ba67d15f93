"""Measures what passes and drafts cost on this machine, in a few seconds.

The loop itself is measured, in rounds of chosen lengths after a made-up text, so that a
calibration and live rounds mean the same. Passes do not depend on the drafter, so most rounds
verify drafts that cost nothing. The first round of each length is not timed, as it may have to load
kernels. Afterwards the models hold what they held before.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from math import log
from statistics import median
from time import perf_counter

import mlx.core as mx

from engine.core.decoder import Decoder
from engine.core.loop import speculate
from engine.core.rounds import RoundVerdict, Task
from engine.device import backend
from engine.draft_length import DraftCandidate, DraftChoice, MeasuredRound
from engine.draft_length.costs import STEADY, Calibration, DraftCosts, PassCosts
from engine.drafters import DraftArrays, Drafter, NoDrafter
from engine.request import Sampling

BUDGET_SECONDS = 5.0

_PROMPT = 24  # tokens before the first round
_LENGTHS = (0, 3, 15, 5, 0, 1, 7, 4, 2, 11)  # the most informative first
_WIDE = (31, 63)  # as many tokens as trees and long copies have
_DRAFTED = 4  # tokens at most, to tell what one more costs
_OF_PASSES = 0.6  # share of the budget for passes; the rest is for drafts
_COPYING = ("lookup", "suffix")  # drafters that cost next to nothing
_REPEATS = 3
_RUN = 4  # plain tokens; the first and the last are edges
_LEAST_SECONDS = 1e-7  # as two readings of a clock may be equal

Progress = Callable[[float], None]


def calibrate(
    target: Decoder,
    drafter: Drafter,
    tokens: Sequence[int] = (),
    *,
    budget_seconds: float = BUDGET_SECONDS,
    clock: Callable[[], float] = perf_counter,
    progress: Progress = lambda share: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Calibration | None:
    """Measure a pair whose committed tokens are `tokens`, within the budget. None if that was too
    short to repeat anything, or if it was cancelled."""
    length = target.length
    target.bookmark()
    text = [*tokens[:length], *_made_up(target.vocabulary, _PROMPT)]
    try:
        read_seconds = _read(target, drafter, text, clock)
        # Whether trees can be read is tried before anything is timed: else in the first draft.
        trees = any(each.alternatives > 1 for each in drafter.candidates(text)) and target.branches
        timer = _Timer(clock, budget_seconds, progress, cancelled)
        survey = _Survey(target, _FreeDrafter(), text, timer)
        survey.run([_round(length) for length in _LENGTHS], until=_OF_PASSES)
        copies = not {*_COPYING}.isdisjoint(drafter.name.split("+"))
        if survey.spread is not None and (copies or trees):
            for drafted in _WIDE:
                twice = 2.0 * survey.passes().seconds[-1]
                survey.run([DraftChoice(drafted)], until=_OF_PASSES, repeats=2, slowest=twice)
        drafts = list(_drafting(target, drafter, text, timer, read_seconds))
        free = survey.draft_seconds()
        copying = [DraftCosts(name, free, 0.0) for name in _COPYING]
    finally:
        target.rewind(length)
        drafter.rewind(length)
    if survey.spread is None or cancelled():
        return None
    return Calibration(survey.passes(), (*copying, *drafts), survey.spread)


class _Timer:
    """The clock, and how much of the budget is used."""

    def __init__(
        self,
        clock: Callable[[], float],
        budget_seconds: float,
        progress: Progress,
        cancelled: Callable[[], bool],
    ) -> None:
        self.clock = clock
        self._began = clock()
        self._budget = budget_seconds
        self._progress = progress
        self._cancelled = cancelled

    def over(self, share: float, *, next_seconds: float = 0.0) -> bool:
        """Whether this share of the budget is used, or would be once `next_seconds` are."""
        used = self.clock() - self._began
        self._progress(min(used / self._budget, 1.0))
        return self._cancelled() or used + next_seconds > share * self._budget


@dataclass
class _Survey:
    """Runs rounds of given lengths after `text`, as the loop's policy. Attribute: `measured`."""

    target: Decoder
    drafter: Drafter
    text: list[int]
    timer: _Timer
    measured: list[MeasuredRound] = field(default_factory=list)
    _asked: DraftChoice = field(default_factory=lambda: DraftChoice(0))
    _timed: bool = False

    def run(
        self,
        choices: Sequence[DraftChoice],
        *,
        until: float,
        repeats: int = _REPEATS,
        slowest: float = 0.0,
    ) -> None:
        """Run each of `choices`, untimed at first, then `repeats` times, while there is time. The
        next rounds are expected to take as long as the slowest so far, or `slowest` seconds if that
        is more."""
        tokens = list(self.text)
        task = Task(Sampling(), seed=0, max_tokens=1 << 20, ends=frozenset())
        plan, warm = deque(list(choices) * repeats), set[DraftChoice]()
        with closing(speculate(self.target, self.drafter, self, tokens, task)) as rounds:
            while plan:
                self._asked = plan[0]
                self._timed = plan[0] in warm or plan[0].rounds > 1  # whose first is an edge
                rounds_left = self._asked.rounds + (not self._timed)
                if self.timer.over(until, next_seconds=slowest * rounds_left):
                    return
                warm.add(plan[0])
                began = self.timer.clock()
                verdicts = (item for item in rounds if isinstance(item, RoundVerdict))
                deque(islice(verdicts, self._asked.rounds), maxlen=0)
                if self._timed:
                    seconds = self.timer.clock() - began
                    slowest = max(slowest, seconds / self._asked.rounds)
                    plan.popleft()

    def another(self) -> "_Survey":
        return self

    def choose(
        self, candidates: Sequence[DraftCandidate], *, most: int, context: int, others: int = 0
    ) -> DraftChoice:
        return self._asked

    def observe(self, measured: MeasuredRound) -> None:
        if self._timed and not measured.edge:
            self.measured.append(measured)

    def restart(self) -> None:
        pass

    @property
    def spread(self) -> float | None:
        """How far repeated passes are apart, in logarithms: they differ while other programs keep
        the machine busy. None until plain and longer passes were measured."""
        times: dict[int, list[float]] = {}
        for each in self.measured:
            times.setdefault(each.proposed, []).append(max(each.verify_seconds, _LEAST_SECONDS))
        repeated = [sorted(each)[:2] for each in times.values() if len(each) > 1]
        if len(times.get(0, [])) < 2 or len(times) < 2:
            return None
        return median(log(second / first) for first, second in repeated)

    def passes(self) -> PassCosts:
        """Return the least seconds of a pass by rows, as disturbances only add. Fewer rows never
        cost more, but where other kernels may compute them and the timings show it steadily."""
        least: dict[int, float] = {}
        for each in self.measured:
            rows, seconds = each.proposed + 1, max(each.verify_seconds, _LEAST_SECONDS)
            least[rows] = min(seconds, least.get(rows, seconds))
        known = sorted(least)
        if backend().exact_rows or (self.spread or 0.0) > STEADY:
            least = {rows: min(least[more] for more in known if more >= rows) for rows in known}
        return PassCosts(len(self.text), tuple(known), tuple(least[rows] for rows in known))

    def draft_seconds(self, asked: int | None = None) -> float:
        """Return the least seconds of a draft for which `asked` tokens were asked; None: any
        number."""
        times = [
            each.draft_seconds
            for each in self.measured
            if each.proposed and asked in (None, each.asked)
        ]
        return min(times, default=0.0)


def _drafting(
    target: Decoder, drafter: Drafter, text: list[int], timer: _Timer, read_seconds: float
) -> Iterator[DraftCosts]:
    """Yield the costs of each drafter that does not copy."""
    drafting = [each for each in drafter.candidates(text) if not each.match]
    for i, each in enumerate(drafting):
        name, many = each.drafter, min(_DRAFTED, each.most)
        until = _OF_PASSES + (1.0 - _OF_PASSES) * (i + 1) / len(drafting)
        free = _Survey(target, drafter, text, timer)
        free.run([DraftChoice(length, drafter=name) for length in (1, many)], until=until)
        one, more = free.draft_seconds(1), free.draft_seconds(many)
        if one == 0.0 or more == 0.0:
            return  # too slow for the budget
        step = max((more - one) / (many - 1), 0.0) if many > 1 else 0.0
        start = max(one - step, 0.0)
        yield DraftCosts(name, start, step, read_seconds / len(drafting))


def _read(target: Decoder, drafter: Drafter, text: list[int], clock: Callable[[], float]) -> float:
    """Let both read `text`; returns the drafter's seconds a token once its kernels are loaded."""
    for _ in target.prefill(text):
        pass
    seconds = 0.0
    for _ in range(2):
        drafter.rewind(len(text) - _PROMPT)
        before = clock()
        for _ in drafter.prepare(text):
            pass
        seconds = max(clock() - before, 0.0)
    return seconds / _PROMPT


def _round(length: int) -> DraftChoice:
    """A draft of `length` tokens; plain ones as plain decoding writes them, in a run."""
    return DraftChoice(length, rounds=1 if length or not backend().beside_host else _RUN)


def _made_up(vocabulary: int, length: int) -> list[int]:
    return [(7 * i + 3) % min(vocabulary, 1000) for i in range(length)]


class _FreeDrafter(NoDrafter):
    """Proposes as many tokens as are asked for, at no cost."""

    name = "free"

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        drafted = mx.zeros((choice.length,), dtype=mx.int32)
        return DraftArrays(drafted, mx.ones(drafted.shape), None, self.name)
