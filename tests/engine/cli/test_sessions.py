"""A chat's session in a child process: what is answered, what is lost, and that it goes on."""

import json
import os
import signal
from unittest import mock

import psutil
import pytest

from engine.cli import line_child, sessions
from engine.cli.line_child import LineChild, Lost
from engine.cli.sessions import ChildSession
from engine.events import Done, Text
from engine.process import launch
from engine.process.protocol import CHECKED, Load, Macs
from engine.request import ChatMessage, Request
from models.errors import Problem
from tests.support.children import children_with
from tests.support.engine import scripted_host
from tests.support.engine.ended import assert_refused
from tests.support.engine.launched import hostfile
from tests.support.engine.scripted_host import LOADED, LOST, command

TWO = Macs("/two.json")


class Chat:
    """A session, and what it told."""

    def __init__(self, folder, *, target=""):
        self.told = []
        load = Load("chat", target or str(folder), "lookup", macs=TWO)
        self.session = ChildSession(load, tell=self.told.append, command=command())

    def ask(self, text, *, stop_after=1000):
        """The answer, cancelled after so many texts."""
        texts = []
        for event in self.session.answer(
            [ChatMessage("user", text)], Request(), cancelled=lambda: len(texts) >= stop_after
        ):
            if isinstance(event, Text):
                texts.append(event.delta)
        assert isinstance(event, Done)
        return "".join(texts), event


def engines():
    return children_with(scripted_host.__name__)


@pytest.fixture
def talk(target):
    talk = Chat(target)
    yield talk
    talk.session.close()
    assert engines() == []


def test_one_process_answers_until_it_is_closed(talk):
    assert talk.ask("hello you")[0] == "You said: hello you "
    assert talk.session.context_length == LOADED.context_length
    assert talk.session.count([ChatMessage("user", "hello you")]) == 2
    assert talk.session.count_text("hello you") == 2
    (process,) = engines()
    texts = [f"word{number} " for number in range(500)]
    text, done = talk.ask(json.dumps({"say": texts, "delay": 0.01}), stop_after=2)
    assert done.reason == "cancelled"
    assert 2 <= len(text.split()) < 500
    with pytest.raises(Problem):
        talk.ask('{"say": ["a"], "then": "request"}')
    # An answer that is left is cancelled, or this one would end the process.
    plan = '{"say": ["a", "b"], "delay": 0.1, "then": "die"}'
    events = talk.session.answer([ChatMessage("user", plan)], Request())
    next(each for each in events if isinstance(each, Text))
    events.close()
    assert talk.ask('{"say": ["a", "b", "c", "d"], "delay": 0.1}')[0] == "abcd"
    assert (engines(), talk.told) == ([process], [])


def test_an_engine_that_hangs_does_not_hold_up_a_chat(talk, monkeypatch):
    monkeypatch.setattr(sessions, "_HANGS_SECONDS", 0.0)
    monkeypatch.setattr(line_child, "grace_seconds", float)
    engines()[0].suspend()
    with pytest.raises(Lost):
        talk.ask("hello", stop_after=0)
    assert talk.ask("hello")[0] == "You said: hello "


def test_a_lost_mac_is_named_and_what_was_chosen_meanwhile_is_loaded_again(talk):
    talk.session.draft(drafter="suffix")
    talk.session.draft(draft_length="4")
    with pytest.raises(Problem) as lost:
        talk.ask('{"say": ["a"], "then": "lose"}')
    assert (lost.value.message, lost.value.remedy) == LOST
    assert talk.told == []
    with pytest.raises(Problem):
        talk.ask("hello", stop_after=0)
    assert engines() == []
    assert talk.ask("hello")[0] == "You said: hello "
    assert len(talk.told) == 2, "that it is loaded again"
    assert talk.session.loaded.drafter == "suffix"
    assert talk.session.loaded.macs == TWO
    talk.told.clear()
    talk.ask('{"say": ["a"], "then": "stop and lose"}')  # it is lost at rest
    psutil.wait_procs(engines())
    assert talk.session.keep(bool) == () == tuple(talk.told), "nothing is loaded for that"
    assert talk.ask("hello")[0] == "You said: hello "
    assert len(talk.told) == 1
    assert LOST[0] in talk.told[0]


def test_what_cannot_be_loaded_is_a_problem_and_leaves_no_process(target):
    with pytest.raises(Problem) as refused:
        Chat(target, target="nowhere")
    assert refused.value.remedy == "Choose another."
    assert engines() == []


def test_a_signal_cuts_no_write_short():
    """Of more than a pipe holds."""
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    command = ("sh", "-c", "sleep 0.1; head -c 200000 | wc -c")
    child = LineChild(command, longest_bytes=100)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    child.write(b"x" * 200_000)
    assert child.line(5.0) == b"200000\n"
    child.end(5.0)
    signal.signal(signal.SIGALRM, before)


# On several Macs: for real, two processes here


@pytest.fixture
def hosts(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    return hostfile(tmp_path)


def test_a_check_that_cannot_begin_is_a_line_of_the_language(generate, run, hosts, monkeypatch):
    assert_refused(generate("--mode", "tensor"), "--hosts")
    assert_refused(run("cluster", "check"), "--hosts")
    monkeypatch.setattr(launch, "Launch", mock.Mock(side_effect=OSError(24, "Too many open files")))
    ended = run("cluster", "check", "--hosts", hosts, "--json")
    assert (ended.code, ended.err) == (2, "")
    assert CHECKED.read(ended.out.encode()).message == "Too many open files."


@pytest.mark.slow
def test_check_says_how_macs_are_and_what_to_set_up(run, target, hosts, tmp_path, monkeypatch):
    ended = run("cluster", "check", "--hosts", hosts, "--target", target, "--json")
    assert ended.code == 0, ended.err
    (line,) = (json.loads(line) for line in ended.out.splitlines())
    assert [rank["layers"] for rank in line["ranks"]] == [[1, 2], [0, 1]]
    assert all(rank["chip"] and rank["needed_bytes"] for rank in line["ranks"])
    (tmp_path / "ssh").write_text("#!/bin/sh\nexit 255\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    apart = hostfile(tmp_path, ("127.0.0.1", "mini.local"))
    ended = run("cluster", "check", "--hosts", apart)
    assert_refused(ended, "mini.local could not be started")
