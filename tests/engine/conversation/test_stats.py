"""The figures and the rounds of a run: what its drafts and verdicts say, at any moment."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.conversation.rounds import Round, Rounds, Token, committed, judged
from engine.conversation.stats import (
    ENOUGH_PLAIN_ROUNDS,
    NoRatio,
    against_plain,
    pass_seconds,
    tally,
)
from engine.events import (
    Done,
    Draft,
    DraftedToken,
    Prefill,
    Source,
    Stats,
    Text,
    TokenVerdict,
    Verdict,
    WrittenToken,
    from_json,
    to_json,
)
from tests.support.engine.sessions import tokens_of
from tests.support.mostly_slow import examples


def verdict(number, proposed, accepted, *, ended=False):
    origin = "correction" if accepted < proposed else "bonus" if proposed else "plain"
    own = None if ended else WrittenToken(7, "x", 0.5, origin)
    judgements = (TokenVerdict(0.5, 0.5),) * proposed
    return Verdict("g", number, accepted, judgements, own, 0.25, 0.5, 1.0, "full")


@st.composite
def runs(draw):
    """The events of a generation, and how its last round may end the text."""
    events = [Prefill("g", 0, 12, 4, 0.0), Prefill("g", 12, 12, 4, 0.75)]
    shapes = draw(st.lists(st.integers(0, 5).flatmap(_shape), max_size=10))
    for number, (proposed, accepted) in enumerate(shapes):
        if proposed:
            guesses = (DraftedToken(1, "x", 0.5),) * proposed
            events.append(Draft("g", number, guesses, "model"))
        last = number == len(shapes) - 1
        ended = last and accepted > 0 and draw(st.booleans())
        events += [verdict(number, proposed, accepted, ended=ended), Text("g", "x")]
    return [*events, Done("g", "stop", tally(events))]


def _shape(proposed):
    return st.tuples(st.just(proposed), st.integers(0, proposed))


@given(events=runs())
def test_the_laws_hold_for_any_prefix_and_rounds_agree_with_the_figures(events):
    for end in range(len(events) + 1):
        prefix = events[:end]
        stats = tally(prefix)
        verdicts = [event for event in prefix if isinstance(event, Verdict)]
        written = sum(event.accepted + (event.next is not None) for event in verdicts)
        assert stats.proposed == stats.accepted + stats.rejected + stats.discarded
        assert stats.committed == written
        assert stats.committed == (stats.accepted + stats.corrections + stats.bonuses + stats.plain)
        assert stats.rejected == stats.corrections
        assert stats.rounds == len(verdicts)
        assert stats.proposed == sum(len(event.judgements) for event in verdicts)
        assert min(stats.rejected, stats.discarded) >= 0
        assert stats.decode_seconds == len(verdicts)
        assert stats.own_seconds == pytest.approx(0.25 * len(verdicts))
    found = judged(events)
    fates = [token.fate for one in found for token in one.tokens]
    assert fates.count("accepted") == stats.accepted
    assert fates.count("rejected") == fates.count("correction") == stats.rejected
    assert fates.count("discarded") == stats.discarded
    assert fates.count("bonus") == stats.bonuses
    assert fates.count("plain") == stats.plain
    assert "drafted" not in fates
    assert len(found) == stats.rounds
    assert [token.id for token in committed(events)] == tokens_of(events)


def test_a_run_by_hand():
    """A plain pass is not a reference if nothing ran beside it."""
    stats = tally(
        [
            Prefill("g", 100, 100, 60, 0.5),
            verdict(0, 0, 0),
            replace(verdict(1, 0, 0), edge=True),
            verdict(2, 4, 2),
            verdict(3, 2, 2),
            verdict(4, 3, 1, ended=True),
        ]
    )
    assert stats == Stats(
        prompt_tokens=100,
        reused_tokens=60,
        prefill_seconds=0.5,
        rounds=5,
        proposed=9,
        accepted=5,
        rejected=1,
        discarded=3,
        corrections=1,
        bonuses=1,
        plain=2,
        plain_seconds=2.0,
        draft_seconds=1.25,
        verify_seconds=2.5,
        decode_seconds=5.0,
        proposed_by_position=(3, 3, 2, 1),
        accepted_by_position=(3, 2),
        plain_round_seconds=(1.0,),
    )
    assert stats.committed == 9
    assert stats.acceptance_rate == pytest.approx(5 / 9)
    assert (stats.acceptance_length, stats.tokens_per_second) == (1.8, 1.8)


def test_the_ratio_is_the_time_of_plain_passes_against_the_time_it_took():
    """None under a load that changes all the time: the starter pair on two cores that others were
    using, too, was shown as 0.58 at 1.32 a pass."""
    answer = Stats(rounds=10, proposed=40, accepted=10, bonuses=10, decode_seconds=1.6)
    assert against_plain(answer, 0.1) == pytest.approx(1.25)  # 12.5 tokens a second
    assert against_plain(answer, 0.05) == pytest.approx(0.625)
    measured = replace(answer, reference_seconds=(0.1,) * ENOUGH_PLAIN_ROUNDS)
    assert against_plain(measured) == pytest.approx(1.25)
    within = replace(measured, plain_round_seconds=(0.05,) * ENOUGH_PLAIN_ROUNDS)
    assert against_plain(within) == pytest.approx(0.625)
    steady = replace(answer, reference_seconds=(0.08, 0.1, 0.12, 0.1) * 2)
    assert against_plain(steady) == pytest.approx(1.25)
    changing = replace(answer, reference_seconds=(0.05, 0.1, 0.15, 0.1, 0.16, 0.05, 0.05, 0.15))
    assert against_plain(changing) is NoRatio.NOT_COMPARABLE
    # It is at most the tokens of a pass, times the share of the time outside drafting.
    quick = replace(answer, decode_seconds=0.95)
    assert against_plain(quick, 0.1) == pytest.approx(2.0)
    assert against_plain(replace(quick, draft_seconds=0.19), 0.1) is NoRatio.NOT_COMPARABLE
    # A hiccup changes little.
    steady = (0.02,) * 20
    answer = Stats(
        rounds=30, proposed=40, accepted=20, bonuses=10, plain=20, plain_seconds=0.4,
        decode_seconds=0.7, plain_round_seconds=steady,
    )  # fmt: skip
    assert against_plain(answer) == pytest.approx(1 / 0.7)
    rounds = (*steady[:-1], 1.02)
    hiccup = replace(answer, plain_seconds=1.4, decode_seconds=1.7, plain_round_seconds=rounds)
    assert against_plain(hiccup) == pytest.approx(1 / 0.7)
    assert pass_seconds(hiccup) == pytest.approx(0.02)


@st.composite
def answers(draw):
    """An answer on a machine whose load changes, and what was measured after it.

    A pass over a draft costs what a plain one does, and something for each row; whatever else the
    machine does makes it as many times as long.
    """
    load = draw(st.lists(st.floats(1.0, 12.0), min_size=1, max_size=12))
    row, per_draft = draw(st.floats(0.0, 0.5)), draw(st.floats(0.0, 0.5))
    shapes = draw(st.lists(st.integers(0, 6).flatmap(_shape), min_size=1, max_size=40))
    events = []
    for number, (proposed, accepted) in enumerate(shapes):
        busy = load[number * len(load) // len(shapes)]
        draft, verify = busy * per_draft * proposed, busy * (1.0 + row * proposed)
        one = verdict(number, proposed, accepted)
        events.append(
            replace(one, draft_seconds=draft, verify_seconds=verify, seconds=draft + verify)
        )
    after = draw(st.lists(st.floats(0.8, 12.0), max_size=ENOUGH_PLAIN_ROUNDS))
    return [*events, Done("g", "stop", replace(tally(events), reference_seconds=tuple(after)))]


@settings(max_examples=examples(100))
@given(events=answers())
def test_no_speed_up_is_shown_that_cannot_be(events):
    stats = tally(events)
    ratio = against_plain(stats)
    passes = (*stats.plain_round_seconds, *stats.reference_seconds)
    if isinstance(ratio, NoRatio):
        assert ratio is not NoRatio.NOT_MEASURED or len(passes) < ENOUGH_PLAIN_ROUNDS
        assert (ratio is NoRatio.NOTHING_DRAFTED) == (stats.proposed == 0)
        return
    whole, length = stats.decode_seconds, stats.acceptance_length
    assert stats.proposed
    assert len(passes) >= ENOUGH_PLAIN_ROUNDS
    assert ratio <= length * (1 + 1e-9)
    highest = length * (whole - stats.draft_seconds) / whole
    assert ratio <= highest * (1 + 1e-9)
    # Never less than if every plain pass had been as quick as the quickest that was measured.
    assert ratio >= min(stats.committed * min(passes) / whole, highest) * (1 - 1e-9)
    stored = (from_json(to_json(event)) for event in events)
    assert against_plain(tally(stored)) == ratio


# Rounds


def draft(number, *texts):
    drafted = tuple(DraftedToken(7, text, 0.5, 0.25) for text in texts)
    return Draft("g", number, drafted, "model", source=Source(2, 40))


def judging(number, proposed, accepted, own):
    judgements = tuple(TokenVerdict(n / 10, n / 5) for n in range(proposed))
    return Verdict("g", number, accepted, judgements, own, 0.01, 0.02, 0.04, "fixed at 3")


def test_a_round_by_hand():
    rounds = Rounds()
    drafted = [
        Token(7, text, "drafted", 0.5, confidence=0.25, parent=number - 1)
        for number, text in enumerate(("The", " cat", " sat"))
    ]
    source = Source(2, 40)
    whole = Round(3, "model", tuple(drafted), None, source)
    assert rounds.push(draft(3, "The", " cat", " sat")) == whole
    event = judging(3, 3, 1, WrittenToken(9, " dog", 0.75, "correction"))
    ended = rounds.push(event)
    accepted, rejected, discarded = (
        replace(token, fate=fate, p=number / 10, chance=number / 5)
        for number, (token, fate) in enumerate(
            zip(drafted, ("accepted", "rejected", "discarded"), strict=True)
        )
    )
    own = Token(9, " dog", "correction", p=0.75)
    assert ended == Round(3, "model", (accepted, rejected, discarded, own), event, source)
    assert (ended.own, ended.committed) == (own, (accepted, own))


def test_a_draft_is_judged_once_and_drafts_after_an_end_of_text_were_not_rejected():
    own = WrittenToken(3, "x", 0.9, "plain")
    events = [draft(1, "a"), judging(1, 1, 1, own), Text("g", "x"), judging(1, 1, 1, own)]
    assert [len(one.drafted) for one in judged(events)] == [1, 0]
    (other,) = judged([draft(1, "lost"), judging(2, 0, 0, own)])
    assert (other.drafted, other.drafter) == ((), "")
    (ended,) = judged([draft(1, "so", "<end>", "and"), judging(1, 3, 2, None)])
    assert [token.fate for token in ended.tokens] == ["accepted", "accepted", "discarded"]
    assert ended.own is None
