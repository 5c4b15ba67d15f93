"""What the automatic draft length is to promise, in numbers, and which rows break it.

It keeps all three in most rows, not in all of them yet: see `test_promises.py`.
"""

from collections.abc import Iterable

from tests.lab.simulate.run import ResultRow

FIXED_REGRET = 0.05  # of the best fixed length, known in hindsight for every category
ORACLE_REGRET = 0.08  # of the oracle in expectation
FLOOR = 0.98  # times plain decoding


def below_the_floor(rows: Iterable[ResultRow], *, floor: float = FLOOR) -> list[str]:
    """The rows that are slower than plain decoding, in words."""
    return [f"{_name(row)}: {row.to_plain:.3f} x plain" for row in rows if row.to_plain < floor]


def with_regrets(rows: Iterable[ResultRow]) -> list[str]:
    """The rows that miss too much of what could be had, in words."""
    return [
        f"{_name(row)}: {row.fixed_regret:.1%} to {row.fixed}, {row.oracle_regret:.1%} to an oracle"
        for row in rows
        if row.fixed_regret > FIXED_REGRET or row.oracle_regret > ORACLE_REGRET
    ]


def _name(row: ResultRow) -> str:
    return f"{row.curve}, {row.category}, temperature {row.temperature:g}"
