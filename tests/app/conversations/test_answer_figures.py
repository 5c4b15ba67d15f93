"""The figures of an answer: derived from its events, stored with it, missing in older ones."""

import pytest

from app.conversations.answer_figures import (
    figures_of,
)
from engine.events import Done, Failed, Prefill, Stats, Text
from tests.support.app.store_samples import answered, asked, round_of

ROUNDS = (*round_of(1), *round_of(2))  # two tokens each, 0.011 s each
READ = (Prefill("g", 0, 5, 0, 0.0), Prefill("g", 5, 5, 0, 0.25))


def test_they_are_derived_from_the_events():
    before = Text("", "from another program")
    found = figures_of((before, *READ, *ROUNDS, Done("g", "length", Stats())))
    assert (found.tokens, found.stop_reason) == (4, "length")
    assert found.decode_seconds == pytest.approx(0.022)
    assert found.first_token_seconds == pytest.approx(0.25 + 0.011)
    assert found.tokens_per_second == pytest.approx(4 / 0.022)


def test_the_first_token_may_come_with_a_later_round():
    """Half a character is no text yet."""
    held = (*round_of(1)[:2], Text("g", ""))
    found = figures_of((*READ, *held, *round_of(2)))
    assert found.first_token_seconds == pytest.approx(0.25 + 0.022)
    none = figures_of((*READ, *held))
    assert none.first_token_seconds is None


REASONS = (
    (Done("g", "stop", Stats()), "end"),
    (Done("g", "stop", Stats(), cut="END"), "stop string"),
    (Done("g", "length", Stats()), "length"),
    (Done("g", "cancelled", Stats()), "cancelled"),
    (Failed("g", "message", "remedy"), "failed"),
    (None, ""),
)


def test_how_it_ended():
    for last, reason in REASONS:
        found = figures_of((*ROUNDS, *([last] if last else [])))
        assert found.stop_reason == reason
        assert figures_of((*READ, *([last] if last else []))) is None, "without a round"


def test_they_are_stored_where_the_answer_ends(store):
    done = answered(store, asked(store))
    assert done.figures == figures_of(round_of(0))
    assert store.message(done.id).result().figures == done.figures
    assert store.branch(done.conversation).result()[1].figures == done.figures
    begun = store.begin_answer(asked(store).id, target="t", drafter="").result()
    assert begun.figures is None
