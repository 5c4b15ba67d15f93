"""Whether an answer goes round in circles. Knows token ids and nothing else."""

from collections import Counter
from collections.abc import Sequence

REACH = 512  # tokens that are looked at: all that a call costs, and the longest circle thrice
_RUN = 4  # tokens in a row that must have been written before
_BEFORE = 2  # times
_TAIL = 64  # of the last tokens ...
_SHARE = 0.75  # ... this share ends such a run


def loops(tokens: Sequence[int]) -> bool:
    """Whether an answer of these tokens repeats itself at its end.

    It does where at least three quarters of its last 64 tokens end a run of four tokens that was
    written twice before, within the last 512 tokens. This detects a sentence that repeats, word by
    word or with a number that counts up, and a paragraph of up to 170 tokens at its third
    repetition.
    """
    latest = tokens[-REACH:]
    runs = list(zip(*(latest[start:] for start in range(_RUN)), strict=False))
    seen: Counter[tuple[int, ...]] = Counter()
    again = 0
    for place, run in enumerate(runs, start=1):
        again += seen[run] >= _BEFORE and place > len(runs) - _TAIL
        seen[run] += 1
    return again >= _SHARE * _TAIL
