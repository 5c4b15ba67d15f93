"""Recorded answers for tests, made up or committed."""

import random
from functools import cache
from itertools import takewhile
from pathlib import Path

from tests.lab.simulate.traces import AnswerTrace, RecordedDraft, load_trace

TRACE = Path(__file__).parents[3] / "data" / "traces" / "starter.jsonl.gz"


def lucky_answer(chance, *, places, seed=0, category="chat", longest=8, later=()):
    """An answer where each token of a head's chains, of `longest` tokens, is accepted with that
    chance. `later`: the chance of its second, third, ... alternative, if those before are not."""
    luck = random.Random(seed)

    def rank():
        chances = enumerate((chance, *later))
        return next((number for number, each in chances if luck.random() < each), None)

    def drafted():
        ranks = list(takewhile(lambda each: each is not None, (rank() for _ in range(longest))))
        accepted = next((i for i, each in enumerate(ranks) if each), len(ranks))
        return RecordedDraft((0.5,) * longest, accepted, ranks=tuple(ranks) if later else None)

    head = tuple(drafted() for _ in range(places))
    return AnswerTrace("made up", category, 0.0, 10, {"head": head})


@cache
def committed_answers(temperature):
    """What was recorded of the starter pair."""
    return [answer for answer in load_trace(TRACE).answers if answer.temperature == temperature]
