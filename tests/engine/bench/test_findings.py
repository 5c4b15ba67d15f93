"""A report's JSON can be shown again; its Markdown and picture hold what was found."""

import importlib
import json
import re
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from engine.bench.contestants import Measurement
from engine.bench.deliver import check_places, deliver
from engine.bench.figures import Step, stats_of_steps
from engine.bench.findings import ALL, Findings, Lowest, how, read_findings
from engine.bench.markdown import markdown
from engine.bench.options import BenchOptions
from engine.bench.plot import write_plot
from engine.bench.report import PLAIN, Report, Run
from engine.bench.sheets import remarks, sheets
from engine.cli.main import main
from models.errors import Problem
from models.typed_json import decode

PNG = b"\x89PNG\r\n\x1a\n"


def test_what_is_read_is_what_was_found(report: Report, options: BenchOptions) -> None:
    assert options.out is not None
    found, again = report.findings(), read_findings(options.out)
    assert replace(again, options={}) == replace(found, options={})
    assert len(again.options) == len(found.options)


def test_a_report_of_an_older_version_can_be_shown(options: BenchOptions, tmp_path: Path) -> None:
    assert options.out is not None
    fields = json.loads(options.out.read_text())
    for name in ("notes", "roofline", "accepting", "curve", "passes", "courses", "cooling"):
        del fields[name]
    for row in fields["rows"]:
        del row["accept_share"], row["bandwidth_share"], row["peak_bytes"]
    old = tmp_path / "old.json"
    old.write_text(json.dumps(fields | {"of a newer one": [1]}))
    deliver(read_findings(old), Console(file=StringIO()), markdown=tmp_path / "m", plot=None)
    assert "| slipstream tiny 3 |" in (tmp_path / "m").read_text()


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
        read_findings(path)
    with pytest.raises(Problem, match="cannot be read"):
        read_findings(tmp_path / "none.json")


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_damage_is_named_or_does_no_harm(report: Report, data: st.DataObject) -> None:
    fields: Any = json.loads(report.to_json())
    place = fields
    for _ in range(data.draw(st.integers(1, 5))):
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or not place[key]:
            break
        place = place[key]
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = keys[0]
    place[key] = data.draw(st.sampled_from([None, True, -1, 0.5, "x", [], {}, [[1]]]))
    try:
        said = type(decode(Findings, fields, place="report", ignore_unknown=True)).__name__
    except ValueError as error:
        said = str(error)
    assert said == "Findings" or said.startswith("report.")


def test_markdown_has_every_table_in_full(report: Report) -> None:
    found = report.findings()
    text = markdown(found)
    tables = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    shown = list(sheets(found))
    assert len(tables) == len(shown) == text.count("## ")
    for table, sheet in zip(tables, shown, strict=True):
        lines = table.splitlines()
        assert {line.replace("\\|", "").count("|") for line in lines} == {lines[1].count("|")}
        assert len(lines) == len(sheet.rows) + 2
    assert len({sheet.title for sheet in shown}) == 10


def test_every_sheet_has_everybody_once_in_a_line_or_a_column(report: Report) -> None:
    found = report.findings()
    named: dict[str, list[str]] = {}
    for sheet in sheets(found):
        columns = [heading.replace("\n", " ") for heading in sheet.headings]
        named.setdefault(sheet.title, []).extend([*columns, *(row[0] for row in sheet.rows)])
    for temperature in found.temperatures:
        drafting = {c.contestant for c in found.courses if c.temperature == temperature}
        for title, names in named.items():
            if title.endswith(how(temperature)):
                assert {name: names.count(name) for name in drafting} == dict.fromkeys(drafting, 1)


def answered(contestant: str, category: str, steps: list[Step], seconds: float) -> Run:
    """One answer's run, greedy, to the category's only prompt."""
    stats = stats_of_steps(steps, decode_seconds=seconds)
    return Run(
        contestant=contestant,
        temperature=0.0,
        prompt=category,
        category=category,
        repeat=0,
        seed=0,
        limit=9,
        measured=Measurement((), stats, tuple(steps)),
    )


