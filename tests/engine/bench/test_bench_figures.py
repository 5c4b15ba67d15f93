"""The benchmark's arithmetic: spreads, ratios, rounds from events and from other engines' flags."""

import pytest

from engine.bench import figures
from engine.bench.figures import Spread, Timed, ratio, spread_of, verdicts_of_flags
from engine.conversation.stats import against_plain, tally
from engine.events import Draft, DraftedToken, Event, Prefill, Stats, Text, TokenVerdict, Verdict
from engine.events import WrittenToken as Written

# A drafted "a b c" of which "a b" stand, then a plain token, then a draft that ends the text.
EVENTS: list[Event] = [
    Prefill("g", 9, 9, 0, 0.5),
    Draft("g", 1, tuple(DraftedToken(i, "x", 0.5) for i in (1, 2, 3)), "model"),
    Verdict(
        *("g", 1, 2, (TokenVerdict(0.5, 0.5),) * 3, Written(4, "x", 0.5, "correction")),
        *(0.25, 0.5, 1.0, "fixed at 3"),
    ),
    Text("g", "xxx"),
    Verdict("g", 2, 0, (), Written(5, "x", 0.5, "plain"), 0.0, 0.5, 0.5, "no guess"),
    Draft("g", 3, tuple(DraftedToken(i, "x", 0.5) for i in (6, 7)), "model"),
    Verdict("g", 3, 1, (TokenVerdict(0.5, 0.5),) * 2, None, 0.25, 0.5, 1.0, "fixed at 3"),
]


def test_spread_of() -> None:
    assert spread_of([]) is None
    assert spread_of([2.0]) == Spread(2.0, 2.0, 2.0, 1)
    assert spread_of([4.0, 1.0, 3.0, 2.0, 5.0]) == Spread(3.0, 2.0, 4.0, 5)


def test_ratio_is_taken_prompt_by_prompt() -> None:
    ours = [Timed("a", 10, 1.0), Timed("b", 30, 1.0), Timed("only here", 9, 1.0)]
    theirs = [Timed("b", 10, 1.0), Timed("a", 10, 2.0), Timed("only there", 1, 1.0)]

    found = ratio(ours, theirs)

    assert found is not None
    assert found.prompts == Spread(2.5, 2.25, 2.75, 2)
    assert found.total == pytest.approx((40 / 2) / (20 / 3))


def test_ratio_takes_the_median_of_repeats_and_leaves_out_what_has_no_time() -> None:
    repeats = [Timed("a", 10, 1.0), Timed("a", 10, 10.0), Timed("a", 10, 1.25)]
    found = ratio([*repeats, Timed("b", 0, 0.0)], [Timed("a", 10, 2.5), Timed("b", 10, 1.0)])
    assert found is not None
    assert found.prompts == Spread(2.0, 2.0, 2.0, 1)
    assert ratio([], [Timed("a", 1, 1.0)]) is None


def test_committed_ids_come_from_the_events_alone() -> None:
    assert figures.committed_ids(EVENTS) == [1, 2, 4, 5, 6]
    later = tally(figures.without_first_round(EVENTS))
    assert (later.committed, later.rounds, later.plain, later.accepted) == (2, 2, 1, 1)
    assert later.prompt_tokens == 9


def test_merge_adds_counts_and_positions() -> None:
    whole = tally(EVENTS)
    merged = figures.merge(
        [whole, whole, Stats(proposed_by_position=(1,), accepted_by_position=(1,))]
    )
    assert merged.committed == 2 * whole.committed
    assert merged.decode_seconds == 2 * whole.decode_seconds
    assert merged.proposed_by_position == (5, 4, 2)
    assert figures.acceptance_by_position(merged) == (1.0, 0.5, 0.0)


def test_flags_of_mlx_lm_give_passes_and_acceptance() -> None:
    # Two drafts of two: one falls at its second token, one stands; the third ends the text.
    flags = [True, False, True, True, False, True]
    verdicts = verdicts_of_flags(flags, length=2)
    stats = tally(verdicts)

    assert [(each.accepted, each.next is None) for each in verdicts] == [
        *((1, False), (2, False), (1, True)),
    ]
    assert stats.rounds == 3
    assert (stats.proposed, stats.accepted, stats.rejected, stats.discarded) == (6, 4, 1, 1)
    assert (stats.corrections, stats.bonuses, stats.plain) == (1, 1, 0)
    assert stats.committed == len(flags)
    assert stats.acceptance_length == 2.0
    assert (stats.proposed_by_position, stats.accepted_by_position) == ((3, 3), (3, 1))
    plain = tally(verdicts_of_flags([False] * 4, length=0))
    assert (plain.rounds, plain.plain, plain.proposed, plain.committed) == (4, 4, 0, 4)


def test_flags_of_the_same_answer_give_the_same_stats_as_its_events() -> None:
    drafted = [event for event in EVENTS if not (isinstance(event, Verdict) and event.round == 2)]
    whole = tally(drafted)
    flags = [True, True, False, True]  # in drafts of three, of which the last had two
    counted = tally(verdicts_of_flags(flags, length=3))
    for name in ("rounds", "accepted", "rejected", "corrections", "bonuses", "committed"):
        assert getattr(counted, name) == getattr(whole, name), name
    assert counted.accepted_by_position == whole.accepted_by_position == (2, 1)


def test_first_difference_looks_as_far_as_the_limit() -> None:
    assert figures.first_difference([1, 2, 3], [1, 2, 3, 4], limit=3) is None
    assert figures.first_difference([1, 2, 3], [1, 2, 3, 4], limit=4) == 3
    assert figures.first_difference([1, 9, 3], [1, 2, 3], limit=4) == 1


def test_a_run_on_a_quieter_machine_is_not_compared() -> None:
    """Two tokens a pass cannot be five times as fast."""
    stats = Stats(rounds=10, proposed=10, accepted=10, bonuses=10, decode_seconds=1.0)
    fair = Timed("a", 20, 1.0, stats)
    unknown = Timed("a", 20, 1.0)
    plain = [Timed("a", 20, 1.6)]
    busier = [Timed("a", 20, 5.0)]
    assert figures.comparable([fair, unknown], plain) == [fair, unknown]
    assert figures.comparable([fair, unknown], busier) == [unknown]
    assert figures.comparable([fair], [Timed("b", 20, 5.0)]) == [fair]
    assert figures.ratio(figures.comparable([fair], busier), busier) is None
    among = figures.ratio([fair], plain)
    assert among is not None
    assert among.prompts.median == pytest.approx(against_plain(stats, 1.6 / 20))


def test_merged_figures_are_of_no_single_answer() -> None:
    one = Stats(plain=1, plain_round_seconds=(0.1,), reference_seconds=(0.2,))
    merged = figures.merge([one, one])
    assert merged.plain == 2
    assert merged.plain_round_seconds == merged.reference_seconds == ()
