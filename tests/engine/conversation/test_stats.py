"""The laws of the events hold for whatever is counted, at any moment of a run."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    Stats,
    Text,
    TokenVerdict,
    Verdict,
    WrittenToken,
    from_json,
    to_json,
)
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
def test_the_laws_hold_for_any_prefix(events):
    for end in range(len(events) + 1):
        prefix = events[:end]
        stats = tally(prefix)
        verdicts = [event for event in prefix if isinstance(event, Verdict)]
        committed = sum(event.accepted + (event.next is not None) for event in verdicts)
        assert stats.proposed == stats.accepted + stats.rejected + stats.discarded
        assert stats.committed == committed
        assert stats.committed == (stats.accepted + stats.corrections + stats.bonuses + stats.plain)
        assert stats.rejected == stats.corrections
        assert stats.rounds == len(verdicts)
        assert stats.proposed == sum(len(event.judgements) for event in verdicts)
        assert min(stats.rejected, stats.discarded) >= 0
        assert stats.decode_seconds == len(verdicts)
        assert stats.own_seconds == pytest.approx(0.25 * len(verdicts))


def test_a_run_by_hand():
    stats = tally(
        [
            Prefill("g", 100, 100, 60, 0.5),
            verdict(0, 0, 0),
            verdict(1, 4, 2),
            verdict(2, 2, 2),
            verdict(3, 3, 1, ended=True),
        ]
    )
    assert stats == Stats(
        prompt_tokens=100,
        reused_tokens=60,
        prefill_seconds=0.5,
        rounds=4,
        proposed=9,
        accepted=5,
        rejected=1,
        discarded=3,
        corrections=1,
        bonuses=1,
        plain=1,
        plain_seconds=1.0,
        draft_seconds=1.0,
        verify_seconds=2.0,
        decode_seconds=4.0,
        proposed_by_position=(3, 3, 2, 1),
        accepted_by_position=(3, 2),
        plain_round_seconds=(1.0,),
    )
    assert stats.committed == 8
    assert stats.acceptance_rate == pytest.approx(5 / 9)
    assert (stats.acceptance_length, stats.tokens_per_second) == (2.0, 2.0)


def _drafted(*, tokens_per_pass, seconds, **others):
    """Ten rounds with drafts, in so many seconds."""
    accepted = round(10 * (tokens_per_pass - 1))
    return Stats(
        rounds=10, proposed=40, accepted=accepted, bonuses=10, decode_seconds=seconds, **others
    )


def test_the_ratio_is_the_time_of_plain_passes_against_the_time_it_took():
    answer = _drafted(tokens_per_pass=2.0, seconds=1.6)  # 12.5 tokens a second
    assert against_plain(answer, 0.1) == pytest.approx(1.25)
    assert against_plain(answer, 0.05) == pytest.approx(0.625)
    behind = replace(answer, reference_seconds=(0.1,) * ENOUGH_PLAIN_ROUNDS)
    assert against_plain(behind) == pytest.approx(1.25)
    within = replace(behind, plain_round_seconds=(0.05,) * ENOUGH_PLAIN_ROUNDS)
    assert against_plain(within) == pytest.approx(0.625)


def test_a_hiccup_changes_little():
    steady = (0.02,) * 20
    answer = Stats(
        rounds=30,
        proposed=40,
        accepted=20,
        bonuses=10,
        plain=20,
        plain_seconds=0.4,
        decode_seconds=0.7,
        plain_round_seconds=steady,
    )
    before = against_plain(answer)
    assert before == pytest.approx(1 / 0.7)
    interrupted = replace(
        answer,
        plain_seconds=1.4,
        decode_seconds=1.7,
        plain_round_seconds=(*steady[:-1], 1.02),
    )
    assert against_plain(interrupted) == pytest.approx(before)
    assert pass_seconds(interrupted) == pytest.approx(0.02)


def test_a_load_that_changes_all_the_time_gives_no_ratio():
    """Starter pair on two cores that others were using, too: shown as 0.58 at 1.32 a pass."""
    answer = _drafted(tokens_per_pass=2.0, seconds=1.6)
    steady = replace(answer, reference_seconds=(0.08, 0.1, 0.12, 0.1) * 2)
    assert against_plain(steady) == pytest.approx(1.25)
    changing = replace(answer, reference_seconds=(0.05, 0.1, 0.15, 0.1, 0.16, 0.05, 0.05, 0.15))
    assert against_plain(changing) is NoRatio.NOT_COMPARABLE


def test_the_plain_rounds_that_are_kept_are_spread_evenly():
    each = verdict(0, 0, 0)
    for rounds in (1, 63, 64, 65, 128, 129, 1000):
        stats = tally(replace(each, seconds=float(number)) for number in range(rounds))
        kept = stats.plain_round_seconds
        steps = {after - before for before, after in pairwise(kept)}
        assert kept[0] == 0.0
        assert len(steps) <= 1
        assert min(rounds, 32) <= len(kept) <= 64
        assert kept[-1] + (steps.pop() if steps else 1) >= rounds


@st.composite
def answers(draw):
    """An answer on a machine whose load changes, and what was measured behind it.

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
    behind = draw(st.lists(st.floats(0.8, 12.0), max_size=ENOUGH_PLAIN_ROUNDS))
    return [*events, Done("g", "stop", replace(tally(events), reference_seconds=tuple(behind)))]


def check_what_is_shown(events):
    """The bounds of a speed-up: nobody may be shown one that cannot be."""
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
    assert length is not None
    assert ratio <= length * (1 + 1e-9)
    highest = length * (whole - stats.draft_seconds) / whole
    assert ratio <= highest * (1 + 1e-9)
    # Never less than if every plain pass had been as quick as the quickest that was measured.
    assert ratio >= min(stats.committed * min(passes) / whole, highest) * (1 - 1e-9)
    assert against_plain(from_store(events)) == ratio


def from_store(events):
    """The figures of the same answer, read back from JSON."""
    return tally(from_json(to_json(event)) for event in events)


@settings(max_examples=examples(100))
@given(events=answers())
def test_no_speed_up_is_shown_that_cannot_be(events):
    check_what_is_shown(events)


def test_a_plain_pass_that_nothing_ran_beside_is_no_reference():
    events = [replace(verdict(n, 0, 0), edge=n % 3 == 0) for n in range(12)]
    stats = tally(events)
    assert (stats.plain, stats.plain_seconds) == (12, 12.0)
    assert len(stats.plain_round_seconds) == 8
