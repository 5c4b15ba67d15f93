"""A report's JSON can be shown again; its Markdown and picture hold what was found."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import engine.bench
from engine.bench.figures import verdicts_of_flags
from engine.bench.options import BenchOptions
from engine.bench.render import (
    check_place,
    command,
    markdown,
    remarks,
    show,
    show_kept,
    tables,
)
from engine.bench.report import (
    ALL,
    BenchReport,
    LowestCategory,
    MeasuredAnswer,
    Measurements,
    read_report,
    temperature_words,
    with_forks,
)
from engine.bench.runners import MLX_LM, PLAIN, Measurement
from engine.cli.main import main
from engine.conversation.stats import tally
from engine.device import backend
from engine.near_ties import Fork
from models.errors import Problem
from models.typed_json import decode

BENCH = Path(engine.bench.__file__).parent


def test_what_is_read_is_what_was_found(report: BenchReport, options: BenchOptions) -> None:
    assert options.out is not None
    found, again = report, read_report(options.out)
    assert replace(again, options={}) == replace(found, options={})
    assert len(again.options) == len(found.options)


def test_a_report_of_an_older_version_can_be_shown(options: BenchOptions, tmp_path: Path) -> None:
    assert options.out is not None
    fields = json.loads(options.out.read_text())
    for name in ("roofline", "cooling"):
        del fields[name]
    for row in fields["rows"]:
        del row["bandwidth_share"], row["peak_bytes"]
    old = tmp_path / "old.json"
    old.write_text(json.dumps(fields | {"of a newer one": [1]}))
    show(read_report(old), Console(file=StringIO()), to=tmp_path / "m")
    assert "| slipstream tiny 3 |" in (tmp_path / "m").read_text()


def test_a_folder_of_reports_becomes_one_file(
    options: BenchOptions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert options.out is not None
    kept = tmp_path / "kept"
    kept.mkdir()
    console = Console(file=StringIO())
    with pytest.raises(Problem, match="holds no report"):
        show_kept(kept, console, to=None)
    for name in ("second", "first"):
        (kept / f"{name}.json").write_text(options.out.read_text())
    with pytest.raises(SystemExit) as ended:
        main(["bench", "--from", str(kept), "--markdown", str(tmp_path / "all.md")])
    assert ended.value.code in (0, None)
    headings = [
        line for line in (tmp_path / "all.md").read_text().splitlines() if line.startswith("## ")
    ]
    assert [heading.partition(":")[0] for heading in headings] == ["## first", "## second"]


def test_results_are_written_from_the_kept_reports(tmp_path: Path) -> None:
    """RESULTS.md is what `make results` writes, and nothing else."""
    written = tmp_path / "RESULTS.md"
    show_kept(BENCH / "results", Console(file=StringIO()), to=written)
    assert (BENCH / "RESULTS.md").read_text() == written.read_text()


def test_a_report_names_the_command_that_measures_it(report: BenchReport) -> None:
    words = command(report).split()
    assert words[:4] == ["slipstream", "bench", "--target", "target"]
    flags = ("--drafter", "--draft-length", "--temperature", "--rule", "--prompts")
    given = {flag: [words[i + 1] for i, word in enumerate(words) if word == flag] for flag in flags}
    assert list(given.values()) == [
        *(["lookup", "tiny"], ["3", "auto"], ["0.0", "1.0"], ["block", "token"], ["own.txt"])
    ]
    assert words[-1] != "--no-baselines"
    assert "--attach" not in words
    attached = replace(report, options=report.options | {"attach": True})
    assert command(attached).split() == [*words, "--attach"]
    acceptance = replace(report, options=report.options | {"baselines": False})
    assert command(acceptance).endswith("--no-baselines")


def test_the_command_line_measures_the_pairs_that_are_named(
    options: BenchOptions, tmp_path: Path
) -> None:
    def measured(*words: str) -> BenchReport:
        own = ("--prompts", str(options.prompts), "--max-tokens", "4", "--temperature", "0")
        out = ("--out", str(tmp_path / "out.json"))
        with pytest.raises(SystemExit) as ended:
            main(["bench", "--target", str(options.target.path), *own, *out, *words])
        assert ended.value.code in (0, None)
        return read_report(tmp_path / "out.json")

    model = options.drafters[1]
    alone = measured("--runner", f"{model}/2", "--runner", "lookup/tree:4")
    ways = {row.runner for row in alone.rows}
    drafting = {"slipstream tiny 2", "mlx-lm tiny 2", "slipstream lookup tree:4"}
    assert ways == {PLAIN, MLX_LM, *drafting}
    assert alone.drafters == (("tiny", "in float32" if backend().own_functions else "in 8 bits"),)
    words = " ".join(command(alone).split())
    assert "--runner tiny/2 --runner lookup/tree:4" in words
    assert "--drafter" not in words
    assert "--draft-length" not in words
    beside = measured("--runner", "lookup/tree:4", "--draft-length", "2", "--drafter", "suffix")
    assert {row.runner for row in beside.rows} == {
        *(PLAIN, MLX_LM, "slipstream suffix 2", "slipstream lookup tree:4")
    }


def test_without_baselines_no_speeds_are_shown(report: BenchReport) -> None:
    acceptance = replace(report, options=report.options | {"baselines": False})
    kinds = {table.title.partition(",")[0] for table in tables(report)}
    assert kinds - {table.title.partition(",")[0] for table in tables(acceptance)} == {
        *("Speed", "Memory")
    }
    assert not any("GB/s" in line for line in remarks(acceptance))


def test_the_command_shows_an_earlier_report_and_measures_nothing(
    options: BenchOptions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "new" / "report.md"
    with pytest.raises(SystemExit) as ended:
        main(["bench", "--from", str(options.out), "--markdown", str(written)])
    assert ended.value.code in (0, None)
    shown = capsys.readouterr()
    assert "Speed, greedy" in shown.out
    assert shown.err == ""
    assert "## Speed, greedy" in written.read_text()

    with pytest.raises(SystemExit) as ended:
        main(["bench", "--from", str(tmp_path / "none.json")])
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(
        "none.json cannot be read: No such file or directory. Check the path.\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no JSON"),
        ("[]", "report is a list"),
        ("{}", "report lacks .date."),
        ("[" * 100_000, "no report"),
    ],
)
def test_what_is_no_report_is_a_problem(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(Problem, match=message):
        read_report(path)
    with pytest.raises(Problem, match="cannot be read"):
        read_report(tmp_path / "none.json")


def test_markdown_has_every_table_in_full(report: BenchReport) -> None:
    text = markdown(report)
    written = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    shown = list(tables(report))
    assert len(written) == len(shown) == text.count("## ")
    for table, sheet in zip(written, shown, strict=True):
        lines = table.splitlines()
        assert {line.replace("\\|", "").count("|") for line in lines} == {lines[1].count("|")}
        assert len(lines) == len(sheet.rows) + 2
    assert len({sheet.title for sheet in shown}) == 10


def test_every_sheet_has_everybody_once_in_a_line_or_a_column(report: BenchReport) -> None:
    named: dict[str, list[str]] = {}
    for sheet in tables(report):
        columns = [heading.replace("\n", " ") for heading in sheet.headings]
        named.setdefault(sheet.title, []).extend([*columns, *(row[0] for row in sheet.rows)])
    for temperature in report.temperatures:
        rows = [row for row in report.rows if row.temperature == temperature]
        drafting = {row.runner for row in rows if row.stats.proposed}
        for title, names in named.items():
            if title.endswith(temperature_words(temperature)):
                assert {name: names.count(name) for name in drafting} == dict.fromkeys(drafting, 1)


def answered(
    runner: str, category: str, flags: list[bool], seconds: float, *, length: int = 0
) -> MeasuredAnswer:
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


def test_what_rounding_explains_is_counted_apart(report: BenchReport) -> None:
    texts = {PLAIN: (1, 2, 3), "near": (1, 4, 3), "wrong": (1, 5, 3), "same": (1, 2, 3)}
    answers = [
        replace(each, measured=replace(each.measured, ids=texts[each.runner]))
        for each in (answered(name, "Art", [False] * 3, 1.0) for name in texts)
    ]

    def fork(plain: Sequence[int], written: Sequence[int]) -> Fork:
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


def test_the_lowest_categories_are_named_for_each_temperature(report: BenchReport) -> None:
    steps = {
        "Art": [True, False, True, True, False],
        "Law": [False, True, False],
        "Sport": [False],
    }
    seconds = {"Art": 10.0, "Law": 3.0, "Sport": 0.5}
    greedy = [
        run
        for category, drafted in steps.items()
        for run in (
            answered(PLAIN, category, [False], 1.0),
            answered(
                "ours",
                category,
                drafted,
                seconds[category],
                length=0 if category == "Sport" else 2,
            ),
        )
    ]
    sampled = [replace(run, temperature=0.8) for run in greedy if run.category != "Sport"]

    found = Measurements(report, (*greedy, *sampled)).report()

    whole = {(r.temperature, r.runner): r for r in found.rows if r.category == ALL}
    assert whole[0.0, "ours"].lowest_length == LowestCategory("Sport", 1.0), (
        "it did not draft there"
    )
    assert whole[0.8, "ours"].lowest_length == LowestCategory("Law", 1.5)
    assert whole[0.0, "ours"].lowest_to_plain == LowestCategory("Art", 0.5)
    assert whole[0.0, "ours"].acceptance_by_position == (0.75, 0.25)
    assert whole[0.0, PLAIN].lowest_length is None, "it never drafts"
    assert all(row.lowest_length is None for row in found.rows if row.category != ALL)
    lines = {
        row[0]: row[1:] for s in tables(found) if "category, greedy" in s.title for row in s.rows
    }
    assert list(lines) == [
        *("all (3)", "Art (1)", "Law (1)", "Sport (1)", "lowest × plain", "lowest length")
    ]
    assert lines["Law (1)"] == ("1.00×", "1.00× 25% 1.50")
    assert lines["lowest × plain"] == ("–", "0.50\nArt")
    assert lines["lowest length"] == ("–", "1.00\nSport")
    again = decode(BenchReport, json.loads(json.dumps(asdict(found))), place="report")
    assert again.rows == found.rows

    one = Measurements(report, tuple(run for run in greedy if run.category == "Art")).report()
    assert all(row.lowest_to_plain is None for row in one.rows), "nothing to choose from"


@pytest.mark.cpu
def test_markdown_takes_no_name_for_markup(report: BenchReport) -> None:
    found = replace(report, target="a|b_<i>*", refused=(("[x](y)", "`no`"),))
    text = markdown(found)
    assert "# a\\|b\\_\\<i\\>\\*: CPU backend" in text
    assert "- \\[x\\](y) cannot run this: \\`no\\`" in text


def test_remarks_say_what_the_figures_rest_on(report: BenchReport) -> None:
    lines = "\n".join(remarks(report))
    held = "in float32" if backend().own_functions else "as published"
    assert f"Drafter tiny: {held}." in lines
    assert re.search(r"A pass reads \d+ MB of weights and, \d+ tokens deep", lines)
    assert re.search(r"The process had at most \d\.\d GiB", lines)
    assert "Partial" not in lines
    assert "Partial" in "\n".join(remarks(replace(report, partial=True)))


def test_rows_know_bandwidth_and_memory(report: BenchReport) -> None:
    for row in report.rows:
        assert row.bandwidth_share is not None
        assert row.bandwidth_share > 0
        assert row.peak_bytes is not None
        assert row.peak_bytes > 100_000
        ours = row.runner.startswith("slipstream")
        assert (row.pass_bandwidth_share is not None) == ours
        if ours:
            assert row.pass_bandwidth_share > 0.9 * row.bandwidth_share  # in less time, or as much


@pytest.mark.parametrize("reached", [0.9, 1.3])
def test_a_bandwidth_that_passes_refute_is_not_shown(report: BenchReport, reached: float) -> None:
    first, *rest = [replace(r, bandwidth_share=0.4, pass_bandwidth_share=0.5) for r in report.rows]
    shown = replace(report, rows=(replace(first, pass_bandwidth_share=reached), *rest))
    memory = [table for table in tables(shown) if table.title.startswith("Memory")]
    cells = {cell for table in memory for row in table.rows for cell in row[2:4]}
    assert cells == ({"–"} if reached > 1 else {"40%", "50%", "90%"})
    assert any("GB/s" in line for line in remarks(shown)) == (reached < 1)


def test_a_place_that_is_a_folder_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    check_place(None)
    check_place(tmp_path / "x.md")
    with pytest.raises(Problem):
        check_place(tmp_path)
