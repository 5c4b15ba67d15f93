"""Replay: its algebra for any record and any policy, and cases worked out by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.draft_length import DraftCandidate, DraftChoice, MeasuredRound
from engine.draft_length.policy import Fixed
from tests.lab.simulate.replay import Part, Round, cost, replay, seconds, whole
from tests.lab.simulate.tests.recorded import STEEP, answers, conditions, head_answer
from tests.lab.simulate.traces import Answer, Drafted, with_all_accepted, without_acceptance


@dataclass
class Told:
    """Does as it is told, choice by choice, and then over again; remembers what it was asked."""

    choices: Sequence[DraftChoice]
    asked: list[tuple[list[DraftCandidate], int, int]] = field(default_factory=list)
    measured: list[MeasuredRound] = field(default_factory=list)

    def choose(
        self, candidates: Sequence[DraftCandidate], *, most: int, context: int
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
    floor=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    rounds=st.integers(1, 6),
    wake=st.sampled_from([0, 2, 20]),
    chances=st.sampled_from([(), (0.1, 0.9)]),
)


def play(*course: Answer, policy: Told | Fixed, step: float = 0.0) -> list[Round]:
    return list(replay(whole(course), policy, conditions(STEEP, step=step)))


# The algebra


@given(st.lists(answers(), min_size=1, max_size=3), st.lists(choices, min_size=1, max_size=4))
def test_every_token_is_written_once_whatever_is_chosen(
    course: list[Answer], told: list[DraftChoice]
) -> None:
    rounds = play(*course, policy=Told(told))
    for number, answer in enumerate(course):
        places = [one.place for one in rounds if one.answer == number]
        ends = [one.place + one.committed for one in rounds if one.answer == number]
        assert places == [0, *ends[:-1]]
        assert ends[-1] == answer.places
    for one in rounds:
        answer = course[one.answer]
        assert 0 <= one.accepted <= one.proposed
        assert 0.0 <= one.progress < 1.0
        assert one.context == answer.prompt + one.place
        if one.proposed:
            drafted = answer.drafts[one.drafter][one.place]
            assert drafted is not None
            assert one.proposed <= len(drafted.q)
            assert one.accepted == min(drafted.stood, one.proposed)


@given(st.lists(answers(), min_size=1, max_size=3), st.lists(choices, min_size=1, max_size=4))
def test_the_policy_is_asked_and_told_as_by_the_loop(
    course: list[Answer], told: list[DraftChoice]
) -> None:
    policy = Told(told)
    machine = conditions(STEEP, step=0.1)
    rounds = list(replay(whole(course), policy, machine))
    assert len(policy.measured) == len(rounds)
    for one, measured in zip(rounds, policy.measured, strict=True):
        assert (measured.proposed, measured.accepted) == (one.proposed, one.accepted)
        assert (measured.context, measured.drafter) == (one.context, one.drafter)
        assert (measured.draft_seconds, measured.verify_seconds) == cost(one, machine)
        assert len(measured.q) == measured.proposed <= max(measured.asked, 0)
    for candidates, most, context in policy.asked:
        assert most >= 0
        assert all(candidate.most >= 1 for candidate in candidates)
        assert context >= min(answer.prompt for answer in course)


@given(answers(), st.integers(0, 9))
def test_forced_acceptance_keeps_all_or_nothing(answer: Answer, length: int) -> None:
    told = [DraftChoice(length, "drawn")]
    everything = play(with_all_accepted(answer), policy=Told(told))
    assert all(one.accepted == one.proposed for one in everything)
    nothing = play(without_acceptance(answer), policy=Told(told))
    assert all(one.accepted == 0 for one in nothing)
    assert len(everything) <= len(nothing) == answer.places


@given(st.lists(st.integers(0, 8), min_size=1, max_size=12), st.integers(1, 8), st.integers(0, 9))
def test_forced_acceptance_bounds_every_other_of_a_drafter_that_always_guesses(
    stood: list[int], chain: int, length: int
) -> None:
    told = [DraftChoice(length, "drawn")]
    answer = head_answer(stood, chain=chain)
    passes = len(play(answer, policy=Told(told)))
    assert len(play(with_all_accepted(answer), policy=Told(told))) <= passes <= answer.places


def test_a_token_that_stands_may_lead_to_a_place_without_a_guess() -> None:
    # Why it takes a drafter that always guesses: refused here, the next round accepts two.
    drafts = (Drafted((0.5,), 0), Drafted((0.5, 0.5), 2), None, None)
    answer = Answer("made up", "chat", 0.0, 10, {"head": drafts})
    assert len(play(answer, policy=Fixed(2))) == 2
    assert len(play(with_all_accepted(answer), policy=Fixed(2))) == 3


@given(st.lists(answers(), min_size=2, max_size=4))
def test_a_course_in_parts_is_the_course(course: list[Answer]) -> None:
    machine = conditions(STEEP, growth=0.5, heat=1.0, doubling="all")
    total = sum(answer.places for answer in course)
    first = Part(tuple(course[:1]), 0, total)
    rest = Part(tuple(course[1:]), course[0].places, total)
    told = [DraftChoice(3, "drawn")]
    parts = [seconds(list(replay(part, Told(told), machine)), machine) for part in (first, rest)]
    all_of_it = list(replay(whole(course), Told(told), machine))
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
    assert [(one.place, one.proposed, one.accepted) for one in rounds] == [
        (0, 3, 2),
        (3, 3, 1),
        (5, 2, 0),
        (6, 1, 1),
    ]
    # Rows are 4 + 4 + 3 + 2, draft steps 3 + 3 + 2 + 1.
    assert seconds(rounds, conditions(STEEP, step=0.25)) == 13 + 9 * 0.25


def test_the_last_token_is_never_drafted() -> None:
    assert [one.proposed for one in play(head_answer([8]), policy=Fixed(8))] == [0]
    assert [one.proposed for one in play(head_answer([8, 8]), policy=Fixed(8))] == [1]


COPIED = Answer(
    "copied",
    "chat",
    0.0,
    10,
    {
        "lookup": (
            *(None, None, None, None, Drafted((1.0,) * 4, 4, 6), None),
            *(Drafted((1.0,) * 2, 0, 2), None, None, None, None, None),
        ),
        "head": (Drafted((0.5,) * 4, 0),) * 12,
    },
)


def test_a_match_wakes_it_one_token_later() -> None:
    parked = DraftChoice(0, "parked", rounds=9, wake=4)
    rounds = play(COPIED, policy=Told([parked, DraftChoice(2, "woken", "head")]))
    # Waking at place 4, the token there is under way already.
    assert [one.reason for one in rounds[:6]] == ["parked"] * 5 + ["woken"]
    asleep = DraftChoice(0, "parked", rounds=9, wake=7)
    rounds = play(COPIED, policy=Told([asleep, DraftChoice(2, "rested", "head")]))
    assert [one.reason for one in rounds[:10]] == ["parked"] * 9 + ["rested"]


def test_a_drafter_without_an_idea_leaves_a_plain_round() -> None:
    rounds = play(COPIED, policy=Told([DraftChoice(4, "copy", "lookup")]))
    assert [(one.drafter, one.proposed, one.accepted) for one in rounds[3:7]] == [
        ("", 0, 0),
        ("lookup", 4, 4),
        ("", 0, 0),
        ("", 0, 0),
    ]


def test_the_first_with_an_idea_drafts_where_none_is_named() -> None:
    rounds = play(COPIED, policy=Told([DraftChoice(1, "any")]))
    assert {one.place: one.drafter for one in rounds}[4] == "lookup"
    assert {one.place: one.drafter for one in rounds}[3] == "head"


def test_a_lookup_has_nothing_to_read() -> None:
    policy = Told([DraftChoice(0, "plain")])
    play(COPIED, policy=policy)
    candidates, most, context = policy.asked[4]
    assert candidates == [DraftCandidate("lookup", 4, match=6), DraftCandidate("head", 4, behind=4)]
    assert (most, context) == (7, 14)


def test_a_head_reads_what_was_written_without_it() -> None:
    plain, head = DraftChoice(0, "plain", rounds=5), DraftChoice(2, "head", "head")
    policy = Told([plain, head, head])
    rounds = play(COPIED, policy=policy)
    assert [one.behind for one in rounds[5:7]] == [5, 0]
    machine = conditions(STEEP, step=0.5, reading=0.1)
    assert cost(rounds[5], machine) == (pytest.approx(2 * 0.5 + 5 * 0.05), 3.0)


@pytest.mark.parametrize(
    ("floor", "chances", "proposed"),
    [
        (0.0, (), 4),
        (0.5, (), 2),  # 0.8, then 0.8 x 0.5: that token is drawn, so it is proposed
        (0.3, (), 3),  # 0.8, 0.4, 0.2
        (0.05, (), 4),
        (0.5, (1.0, 1.0), 4),  # learned: even the unsure ones stand
        (0.5, (0.1, 1.0), 3),
    ],
)
def test_it_stops_after_the_token_that_makes_it_unsure(
    floor: float, chances: tuple[float, ...], proposed: int
) -> None:
    chain = Drafted((0.8, 0.5, 0.4, 0.5), 4)
    answer = Answer("unsure", "chat", 0.0, 1, {"head": (chain,) * 9})
    told = DraftChoice(4, "unsure", "head", floor=floor, chances=chances)
    first = play(answer, policy=Told([told]))[0]
    assert (first.proposed, first.watched) == (proposed, floor > 0.0)


def test_a_policy_is_shown_a_noisy_clock_and_charged_by_a_true_one() -> None:
    machine = conditions(STEEP, step=0.25, noise=0.3, seed=1)
    policy = Told([DraftChoice(2, "drawn")])
    rounds = list(replay(whole([head_answer([1] * 30)]), policy, machine))
    shown = sum(each.draft_seconds + each.verify_seconds for each in policy.measured)
    assert shown != pytest.approx(seconds(rounds, machine), rel=0.001)
    assert seconds(rounds, machine) == pytest.approx(len(rounds) * 3.5 - 1.25)
