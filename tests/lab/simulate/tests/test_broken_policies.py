"""Policies that are broken on purpose break the promises: the simulator would notice."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from engine.draft_length import DraftChoice, MeasuredRound
from engine.draft_length.policy import Automatic
from tests.lab.simulate.calibrated import calibrated
from tests.lab.simulate.conditions import Conditions, find_scenario
from tests.lab.simulate.curves import find_curves
from tests.lab.simulate.run import Episode, ResultRow
from tests.lab.simulate.tests.recorded import (
    below_the_floor,
    committed_answers,
    lucky_answer,
    with_regrets,
)
from tests.lab.simulate.traces import AnswerTrace, without_acceptance


class Broken:
    """The automatic draft length, to be broken."""

    def __init__(self, conditions: Conditions) -> None:
        self.conditions = conditions
        self.sound = Automatic(calibrated(conditions, conditions.steps))

    def choose(self, candidates, *, most, context, others=0):
        return self.sound.choose(candidates, most=most, context=context)

    def observe(self, measured: MeasuredRound) -> None:
        self.sound.observe(measured)

    def restart(self) -> None:
        self.sound.restart()


class NeverParks(Broken):
    """Drafts at least one token, always."""

    def choose(self, candidates, *, most, context, others=0):
        choice = super().choose(candidates, most=most, context=context)
        if choice.length or not candidates:
            return choice
        return DraftChoice(1, drafter=candidates[0].drafter)


class IgnoresCost(Broken):
    """Goes by the tokens of a round alone: as far as it may, with the last who may."""

    def choose(self, candidates, *, most, context, others=0):
        if not candidates or not most:
            return DraftChoice(0)
        return DraftChoice(min(8, candidates[-1].most), drafter=candidates[-1].drafter)


class NeverProbes(Broken):
    """Once parked, it is parked for good."""

    parked = False

    def choose(self, candidates, *, most, context, others=0):
        if self.parked:
            return DraftChoice(0, rounds=64)
        choice = super().choose(candidates, most=most, context=context)
        self.parked = choice.length == 0 and choice.rounds > 1 and most > 0
        return choice


class TrustsItsCalibration(Broken):
    """Does not look at the clock again: passes take what they took at first."""

    def observe(self, measured: MeasuredRound) -> None:
        rows = measured.proposed + 1
        taken = self.conditions.verify_seconds(rows, context=measured.context, progress=0.0)
        self.sound.observe(replace(measured, verify_seconds=taken))


Make = Callable[[Conditions], Broken]


def play(
    answers: Sequence[AnswerTrace], make: Make, curve: str, scenario: str = "steady"
) -> list[ResultRow]:
    changes = find_scenario(scenario).changes
    conditions = Conditions(curve=find_curves([curve])[0], **changes)
    return Episode(answers).play(make, conditions)


def phases() -> list[AnswerTrace]:
    """Prose that cannot be guessed, then code that can."""
    return [
        lucky_answer(0.05, places=300, category="prose", seed=1),
        lucky_answer(0.85, places=1500, category="code", seed=2),
    ]


def test_the_sound_one_keeps_them_where_the_broken_ones_are_tried():
    assert with_regrets(play(phases(), Broken, "m4-pro-mlx-0.31")) == []


@pytest.mark.parametrize(("make", "curve"), [(NeverParks, "m4-pro"), (IgnoresCost, "m3-ultra")])
def test_who_does_not_stop_falls_below_the_floor(make, curve):
    answers = [without_acceptance(each) for each in committed_answers(0.0)]
    rows = Episode(answers).play_alone(make, Conditions(curve=find_curves([curve])[0]))
    assert len(below_the_floor(rows)) == len(rows)


def test_who_ignores_cost_misses_most_of_what_could_be_had():
    rows = play(committed_answers(0.0), IgnoresCost, "m4-pro")
    assert len(with_regrets(rows)) == len(rows)


def test_who_never_probes_misses_the_phase_that_can_be_guessed():
    prose, code = play(phases(), NeverProbes, "m4-pro-mlx-0.31")
    assert with_regrets([prose]) == []
    assert with_regrets([code])
    assert code.to_plain < 1.1 < code.plain_seconds / code.fixed_seconds


def test_who_trusts_a_calibration_falls_below_the_floor_when_rows_grow_dearer():
    answers = [lucky_answer(0.55, places=600, category=kind) for kind in ("early", "late")]
    sound = play(answers, Broken, "m4-pro-mlx-0.31", "steeper")
    broken = play(answers, TrustsItsCalibration, "m4-pro-mlx-0.31", "steeper")
    assert below_the_floor(sound) == []
    assert below_the_floor(broken)
