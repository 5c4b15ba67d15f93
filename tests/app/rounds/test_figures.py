"""The panel's figures say what the stats say, in words that can be read."""

from dataclasses import replace

import pytest
from hypothesis import given

from app.rounds import figures
from app.rounds.figures import Figure, PositionAcceptance
from engine.conversation.rounds import judged
from engine.conversation.stats import NoRatio, against_plain, tally
from engine.draft_length import Reason, Why
from engine.events import Prefill, Stats
from tests.support.app.traces import forced_round, made_round, recorded, traces, tree_round


def test_before_anything_happened():
    empty = Stats()
    assert figures.speed(empty) == Figure("–", "tokens/s")
    assert NoRatio.NOTHING_DRAFTED.value in figures.against_plain(empty).remark
    assert figures.guessed(empty).value == "–"
    assert figures.acceptance_length(empty).value == "–"
    assert figures.draft_length(None).value == "–"
    assert figures.cache_reuse(empty).value == "–"
    assert figures.positions(empty) == ()
    assert figures.time_split(empty) == ()
    reading = tally([Prefill("", 1920, 5447, 128, 26.0)])
    assert "read in" not in figures.cache_reuse(reading).remark


def test_an_answer_by_hand():
    stats = Stats(
        prompt_tokens=1204,
        reused_tokens=1100,
        prefill_seconds=0.25,
        rounds=10,
        proposed=20,
        accepted=14,
        rejected=2,
        discarded=4,
        corrections=2,
        bonuses=3,
        plain=5,
        plain_seconds=1.0,
        draft_seconds=0.5,
        verify_seconds=1.0,
        decode_seconds=2.0,
        proposed_by_position=(5, 5, 5, 5),
        accepted_by_position=(5, 4, 3),
    )
    assert figures.speed(stats) == Figure("12.0", "tokens/s\n24 tokens in 2.00 s")
    free = Figure("14 of 24", "tokens came free:\n14 of 20 guesses right")
    assert figures.guessed(stats) == free
    assert figures.acceptance_length(stats) == Figure(
        "2.40", "tokens a step, instead of one:\n24 tokens in 10 steps"
    )
    reuse = "1,100 of 1,204 prompt tokens reused\n104 read in 0.25 s"
    assert figures.cache_reuse(stats) == Figure("91%", reuse)
    assert [column.rate for column in figures.positions(stats)] == [1.0, 0.8, 0.6, 0.0]
    assert figures.positions(stats)[3] == PositionAcceptance(4, 5, 0)
    many = replace(stats, proposed_by_position=(5,) * 40, accepted_by_position=(4,) * 30)
    assert [(each.position, each.accepted) for each in figures.positions(many)] == [
        (position, 4) for position in range(1, 17)
    ]
    split = {part.name: part.share for part in figures.time_split(stats)}
    assert split == {"drafting": 0.25, "verifying": 0.5, "other": 0.25}


def test_the_speed_up_is_measured_or_said_not_to_be():
    answer = tally(recorded("stories_lookup.jsonl"))
    ratio = against_plain(answer)
    assert isinstance(ratio, float)
    shown = figures.against_plain(answer)
    assert shown == Figure(
        f"{ratio:.2f} times", "as fast as plain decoding,\nby 69 steps of its own"
    )
    drafted_only = tally(recorded("stories_early_exit.jsonl"))  # stored by an earlier version
    assert NoRatio.NOT_MEASURED.value in figures.against_plain(drafted_only).remark
    assert "ends" in figures.against_plain(drafted_only, ended=False).remark
    passes = (0.9 * drafted_only.verify_seconds / drafted_only.rounds,) * 8
    measured = replace(drafted_only, reference_seconds=passes)
    shown = figures.against_plain(measured)
    assert shown.value.endswith("times")
    busier = replace(drafted_only, reference_seconds=(60.0,) * 8)
    assert NoRatio.NOT_COMPARABLE.value in figures.against_plain(busier).remark
    plain = tally(recorded("stories_plain.jsonl"))
    assert NoRatio.NOTHING_DRAFTED.value in figures.against_plain(plain).remark


def test_the_draft_length_comes_with_its_reason_and_names_the_drafter_once():
    first, *_ = judged(recorded("stories_plain.jsonl"))
    assert figures.draft_length(first) == Figure("0", "measuring")
    first, *_ = judged(recorded("stories_early_exit.jsonl"))
    assert figures.draft_length(first) == Figure("4", "fixed at 4\nby early-exit")
    reason = str(Reason(Why.BEST_GAIN, drafter="early-exit", length=4, gain=1.5))
    told = replace(first, verdict=replace(first.verdict, reason=reason))
    assert figures.draft_length(told) == Figure("4", reason)


def test_a_draft_that_is_a_tree_is_said_to_be_one():
    tokens = ((" a", -1, 0.5), (" the", -1, 0.3), (" cat", 1, 0.5))
    _, ended = tree_round(1, *tokens, path=(1, 2))
    assert figures.draft_length(ended) == Figure("3", "the best tree\nby head, 2 deep")
    verdicts = [ended.verdict, tree_round(2, *tokens)[1].verdict]
    stats = tally(verdict for verdict in verdicts if verdict)
    free = Figure("2 of 4", "tokens came free:\n2 of 6 guesses right")
    assert figures.guessed(stats) == free
    assert figures.acceptance_length(stats) == Figure(
        "2.00", "tokens a step, instead of one:\n4 tokens in 2 steps"
    )
    assert figures.positions(stats) == (PositionAcceptance(1, 2, 1), PositionAcceptance(2, 2, 1))


@given(events=traces())
def test_every_trace_has_figures(events):
    stats = tally(events)
    for column in figures.positions(stats):
        assert 0.0 <= column.rate <= 1.0
    parts = figures.time_split(stats)
    assert sum(part.share for part in parts) == pytest.approx(1.0 if stats.decode_seconds else 0.0)
    for figure in (figures.speed(stats), figures.cache_reuse(stats)):
        assert figure.value
        assert figure.remark.count("\n") <= 1


def test_seconds_and_counts():
    table = {
        0.0: "0 ms",
        0.00004: "0 ms",
        0.00234: "2.3 ms",
        0.0099: "9.9 ms",
        0.00999: "10 ms",
        0.0994: "99 ms",
        0.0999: "0.10 s",
        1.0: "1.00 s",
        9.999: "10.0 s",
        99.96: "1 min 40 s",
        3723.0: "62 min 03 s",
    }
    assert {spent: figures.seconds(spent) for spent in table} == table
    counts = ((1, "token"), (1200, "token"), (2, "pass"))
    assert [figures.count(*of) for of in counts] == ["1 token", "1,200 tokens", "2 passes"]


def test_forced_tokens_are_counted_and_take_no_pass():
    before, after = made_round(1, " one", accepted=1), forced_round(2, "{", "}")
    verdicts = [one.verdict for one in (before[1], after) if one.verdict]
    stats = tally(verdicts)
    assert (stats.rounds, stats.committed) == (1, 4)
    length = figures.acceptance_length(stats)
    assert length.value == "4.00"
    assert "2 forced" in length.remark
    assert "2 tokens" in figures.draft_length(after).remark
    assert "forced" not in figures.acceptance_length(tally(verdicts[:1])).remark
