"""Measuring a pair: what comes out, what it may take, and that nothing stays of it."""

import random
from functools import partial
from itertools import chain, product, repeat

import pytest

import engine.core.rounds
import engine.draft_length.calibrate
from engine.core.decoder import Decoder
from engine.core.loop import speculate
from engine.device import CPU, GPU
from engine.draft_length.calibrate import calibrate
from engine.draft_length.costs import ROWS, Costs, DraftCosts
from engine.draft_length.options import chains
from engine.drafters import NoDrafter
from engine.drafters.cascade import Cascade
from engine.drafters.copying import LookupDrafter
from engine.drafters.early_exit import EarlyExitDrafter
from engine.drafters.lookahead import LookaheadDrafter
from engine.drafters.model import ModelDrafter
from tests.support.engine.backends import computing_as
from tests.support.engine.blocks import block_drafter
from tests.support.engine.heads import untrained_drafter
from tests.support.engine.helpers import CORE, PROMPT, Scripted, assert_as_fresh, decoder, plainly
from tests.support.engine.tiny import build, noisy, shallow
from tests.support.mostly_slow import mostly_slow


class Clock:
    """Goes on by `step` seconds whenever it is looked at, and as it is told."""

    def __init__(self, step):
        self.now, self._step = 0.0, step

    def __call__(self):
        self.now += self._step
        return self.now


@pytest.fixture(autouse=True)
def steady(monkeypatch):
    """Rounds that take as long each time, whatever else the machine does."""
    monkeypatch.setattr(engine.core.rounds, "perf_counter", Clock(0.001))


def measure(target, drafter, tokens=(), *, step):
    return calibrate(target, drafter, tokens, clock=Clock(step))


def cascade(target):
    own = decoder(noisy(target.model))
    return Cascade(LookupDrafter(), ModelDrafter(own, vocabulary=target.vocabulary))


def test_more_rows_are_measured_where_trees_or_long_copies_can_be_drafted_and_there_is_time():
    target = Decoder(shallow("llama"))
    found = measure(target, Cascade(LookupDrafter(), untrained_drafter(target)), step=0.01)
    assert found.passes.rows == (1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64)
    assert found.passes.context < 100
    assert [each.drafter for each in found.drafts] == ["lookup", "suffix", "head"]
    assert found.drafts[0].step_seconds == 0.0
    for copies, step, branches, more in [
        (False, 0.01, True, True),
        (False, 0.04, True, False),
        (False, 0.01, False, False),
        (True, 0.01, False, True),
    ]:
        target = Decoder(shallow("llama"), trial=lambda branches=branches: branches)
        drafter = LookupDrafter() if copies else untrained_drafter(target)
        rows = measure(target, drafter, step=step).passes.rows
        assert (max(rows) > ROWS) == more, (copies, step, branches)


def test_what_loading_a_drafter_takes_is_no_part_of_what_reading_costs():
    """Else a parked drafter, which has to catch up, seems too dear to be tried again."""
    target, clock = Decoder(shallow("llama")), Clock(1e-6)
    reading = chain([0.8], repeat(0.024))

    class Cold(ModelDrafter):
        def prepare(self, tokens):
            clock.now += next(reading)
            return super().prepare(tokens)

    drafter = Cold(decoder(noisy(target.model)), vocabulary=target.vocabulary)
    found = calibrate(target, drafter, clock=clock)
    assert found.drafts[-1].read_seconds == pytest.approx(0.001, rel=0.01)


def test_what_trying_trees_takes_is_no_part_of_what_a_draft_costs(monkeypatch):
    """Else what drafts after a copier seems as dear as the trial, and is parked."""
    clock = Clock(0.001)

    def trial():
        clock.now += 1.7
        return True

    monkeypatch.setattr(engine.core.rounds, "perf_counter", clock)
    target = Decoder(shallow("llama"), trial=trial)
    drafter = Cascade(LookupDrafter(), untrained_drafter(target))
    found = calibrate(target, drafter, clock=clock, budget_seconds=2.0)
    costs = {each.drafter: each.start_seconds for each in found.drafts}
    assert costs["head"] < 0.1


MAKE = {
    "cascade": cascade,
    "early-exit": lambda target: EarlyExitDrafter(target, layers=len(target.model.layers) - 1),
    "head": untrained_drafter,
    "block": lambda target: block_drafter(target, "windows"),
    "lookahead": lambda _: LookaheadDrafter(),
}


@pytest.mark.parametrize(
    ("architecture", "kind", "count"),
    mostly_slow(
        [*product(CORE, MAKE, [0]), *product(CORE, ["cascade"], [30])],
        quick=[
            *(("gemma3_text", "early-exit", 0), ("mamba", "block", 0), ("llama", "cascade", 30)),
        ],
    ),
)
def test_the_models_hold_what_they_held_before(architecture, kind, count):
    """Nothing, or a conversation of so many tokens and the prompt."""
    model = shallow(architecture)
    tokens = [*PROMPT, *plainly(model, count=count)] if count else []
    target = decoder(model)
    drafter = MAKE[kind](target)
    if tokens:
        list(target.prefill(tokens))
    assert measure(target, drafter, tokens, step=0.02) is not None
    assert target.length == max(len(tokens) - 1, 0)
    tokens = tokens or PROMPT
    list(target.prefill(tokens))
    assert_as_fresh(target, tokens, decoder(model))
    if kind == "cascade":  # what was made up began like this; no one remembers
        assert [each.drafter for each in drafter.candidates([3, 10])] == ["model"]


