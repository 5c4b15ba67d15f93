"""What a round costs on an imagined machine, and how a clock there would show it.

Knows a curve and what disturbs it; nothing of policies. The true cost is what is charged; a policy
is shown it through `Noise`. Everything depends on how many tokens are written, not on seconds, so
that a faster policy meets the same disturbance at the same words.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.draft_length.options import tree_steps
from engine.tree import Tree
from tests.lab.simulate.curves import CostCurve

DEFAULT_STEP = 0.05  # of a pass, where a drafter is not named
STEPS: Mapping[str, float] = {"lookup": 0.0, "head": 0.05, "model": 0.25, "early-exit": 0.5}

_NOISE: Mapping[str, Any] = {"noise": 0.1, "spikes": 0.02}

Doubling = Literal["never", "all", "rows"]

_DEAR = 8.0  # how many times as long a pass over `dear_from` rows takes
_SLOW = 2.5  # how many times as long a slow pass takes, where a pass has two times


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """A machine.

    `steps`: what drafting one token costs, by drafter, as a share of a pass over one row.
    `growth`: by how much more passes cost for every 1,000 tokens of context.
    `heat`: by how much more everything costs at the end than at the start, growing steadily.
    `doubling`: what doubles midway: nothing, everything, or what rows past the first cost.
    `two_times`: whether half of the passes, at random, take 2.5 times as long.
    `dear_from`: the rows from which passes take 8 times as long as a calibration said; 0: none do.
    `noise`: spread of the clock, a standard deviation in the logarithm. `spikes`: how many of its
    readings are several times too long. `reading`: what a drafter pays for each
    token that was written without it, as a share of its step. `others`: other generations that
    share each pass, and do the same.
    """

    curve: CostCurve
    steps: Mapping[str, float] = field(default_factory=lambda: STEPS)
    pass_seconds: float = 0.02
    growth: float = 0.0
    heat: float = 0.0
    doubling: Doubling = "never"
    two_times: bool = False
    dear_from: int = 0
    noise: float = 0.0
    spikes: float = 0.0
    reading: float = 0.1
    others: int = 0
    seed: int = 0

    def verify_seconds(self, rows: int, *, context: int, progress: float) -> float:
        """Seconds of a pass over `rows` after `context` tokens, at this share of the answers: on
        average, where chance decides."""
        cost = self.curve.cost(rows)
        if self.doubling == "rows" and progress >= 0.5:
            cost += cost - 1.0
        if 0 < self.dear_from <= rows:
            cost *= _DEAR
        if self.two_times:
            cost *= (1.0 + _SLOW) / 2.0
        return cost * self._unit(context, progress)

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
        return steps * self._unit(context, progress)

    def _unit(self, context: int, progress: float) -> float:
        """Seconds of a pass over one row."""
        seconds = self.pass_seconds * (1.0 + self.growth * context / 1000)
        seconds *= 1.0 + self.heat * progress
        return 2.0 * seconds if self.doubling == "all" and progress >= 0.5 else seconds


SCENARIOS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "steady": ("nothing disturbs", {}),
    "noisy": ("the clock is off by 10 %, one reading in 50 by far", _NOISE),
    "heat": ("everything grows dearer, by a half in the end", {**_NOISE, "heat": 0.5}),
    "load": ("everything doubles midway", {**_NOISE, "doubling": "all"}),
    "steeper": ("what rows past the first cost doubles midway", {**_NOISE, "doubling": "rows"}),
    "deep": ("passes cost a half more for every 1,000 tokens", {**_NOISE, "growth": 0.5}),
    "two": ("half of the passes take 2.5 times as long, at random", {**_NOISE, "two_times": True}),
    "loud": ("the clock is off by 30 %, one reading in 50 by far", {**_NOISE, "noise": 0.3}),
    "dear-rows": ("5 rows and more take 8 times as long", {**_NOISE, "dear_from": 5}),
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

    def reading_of_pass(self, seconds: float) -> float:
        """What it shows for a pass that takes `seconds` on average."""
        if self._conditions.two_times:
            seconds *= self._random.choice((1.0, _SLOW)) / ((1.0 + _SLOW) / 2.0)
        return self.reading(seconds)
