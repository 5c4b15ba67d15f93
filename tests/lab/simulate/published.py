"""Drafters that others have trained, as far as they published how much is accepted: simulated.

Answers are made up of drafts with the published acceptance. What a draft costs is reckoned from the
bytes that it reads, as a share of those that a pass of its target reads. So neither was measured.
"""

import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from tests.lab.simulate.traces import AnswerTrace, RecordedDraft

_CONTEXT = 64


@dataclass(frozen=True, slots=True)
class PublishedDrafter:
    """`chances`: of each drafted token, given that all before it are accepted.

    `start` and `step` are what a draft costs, however long, and what each of its tokens adds, in
    passes of the target over one row. `source` says who published the acceptance.
    """

    name: str
    source: str
    chances: tuple[float, ...]
    start: float
    step: float

    def answers(self, *, tokens: int, seed: int) -> AnswerTrace:
        """A made-up answer of so many tokens, with what this would draft at every place."""
        luck = random.Random(f"{seed}/{self.name}")
        places = tuple(self._draft(luck) for _ in range(tokens))
        return AnswerTrace(self.name, self.name, 0.0, _CONTEXT, {self.name: places})

    def _draft(self, luck: random.Random) -> RecordedDraft:
        accepted = 0
        while accepted < len(self.chances) and luck.random() < self.chances[accepted]:
            accepted += 1
        return RecordedDraft((0.5,) * len(self.chances), accepted)


def even_chances(length: int, tokens: float) -> tuple[float, ...]:
    """Equal chances for `length` tokens with which a round commits so many `tokens` in all."""
    grid = [i / 10_000 for i in range(10_000)]
    place = bisect_left(grid, tokens, key=lambda chance: sum(chance**i for i in range(length + 1)))
    return (grid[min(place, len(grid) - 1)],) * length


def given_those_before(standing: Sequence[float]) -> tuple[float, ...]:
    """The chances where it is known how many drafts are accepted up to each of their tokens."""
    return tuple(now / before for before, now in zip((1.0, *standing), standing, strict=False))


PUBLISHED_DRAFTERS: tuple[PublishedDrafter, ...] = (
    PublishedDrafter(
        "DSpark, 27B",
        "Qwen3.8-27B, 4-bit: 4.83 tokens a round with 7 drafted (mlx-dspark, README)",
        even_chances(7, 4.83),
        start=0.12,
        step=0.0,
    ),
    PublishedDrafter(
        "DSpark, 8B",
        "Qwen3-8B: 3.37 tokens a round with 7 drafted (mlx-dspark, README)",
        even_chances(7, 3.37),
        start=0.25,
        step=0.0,
    ),
    PublishedDrafter(
        "MTP, 27B",
        "Qwen3.x, 75, 58, 35 and 22 % of drafts accepted up to each token, M5 (dasLLAMA 3931)",
        given_those_before((0.75, 0.58, 0.35, 0.22)),
        start=0.0,
        step=0.065,
    ),
    PublishedDrafter(
        "assistant, 12B",
        "Gemma-4-12B, 4-bit: 3.13 tokens a round with 4 drafted, M5 Max (mlxcel 1204)",
        even_chances(4, 3.13),
        start=0.0,
        step=0.06,
    ),
    PublishedDrafter(
        "EAGLE-3, 27B",
        "Qwen3.6-27B: 2.3 tokens a round, a chain of 4 assumed (card of Ex0bit's head)",
        even_chances(4, 2.3),
        start=0.0,
        step=0.03,
    ),
)
