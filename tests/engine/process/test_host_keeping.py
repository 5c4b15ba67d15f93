"""What the child process keeps of documents: after the answer, behind every command."""

from dataclasses import replace
from unittest import mock

import pytest

from engine.conversation.kept_blocks import kept_blocks_folder
from engine.conversation.kept_prefixes import Unkept
from engine.conversation.pair_costs import Remark
from engine.events import Done
from engine.process.host import CommandQueue
from engine.process.protocol import Generate, Keep, Kept, Load, Sampling
from engine.request import Request, asked
from models.errors import Problem
from tests.support.engine.hosted import hosted
from tests.support.engine.tiny import write_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "llama"
    write_folder("llama", path, layers=2)
    return path


def about_a_document(id):
    """Of as many bytes as two blocks have."""
    request = Request(sampling=Sampling(), max_tokens=4, keep_as=("a" * 64,))
    return Generate(id, "chat", asked("A word, and another one. " * 45), request)


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The files of what is kept."""
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    return lambda: sorted(kept_blocks_folder().glob("*/*.safetensors"))


def test_documents_are_kept_after_the_answer(folder, kept):
    seen = []
    commands = (Load("1", str(folder)), about_a_document("g"), Load("2", str(folder)))
    hosted(
        [*commands, about_a_document("h")],
        after=lambda response: seen.append((response, len(kept()))),
    )
    dones = [(done.stats.reused_tokens, files) for done, files in seen if isinstance(done, Done)]
    assert dones == [(0, 0), (1024, 2)]


def test_a_command_goes_before_what_is_to_be_kept(folder, kept, monkeypatch):
    waiting = property(lambda _: len(kept()) == 1)
    monkeypatch.setattr(CommandQueue, "waiting", waiting)
    hosted([Load("1", str(folder)), about_a_document("g")])
    assert len(kept()) == 1


def test_what_is_kept_can_be_waited_for(folder, kept, monkeypatch):
    asked = []

    def commands():
        yield Load("1", str(folder))
        yield about_a_document("g")
        asked.append("k")
        yield Keep("k")

    monkeypatch.setattr(CommandQueue, "waiting", property(lambda _: not asked))
    monkeypatch.setattr("engine.conversation.pair_costs.PairCosts.learn", lambda *_, **__: True)
    found = []
    hosted(commands(), after=lambda response: found.append((response, len(kept()))))
    assert found[-2][1] == 0
    assert found[-1] == (Kept("k", (Remark.BUSY_ANSWERING.value,)), 2)


def test_nothing_is_kept_where_nothing_may_be(folder, kept):
    load_it = Load("1", str(folder), keep_bytes=0)
    hosted([load_it, about_a_document("g")])
    assert not kept()
    with pytest.raises(Problem):
        replace(load_it, keep_bytes=-1)


def test_what_goes_wrong_while_it_is_kept_costs_nothing_else(folder, kept, monkeypatch, capsys):
    monkeypatch.setattr(
        "engine.conversation.kept_blocks.KeptBlocks.write", mock.Mock(side_effect=RuntimeError)
    )
    responses = hosted([Load("1", str(folder)), about_a_document("g"), about_a_document("h")])
    assert sum(isinstance(each, Done) for each in responses) == 2
    assert "RuntimeError" in capsys.readouterr().err


def test_why_nothing_is_kept_is_said_once(folder, kept, monkeypatch, capsys):
    monkeypatch.setattr("engine.core.cache_arrays.states", lambda *_: None)
    told = hosted([Load("1", str(folder)), *map(about_a_document, "gh"), Keep("k")])
    assert not kept()
    assert told[-1] == Kept("k", (Unkept.LAYERS.value,))
    assert capsys.readouterr().err.count(Unkept.LAYERS.value) == 1
