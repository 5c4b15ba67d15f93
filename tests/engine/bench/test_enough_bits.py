"""A trial finds out whether 4 bits are enough, and what it found holds from then on."""

from dataclasses import replace

import mlx.core as mx
import pytest

from engine.bench import enough_bits
from engine.bench.enough_bits import try_bits
from engine.conversation.loading import load
from engine.conversation.session import Session
from engine.device import CPU, GPU
from models.files import HOME_VARIABLE
from models.installed.resolve import resolve_drafters
from models.model_folder import ModelFolder
from tests.support.engine import tiny
from tests.support.engine.backends import computing_as


def held(session):
    (part,) = session.drafters.parts
    return part.folder.held_bits


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    monkeypatch.setattr(enough_bits, "BUILTIN", enough_bits.BUILTIN[:2])
    monkeypatch.setattr(enough_bits, "_REQUEST", replace(enough_bits._REQUEST, max_tokens=12))
    tiny.write_folder("llama", tmp_path / "model", dtype=mx.bfloat16, layers=1)
    return tmp_path / "model"


def test_what_a_trial_finds_is_used_and_kept(folder, monkeypatch):
    monkeypatch.setattr("models.drafters.enough_bits._ENOUGH", 0.1)
    shares = []
    with computing_as(GPU):
        session = Session(load(ModelFolder(folder)), drafter=str(folder))
        assert held(session) == 8
        try_bits(session, progress=shares.append, cancelled=lambda: True)
        assert held(session) == 8
        try_bits(session, progress=shares.append)
        assert held(session) == 4
        assert shares[4:] == [0.0, 0.25, 0.5, 0.75]
        again = resolve_drafters(str(folder), session.target.folder)
        assert again == session.drafters
        monkeypatch.setattr("models.drafters.enough_bits._ENOUGH", 2.0)
        session.use_drafter(resolve_drafters(str(folder), session.target.folder))
        assert held(session) == 8
        session.use_drafter("suffix")
        try_bits(session, progress=lambda share: pytest.fail("nothing can be tried"))


def test_nothing_is_tried_where_all_is_expanded(folder):
    with computing_as(CPU):
        session = Session(load(ModelFolder(folder)), drafter=str(folder))
        drafter = session.drafter
        try_bits(session, progress=lambda share: pytest.fail("nothing can be tried"))
        assert session.drafter is drafter