class Timed(Scripted):
    """Takes `cost(rows)` seconds of its own clock for a pass, and `cold` more for the first one of
    so many rows."""

    def __init__(self, cost, *, cold):
        super().__init__([(7 * i) % 60 for i in range(200)])
        self.clock, self._cost, self._cold, self._warm = Clock(1e-6), cost, cold, set()

    def __call__(self, tokens, cache=None):
        rows = tokens.shape[1]
        self.clock.now += self._cost(rows) + (0.0 if rows in self._warm else self._cold)
        self._warm.add(rows)
        return super().__call__(tokens, cache)


def played(cost, monkeypatch, *, cold):
    """The calibration of a target that needs as long on a GPU."""
    with computing_as(GPU):
        model = Timed(cost, cold=cold)
        monkeypatch.setattr(engine.core.rounds, "perf_counter", model.clock)
        found = calibrate(Decoder(model), NoDrafter(), clock=model.clock)
    assert model.clock.now < 4.5
    return found


def rising(step, rows):
    return step * (0.94 + 0.06 * rows)


@pytest.mark.parametrize("cold", [0.0, 0.03, 0.07, 0.14])
def test_no_length_is_timed_cold(cold, monkeypatch):
    """A large target has time for fewer lengths then, not for wrong ones."""
    for step in (0.01, 0.025, 0.04, 0.06, 0.1, 0.2):
        curve = partial(rising, step)
        passes = played(curve, monkeypatch, cold=cold).passes
        assert list(passes.seconds) == pytest.approx([*map(curve, passes.rows)], rel=0.01)
        assert {1, 4, 16} <= {*passes.rows}
        assert len(passes.rows) == 9 or step > 0.025


def tiled(rows):
    """What passes cost where every row is a product until all are one tile: five cost more than
    six."""
    return 0.3 + 0.7 * rows if rows < 6 else 2.9 + 0.03 * (rows - 6)


def test_a_curve_that_falls_is_chosen_from_as_if_it_were_known(monkeypatch):
    found = played(lambda rows: 0.02 * tiled(rows), monkeypatch, cold=0.07)
    measured = Costs(found).passes()
    true = [0.02 * tiled(rows) for rows in range(1, ROWS + 1)]
    for accepted, step in product((0.4, 0.6, 0.8, 0.9), (0.0, 0.001, 0.003)):
        costs = DraftCosts("drafter", 0.0, step)
        chosen, known = (
            chains("drafter", [accepted] * (ROWS - 1), passes, costs) for passes in (measured, true)
        )
        best = max(chosen, key=lambda option: option.gain).drafted
        assert known[best - 1].gain >= 0.99 * max(option.gain for option in known)


def test_a_curve_that_falls_is_not_believed_of_a_busy_machine(monkeypatch):
    luck = random.Random(0)
    found = played(lambda rows: 0.01 * luck.lognormvariate(0.0, 1.0), monkeypatch, cold=0.0)
    assert not found.steady
    assert list(found.passes.seconds) == sorted(found.passes.seconds)


def test_it_stays_within_its_budget_tells_its_progress_and_can_be_cancelled():
    told, clock = [], Clock(0.13)  # a slow machine
    target = Decoder(shallow("llama"))
    drafter = untrained_drafter(target)
    found = calibrate(target, drafter, clock=clock, budget_seconds=5.0, progress=told.append)
    assert clock.now <= 6.0
    assert 1 in found.passes.rows
    assert told == sorted(told)
    assert 0.0 <= told[0] < 0.1
    assert told[-1] <= 1.0
    assert calibrate(target, LookupDrafter(), cancelled=lambda: True) is None
    assert target.length == 0


def test_an_error_in_a_pass_leaves_nothing_behind(monkeypatch):
    target = Decoder(shallow("llama"))
    read, left = target.read, iter(range(5))

    def failing(tokens):
        if next(left) == 4:
            raise RuntimeError("out of memory")
        return read(tokens)

    monkeypatch.setattr(target, "read", failing)
    with pytest.raises(RuntimeError, match="memory"):
        calibrate(target, LookupDrafter())
    assert target.length == 0


@pytest.mark.parametrize(("backend", "run"), [(CPU, 1), (GPU, 4)])
def test_plain_passes_are_measured_as_plain_decoding_makes_them(backend, run, monkeypatch):
    """In runs where they overlap, without the ends of these. A first one alone is not timed."""
    asked, observed, surveys = [], [], []

    def spying(target, drafter, policy, *rest):
        choose, observe = policy.choose, policy.observe
        policy.choose = lambda *a, **k: asked.append(choose(*a, **k)) or asked[-1]
        policy.observe = lambda each: observed.append(each) or observe(each)
        surveys.append(policy)
        return speculate(target, drafter, policy, *rest)

    monkeypatch.setattr(engine.draft_length.calibrate, "speculate", spying)
    with computing_as(backend):
        calibrate(Decoder(build("llama", layers=1)), NoDrafter(), budget_seconds=1.0)
    assert {each.rounds for each in asked if not each.length} == {run}
    plain = [each for each in observed if not each.proposed]
    assert {each.edge for each in plain} == ({True, False} if run > 1 else {False})
    measured = [each for survey in surveys for each in survey.measured]
    timed = [each for each in plain if not each.edge][run == 1 :]
    assert [each for each in measured if not each.proposed] == timed
