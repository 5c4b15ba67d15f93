"""What a round costs on an imagined machine, and how a clock there would show it.

Knows a curve and what disturbs it; nothing of policies. The true cost is what is charged; a policy
is shown it through `Noise`. Everything depends on how many tokens are written, not on seconds, so
that a faster policy meets the same disturbance at the same words.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from zlib import crc32

from engine.draft_length.options import tree_steps
from engine.tree import Tree
from tests.lab.simulate.curves import CostCurve

DEFAULT_STEP = 0.05  # of a pass, where a drafter is not named
STEPS: Mapping[str, float] = {"lookup": 0.0, "head": 0.05, "model": 0.25, "early-exit": 0.5}

_NOISE: dict[str, Any] = {"noise": 0.1, "spikes": 0.02}

Doubling = Literal["never", "all", "rows"]
TwoTimes = Literal["never", "bursts", "random", "rows", "change"]

_DEAR = 8.0  # how many times as long a pass over `dear_from` rows takes
_SLOW = 2.5  # how many times as long a slow pass takes, where a pass has two times
_BURST = 24  # tokens of a burst, and of a pause at least


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """A machine.

    `steps`: what drafting one token costs, by drafter, as a share of a pass over one row.
    `growth`: by how much more passes cost for every 1,000 tokens of context.
    `heat`: by how much more everything costs at the end than at the start, growing steadily.
    `doubling`: what doubles midway: nothing, everything, or what rows past the first cost.
    `two_times`: which passes take 2.5 times as long: none, those in bursts, half of all at random,
    half of those over several rows, or the first after a plain one and the first plain one.
    `dear_from`: the rows from which passes take 8 times as long as a calibration said; 0: none do.
    `noise`: spread of the clock, a standard deviation in the logarithm. `spikes`: how many of its
    readings are several times too long. `reading`: what a drafter pays for each
    token that was written without it, as a share of its step. `host_seconds`: what the engine
    itself takes before each draft, while the device rests; before plain tokens, whose passes are
    under way one ahead, it takes none. `others`: other generations that share each pass, and do the
    same.
    """

    curve: CostCurve
    steps: Mapping[str, float] = field(default_factory=lambda: STEPS)
    pass_seconds: float = 0.02
    growth: float = 0.0
    heat: float = 0.0
    doubling: Doubling = "never"
    two_times: TwoTimes = "never"
    dear_from: int = 0
    noise: float = 0.0
    spikes: float = 0.0
    reading: float = 0.1
    host_seconds: float = 0.0
    others: int = 0
    seed: int = 0

    def verify_seconds(self, rows: int, *, context: int, progress: float, before: int = 0) -> float:
        """Seconds of a pass over `rows` after `context` tokens, at this share of the answers.
        `before`: the rows of the pass before it; 0: unknown."""
        cost = self.curve.cost(rows)
        if self.doubling == "rows" and progress >= 0.5:
            cost += cost - 1.0
        if 0 < self.dear_from <= rows:
            cost *= _DEAR
        cost *= self._slowness(rows, context, before)
        return cost * self._unit(context, progress)

    def _slowness(self, rows: int, context: int, before: int) -> float:
        """How many times as long a pass takes, on average where chance decides."""
        match self.two_times:
            case "bursts":
                return _SLOW if crc32(b"%d/%d" % (self.seed, context // _BURST)) % 2 else 1.0
            case "change":
                return _SLOW if before and (before == 1) != (rows == 1) else 1.0
            case _:
                return (1.0 + _SLOW) / 2.0 if self.has_two_times(rows) else 1.0

    def has_two_times(self, rows: int) -> bool:
        """Whether chance decides which of two times such a pass takes."""
        return self.two_times == "random" or (self.two_times == "rows" and rows > 1)

    def steps_of(self, tree: Tree) -> float:
        """What drafting a tree costs, in steps of a chain: assumed to read, level by level, all
        tokens at once that have others after them, with rows that cost what the target's do."""
        return tree_steps(tree, [self.curve.cost(rows) for rows in range(1, len(tree) + 1)])

    def draft_seconds(
        self,
        drafter: str,
        tokens: float,
        *,
        context: int,
        progress: float,
        behind: int = 0,
    ) -> float:
        """Seconds of reading the tokens that it is `behind`, and drafting `tokens`."""
        step = self.steps.get(drafter, DEFAULT_STEP)
        steps = tokens * step + self.reading * step * behind
        return steps * self._unit(context, progress) + self.host_seconds

    def _unit(self, context: int, progress: float) -> float:
        """Seconds of a pass over one row."""
        seconds = self.pass_seconds * (1.0 + self.growth * context / 1000)
        seconds *= 1.0 + self.heat * progress
        return 2.0 * seconds if self.doubling == "all" and progress >= 0.5 else seconds


SCENARIOS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "steady": ("nothing disturbs", {}),
    "noisy": ("the clock is off by 10 %, one reading in 50 by far", _NOISE),
    "heat": ("everything grows dearer, by a half in the end", _NOISE | {"heat": 0.5}),
    "load": ("everything doubles midway", _NOISE | {"doubling": "all"}),
    "steeper": ("what rows past the first cost doubles midway", _NOISE | {"doubling": "rows"}),
    "deep": ("passes cost a half more for every 1,000 tokens", _NOISE | {"growth": 0.5}),
    "host": (
        "passes take 3 ms, and the engine 0.6 ms before each draft",
        _NOISE | {"pass_seconds": 0.003, "host_seconds": 0.0006},
    ),
    "bursts": (
        "half of the time passes take 2.5 times as long, in bursts",
        _NOISE | {"two_times": "bursts"},
    ),
    "two": (
        "half of the passes take 2.5 times as long, at random",
        _NOISE | {"two_times": "random"},
    ),
    "two-rows": ("so do half of the passes over several rows", _NOISE | {"two_times": "rows"}),
    "loud": ("the clock is off by 30 %, one reading in 50 by far", _NOISE | {"noise": 0.3}),
    "dear-rows": ("5 rows and more take 8 times as long", _NOISE | {"dear_from": 5}),
    "two-change": (
        "so do a draft after a plain pass, and the reverse",
        _NOISE | {"two_times": "change"},
    ),
}
"""By name: what disturbs, in words, and what that changes of a calm machine."""


class Noise:
    """A clock whose readings are a little wrong, and now and then much too long.

    `start`: where in the answers it begins, which seeds it.
    """

    def __init__(self, conditions: Conditions, *, start: int = 0) -> None:
        self._random = random.Random(f"{conditions.seed}/{start}")
        self._spread = conditions.noise
        self._spikes = conditions.spikes
        self._conditions = conditions

    def reading(self, seconds: float) -> float:
        """What the clock shows for something that took `seconds`."""
        factor = self._random.lognormvariate(0.0, self._spread) if self._spread else 1.0
        if self._spikes and self._random.random() < self._spikes:
            factor *= self._random.uniform(2.0, 8.0)
        return seconds * factor

    def reading_of_pass(self, seconds: float, rows: int) -> float:
        """What it shows for a pass that takes `seconds` on average."""
        if self._conditions.has_two_times(rows):
            seconds *= self._random.choice((1.0, _SLOW)) / ((1.0 + _SLOW) / 2.0)
        return self.reading(seconds)
