"""A whole benchmark has all that it promises."""

import json
from dataclasses import replace
from itertools import count

import pytest

from engine.bench import run, runners
from engine.bench.answers import comparable
from engine.bench.prompts import load_prompts, spread
from engine.bench.report import ALL
from engine.bench.run import run_bench
from engine.bench.runners import MLX_LM, PLAIN, Workload
from engine.conversation.loading import load
from engine.draft_length.costs import Calibration, PassCosts
from engine.draft_length.policy import Automatic, Fixed
from models.errors import Problem
from models.model_folder import ModelFolder
from tests.support.engine.tiny import write_folder


def test_everybody_answers_every_prompt_in_turns(measured):
    greedy = [answer for answer in measured.answers if answer.temperature == 0.0]
    assert {answer.runner for answer in greedy} == {
        *(PLAIN, MLX_LM, "slipstream lookup 3", "slipstream tiny 3", "mlx-lm tiny 3"),
    }
    assert [answer.runner for answer in greedy].index(PLAIN) == 0
    assert greedy[5].runner == MLX_LM, "another one begins with the second prompt"
    assert len(measured.answers) == 2 * (5 + 5)
    assert len({(answer.prompt, answer.seed) for answer in measured.answers}) == 2
    assert not measured.setup.partial
    assert measured.setup.skipped == 0


def test_laws_hold_and_greedy_answers_are_identical(measured, options):
    for answer in measured.answers:
        stats, ids = answer.measured.stats, answer.measured.ids
        assert stats.proposed == stats.accepted + stats.rejected + stats.discarded
        assert ids[-1] == 256 or len(ids) >= options.max_tokens
        assert stats.committed < len(ids)
        if not answer.measured.verdicts:  # the first round, of which no figure is, was the last
            continue
        last = answer.measured.verdicts[-1]
        assert len(ids) < options.max_tokens + last.accepted + (last.next is not None)
        if answer.measured.phases:
            passes = stats.draft_seconds + stats.verify_seconds
            verdicts = answer.measured.verdicts
            longest = max(each.draft_seconds + each.verify_seconds for each in verdicts)
            # On a device beside the host a verdict comes once the next pass is built.
            assert stats.decode_seconds + longest >= passes > 0
    rows = [row for row in measured.report().rows if row.category == ALL and row.temperature == 0.0]
    assert len(rows) == 5
    for row in rows:
        assert (row.identical, row.compared, row.differs_at) == (2, 2, ()), row.runner
        assert row.prompts == row.to_mlx_lm.prompts.count == 2
        assert row.peak_bytes > 100_000
        assert (row.pass_bandwidth_share is not None) == row.runner.startswith("slipstream")
        if row.pass_bandwidth_share is not None:  # the same bytes in both times
            read = row.pass_bandwidth_share * row.stats.verify_seconds
            assert read == pytest.approx(row.bandwidth_share * row.stats.decode_seconds)
        runs, plain = (
            [a.timed for a in measured.answers if (a.runner, a.temperature) == (runner, 0.0)]
            for runner in (row.runner, PLAIN)
        )
        # Passes this short are easily disturbed by whatever else the machine does.
        fair = {run.prompt for run in comparable(runs, plain)}
        assert (row.to_plain.prompts.count if row.to_plain else 0) == len(fair)
    by_name = {row.runner: row for row in rows}
    assert by_name[PLAIN].to_plain.total == by_name[MLX_LM].to_mlx_lm.total == 1.0
    assert by_name[PLAIN].acceptance_length == by_name[MLX_LM].acceptance_length == 1.0
    assert by_name[MLX_LM].draft_share is None
    ours, theirs = by_name["slipstream tiny 3"], by_name["mlx-lm tiny 3"]
    assert ours.stats.accepted == theirs.stats.accepted > 0
    assert ours.stats.rounds == theirs.stats.rounds
    assert ours.acceptance_by_position == theirs.acceptance_by_position
    timed = ours.draft_share + ours.verify_share
    assert ours.own_share == pytest.approx(max(1.0 - timed, 0.0))
    assert min(ours.draft_share, ours.verify_share) > 0.0


