"""Recorded answers for tests: made up, or the committed ones."""

import random
from functools import cache
from pathlib import Path

from tests.lab.simulate.traces import AnswerTrace, RecordedDraft, load_trace

TRACE = Path(__file__).parents[3] / "data" / "traces" / "starter.jsonl.gz"
_CHAIN = 8


def lucky_answer(
    chance: float, *, places: int, seed: int = 0, category: str = "chat"
) -> AnswerTrace:
    """An answer where each token of a head's chains stands with that chance."""
    luck = random.Random(seed)

    def drafted() -> RecordedDraft:
        stood = next((i for i in range(_CHAIN) if luck.random() >= chance), _CHAIN)
        return RecordedDraft((0.5,) * _CHAIN, stood)

    head = tuple(drafted() for _ in range(places))
    return AnswerTrace("made up", category, 0.0, 10, {"head": head})


def committed_answers(temperature: float) -> list[AnswerTrace]:
    """What was recorded of the starter pair."""
    return [answer for answer in _committed() if answer.temperature == temperature]


@cache
def _committed() -> tuple[AnswerTrace, ...]:
    return load_trace(TRACE).answers
