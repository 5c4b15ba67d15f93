"""Chances of standing: what is counted, what is shared, and what is remembered."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.draft_length import MeasuredRound
from engine.draft_length.acceptance import PLACES, Acceptance
from engine.tree import COMMITTED, Tree

round_ = st.tuples(
    st.sampled_from(["head", "lookup", "model"]),
    st.integers(1, 20),
    st.integers(0, 20),
    st.sampled_from([0, 0, 2, 5, 40]),
)
histories = st.lists(st.one_of(round_, st.just("begin")), max_size=30)


def observe(acceptance, drafter, *, proposed, accepted, match=0, tree=None, path=()):
    acceptance.observe(
        MeasuredRound(
            proposed, accepted, 0.0, 0.0, drafter=drafter, match=match, tree=tree, path=path
        )
    )


def play_history(acceptance, history):
    for each in history:
        if each == "begin":
            acceptance.begin_text()
        else:
            assert isinstance(each, tuple)
            drafter, proposed, accepted, match = each
            stood = min(accepted, proposed)
            observe(acceptance, drafter, proposed=proposed, accepted=stood, match=match)


@given(histories, histories, st.integers(0, 50))
def test_what_is_read_again_goes_on_as_if_it_had_never_been_written(before, later, match):
    went_on = Acceptance()
    play_history(went_on, before)
    read_again = Acceptance.from_json(json.loads(json.dumps(went_on.to_json())))
    for acceptance in (went_on, read_again):
        acceptance.begin_text()
        play_history(acceptance, later)
    ours, theirs = (a.chances("head", PLACES, match=match) for a in (went_on, read_again))
    assert theirs == pytest.approx(ours)
    assert len(ours) == PLACES
    assert all(0.0 < chance < 1.0 for chance in ours)


def play(acceptance, chances, *, rounds):
    luck = random.Random(1)
    for _ in range(rounds):
        stood = next(
            (i for i, chance in enumerate(chances) if luck.random() >= chance), len(chances)
        )
        observe(acceptance, "head", proposed=len(chances), accepted=stood)


def test_chances_are_found_by_position():
    acceptance = Acceptance()
    play(acceptance, [0.9, 0.7, 0.5, 0.3], rounds=400)
    found = acceptance.chances("head", 6)
    assert found[:4] == pytest.approx([0.9, 0.7, 0.5, 0.3], abs=0.2)
    assert found[4:] == pytest.approx([found[3]] * 2, abs=0.01)  # of those beyond, nothing is known


def test_a_clean_sweep_says_nothing_of_what_comes_next():
    acceptance = Acceptance()
    for _ in range(50):
        observe(acceptance, "head", proposed=2, accepted=2)
    first, second, third = acceptance.chances("head", 3)
    assert second > 0.85
    assert third >= second - 0.01  # counted as fallen, it would be far lower
    assert first > 0.85


def test_what_comes_after_a_fall_is_not_judged_and_a_tree_that_is_a_chain_counts_as_one():
    short, long, trees = Acceptance(), Acceptance(), Acceptance()
    for accepted in (1, 0, 2) * 7:
        observe(short, "head", proposed=3, accepted=accepted)
        observe(long, "head", proposed=8, accepted=accepted)
        tree = {"tree": Tree.chain(3), "path": tuple(range(accepted))}
        observe(trees, "head", proposed=3, accepted=accepted, **tree)
    assert short.to_json() == long.to_json() == trees.to_json()
    observe(short, "head", proposed=3, accepted=3)
    observe(trees, "head", proposed=3, accepted=3, tree=Tree.chain(3), path=(0, 1, 2))
    assert short.to_json() == trees.to_json()


def test_neighbours_share_strength():
    # Of position 3 little is known by itself, and one fall there sways no one.
    acceptance = Acceptance()
    for _ in range(30):
        observe(acceptance, "head", proposed=2, accepted=2)
    before = acceptance.chances("head", 3)
    observe(acceptance, "head", proposed=3, accepted=2)
    assert before[2] > acceptance.chances("head", 3)[2] > 0.6 * before[2]


def test_a_copy_that_has_matched_more_is_safer():
    acceptance = Acceptance()
    chances = acceptance.chances("lookup", 16, match=2)
    assert chances == sorted(chances)
    assert chances[3] == acceptance.chances("lookup", 1, match=5)[0]
    for _ in range(20):
        observe(acceptance, "lookup", proposed=3, accepted=0, match=2)
    assert acceptance.chances("lookup", 1, match=2)[0] < 0.15
    longer = acceptance.chances("lookup", 1, match=16)[0]
    assert 0.15 < longer < 0.7  # worse than was thought, better than a short one
    assert acceptance.chances("head", 1) == Acceptance().chances("head", 1)


BRANCHING = Tree((COMMITTED, 0, COMMITTED, 0, 2, COMMITTED))


def test_alternatives_are_learned_by_rank_whatever_their_depth():
    acceptance = Acceptance()
    for path in [(0, 1), (2,), (0, 3), (2, 4), ()] * 60:
        observe(acceptance, "head", proposed=6, accepted=len(path), tree=BRANCHING, path=path)
    # First ones: 2 of 5 are accepted at the root, and after it 2 of 4. Second ones: 2 of 3 at the
    # root and 1 of 1 after it. The third one: none of 1.
    assert acceptance.chances("head", 2) == pytest.approx([0.4, 0.5], abs=0.05)
    assert acceptance.by_rank("head", 3) == pytest.approx([0.75, 0.05], abs=0.15)
    assert acceptance.by_rank("other", 3) == Acceptance().by_rank("other", 3)
    again = Acceptance.from_json(json.loads(json.dumps(acceptance.to_json())))
    assert again.by_rank("head", 3) == pytest.approx(acceptance.by_rank("head", 3))
    chains = Acceptance()
    play(chains, [0.1] * 4, rounds=50)  # which say nothing of alternatives
    assert chains.by_rank("head", 9) == Acceptance().by_rank("head", 9)
    assert chains.by_rank("head", 1) == []


def test_recent_rounds_count_more():
    acceptance = Acceptance()
    play(acceptance, [0.9] * 4, rounds=200)
    play(acceptance, [0.1] * 4, rounds=60)
    assert acceptance.chances("head", 1)[0] < 0.35


def test_another_text_begins_with_what_is_usual():
    acceptance = Acceptance()
    for chance in (0.9, 0.3) * 8:
        acceptance.begin_text()
        play(acceptance, [chance] * 4, rounds=30)
    easy_before = acceptance.chances("head", 1)[0]
    acceptance.begin_text()
    begun = acceptance.chances("head", 1)[0]
    assert easy_before < begun < 0.75