def test_the_file_holds_runs_and_rows_and_no_private_path(measured, options):
    text = options.out.read_text()
    written = json.loads(text)
    assert written["partial"] is False
    assert len(written["measured_answers"]) == len(measured.answers)
    assert len(written["rows"]) == len(measured.report().rows)
    assert written["machine"]["mlx"]
    assert written["options"]["drafters"] == ["lookup", "tiny"]
    assert all(answer["differs_at"] is None for answer in written["measured_answers"])
    assert str(options.target.path.parent) not in text


def test_an_automatic_length_begins_with_what_the_pair_was_measured_to_cost(options, monkeypatch):
    known = Calibration(PassCosts(24, (1, 4), (1.0, 1.5)))
    asked, began = [], []

    def measure(target, drafter):
        asked.append(drafter.name)
        return known

    class Noted(Automatic):
        def __init__(self, calibration=None):
            began.append(calibration)
            super().__init__(calibration)

    monkeypatch.setattr(runners, "calibrate", measure)
    monkeypatch.setattr(runners, "Automatic", Noted)
    policies = [Noted(), Fixed(3)]
    monkeypatch.setattr(runners, "make_policy", lambda length: policies[length == "3"])
    target = load(options.target)
    short = replace(options, drafters=("lookup",), lengths=("auto", "3"), baselines=False)
    for runner in runners.make_runners(short, target, load):
        for seed in range(2):
            runner.run(Workload(tuple(range(60, 80)), 12, 0.0, seed=seed))
    assert began == [None, known]
    assert asked == ["lookup"], "once, and for the automatic one alone"


class Odd:
    """A runner whose second token is another one, and whose run number `at` ends in an error. The
    first is not measured."""

    def __init__(self, runner, error=None, *, at=0):
        self.name, self._runner, self._error = runner.name, runner, error
        self._runs, self._at = count(1), at

    def run(self, workload):
        if next(self._runs) == self._at:
            raise self._error
        measured = self._runner.run(workload)
        first, second, *more = measured.ids
        return replace(measured, ids=(first, (second + 1) % 256, *more))


def test_an_interrupt_keeps_what_was_measured_and_leaves_no_difference_unexplained(
    options, tmp_path, monkeypatch
):
    made = runners.make_runners

    def odd(*given):
        plain, mlx_lm, lookup = made(*given)
        return [Odd(mlx_lm, KeyboardInterrupt(), at=3), plain, Odd(lookup)]

    monkeypatch.setattr(run, "make_runners", odd)
    short = replace(options, drafters=("lookup",), lengths=("3",), temperatures=(0.0,))
    measured = run_bench(replace(short, out=tmp_path / "report.json"), progress=lambda _: None)

    assert measured.setup.partial
    found = [(each.runner, each.fork and each.fork.at) for each in measured.answers]
    lookup = "slipstream lookup 3"
    assert found == [(MLX_LM, 1), *[(PLAIN, None), (lookup, 1)] * 2]
    assert not any(each.fork.near_tie for each in measured.answers if each.fork)
    written = json.loads((tmp_path / "report.json").read_text())
    assert (written["partial"], len(written["measured_answers"])) == (True, 5)
    rows = {row.runner: row for row in measured.report().rows if row.category == ALL}
    assert (rows[lookup].identical, rows[lookup].near_ties) == (0, 0)
    assert rows[lookup].differs_at == (1, 1)


def test_prompts_that_do_not_fit_are_skipped(options, tmp_path):
    place = tmp_path / "own.txt"
    place.write_text("short\n" + "long " * 1000 + "\n")
    short = replace(options, prompts=place, drafters=(), temperatures=(0.0,), out=None)
    assert run_bench(short, progress=lambda line: None).setup.skipped == 1
    with pytest.raises(Problem):
        run_bench(replace(short, max_tokens=5000), progress=lambda line: None)


