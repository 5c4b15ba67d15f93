"""Replay: its algebra for any record and any policy, and cases worked out by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.draft_length import IMPOSED, DraftCandidate, DraftChoice, MeasuredRound, Reason, Why
from engine.draft_length.policy import Fixed
from engine.tree import COMMITTED, Tree
from tests.lab.simulate.replay import (
    ALTERNATIVES,
    Phase,
    SimulatedRound,
    cost,
    replay,
    seconds,
    whole,
)
from tests.lab.simulate.tests.recorded import STEEP, answers, conditions, head_answer
from tests.lab.simulate.traces import (
    AnswerTrace,
    RecordedDraft,
    with_all_accepted,
    without_acceptance,
    without_trees,
)


@dataclass
class Told:
    """Does as it is told, choice by choice, and then over again; remembers what it was asked."""

    choices: Sequence[DraftChoice]
    asked: list[tuple[list[DraftCandidate], int, int]] = field(default_factory=list)
    measured: list[MeasuredRound] = field(default_factory=list)

    def choose(
        self, candidates: Sequence[DraftCandidate], *, most: int, context: int, beside: int = 0
    ) -> DraftChoice:
        self.asked.append((list(candidates), most, context))
        return self.choices[(len(self.asked) - 1) % len(self.choices)]

    def observe(self, measured: MeasuredRound) -> None:
        self.measured.append(measured)

    def restart(self) -> None:
        pass


choices = st.builds(
    DraftChoice,
    st.integers(0, 9),
    st.just("drawn"),
    drafter=st.sampled_from(["", "head", "lookup", "nobody"]),
    rounds=st.integers(1, 6),
    wake=st.sampled_from([0, 2, 20]),
)


def play(*episode: AnswerTrace, policy: Told | Fixed, step: float = 0.0) -> list[SimulatedRound]:
    return list(replay(whole(episode), policy, conditions(STEEP, step=step)))


# The algebra


@given(st.lists(answers(), min_size=1, max_size=3), st.lists(choices, min_size=1, max_size=4))
def test_every_token_is_written_once_whatever_is_chosen(
    episode: list[AnswerTrace], told: list[DraftChoice]
) -> None:
    rounds = play(*episode, policy=Told(told))
    for number, answer in enumerate(episode):
        places = [round.place for round in rounds if round.answer == number]
        ends = [round.place + round.committed for round in rounds if round.answer == number]
        assert places == [0, *ends[:-1]]
        assert ends[-1] == answer.places
    for round in rounds:
        answer = episode[round.answer]
        assert 0 <= round.accepted <= round.proposed
        assert 0.0 <= round.progress < 1.0
        assert round.context == answer.prompt + round.place
        if round.proposed:
            drafted = answer.drafts[round.drafter][round.place]
            assert drafted is not None
            assert round.proposed <= len(drafted.q)
            assert round.accepted == min(drafted.accepted, round.proposed)


@given(st.lists(answers(), min_size=1, max_size=3), st.lists(choices, min_size=1, max_size=4))
def test_the_policy_is_asked_and_told_as_by_the_loop(
    episode: list[AnswerTrace], told: list[DraftChoice]
) -> None:
    policy = Told(told)
    machine = conditions(STEEP, step=0.1)
    rounds = list(replay(whole(episode), policy, machine))
    assert len(policy.measured) == len(rounds)
    for round, measured in zip(rounds, policy.measured, strict=True):
        assert (measured.proposed, measured.accepted) == (round.proposed, round.accepted)
        assert (measured.context, measured.drafter) == (round.context, round.drafter)
        assert (measured.draft_seconds, measured.verify_seconds) == cost(round, machine)
        assert measured.proposed <= max(measured.asked, 0)
    for candidates, most, context in policy.asked:
        assert most >= 0
        assert all(candidate.most >= 1 for candidate in candidates)
        assert context >= min(answer.prompt for answer in episode)


@given(answers(), st.integers(0, 9))
def test_forced_acceptance_keeps_all_or_nothing(answer: AnswerTrace, length: int) -> None:
    told = [DraftChoice(length)]
    everything = play(with_all_accepted(answer), policy=Told(told))
    assert all(round.accepted == round.proposed for round in everything)
    nothing = play(without_acceptance(answer), policy=Told(told))
    assert all(round.accepted == 0 for round in nothing)
    assert len(everything) <= len(nothing) == answer.places


@given(st.lists(st.integers(0, 8), min_size=1, max_size=12), st.integers(1, 8), st.integers(0, 9))
def test_forced_acceptance_bounds_every_other_of_a_drafter_that_always_guesses(
    stood: list[int], chain: int, length: int
) -> None:
    told = [DraftChoice(length)]
    answer = head_answer(stood, chain=chain)
    passes = len(play(answer, policy=Told(told)))
    assert len(play(with_all_accepted(answer), policy=Told(told))) <= passes <= answer.places


def test_a_token_that_stands_may_lead_to_a_place_without_a_guess() -> None:
    # Why it takes a drafter that always guesses: refused here, the next round accepts two.
    drafts = (RecordedDraft((0.5,), 0), RecordedDraft((0.5, 0.5), 2), None, None)
    answer = AnswerTrace("made up", "chat", 0.0, 10, {"head": drafts})
    assert len(play(answer, policy=Fixed(2))) == 2
    assert len(play(with_all_accepted(answer), policy=Fixed(2))) == 3


@given(st.lists(answers(), min_size=2, max_size=4))
def test_a_course_in_parts_is_the_course(episode: list[AnswerTrace]) -> None:
    machine = conditions(STEEP, growth=0.5, heat=1.0, doubling="all")
    total = sum(answer.places for answer in episode)
    first = Phase(tuple(episode[:1]), 0, total)
    rest = Phase(tuple(episode[1:]), episode[0].places, total)
    told = [DraftChoice(3)]
    parts = [seconds(list(replay(phase, Told(told), machine)), machine) for phase in (first, rest)]
    all_of_it = list(replay(whole(episode), Told(told), machine))
    assert sum(parts) == pytest.approx(seconds(all_of_it, machine))


# By hand


def test_plain_decoding_takes_a_pass_a_token() -> None:
    rounds = play(head_answer([8] * 20), policy=Fixed(0))
    assert len(rounds) == 20
    assert seconds(rounds, conditions(STEEP, step=0.5)) == 20.0


def test_a_fixed_length_by_hand() -> None:
    # Of 3 drafted 2 stand: place 3 is next; there 1 stands, then room is left for one token.
    answer = head_answer([2, 9, 9, 1, 9, 0, 9, 9])
    rounds = play(answer, policy=Fixed(3), step=0.25)
    assert [(round.place, round.proposed, round.accepted) for round in rounds] == [
        (0, 3, 2),
        (3, 3, 1),
        (5, 2, 0),
        (6, 1, 1),
    ]
    # Rows are 4 + 4 + 3 + 2, draft steps 3 + 3 + 2 + 1.
    assert seconds(rounds, conditions(STEEP, step=0.25)) == 13 + 9 * 0.25


def test_a_tree_by_hand() -> None:
    # One draft is told of: the answer goes on with its second alternative, then with the first.
    head = [RecordedDraft((0.5,) * 4, 0, ranks=ranks) for ranks in [(1, 0, 2)] + [()] * 9]
    answer = AnswerTrace("made up", "chat", 0.0, 10, {"head": tuple(head)})
    tree = Tree((COMMITTED, COMMITTED, 1, 2, 2, 0))
    told = Told([DraftChoice(3, tree=tree), DraftChoice(0)])
    first, *rest = play(answer, policy=told, step=0.25)
    assert told.asked[0][0] == [DraftCandidate("head", 4, alternatives=ALTERNATIVES)]
    assert (first.proposed, first.accepted, first.path) == (6, 2, (1, 2))
    assert (told.measured[0].tree, told.measured[0].path) == (tree, (1, 2))
    assert len(rest) == 7
    machine = conditions(STEEP, step=0.25)
    # Three levels: behind the committed tokens, behind two drafted ones at once, and behind one.
    assert cost(first, machine) == pytest.approx((0.25 * (1 + 2 + 1), 7.0))
    # Nobody who proposes chains alone is asked for a tree.
    (chain, *_) = play(without_trees(answer), policy=Told([DraftChoice(3), DraftChoice(0)]))
    assert (chain.tree, chain.proposed, chain.accepted) == (None, 3, 0)


def test_the_last_token_is_never_drafted() -> None:
    assert [round.proposed for round in play(head_answer([8]), policy=Fixed(8))] == [0]
    assert [round.proposed for round in play(head_answer([8, 8]), policy=Fixed(8))] == [1]


PARKED = Reason(Why.PARKED)
COPIED = AnswerTrace(
    "copied",
    "chat",
    0.0,
    10,
    {
        "lookup": (
            *(None, None, None, None, RecordedDraft((1.0,) * 4, 4, 6), None),
            *(RecordedDraft((1.0,) * 2, 0, 2), None, None, None, None, None),
        ),
        "head": (RecordedDraft((0.5,) * 4, 0),) * 12,
    },
)


def test_a_match_wakes_it_one_token_later() -> None:
    parked = DraftChoice(0, PARKED, rounds=9, wake=4)
    rounds = play(COPIED, policy=Told([parked, DraftChoice(2, drafter="head")]))
    # Waking at place 4, the token there is under way already.
    assert [round.reason for round in rounds[:6]] == [PARKED] * 5 + [IMPOSED]
    asleep = DraftChoice(0, PARKED, rounds=9, wake=7)
    rounds = play(COPIED, policy=Told([asleep, DraftChoice(2, drafter="head")]))
    assert [round.reason for round in rounds[:10]] == [PARKED] * 9 + [IMPOSED]


def test_a_drafter_without_an_idea_leaves_a_plain_round() -> None:
    rounds = play(COPIED, policy=Told([DraftChoice(4, drafter="lookup")]))
    assert [(round.drafter, round.proposed, round.accepted) for round in rounds[3:7]] == [
        ("", 0, 0),
        ("lookup", 4, 4),
        ("", 0, 0),
        ("", 0, 0),
    ]


def test_the_first_with_an_idea_drafts_where_none_is_named() -> None:
    rounds = play(COPIED, policy=Told([DraftChoice(1)]))
    assert {round.place: round.drafter for round in rounds}[4] == "lookup"
    assert {round.place: round.drafter for round in rounds}[3] == "head"


def test_a_lookup_has_nothing_to_read() -> None:
    policy = Told([DraftChoice(0)])
    play(COPIED, policy=policy)
    candidates, most, context = policy.asked[4]
    assert candidates == [DraftCandidate("lookup", 4, match=6), DraftCandidate("head", 4, behind=4)]
    assert (most, context) == (7, 14)


def test_a_head_reads_what_was_written_without_it() -> None:
    plain, head = DraftChoice(0, rounds=5), DraftChoice(2, drafter="head")
    policy = Told([plain, head, head])
    rounds = play(COPIED, policy=policy)
    assert [round.behind for round in rounds[5:7]] == [5, 0]
    machine = conditions(STEEP, step=0.5, reading=0.1)
    assert cost(rounds[5], machine) == (pytest.approx(2 * 0.5 + 5 * 0.05), 3.0)


def test_a_policy_is_shown_a_noisy_clock_and_charged_by_a_true_one() -> None:
    machine = conditions(STEEP, step=0.25, noise=0.3, seed=1)
    policy = Told([DraftChoice(2)])
    rounds = list(replay(whole([head_answer([1] * 30)]), policy, machine))
    shown = sum(each.draft_seconds + each.verify_seconds for each in policy.measured)
    assert shown != pytest.approx(seconds(rounds, machine), rel=0.001)
    assert seconds(rounds, machine) == pytest.approx(len(rounds) * 3.5 - 1.25)
