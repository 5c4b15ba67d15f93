"""A server in the background, which is a few lines here: started, told of, ended."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from engine.cluster.states import RankState
from engine.server.background import Background, BackgroundStatus
from engine.server.link import EngineLink
from models.errors import Problem
from tests.support.engine.scripted_host import LOADED, RANKS

SERVER = """
import signal, sys, time
from pathlib import Path
from engine.server.background import Background
from engine.server.link import EngineLink

with Background(Path(sys.argv[1])).taken(EngineLink(), hosts="/two.json", target="/t") as told:
    told.listens("http://127.0.0.1:1")
    if sys.argv[2:]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("deaf", flush=True)
    time.sleep(60)
"""
DIES = "import sys; print('slipstream: mini.local does not answer.'); sys.exit(2)"


def command(folder: Path, *arguments: str, program: str = SERVER) -> list[str]:
    ending = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(0))\n"
    return [sys.executable, "-c", ending + program, str(folder), *arguments]


@pytest.fixture
def background(tmp_path: Path) -> Iterator[Background]:
    background = Background(tmp_path / "cluster")
    yield background
    background.stop()


Start = Callable[..., BackgroundStatus]


@pytest.fixture
def start(background: Background, tmp_path: Path) -> Start:
    def start(*arguments: str, program: str = SERVER) -> BackgroundStatus:
        made = command(tmp_path / "cluster", *arguments, program=program)
        return background.start(made, changed=lambda status: None)

    return start


def test_a_server_is_started_told_of_and_ended(background: Background, start: Start) -> None:
    assert background.status() is None
    status = start()
    assert psutil.pid_exists(status.pid)
    assert (status.hosts, status.target) == ("/two.json", "/t")
    assert status.address == "http://127.0.0.1:1"
    assert background.status() == status
    assert background.stop()
    assert background.status() is None
    assert not psutil.pid_exists(status.pid)
    assert not background.stop()


def test_there_is_one_at_a_time(background: Background, start: Start) -> None:
    first = start()
    with pytest.raises(Problem):
        start()
    assert background.status() == first


def test_one_that_was_killed_is_gone(background: Background, start: Start) -> None:
    os.kill(start().pid, signal.SIGKILL)
    while background.status() is not None:
        pass
    assert start().address, "another one can be started"


def test_one_that_does_not_end_is_killed(
    background: Background, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.server.background._ENDING_SECONDS", 0.3)
    status = start("deaf")
    while b"deaf" not in background.log.read_bytes():
        pass
    assert background.stop()
    assert not psutil.pid_exists(status.pid)


def test_one_that_ends_before_it_can_be_asked_is_a_problem(
    background: Background, start: Start
) -> None:
    with pytest.raises(Problem) as ended:
        start(program=DIES)
    assert ended.value.message == "mini.local does not answer."
    assert background.status() is None


def test_what_the_engine_says_of_macs_is_told(background: Background) -> None:
    link = EngineLink()
    with background.taken(link, hosts="/two.json", target="/t") as told:

        def status() -> BackgroundStatus:
            found = background.status()
            assert found is not None
            return found

        link.ranks = RANKS
        link.ranks_changed()
        assert status().ranks == RANKS
        told.fails("mini.local was lost.")
        link.ranks = (RANKS[0], RankState(1, "mini.local", "lost"))
        link.ranks_changed()
        assert [rank.state for rank in status().ranks] == ["ready", "lost"]
        assert status().problem == "mini.local was lost."
        link.loaded = LOADED
        link.changed()
        assert status().problem == ""
    assert background.status() is None