def test_what_mlx_lm_refuses_is_reported(options, tmp_path):
    place = tmp_path / "target"
    write_folder("mamba", place, layers=1)
    mamba = replace(options, target=ModelFolder(place), drafters=(str(place),), lengths=("2",))
    measured = run_bench(replace(mamba, temperatures=(0.0,), out=None), progress=lambda line: None)
    assert [name for name, _ in measured.setup.refused] == ["mlx-lm target 2"]
    assert "trimmable" in measured.setup.refused[0][1]
    assert {answer.runner for answer in measured.answers} == {PLAIN, MLX_LM, "slipstream target 2"}


def test_options_that_cannot_be(options, monkeypatch):
    loaded = []
    monkeypatch.setattr(run, "load", loaded.append)
    for changed in (
        {"lengths": ("17",)},
        {"max_tokens": 1},
        {"temperatures": (0.0, float("nan"))},
        {"per_category": 0},
        {"drafters": ("guess",)},
        {"drafters": ("none",), "baselines": False},
        {"runners": ("/auto",)},
        {"runners": ("suffix/",)},
        {"runners": ("suffix/17",)},
        {"runners": ("suffix/auto", "guess/auto")},
        {"seed": -1},
        {"drafters": (options.drafters[1], f"{options.drafters[1]}/")},
        {"drafters": (), "runners": ("lookup/4", " lookup/4")},
    ):
        with pytest.raises(Problem):
            run_bench(replace(options, **changed), progress=lambda line: None)
        assert not loaded, f"what is wrong is known before: {changed}"


def test_chosen_pairs_are_measured_beside_plain_decoding(options):
    target, model = load(options.target), options.drafters[1]
    chosen = replace(
        options,
        drafters=(),
        lengths=(),
        runners=("lookup/auto", f"{model}/3", f"lookup+{model}/tree:4", "none/auto", "lookup/auto"),
    )
    names = [each.name for each in runners.make_runners(chosen, target, load)]
    assert names == [
        *(PLAIN, MLX_LM, "slipstream lookup auto", "slipstream tiny 3", "mlx-lm tiny 3"),
        "slipstream lookup+tiny tree:4",
    ]
    beside = replace(chosen, drafters=("lookup",), lengths=("2", "auto"), baselines=False)
    names = [each.name for each in runners.make_runners(beside, target, load)]
    assert names[:3] == [PLAIN, "slipstream lookup 2", "slipstream lookup auto"]
    assert len(names) == len({*names}) == 6
    without = replace(beside, runners=())
    names = [each.name for each in runners.make_runners(without, target, load)]
    assert names == ["slipstream lookup 2", "slipstream lookup auto"]


@pytest.mark.parametrize("others", [True, False])
def test_a_runner_that_fails_is_left_out_and_the_rest_goes_on(others, options, monkeypatch):
    made = runners.make_runners

    def odd(*given):
        plain, mlx_lm = made(*given)
        failing = Odd(mlx_lm, ValueError("enough"), at=2)
        return [plain, failing] if others else [failing]

    monkeypatch.setattr(run, "make_runners", odd)
    short = replace(options, drafters=(), temperatures=(0.0,), repeats=2, out=None)
    measured = run_bench(short, progress=lambda line: None)

    assert measured.setup.refused == ((MLX_LM, "enough"),)
    assert len(measured.answers) == (4 if others else 0), "a plain one, two prompts, twice"


def test_own_and_built_in_prompts(tmp_path):
    own = tmp_path / "own.txt"
    own.write_text("One?\n\nTwo?\nThree?\n", encoding="utf-8-sig")  # as a Windows editor does
    assert [p.text for p in load_prompts(own, per_category=2)] == ["One?", "Two?"]
    assert [p.id for p in load_prompts(own, per_category=9)] == ["own/1", "own/3", "own/4"]
    assert [len(load_prompts(None, per_category=n)) for n in (9, 1)] == [12, 9]
    assert (spread(range(10), 3), spread([1, 2], 5)) == ([0, 3, 6], [1, 2])
    (tmp_path / "empty.txt").write_text("\n \n")
    for place in (tmp_path, tmp_path / "none.txt", tmp_path / "empty.txt"):
        with pytest.raises(Problem):
            load_prompts(place, per_category=1)
