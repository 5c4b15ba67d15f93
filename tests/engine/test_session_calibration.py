"""A session knows what its pair costs: measured once, kept, and read again."""

import itertools
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import engine.session
import engine.speculate
from engine.draft_length.calibrations import Calibrations
from engine.draft_length.policy import Automatic, Fixed
from engine.loading import LoadedModel
from engine.request import Request
from engine.session import Session
from tests.engine.sessions import QUESTION, loaded, tiny_model


@pytest.fixture
def target(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> LoadedModel:
    times = itertools.count(0.0, 0.001)  # a machine that does nothing else
    monkeypatch.setattr(engine.speculate, "perf_counter", lambda: next(times))
    monkeypatch.setattr("engine.pair.fingerprint", lambda folder: f"weights of {folder}")
    return loaded(tiny_model("llama"), tokenizer)


def known(session: Session) -> bool:
    return isinstance(session.policy, Automatic) and session.policy.calibration is not None


def test_measured_once_and_read_again(target: LoadedModel, tmp_path: Path) -> None:
    kept = Calibrations(tmp_path)
    first = Session(target, drafter="lookup", calibrations=kept)
    assert not known(first)
    told: list[float] = []
    first.calibrate(progress=told.append)
    assert known(first)
    assert told
    list(first.answer(QUESTION, Request(max_tokens=30)))

    second = Session(target, drafter="lookup", calibrations=kept)
    with mock.patch.object(engine.session, "calibrate") as measuring:
        second.calibrate()
        measuring.assert_not_called()
    assert isinstance(first.policy, Automatic)
    assert isinstance(second.policy, Automatic)
    assert second.policy.calibration == first.policy.calibration
    ours, theirs = (
        session.policy.acceptance.chances("lookup", 4, match=2) for session in (first, second)
    )
    assert theirs == pytest.approx(ours, abs=0.02)

    third = Session(target, drafter="early-exit", calibrations=kept)
    third.calibrate()
    assert len(list(tmp_path.iterdir())) == 2  # another drafter, another file


def test_where_nothing_is_to_be_decided_nothing_is_measured(target: LoadedModel) -> None:
    with mock.patch.object(engine.session, "calibrate") as measuring:
        Session(target).calibrate()
        Session(target, drafter="lookup", policy=Fixed(3)).calibrate()
        measuring.assert_not_called()


def test_a_cancelled_measurement_is_not_kept(target: LoadedModel, tmp_path: Path) -> None:
    session = Session(target, drafter="lookup", calibrations=Calibrations(tmp_path))
    session.calibrate(cancelled=lambda: True)
    assert not known(session)
    assert list(session.answer(QUESTION, Request(max_tokens=10)))
    assert list(tmp_path.iterdir()) == []


def test_the_answer_is_the_same(target: LoadedModel) -> None:
    plain, drafted = Session(target), Session(target, drafter="early-exit")
    drafted.calibrate()
    ours, theirs = (
        [
            event.delta
            for event in session.answer(QUESTION, Request(max_tokens=40))
            if hasattr(event, "delta")
        ]
        for session in (plain, drafted)
    )
    assert "".join(ours) == "".join(theirs)
