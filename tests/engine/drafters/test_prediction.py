"""Drafts from a text that the answer is expected to resemble; a wrong text changes nothing."""

from functools import cache
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.core.decoder import Decoder
from engine.draft_length.policy import Fixed
from engine.drafters.copying import PredictionDrafter
from engine.events import Draft, Event, Verdict
from engine.request import Request, Sampling
from tests.support.engine.helpers import PROMPT, plainly, task, up_to, write
from tests.support.engine.sessions import (
    QUESTION,
    collect,
    new_session,
    scripted,
    text_of,
    tokens_of,
)
from tests.support.engine.tiny import shallow

PREDICTION = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 30, 31]
START = 3
KEY = mx.random.key(0)


def proposed(answer: list[int], limit: int = 3) -> list[int] | None:
    drafter = PredictionDrafter(PREDICTION, start=START)
    draft = drafter.propose([50] * START + answer, up_to(limit), Sampling(), KEY)
    return None if draft is None else draft.tokens.tolist()


def test_it_goes_on_behind_the_longest_match() -> None:
    cases: list[tuple[list[int], list[int] | None]] = [
        ([], [1, 2, 3]),  # from its beginning
        ([1, 2, 3], [4, 5, 6]),
        ([1, 2, 3, 40], None),  # another way
        ([1, 2, 3, 40, 5, 6], [7, 8, 9]),  # and back
        ([40, 1, 2], [30, 31]),  # of two equally long matches the latest
        ([9, 1, 2], [30, 31]),
        ([2, 3], [4, 5, 6]),
        ([3], None),
        ([30, 31], None),  # at its end
    ]
    assert [(answer, proposed(answer)) for answer, _ in cases] == cases
    for answer, expected in cases:
        candidates = PredictionDrafter(PREDICTION, start=START).candidates([50] * START + answer)
        assert bool(candidates) == (expected is not None)


def test_a_copy_is_certain() -> None:
    drafter = PredictionDrafter(PREDICTION, start=START)
    draft = drafter.propose([50] * START, up_to(2), Sampling(temperature=1.0), KEY)
    assert draft is not None
    assert draft.q.tolist() == [1.0, 1.0]
    assert draft.distributions is None
    assert draft.drafter == "prediction"


@cache
def told() -> tuple[nn.Module, list[int]]:
    """A target, and its answer."""
    model = shallow("llama")
    return model, plainly(model, count=40)


def test_what_came_true_costs_few_passes() -> None:
    model, answer = told()
    drafter = PredictionDrafter(answer, start=len(PROMPT))
    written = write(Decoder(model), drafter, Fixed(8), list(PROMPT), task(40))
    assert written.tokens == answer
    assert len(written.rounds) <= 6


def test_an_answer_with_a_prediction(tokenizer: Any) -> None:
    def answered(prediction: str) -> list[int]:
        session = new_session(tokenizer)
        request = Request(max_tokens=12, prediction=prediction)
        return tokens_of(collect(session, session.answer(QUESTION, request)))

    predictions = ["x", "¿?" * 2_000, "<eos><eos>", "\x00\n\n\n"]
    plain = answered("")
    assert [each for each in predictions if answered(each) != plain] == []


def test_what_a_client_predicted_is_drafted(tokenizer: Any) -> None:
    answer = "def area(width, height):\n    return width * height\n"
    predicted = answer.replace("height", "depth")
    session = scripted(tokenizer, answer.encode(), prompt=10, length=6, draft=b"")
    request = Request(max_tokens=100, prediction=predicted)
    events = collect(session, session.complete(list(range(10)), request))
    assert text_of(events) == answer
    assert accepted_of(events) > len(answer) // 2


def accepted_of(events: list[Event]) -> int:
    """Tokens of the prediction that were accepted."""
    accepted, drafter = 0, ""
    for event in events:
        if isinstance(event, Draft):
            drafter = event.drafter
        elif isinstance(event, Verdict):
            accepted += event.accepted if drafter == "prediction" else 0
            drafter = ""
    return accepted
