"""A session knows what its pair costs: measured once, kept, and read again."""

import itertools
import json
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from unittest import mock

import pytest

import engine.conversation.session
import engine.core.rounds
from engine.circumstances import Contention
from engine.conversation import pair_costs
from engine.conversation.pair_costs import Remark
from engine.conversation.session import Session
from engine.device import backend
from engine.draft_length import MeasuredRound
from engine.draft_length.calibrate import calibrate
from engine.draft_length.calibrations import CalibrationStore
from engine.draft_length.policy import Automatic, Fixed, FixedTree
from engine.events import Draft
from engine.request import Request
from models.model_folder import ModelFolder
from tests.support.engine.backends import computing_as
from tests.support.engine.sessions import QUESTION, loaded, tiny_model, use


@pytest.fixture
def target(tokenizer, monkeypatch):
    times = itertools.count(0.0, 0.001)  # a machine that does nothing else

    def clock():
        return next(times)

    measuring = partial(calibrate, clock=clock, budget_seconds=0.2)
    monkeypatch.setattr(engine.core.rounds, "perf_counter", clock)
    monkeypatch.setattr(pair_costs, "calibrate", measuring)
    named = property(lambda folder: f"weights of {folder.path}")
    monkeypatch.setattr(ModelFolder, "fingerprint", named)
    return loaded(tiny_model("llama"), tokenizer)


def spread_by(spread):
    """Measures as is usual, with passes that took times so far apart."""
    measure = pair_costs.calibrate
    return lambda *pair, **how: replace(measure(*pair, **how), spread=spread)


def known(session):
    return isinstance(session.policy, Automatic) and session.policy.calibration is not None


def test_measured_once_and_read_again(target, tmp_path):
    kept = CalibrationStore(tmp_path)
    first = Session(target, drafter="lookup", calibrations=kept)
    assert not known(first)
    told = []
    first.calibrate(progress=told.append)
    assert known(first)
    assert told
    list(first.answer(QUESTION, Request(max_tokens=30)))

    second = Session(target, drafter="lookup", calibrations=kept)
    with mock.patch.object(pair_costs, "calibrate") as measuring:
        second.calibrate()
        measuring.assert_not_called()
    assert second.policy.calibration == first.policy.calibration
    ours, theirs = (
        session.policy.acceptance.chances("lookup", 4, match=2) for session in (first, second)
    )
    assert theirs == pytest.approx(ours, abs=0.02)

    with mock.patch.object(pair_costs, "calibrate") as measuring:
        Session(target).calibrate()
        Session(target, drafter="lookup", policy=Fixed(3)).calibrate()
        measuring.assert_not_called()  # as nothing is to be decided


def test_measured_again_it_replaces_what_was_stored(target, tmp_path, monkeypatch):
    kept = CalibrationStore(tmp_path)
    Session(target, drafter="lookup", calibrations=kept).calibrate()
    (path,) = tmp_path.iterdir()
    session, beside = (Session(target, drafter="lookup", calibrations=kept) for _ in range(2))
    beside.calibrate()
    told = []
    monkeypatch.setattr(pair_costs, "calibrate", spread_by(0.25))
    session.calibrate(progress=told.append, again=True)
    assert told
    assert known(session)
    for each in (beside, session, beside):  # as if they were in two processes
        list(each.answer(QUESTION, Request(max_tokens=3)))
        assert json.loads(path.read_text())["costs"]["spread"] == 0.25


@pytest.mark.parametrize("after", [0.0, 0.5])
def test_a_cancelled_measurement_is_not_kept(target, tmp_path, after):
    session = Session(target, drafter="lookup", calibrations=CalibrationStore(tmp_path))
    done = [0.0]
    session.calibrate(progress=done.append, cancelled=lambda: done[-1] >= after)
    assert not known(session)
    assert list(session.answer(QUESTION, Request(max_tokens=10)))
    assert list(tmp_path.iterdir()) == []


class Busy(Contention):
    """Of a machine that has other work."""

    heavy = True


