"""A whole simulation, from files to tables; and the command line's part of it."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from engine.draft_length.policy import Fixed
from models.errors import Problem
from tests.lab.simulate import run
from tests.lab.simulate.__main__ import main
from tests.lab.simulate.conditions import Conditions
from tests.lab.simulate.curves import PUBLISHED
from tests.lab.simulate.report import total
from tests.lab.simulate.run import (
    Episode,
    SimulateOptions,
    draft_steps,
    policy_maker,
    recorded_traces,
    run_simulation,
)
from tests.lab.simulate.tables import render
from tests.lab.simulate.tests.recorded import FLAT, STEEP, conditions, head_answer, lucky_answer
from tests.lab.simulate.traces import TraceFile, save_trace

Printed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Code that is guessed well, then prose that is not; and prose once more, sampled."""
    answers = (
        lucky_answer(0.9, places=90, category="code"),
        lucky_answer(0.2, places=60, category="prose"),
        head_answer([0] * 30, category="prose", temperature=0.8),
    )
    save_trace(tmp_path / "made-up.jsonl", TraceFile("nobody", answers))
    return tmp_path / "made-up.jsonl"


@pytest.fixture
def printed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)

    def printed(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(map(str, arguments)))
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out, err

    return printed


def test_every_category_on_every_curve_at_every_temperature(trace: Path) -> None:
    report = run_simulation(SimulateOptions(traces=(trace,), policy="3"))
    found = [(row.curve, row.temperature, row.category) for row in report.rows]
    names = [curve.name for curve in PUBLISHED]
    greedy = [(name, 0.0, kind) for name in names for kind in ("code", "prose")]
    assert found == [*greedy, *((name, 0.8, "prose") for name in names)]
    assert dict(report.sources) == {curve.name: curve.source for curve in PUBLISHED}
    for row in report.rows:
        assert row.plain_seconds == pytest.approx(row.tokens * 0.02)
        assert row.fixed_regret >= 0.0  # a fixed length is not better than the best of them
        assert row.fixed_seconds <= row.plain_seconds
        assert 1.0 <= row.length <= 4.0


def test_figures_by_hand() -> None:
    # Of 3 drafted 1 stands: two tokens a pass that costs 4 plus 3 steps of a quarter; the last
    # token of ten has a round with no room but for one.
    episode = Episode([head_answer([1] * 10)])
    (row,) = episode.play(lambda _: Fixed(3), conditions(STEEP, step=0.25))
    assert row.seconds == 4 * 4.75 + 2.25
    assert row.plain_seconds == row.fixed_seconds == row.oracle_seconds == 10.0
    assert row.fixed == "plain"
    assert row.to_plain == pytest.approx(10 / 21.25)
    assert row.fixed_regret == row.oracle_regret == pytest.approx(1 - 10 / 21.25)
    assert (row.length, row.drafted_share) == (2.0, 1.0)


def test_a_total_is_of_all_seconds() -> None:
    episode = Episode([head_answer([3] * 40, category="a"), head_answer([0] * 20, category="b")])
    rows = episode.play(lambda _: Fixed(3), conditions(FLAT))
    whole = total(rows, "all")
    assert [row.seconds for row in rows] == [10.0, 20.0]
    assert (whole.tokens, whole.seconds, whole.plain_seconds) == (60, 30.0, 60.0)
    assert whole.length == pytest.approx(2.0)
    assert whole.drafted_share == pytest.approx(29 / 30)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_policy_keeps_what_it_learned_unless_it_is_fresh(fresh: bool) -> None:
    made: list[Fixed] = []

    def make_policy(conditions: Conditions) -> Fixed:
        made.append(Fixed(2))
        return made[-1]

    answers = [head_answer([1] * 9, category=kind) for kind in ("a", "b", "a", "c")]
    episode = Episode(answers, fresh=fresh)
    rows = episode.play(make_policy, conditions(FLAT))
    assert [(row.category, row.tokens) for row in rows] == [("a", 18), ("b", 9), ("c", 9)]
    assert len(made) - 1 == (3 if fresh else 0)
    assert [phase.start for phase in episode.phases] == ([0, 0, 0] if fresh else [0, 18, 27])
    assert [phase.total for phase in episode.phases] == ([18, 9, 9] if fresh else [36, 36, 36])


