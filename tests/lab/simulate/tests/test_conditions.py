"""What rounds cost on an imagined machine: every disturbance by itself, worked out by hand."""

import math
from statistics import median, pstdev

import pytest

from models.errors import Problem
from tests.lab.simulate.calibrated import calibrated
from tests.lab.simulate.conditions import SCENARIOS, Conditions, Noise, find_scenario
from tests.lab.simulate.tests.recorded import STEEP, conditions


def verify(machine: Conditions, rows: int, *, context: int = 0, progress: float = 0.0) -> float:
    return machine.verify_seconds(rows, context=context, progress=progress)


def draft(machine: Conditions, tokens: int, **place: float) -> float:
    at = {"context": 0, "progress": 0.0, **place}
    return machine.draft_seconds("head", tokens, **at)


def test_a_calm_machine_goes_by_its_curve() -> None:
    machine = conditions(STEEP, step=0.25, pass_seconds=0.5)
    assert verify(machine, 3) == verify(machine, 3, context=9000, progress=0.9) == 1.5
    assert draft(machine, 4) == 0.5


def test_context_makes_passes_dearer() -> None:
    machine = conditions(STEEP, step=0.25, growth=0.5)
    assert verify(machine, 2, context=2000) == 4.0
    assert draft(machine, 2, context=2000) == 1.0


def test_heat_grows_with_the_words_that_are_written() -> None:
    machine = conditions(STEEP, heat=0.5)
    assert [verify(machine, 1, progress=at) for at in (0.0, 0.5, 1.0)] == [1.0, 1.25, 1.5]


def test_everything_doubles_midway() -> None:
    machine = conditions(STEEP, step=0.25, doubling="all")
    assert [verify(machine, 3, progress=at) for at in (0.49, 0.5)] == [3.0, 6.0]
    assert [draft(machine, 2, progress=at) for at in (0.49, 0.5)] == [0.5, 1.0]


def test_only_what_more_rows_cost_doubles_midway() -> None:
    machine = conditions(STEEP, step=0.25, doubling="rows")
    assert [verify(machine, 3, progress=at) for at in (0.49, 0.5)] == [3.0, 5.0]
    assert verify(machine, 1, progress=0.5) == 1.0
    assert draft(machine, 2, progress=0.5) == 0.5


def test_catching_up_costs() -> None:
    machine = conditions(STEEP, step=0.25, reading=0.1)
    at = {"context": 0, "progress": 0.0}
    assert machine.draft_seconds("head", 4, **at, behind=20) == pytest.approx(1.5)
    assert machine.draft_seconds("unheard of", 2, **at) == pytest.approx(0.1)


def test_what_a_draft_costs_however_long_it_is_comes_once() -> None:
    machine = conditions(STEEP, step=0.25, starts={"head": 0.5})
    assert [draft(machine, tokens) for tokens in (1, 4)] == [0.75, 1.5]
    (found,) = {
        (each.start_seconds, each.step_seconds) for each in calibrated(machine, ["head"]).drafts
    }
    assert found == pytest.approx((0.5, 0.25))


def test_a_clock_without_noise_is_right() -> None:
    assert Noise(conditions()).reading(0.125) == 0.125


def test_a_noisy_clock_is_right_in_the_middle_and_the_same_for_the_same_seed() -> None:
    machine = conditions(noise=0.1, spikes=0.02, seed=3)
    clock, again = Noise(machine), Noise(machine)
    readings = [clock.reading(2.0) for _ in range(4000)]
    assert readings[:9] == [again.reading(2.0) for _ in range(9)]
    assert readings[:9] != [Noise(machine, start=1).reading(2.0) for _ in range(9)]
    assert median(readings) == pytest.approx(2.0, rel=0.01)
    usual = [math.log(reading / 2.0) for reading in readings if reading < 3.0]
    assert pstdev(usual) == pytest.approx(0.1, rel=0.1)
    assert 40 < sum(reading > 3.5 for reading in readings) < 120


def test_scenarios_have_names() -> None:
    for scenario in SCENARIOS:
        assert find_scenario(scenario.name) is scenario
        Conditions(curve=STEEP, **scenario.changes)  # every change is one that there is
    with pytest.raises(Problem, match=r"'hail'.*Choose from steady, "):
        find_scenario("hail")
