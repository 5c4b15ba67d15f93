"""Recorded answers for tests, made up or committed; and the promises of the automatic draft length.

It keeps all three in most rows, not in all of them yet: see `test_promises.py`.
"""

import random
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path

from tests.lab.simulate.run import PlayedRow, ResultRow
from tests.lab.simulate.traces import AnswerTrace, RecordedDraft, load_trace

TRACE = Path(__file__).parents[3] / "data" / "traces" / "starter.jsonl.gz"


def lucky_answer(
    chance: float,
    *,
    places: int,
    seed: int = 0,
    category: str = "chat",
    longest: int = 8,
    later: Sequence[float] = (),
) -> AnswerTrace:
    """An answer where each token of a head's chains, of `longest` tokens, is accepted with that
    chance. `later`: the chance of its second, third, ... alternative, if those before are not."""
    luck = random.Random(seed)

    def rank() -> int | None:
        chances = enumerate((chance, *later))
        return next((number for number, each in chances if luck.random() < each), None)

    def drafted() -> RecordedDraft:
        ranks = list(takewhile(lambda each: each is not None, (rank() for _ in range(longest))))
        accepted = next((i for i, each in enumerate(ranks) if each), len(ranks))
        return RecordedDraft((0.5,) * longest, accepted, ranks=tuple(ranks) if later else None)

    head = tuple(drafted() for _ in range(places))
    return AnswerTrace("made up", category, 0.0, 10, {"head": head})


def committed_answers(temperature: float) -> list[AnswerTrace]:
    """What was recorded of the starter pair."""
    return [answer for answer in _committed() if answer.temperature == temperature]


@cache
def _committed() -> tuple[AnswerTrace, ...]:
    return load_trace(TRACE).answers


FIXED_REGRET = 0.05  # of the best fixed length, known in hindsight for every category
ORACLE_REGRET = 0.08  # of the oracle in expectation
FLOOR = 0.98  # times plain decoding


def below_the_floor(rows: Iterable[PlayedRow], *, floor: float = FLOOR) -> list[str]:
    """The rows that are slower than plain decoding, in words."""
    return [f"{_name(row)}: {row.to_plain:.3f} x plain" for row in rows if row.to_plain < floor]


def with_regrets(rows: Iterable[ResultRow]) -> list[str]:
    """The rows that miss too much of what could be had, in words."""
    return [
        f"{_name(row)}: {row.fixed_regret:.1%} to {row.fixed}, {row.oracle_regret:.1%} to an oracle"
        for row in rows
        if row.fixed_regret > FIXED_REGRET or row.oracle_regret > ORACLE_REGRET
    ]


def _name(row: PlayedRow) -> str:
    return f"{row.curve}, {row.category}, temperature {row.temperature:g}"