def test_a_fixed_four_fails_on_the_steepest_published_curve(trace: Path) -> None:
    report = run_simulation(SimulateOptions(traces=(trace,), curves=("m3-ultra",), policy="4"))
    assert all(row.to_plain < 0.98 for row in report.rows if row.category == "prose")


def test_rejecting_makes_plain_decoding_best(trace: Path) -> None:
    report = run_simulation(SimulateOptions(traces=(trace,), policy="2", rejecting=True))
    assert "rejected" in report.conditions
    for row in report.rows:
        assert row.fixed_seconds == row.oracle_seconds == pytest.approx(row.plain_seconds)
        assert row.length == 1.0


def test_everything_printed_says_that_it_is_simulated(trace: Path) -> None:
    report = run_simulation(SimulateOptions(traces=(trace,), curves=("2-bit",), scenario="heat"))
    console = Console(file=StringIO(), width=80)
    render(report, console)
    text = console.file.getvalue()
    assert text.startswith("Simulated, not measured")
    assert "everything grows dearer" in text
    assert text.count("ml-explore/mlx 3852") == 1
    titles = [line.rstrip() for line in text.splitlines() if line.startswith("Simulated: ")]
    assert titles == ["Simulated: 2-bit, greedy", "Simulated: 2-bit, temperature 0.8"]
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("prose") == 2
    assert "…" not in text


# The command line


def test_the_command_prints_tables_and_writes_json(
    trace: Path, tmp_path: Path, printed: Printed
) -> None:
    out = tmp_path / "out.json"
    options = ("--traces", trace, "--curve", "m4-pro", "--draft-step", "head=0", "--out", out)
    code, text, _ = printed("play", *options, "--policy", 2)
    assert code == 0
    assert "Simulated: m4-pro, greedy" in text
    form = json.loads(out.read_text())
    assert form["simulated"] is True
    assert form["policy"] == "2"
    assert list(form["curves"]) == ["m4-pro"]
    rows = {(row["category"], row["temperature"]): row for row in form["rows"]}
    assert rows["prose", 0.8]["length"] == 1.0
    assert rows["prose", 0.8]["to_plain"] == pytest.approx(30 / (28 * 1.22 + 1.03 + 1.0))
    assert rows["code", 0.0]["fixed"].startswith("head ")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--curve", "m9"), ("'m9'", "m3-ultra")),
        (("--scenario", "hail"), ("'hail'", "steady")),
        (("--policy", "17"), ("'17'", "auto", "16")),
        (("--policy", "often"), ("'often'", "auto")),
        (("--draft-step", "tail=1"), ("'tail=1'", "head=0.08")),
        (("--draft-step", "head=dear"), ("'head=dear'", "head=0.08")),
        (("--draft-step", "nan"), ("'nan'", "head=0.08")),
        (("--draft-step", "-1"), ("'-1'", "head=0.08")),
        (("--traces", "missing.jsonl"), ("missing.jsonl", "make record")),
        (("--out", "no folder/a.json"), ("no folder", "--out")),
    ],
)
def test_what_it_does_not_know_is_one_line(
    trace: Path, printed: Printed, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    named = () if "--traces" in options else ("--traces", trace)
    code, out, err = printed("play", *named, "--curve", "m4-pro", "--policy", 1, *options)
    assert (code, out) == (2, "")
    *_, line = err.splitlines()
    assert line.startswith("simulate: ")
    for word in words:
        assert word in line


def test_draft_steps_are_named_or_for_all_that_cost_something() -> None:
    assert draft_steps(["head=0.08", "model=1"]) == {"head": 0.08, "model": 1.0}
    assert draft_steps(["0.1"]) == {"head": 0.1, "model": 0.1, "early-exit": 0.1}
    assert draft_steps(["0.1", "head=0.2"])["head"] == 0.2


def test_policies_by_name() -> None:
    chosen = policy_maker("3")(conditions()).choose([], most=9, context=0)
    assert chosen.length == 0
    assert isinstance(policy_maker("16")(conditions()), Fixed)
    assert not isinstance(policy_maker("auto")(conditions()), Fixed)


def test_without_a_trace_it_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [path.name for path in recorded_traces()] == ["starter.jsonl.gz"]
    monkeypatch.setattr(run, "_RECORDED", tmp_path)
    with pytest.raises(Problem, match="make record"):
        recorded_traces()
