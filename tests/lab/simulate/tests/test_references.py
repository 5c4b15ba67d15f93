"""What policies are measured against: the best fixed length, and the oracle in expectation."""

import pytest
from hypothesis import given, settings

from engine.draft_length import DraftCandidate
from tests.lab.simulate.conditions import Conditions
from tests.lab.simulate.curves import PUBLISHED, CostCurve
from tests.lab.simulate.oracle import Oracle, kind, oracle
from tests.lab.simulate.references import best_fixed, fixed_runs, plain_run
from tests.lab.simulate.replay import seconds, whole
from tests.lab.simulate.tests.recorded import (
    FLAT,
    STEEP,
    answers,
    conditions,
    head_answer,
    lucky_answer,
)
from tests.lab.simulate.traces import (
    AnswerTrace,
    RecordedDraft,
    with_all_accepted,
    without_acceptance,
)

SLOPING = CostCurve("sloping", "made up", ((1, 1.0), (2, 1.1)))


def fixed(answer: AnswerTrace, machine: Conditions) -> tuple[str, float]:
    phase = whole([answer])
    run, taken = best_fixed(fixed_runs(phase, machine), machine)
    return run.name, taken


def test_the_best_fixed_length_by_hand() -> None:
    # Twice 2 stand and then none: 3 tokens a pass with 2 drafted, and no more with 3.
    answer = head_answer([2, 1, 0] * 10, chain=3)
    assert fixed(answer, conditions(SLOPING)) == ("head 2", pytest.approx(10 * 1.2))
    assert fixed(answer, conditions(STEEP)) == ("plain", 30.0)


def test_every_drafter_alone_and_all_together_are_tried() -> None:
    chain = RecordedDraft((1.0, 1.0), 1)
    copied = RecordedDraft((1.0, 1.0), 1, 8)
    answer = AnswerTrace("a", "chat", 0.0, 1, {"lookup": (copied,) * 4, "head": (chain,) * 4})
    names = [run.name for run in fixed_runs(whole([answer]), conditions())]
    assert names == [
        "plain",
        *("lookup 1", "lookup 2"),
        *("head 1", "head 2"),
        *("lookup+head 1", "lookup+head 2"),
    ]


def test_nothing_drafted_leaves_plain_decoding() -> None:
    silent = AnswerTrace("a", "chat", 0.0, 1, {"lookup": (None,) * 5})
    assert fixed(silent, conditions()) == ("plain", 5.0)
    assert seconds(oracle(whole([silent]), conditions()), conditions()) == 5.0


@given(answers())
@settings(max_examples=30)
def test_plain_decoding_is_among_the_fixed(answer: AnswerTrace) -> None:
    machine = conditions(STEEP)
    phase = whole([answer])
    _, taken = best_fixed(fixed_runs(phase, machine), machine)
    assert taken <= seconds(plain_run(phase, machine).rounds, machine) == answer.places


# The oracle


@pytest.mark.parametrize("curve", PUBLISHED, ids=lambda curve: curve.name)
@pytest.mark.parametrize("chance", [0.3, 0.8])
def test_where_places_are_alike_the_oracle_is_the_best_fixed_length(
    curve: CostCurve, chance: float
) -> None:
    machine = conditions(curve, step=0.05)
    answer = lucky_answer(chance, places=1200)
    _, taken = fixed(answer, machine)
    played = seconds(oracle(whole([answer]), machine), machine)
    assert played == pytest.approx(taken, rel=0.03)


def test_where_they_are_not_it_is_better_than_any() -> None:
    # Long matches always stand, short ones never.
    good, bad = RecordedDraft((1.0,) * 4, 4, 16), RecordedDraft((1.0,) * 4, 0, 2)
    answer = AnswerTrace(
        "a", "chat", 0.0, 1, {"lookup": (bad, bad, bad, bad, bad, good, *[bad] * 4) * 5}
    )
    machine = conditions(CostCurve("half", "made up", ((1, 1.0), (2, 1.5))))
    played = oracle(whole([answer]), machine)
    # Of ten tokens five are plain, five are one pass over five rows.
    assert seconds(played, machine) == 5 * (5 * 1.0 + 3.0)
    assert fixed(answer, machine)[1] > 5 * 8.0


def test_it_drafts_nothing_where_nothing_stands() -> None:
    answer = without_acceptance(lucky_answer(0.9))
    assert not any(round.proposed for round in oracle(whole([answer]), conditions(SLOPING)))


def test_it_drafts_all_where_all_stands() -> None:
    answer = with_all_accepted(head_answer([0] * 90))
    rounds = oracle(whole([answer]), conditions(FLAT))
    assert [round.proposed for round in rounds] == [8] * 10


def test_it_knows_when_costs_change() -> None:
    # A row more costs 0.4 at first and 0.8 later: drafting one token that stands with chance 0.6
    # pays only before.
    machine = conditions(CostCurve("dear", "made up", ((1, 1.0), (2, 1.4))), doubling="rows")
    rounds = oracle(whole([lucky_answer(0.6, places=1000, chain=1)]), machine)
    early = [round.proposed for round in rounds if round.progress < 0.5]
    late = [round.proposed for round in rounds if round.progress >= 0.5]
    assert sum(early) / len(early) > 0.95
    assert sum(late) == 0


def test_it_weighs_a_round_by_what_its_time_is_worth_elsewhere() -> None:
    # The chance is 0.5 either way, a second row costs 0.3: 1.5 tokens for 1.3 s. Where time is
    # worth 2 tokens a second elsewhere that is less than one token for one.
    standing = {("head", 0): [0.5]}
    phase, machine = (
        whole([head_answer([0] * 9)]),
        conditions(CostCurve("c", "", ((1, 1.0), (2, 1.3)))),
    )
    candidates = [DraftCandidate("head", 1)]
    lengths = [
        Oracle(standing, (worth, worth), phase, machine)
        .choose(candidates, most=8, context=1)
        .length
        for worth in (1.0, 2.0)
    ]
    assert lengths == [1, 0]


def test_matches_of_a_kind() -> None:
    kinds = [kind(match) for match in (0, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 99)]
    assert kinds == [0, 2, 3, 4, 5, 5, 6, 6, 7, 7, 8, 8]
