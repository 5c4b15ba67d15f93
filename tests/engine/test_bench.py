"""The benchmark's figures are right, and a whole run of it has all that it promises."""

import gzip
import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from engine.bench import figures
from engine.bench.figures import Spread, Timed, ratio, spread_of
from engine.bench.profiling import profile_answer, render_profile
from engine.bench.prompts import load_prompts, spread
from engine.bench.report import ALL, MLX_LM, PLAIN, Report
from engine.bench.run import BenchOptions, run_bench
from engine.bench.tables import render
from engine.events import Draft, DraftedToken, Event, Judgement, Prefill, Stats, Text, Verdict
from engine.events import WrittenToken as Written
from engine.stats import tally
from models.errors import Problem
from tests.engine.tiny import noisy, save, write_folder

# A drafted "a b c" of which "a b" stand, then a plain token, then a draft that ends the text.
EVENTS: list[Event] = [
    Prefill("g", 9, 9, 0, 0.5),
    Draft("g", 1, tuple(DraftedToken(i, "x", 0.5) for i in (1, 2, 3)), "model"),
    Verdict(
        *("g", 1, 2, (Judgement(0.5, 0.5),) * 3, Written(4, "x", 0.5, "correction")),
        *(0.25, 0.5, 1.0, "fixed at 3"),
    ),
    Text("g", "xxx"),
    Verdict("g", 2, 0, (), Written(5, "x", 0.5, "plain"), 0.0, 0.5, 0.5, "no guess"),
    Draft("g", 3, tuple(DraftedToken(i, "x", 0.5) for i in (6, 7)), "model"),
    Verdict("g", 3, 1, (Judgement(0.5, 0.5),) * 2, None, 0.25, 0.5, 1.0, "fixed at 3"),
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
    stats = figures.stats_of_flags(flags, length=2, decode_seconds=2.0)

    assert stats.rounds == 3
    assert (stats.proposed, stats.accepted, stats.rejected, stats.discarded) == (6, 4, 1, 1)
    assert (stats.corrections, stats.bonuses, stats.plain) == (1, 1, 0)
    assert stats.committed == len(flags)
    assert stats.acceptance_length == 2.0
    assert (stats.proposed_by_position, stats.accepted_by_position) == ((3, 3), (3, 1))
    plain = figures.stats_of_flags([False] * 4, length=0, decode_seconds=2.0)
    assert (plain.rounds, plain.plain, plain.proposed, plain.committed) == (4, 4, 0, 4)


def test_first_difference_looks_as_far_as_the_limit() -> None:
    assert figures.first_difference([1, 2, 3], [1, 2, 3, 4], limit=3) is None
    assert figures.first_difference([1, 2, 3], [1, 2, 3, 4], limit=4) == 3
    assert figures.first_difference([1, 9, 3], [1, 2, 3], limit=4) == 1


def test_prompts_of_a_folder_are_grouped_and_spread(tmp_path: Path) -> None:
    questions = [("writing", "w"), ("coding", "c"), ("rag", "r1"), ("rag", "r2"), ("rag", "r3")]
    (tmp_path / "spec_bench_question.jsonl").write_text(
        "".join(json.dumps({"category": c, "turns": [t, "more"]}) + "\n" for c, t in questions)
    )
    (tmp_path / "mt_bench_question.jsonl").write_text(
        json.dumps({"category": "writing", "turns": ["w"]}) + "\n"
    )
    with gzip.open(tmp_path / "HumanEval.jsonl.gz", "wt") as file:
        file.write(json.dumps({"prompt": "def f():"}) + "\n")

    prompts = load_prompts(tmp_path, sets=(), per_category=2)

    assert [(prompt.category, prompt.text) for prompt in prompts] == [
        *(("mt-bench", "w"), ("mt-bench", "c"), ("rag", "r1"), ("rag", "r2")),
        ("humaneval", "Complete this function:\ndef f():"),
    ]
    assert load_prompts(tmp_path, sets=("humaneval",), per_category=9) == prompts[-1:]
    with pytest.raises(Problem, match="openai/grade-school-math"):
        load_prompts(tmp_path, sets=("gsm8k",), per_category=1)
    with pytest.raises(Problem, match="no prompt set"):
        load_prompts(tmp_path, sets=("gsm9k",), per_category=1)


def test_prompts_of_an_empty_or_broken_place_are_a_problem(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="hemingkx/Spec-Bench"):
        load_prompts(tmp_path, sets=(), per_category=1)
    with pytest.raises(Problem, match="cannot be read"):
        load_prompts(tmp_path / "none.txt", sets=(), per_category=1)
    (tmp_path / "gsm8k_test.jsonl").write_text("<html>")
    with pytest.raises(Problem, match="Fetch it again"):
        load_prompts(tmp_path, sets=(), per_category=1)


def test_own_and_built_in_prompts(tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text("One?\n\nTwo?\nThree?\n")
    assert [p.text for p in load_prompts(own, sets=(), per_category=2)] == ["One?", "Two?"]
    assert len(load_prompts(None, sets=(), per_category=9)) == 12
    assert spread(range(10), 3) == [0, 3, 6]
    assert spread([1, 2], 5) == [1, 2]


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> BenchOptions:
    """Two prompts for a tiny target, with a tiny drafter that is wrong now and then."""
    folder = tmp_path_factory.mktemp("bench")
    model = write_folder("llama", folder / "target")
    write_folder("llama", folder / "tiny")
    config = json.loads((folder / "tiny" / "config.json").read_text())
    save(noisy(model), config, folder / "tiny")
    (folder / "own.txt").write_text("Why is the sky blue, said the fox\nabababababab\n")
    return BenchOptions(
        target=folder / "target",
        drafters=("lookup", str(folder / "tiny")),
        lengths=("3", "auto"),
        prompts=folder / "own.txt",
        max_tokens=20,
        temperatures=(0.0, 1.0),
        rules=("block", "token"),
        out=folder / "report.json",
    )


@pytest.fixture(scope="module")
def report(options: BenchOptions) -> Report:
    return run_bench(options, progress=lambda line: None)


def test_everybody_answers_every_prompt_in_turns(report: Report) -> None:
    greedy = [run for run in report.runs if run.temperature == 0.0]
    assert {run.contestant for run in greedy} == {
        *(PLAIN, MLX_LM, "slipstream lookup 3", "slipstream lookup auto"),
        *("slipstream tiny 3", "slipstream tiny auto", "mlx-lm tiny 3"),
    }
    assert [run.contestant for run in greedy].index(PLAIN) == 0
    assert greedy[7].contestant == MLX_LM, "another one begins with the second prompt"
    assert len(report.runs) == 2 * (7 + 11)
    assert len({(run.prompt, run.seed) for run in report.runs}) == 2
    assert not report.partial
    assert report.skipped == 0


def test_laws_hold_and_greedy_answers_are_identical(report: Report, options: BenchOptions) -> None:
    for run in report.runs:
        stats, ids = run.measured.stats, run.measured.ids
        assert stats.proposed == stats.accepted + stats.rejected + stats.discarded
        assert stats.committed < len(ids) <= options.max_tokens + 4
        assert ids[-1] == 256 or len(ids) >= options.max_tokens
        assert stats.decode_seconds >= stats.draft_seconds + stats.verify_seconds > 0 or (
            not run.measured.phases
        )
    rows = [row for row in report.rows() if row.category == ALL and row.temperature == 0.0]
    assert len(rows) == 7
    for row in rows:
        assert (row.identical, row.compared, row.differs_at) == (2, 2, ()), row.contestant
        assert row.to_plain is not None
        assert row.to_mlx_lm is not None
        assert row.prompts == row.to_plain.prompts.count == 2
    by_name = {row.contestant: row for row in rows}
    assert by_name[PLAIN].to_plain.total == by_name[MLX_LM].to_mlx_lm.total == 1.0
    assert by_name[PLAIN].acceptance_length == by_name[MLX_LM].acceptance_length == 1.0
    assert by_name[MLX_LM].draft_share is None
    ours, theirs = by_name["slipstream tiny 3"], by_name["mlx-lm tiny 3"]
    assert ours.stats.accepted == theirs.stats.accepted > 0
    assert ours.stats.rounds == theirs.stats.rounds
    assert ours.acceptance_by_position == theirs.acceptance_by_position
    assert ours.draft_share + ours.verify_share + ours.own_share == pytest.approx(1.0)


def test_the_file_holds_runs_and_rows_and_no_private_path(
    report: Report, options: BenchOptions
) -> None:
    text = options.out.read_text()
    written = json.loads(text)
    assert written["partial"] is False
    assert len(written["runs"]) == len(report.runs)
    assert len(written["rows"]) == len(report.rows())
    assert written["machine"]["mlx"]
    assert written["options"]["drafters"] == ["lookup", "tiny"]
    assert all(run["differs_at"] is None for run in written["runs"])
    assert str(options.target.parent) not in text


def test_tables_show_everybody_once_a_table(report: Report) -> None:
    console = Console(width=200, record=True, file=StringIO())
    render(report, console)
    text = console.export_text()
    assert "float32" in text
    assert "2/2" in text
    assert text.count("mlx-lm tiny 3") == 8, "in four tables, greedy and sampled"


def test_an_interrupt_keeps_what_was_measured(options: BenchOptions, tmp_path: Path) -> None:
    def interrupt(line: str) -> None:
        if line.startswith("1 of 2"):
            raise KeyboardInterrupt

    short = replace(options, temperatures=(0.0,), lengths=("3",), out=tmp_path / "report.json")
    report = run_bench(short, progress=interrupt)

    assert report.partial
    assert len({run.prompt for run in report.runs}) == 1
    assert json.loads(short.out.read_text())["partial"] is True
    assert all(row.identical == row.compared == 1 for row in report.rows())


def test_prompts_that_do_not_fit_are_skipped(options: BenchOptions, tmp_path: Path) -> None:
    place = tmp_path / "own.txt"
    place.write_text("short\n" + "long " * 1000 + "\n")
    short = replace(options, prompts=place, drafters=(), temperatures=(0.0,), out=None)
    assert run_bench(short, progress=lambda line: None).skipped == 1
    with pytest.raises(Problem, match="No prompt fits"):
        run_bench(replace(short, max_tokens=5000), progress=lambda line: None)


def test_what_mlx_lm_refuses_is_reported(tmp_path: Path) -> None:
    write_folder("mamba", tmp_path / "target")
    own = tmp_path / "own.txt"
    own.write_text("Hello\n")
    same = str(tmp_path / "target")
    options = BenchOptions(
        target=tmp_path / "target", drafters=(same,), lengths=("2",), prompts=own, max_tokens=8
    )
    report = run_bench(options, progress=lambda line: None)
    assert [name for name, _ in report.refused] == ["mlx-lm target 2"]
    assert "trimmable" in report.refused[0][1]
    assert {run.contestant for run in report.runs} == {PLAIN, MLX_LM, "slipstream target 2"}


@pytest.mark.parametrize(
    "changed",
    [
        {"lengths": ("17",)},
        {"rules": ("luck",)},
        {"max_tokens": 1},
        {"per_category": 0},
        {"drafters": ("guess",)},
    ],
)
def test_options_that_cannot_be(options: BenchOptions, changed: dict[str, object]) -> None:
    with pytest.raises(Problem):
        run_bench(replace(options, **changed), progress=lambda line: None)


def test_profile_names_the_engines_functions(options: BenchOptions) -> None:
    spent, rounds = profile_answer(options)
    assert rounds > 1
    assert any(each.function.startswith("speculate.py") for each in spent)
    console = Console(width=100, record=True, file=StringIO())
    render_profile(spent, rounds, console)
    assert "µs a round" in console.export_text()