def test_the_lowest_categories_are_named_for_each_temperature(report: Report) -> None:
    steps = {
        "Art": [Step(2, 1), Step(2, 2)],
        "Law": [Step(2, 0), Step(2, 1)],
        "Sport": [Step(0, 0)],
    }
    seconds = {"Art": 10.0, "Law": 3.0, "Sport": 0.5}
    greedy = [
        run
        for category, drafted in steps.items()
        for run in (
            answered(PLAIN, category, [Step(0, 0)], 1.0),
            answered("ours", category, drafted, seconds[category]),
        )
    ]
    sampled = [replace(run, temperature=0.8) for run in greedy if run.category != "Sport"]

    found = replace(report, runs=(*greedy, *sampled)).findings()

    whole = {(r.temperature, r.contestant): r for r in found.rows if r.category == ALL}
    assert whole[0.0, "ours"].lowest_length == Lowest("Sport", 1.0), "it did not draft there"
    assert whole[0.8, "ours"].lowest_length == Lowest("Law", 1.5)
    assert whole[0.0, "ours"].lowest_to_plain == Lowest("Art", 0.5)
    assert whole[0.0, "ours"].acceptance_by_position == (0.75, 0.25)
    assert whole[0.0, PLAIN].lowest_length is None, "it never drafts"
    assert all(row.lowest_length is None for row in found.rows if row.category != ALL)
    lines = {
        row[0]: row[1:] for s in sheets(found) if "category, greedy" in s.title for row in s.rows
    }
    assert list(lines) == [
        *("all (3)", "Art (1)", "Law (1)", "Sport (1)", "lowest × plain", "lowest length")
    ]
    assert lines["Law (1)"] == ("1.00×", "1.00× 25% 1.50")
    assert lines["lowest × plain"] == ("–", "0.50\nArt")
    assert lines["lowest length"] == ("–", "1.00\nSport")
    again = decode(Findings, json.loads(json.dumps(asdict(found))), place="report")
    assert again.rows == found.rows

    one = replace(report, runs=tuple(run for run in greedy if run.category == "Art")).findings()
    assert all(row.lowest_to_plain is None for row in one.rows), "nothing to choose from"


def test_markdown_takes_no_name_for_markup(report: Report) -> None:
    found = replace(report.findings(), target="a|b_<i>*", refused=(("[x](y)", "`no`"),))
    text = markdown(found)
    assert "# a\\|b\\_\\<i\\>\\*: CPU backend" in text
    assert "- \\[x\\](y) cannot run this: \\`no\\`" in text


def test_remarks_say_what_the_figures_rest_on(report: Report) -> None:
    found = report.findings()
    lines = "\n".join(remarks(found))
    assert "Drafter tiny: float32." in lines
    assert re.search(r"A pass reads \d+ MB of weights and, \d+ tokens deep", lines)
    assert "mlx-dspark is not installed" in lines
    assert re.search(r"The process had at most \d\.\d GiB", lines)
    assert "Partial" not in lines
    assert "Partial" in "\n".join(remarks(replace(found, partial=True)))


def test_rows_know_bandwidth_and_memory(report: Report) -> None:
    for row in report.rows():
        assert row.bandwidth_share is not None
        assert row.bandwidth_share > 0
        assert row.peak_bytes is not None
        assert row.peak_bytes > 100_000
        ours = row.contestant.startswith("slipstream")
        if ours:  # of which nothing is left where judging, in another moment, took longer
            ours = row.verify_share is not None and row.verify_share > 0
        assert (row.pass_bandwidth_share is not None) == ours
        if ours:
            assert row.pass_bandwidth_share > row.bandwidth_share


def test_courses_hold_every_round_of_those_who_draft(report: Report) -> None:
    found = report.findings()
    courses = {(course.contestant, course.temperature): course for course in found.courses}
    assert (PLAIN, 0.0) not in courses
    for (contestant, temperature), course in courses.items():
        (row,) = (
            row
            for row in found.rows
            if (row.contestant, row.temperature, row.category) == (contestant, temperature, "all")
        )
        assert sum(sum(part.proposed) for part in course.parts) == row.stats.proposed
        assert sum(sum(part.accepted) for part in course.parts) == row.stats.accepted
        assert sum(len(part.proposed) for part in course.parts) == row.stats.rounds
    rows_seen = {dot.rows for dot in found.passes}
    assert {1, 4} <= rows_seen


def test_a_plot_without_matplotlib_is_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = importlib.import_module

    def lacking(name: str) -> Any:
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib, "import_module", lacking)
    with pytest.raises(Problem, match=r"needs matplotlib.*pip install 'slipstream\[plot\]'"):
        check_places(markdown=None, plot=tmp_path / "x.png")
    check_places(markdown=tmp_path / "x.md", plot=None)
    with pytest.raises(Problem, match="is a folder"):
        check_places(markdown=tmp_path, plot=None)


def test_a_plot_is_a_picture_whatever_was_measured(report: Report, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra 'plot' is not installed")
    found = report.findings()
    nothing = replace(found, rows=(), courses=(), passes=(), curve=None)
    for name, findings in {"all": found, "nothing": nothing}.items():
        path = tmp_path / "new" / f"{name}.png"
        write_plot(findings, path)
        assert path.read_bytes().startswith(PNG)
    with pytest.raises(Problem, match="cannot be written"):
        write_plot(found, tmp_path)