@pytest.mark.parametrize(
    ("found", "remarks"),
    [
        (lambda: {"gpu_is_busy": lambda: True}, [Remark.BUSY_CALIBRATING]),
        (lambda: {"Contention": Busy}, [Remark.BUSY_CALIBRATING]),
        (lambda: {"calibrate": spread_by(1.0)}, []),
    ],
    ids=["others on the GPU", "others on the CPU", "passes of two times"],
)
def test_what_was_measured_beside_others_or_unsteadily_is_used_and_not_kept(
    target, tmp_path, found, remarks
):
    session = Session(target, drafter="lookup", calibrations=CalibrationStore(tmp_path))
    with mock.patch.multiple(pair_costs, **found()):
        assert session.calibrate() == remarks
    assert known(session)
    assert list(session.answer(QUESTION, Request(max_tokens=10)))
    assert not session.disturbed  # it has been told
    assert list(tmp_path.iterdir()) == []


def test_what_a_busy_machine_shows_later_is_not_kept(target, tmp_path, monkeypatch):
    kept = CalibrationStore(tmp_path)
    again = Session(target, drafter="lookup", calibrations=kept)
    assert again.calibrate() == []
    (path,) = tmp_path.iterdir()
    written = path.read_bytes()
    monkeypatch.setattr(pair_costs, "Contention", Busy)
    third = Session(target, drafter="lookup", calibrations=kept)
    assert third.calibrate() == []  # it is known from the last time
    third.policy.acceptance.observe(MeasuredRound(4, 4, 0.0, 0.0, drafter="lookup", match=2))
    assert list(third.answer(QUESTION, Request(max_tokens=30)))
    assert third.disturbed
    assert path.read_bytes() == written


def test_costs_that_are_not_what_they_were_are_measured_again(target, tmp_path):
    kept = CalibrationStore(tmp_path)
    first = Session(target, drafter="lookup", calibrations=kept)
    first.calibrate()
    for _ in range(100):  # each pass takes twice as long as it did
        seconds = 2.0 * first.policy.calibration.passes.seconds[0]
        first.policy.costs.observe_pass(1, seconds, context=24)
    list(first.answer(QUESTION, Request(max_tokens=1)))

    second = Session(target, drafter="lookup", calibrations=kept)
    with mock.patch.object(pair_costs, "calibrate", return_value=None) as measuring:
        second.calibrate()
        measuring.assert_called_once()
    assert second.policy.acceptance.to_json() == first.policy.acceptance.to_json()


def test_a_calibration_belongs_to_what_it_was_measured_with(target, tmp_path):
    kept = CalibrationStore(tmp_path)
    slow_mode = mock.patch("engine.conversation.pair.power_mode", return_value="lowpowermode 1")
    for count, (elsewhere, drafter) in enumerate(
        (
            (nullcontext(), "lookup"),
            (nullcontext(), "early-exit"),
            (computing_as(replace(backend(), matrices="reference BLAS")), "lookup"),
            (computing_as(replace(backend(), threads=64)), "lookup"),
            (slow_mode, "lookup"),
        ),
        start=1,
    ):
        with elsewhere:
            Session(target, drafter=drafter, calibrations=kept).calibrate()
        assert len(list(tmp_path.iterdir())) == count, drafter


@pytest.mark.quick(1)
@pytest.mark.parametrize(("architecture", "branches"), [("llama", True), ("qwen3_5", False)])
def test_who_asks_for_trees_is_told_where_they_cannot_be_read(tokenizer, architecture, branches):
    session = Session(loaded(tiny_model(architecture), tokenizer), drafter="lookup")
    session.policy = FixedTree(8)
    assert session.calibrate() == ([] if branches else [Remark.ONLY_CHAINS])
    assert session.decoder.branches == branches
    use(session, "trees", architecture)
    drafts = [
        event
        for event in session.answer(QUESTION, Request(max_tokens=30))
        if isinstance(event, Draft)
    ]
    assert any(draft.parents for draft in drafts) == branches
