"""Figures are computed from answers; a report's JSON can be shown again, as Markdown too."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import pytest
from rich.console import Console

import engine.bench
from engine.bench.answers import (
    MeasuredAnswer,
    Measurements,
    Timed,
    acceptance_by_position,
    comparable,
    first_difference,
    merge,
    ratio,
    with_forks,
)
from engine.bench.measure import (
    Bandwidth,
    CurvePoint,
    PassCurve,
    Roofline,
    at_depth,
    cache_bytes,
    reads_all_weights,
    weight_bytes,
)
from engine.bench.report import (
    ALL,
    Spread,
    check_places,
    command,
    markdown,
    read_report,
    remarks,
    show_kept,
    tables,
)
from engine.bench.runners import MLX_LM, PLAIN, Measurement, verdicts_of_flags, without_first_round
from engine.cli.main import main
from engine.conversation.stats import against_plain, tally
from engine.core.decoder import Decoder
from engine.device import backend
from engine.events import Draft, DraftedToken, Prefill, Stats, Text, TokenVerdict, Verdict
from engine.events import WrittenToken as Written
from engine.near_ties import Fork
from models.errors import Problem
from tests.support.engine.tiny import build

BENCH = Path(engine.bench.__file__).parent


def run_command(*words):
    with pytest.raises(SystemExit) as ended:
        main(["bench", *map(str, words)])
    return ended.value.code or 0


def test_what_is_read_is_what_was_found_and_a_folder_of_reports_becomes_one_file(
    report, options, tmp_path
):
    again = read_report(options.out)
    assert replace(again, options={}) == replace(report, options={})
    assert len(again.options) == len(report.options)
    kept = tmp_path / "kept"
    kept.mkdir()
    with pytest.raises(Problem):
        show_kept(kept, Console(file=StringIO()), to=None)
    for name in ("second", "first"):
        (kept / f"{name}.json").write_text(options.out.read_text())
    assert run_command("--from", kept, "--markdown", tmp_path / "all.md") == 0
    lines = (tmp_path / "all.md").read_text().splitlines()
    headings = [line for line in lines if line.startswith("## ")]
    assert [heading.partition(":")[0] for heading in headings] == ["## first", "## second"]


def test_results_are_written_from_the_kept_reports(tmp_path):
    """RESULTS.md is what `make results` writes, and nothing else."""
    written = tmp_path / "RESULTS.md"
    show_kept(BENCH / "results", Console(file=StringIO()), to=written)
    assert (BENCH / "RESULTS.md").read_text() == written.read_text()


def test_a_report_names_the_command_that_measures_it(report):
    words = command(report).split()
    assert words[:4] == ["slipstream", "bench", "--target", "target"]
    flags = ("--drafter", "--draft-length", "--temperature", "--prompts")
    flags += ("--drafter-bits", "--exact")
    given = {flag: [words[i + 1] for i, word in enumerate(words) if word == flag] for flag in flags}
    assert list(given.values()) == [
        *(["lookup", "tiny"], ["3"], ["0.0", "1.0"], ["own.txt"], ["16"], ["auto"])
    ]
    assert words[-1] != "--no-baselines"
    assert "--attach" not in words
    attached = replace(report, options=report.options | {"attach": True})
    assert command(attached).split() == [*words, "--attach"]
    acceptance = replace(report, options=report.options | {"baselines": False})
    assert command(acceptance).endswith("--no-baselines")
    kinds = {table.title.partition(",")[0] for table in tables(report)}
    assert kinds - {table.title.partition(",")[0] for table in tables(acceptance)} == {
        *("Speed", "Memory")
    }
    assert not any("GB/s" in line for line in remarks(acceptance))
    lines = "\n".join(remarks(report))
    assert f"Drafter tiny: {'in float32' if backend().expands else 'as published'}." in lines
    assert "Partial" not in lines
    assert "Partial" in "\n".join(remarks(replace(report, partial=True)))


def test_the_command_line_measures_the_pairs_that_are_named(options, tmp_path):
    words = ["--target", options.target.path, "--prompts", options.prompts, "--max-tokens", 4]
    words += ["--temperature", 0, "--out", tmp_path / "out.json"]
    words += ["--runner", f"{options.drafters[1]}/2", "--runner", "lookup/tree:4"]
    assert run_command(*words) == 0
    alone = read_report(tmp_path / "out.json")
    ways = {row.runner for row in alone.rows}
    drafting = {"slipstream tiny 2", "mlx-lm tiny 2", "slipstream lookup tree:4"}
    assert ways == {PLAIN, MLX_LM, *drafting}
    assert alone.drafters == (("tiny", "in float32" if backend().expands else "in 8 bits"),)
    words = " ".join(command(alone).split())
    assert "--drafter-bits auto" in words
    assert "--runner tiny/2 --runner lookup/tree:4" in words
    assert "--drafter " not in words
    assert "--draft-length" not in words


def test_the_command_shows_an_earlier_report_and_measures_nothing(options, tmp_path, capsys):
    written = tmp_path / "new" / "report.md"
    assert run_command("--from", options.out, "--markdown", written) == 0
    shown = capsys.readouterr()
    assert "Speed, greedy" in shown.out
    assert shown.err == ""
    assert "## Speed, greedy" in written.read_text()
    assert run_command("--from", tmp_path / "none.json") == 2
    assert "none.json" in capsys.readouterr().err


def test_what_is_no_report_or_cannot_be_written_is_a_problem(tmp_path):
    path = tmp_path / "report.json"
    for text in ("", "[]", "{}", "[" * 100_000):
        path.write_text(text)
        with pytest.raises(Problem):
            pytest.fail(f"{text[:9]} is {read_report(path)}")
    with pytest.raises(Problem):
        read_report(tmp_path / "none.json")
    check_places(path, None, tmp_path / "new" / "out.json")
    for place in (tmp_path, path / "out.json"):
        with pytest.raises(Problem):
            check_places(None, place)


def answered(runner, category, flags, seconds, *, length=0):
    """A runner's greedy answer to the category's only prompt; `flags`: which tokens were drafted,
    `length` a round."""
    stats = replace(tally(verdicts_of_flags(flags, length=length)), decode_seconds=seconds)
    return MeasuredAnswer(
        runner=runner,
        temperature=0.0,
        prompt=category,
        category=category,
        repeat=0,
        seed=0,
        limit=9,
        measured=Measurement((), stats),
    )


def test_what_rounding_explains_is_counted_apart(report):
    texts = {PLAIN: (1, 2, 3), "near": (1, 4, 3), "wrong": (1, 5, 3), "same": (1, 2, 3)}
    answers = [
        replace(each, measured=replace(each.measured, ids=texts[each.runner]))
        for each in (answered(name, "Art", [False] * 3, 1.0) for name in texts)
    ]

    def fork(plain, written):
        return Fork(1, plain[1], written[1], margin=float(written[1] - 4), allowed=0.5)

    measured = Measurements(report, tuple(with_forks(answers, fork)))
    rows = {row.runner: row for row in measured.report().rows if row.category == ALL}
    assert {name: (row.identical, row.near_ties) for name, row in rows.items()} == {
        PLAIN: (1, 0),
        "near": (0, 1),
        "wrong": (0, 0),
        "same": (1, 0),
    }
    assert "0/1, 1 near a tie @1" in markdown(measured.report())


@pytest.mark.parametrize("reached", [0.9, 1.3])
def test_a_bandwidth_that_passes_refute_is_not_shown(report, reached):
    first, *rest = [replace(r, bandwidth_share=0.4, pass_bandwidth_share=0.5) for r in report.rows]
    shown = replace(report, rows=(replace(first, pass_bandwidth_share=reached), *rest))
    memory = [table for table in tables(shown) if table.title.startswith("Memory")]
    cells = {cell for table in memory for row in table.rows for cell in row[2:4]}
    assert cells == ({"–"} if reached > 1 else {"40%", "50%", "90%"})
    assert any("GB/s" in line for line in remarks(shown)) == (reached < 1)


# --- figures

# A drafted "a b c" of which "a b" stand, then a plain token, then a draft that ends the text.
EVENTS = [
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


def test_ratio_is_taken_prompt_by_prompt():
    ours = [Timed("a", 10, 1.0), Timed("b", 30, 1.0), Timed("only here", 9, 1.0)]
    theirs = [Timed("b", 10, 1.0), Timed("a", 10, 2.0), Timed("only there", 1, 1.0)]

    found = ratio(ours, theirs)

    assert found.prompts == Spread(2.5, 2.25, 2.75, 2)
    assert found.total == pytest.approx((40 / 2) / (20 / 3))
    repeats = [Timed("a", 10, 1.0), Timed("a", 10, 10.0), Timed("a", 10, 1.25)]
    found = ratio([*repeats, Timed("b", 0, 0.0)], [Timed("a", 10, 2.5), Timed("b", 10, 1.0)])
    assert found.prompts == Spread(2.0, 2.0, 2.0, 1), "the median of repeats"
    assert ratio([], [Timed("a", 1, 1.0)]) is None


def test_figures_are_of_the_rounds_after_the_first_and_are_added_up():
    later = tally(without_first_round(EVENTS))
    assert (later.committed, later.rounds, later.plain, later.accepted) == (2, 2, 1, 1)
    assert later.prompt_tokens == 9
    whole = tally(EVENTS)
    merged = merge([whole, whole, Stats(proposed_by_position=(1,), accepted_by_position=(1,))])
    assert merged.committed == 2 * whole.committed
    assert merged.decode_seconds == 2 * whole.decode_seconds
    assert merged.proposed_by_position == (5, 4, 2)
    assert acceptance_by_position(merged) == (1.0, 0.5, 0.0)


def test_flags_of_mlx_lm_give_passes_and_acceptance():
    # Two drafts of two: one falls at its second token, one stands; the third ends the text.
    flags = [True, False, True, True, False, True]
    verdicts = verdicts_of_flags(flags, length=2)
    stats = tally(verdicts)

    assert [(each.accepted, each.next is None) for each in verdicts] == [
        *((1, False), (2, False), (1, True))
    ]
    assert stats.rounds == 3
    assert (stats.proposed, stats.accepted, stats.rejected, stats.discarded) == (6, 4, 1, 1)
    assert (stats.corrections, stats.bonuses, stats.plain) == (1, 1, 0)
    assert stats.committed == len(flags)
    assert stats.acceptance_length == 2.0
    assert (stats.proposed_by_position, stats.accepted_by_position) == ((3, 3), (3, 1))
    plain = tally(verdicts_of_flags([False] * 4, length=0))
    assert (plain.rounds, plain.plain, plain.proposed, plain.committed) == (4, 4, 0, 4)


def test_first_difference_looks_as_far_as_the_limit():
    assert first_difference([1, 2, 3], [1, 2, 3, 4], limit=3) is None
    assert first_difference([1, 2, 3], [1, 2, 3, 4], limit=4) == 3
    assert first_difference([1, 9, 3], [1, 2, 3], limit=4) == 1


def test_a_run_on_a_quieter_machine_is_not_compared():
    """Two tokens a pass cannot be five times as fast."""
    stats = Stats(rounds=10, proposed=10, accepted=10, bonuses=10, decode_seconds=1.0)
    fair = Timed("a", 20, 1.0, stats)
    unknown = Timed("a", 20, 1.0)
    plain = [Timed("a", 20, 1.6)]
    busier = [Timed("a", 20, 5.0)]
    assert comparable([fair, unknown], plain) == [fair, unknown]
    assert comparable([fair, unknown], busier) == [unknown]
    assert comparable([fair], [Timed("b", 20, 5.0)]) == [fair]
    assert ratio(comparable([fair], busier), busier) is None
    among = ratio([fair], plain)
    assert among.prompts.median == pytest.approx(against_plain(stats, 1.6 / 20))


def test_a_pass_reads_all_weights_but_an_embedding_that_is_no_output_layer():
    separate, tied = build("llama"), build("lfm2")
    table = 64 * 64 * 4
    everything = sum(
        array.nbytes for module in separate.modules() for array in module.values()
        if isinstance(array, mx.array)
    )  # fmt: skip
    assert weight_bytes(separate) == everything - table
    assert weight_bytes(tied) > table
    assert weight_bytes(build("lfm2", vocabulary=128)) - weight_bytes(tied) == table
    assert reads_all_weights(separate)
    separate.experts = type("QuantizedSwitchLinear", (nn.Module,), {})()  # as mlx-lm calls them
    assert not reads_all_weights(separate)


def test_caches_count_what_is_in_them_and_passes_have_a_share_of_the_bandwidth():
    keys_and_values, layers, heads, width, size = 2, 4, 2, 16, 4
    one, constant = keys_and_values * layers * heads * width * size, {}
    for architecture, depth in (("llama", 10), ("llama", 40), ("mamba", 10), ("mamba", 40)):
        decoder = Decoder(build(architecture))
        with at_depth(decoder, depth):
            found = cache_bytes(decoder)
        assert decoder.length == 0
        expected = depth * one if architecture == "llama" else constant.setdefault(1, found)
        assert 0 < found == pytest.approx(expected, rel=0.01), (architecture, depth)
    roofline = Roofline(Bandwidth(1000.0, "sum"), weight_bytes=80, cache_bytes=20, depth=5)
    assert roofline.passes_per_second == 10.0
    assert roofline.share(passes=5, seconds=1.0) == 0.5
    assert roofline.share(passes=5, seconds=0.0) is None


def linear(slope, step=0.0):
    """A plain pass takes 10 ms, each further row `slope` of that, a drafted token `step` of it."""
    points = tuple(CurvePoint(rows, 0.01 * (1 + slope * (rows - 1))) for rows in (1, 2, 4, 8))
    return PassCurve(9, points, "model", 0.01 * step)


def test_what_drafting_can_gain_by_a_curve_between_its_points_and_beyond():
    curve = linear(0.5)
    assert [curve.relative(rows) for rows in (1, 3, 8, 10)] == pytest.approx([1, 2, 4.5, 5.5])
    assert PassCurve(9, (CurvePoint(1, 0.5),)).relative(3) == 3
    free = linear(0.0)
    assert free.by_rows.gain(3, acceptance=1.0) == pytest.approx(4.0)
    assert free.by_rows.gain(3, acceptance=0.5) == pytest.approx(1.875)
    assert free.best(acceptance=0.9)[0] == 7
    dear = linear(1.0)  # every row costs a plain pass, as on a CPU with quantized weights
    assert dear.best(acceptance=1.0)[1] == pytest.approx(1.0)
    assert dear.best(acceptance=0.5) == (0, 1.0)
    assert linear(0.0, step=1.0).best(acceptance=0.9) == (0, 1.0)
