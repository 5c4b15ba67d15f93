"""Rank 0's side of the control connections, with followers that only talk."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from queue import Queue
from threading import Event, Thread, current_thread, main_thread
from typing import Any

import psutil
import pytest

from engine.cluster.control import Find, Found, Hello, Load, Loaded, Meet
from engine.cluster.followers import Deadlines, Followers, ask_machines, follower_command
from engine.cluster.hosts import ClusterHost, Hosts
from engine.cluster.states import RankState
from models.errors import Problem
from models.memory.machine import Machine, this_machine
from tests.support.children import children_with
from tests.support.engine import scripted_follower

SECONDS = 120  # for hangs only
PATIENT = Deadlines(
    *(SECONDS,) * 4,  # start, join, silence, round
    broken=SECONDS,
    beat=0.01,
)
SILENCE, ROUND = replace(PATIENT, silence=0.1), replace(PATIENT, round=0.1)
BROKEN = replace(PATIENT, broken=0.02)
APART = Problem("They do not find each other.", "Check the cables.")
FIND = Find("0123", "4567", "A model", "/a/model", "Copy it.")
LOAD = Load("pipeline", (1, 1), expand=False)

Start = Callable[..., "Group"]


class Group:
    """Followers, and what was told of them: `states`, all that there were; `lost`."""

    def __init__(self, *scripts: dict[str, Any], deadlines: Deadlines, **options: Any) -> None:
        self.states: list[tuple[RankState, ...]] = []
        self.lost: Queue[Problem] = Queue()
        self.show: Callable[[tuple[RankState, ...]], None] = lambda ranks: None
        self.off_the_main_thread = True
        waiting = list(scripts)

        def command(host: ClusterHost, environment: Sequence[str]) -> list[str]:
            path, script = scripted_follower.__file__, json.dumps(waiting.pop(0))
            return [sys.executable, "-S", "-E", path, script]

        hosts = [ClusterHost(f"mac{rank}", ("127.0.0.1",)) for rank in range(len(scripts) + 1)]
        self.followers = Followers(
            hosts,
            deadlines=deadlines,
            changed=self._on_change,
            lost=self._on_loss,
            command=command,
            **options,
        )
        self.count = len(scripts)

    def meet(self) -> list[Hello]:
        return self.ask(Meet(("127.0.0.1",)), Hello)

    def ask(self, message: Any, kind: type[Any], **options: Any) -> list[Any]:
        return self.followers.ask([message] * self.count, kind, **options)

    def _on_change(self, ranks: tuple[RankState, ...]) -> None:
        self.states.append(ranks)
        self.show(ranks)

    def _on_loss(self, problem: Problem) -> None:
        self.off_the_main_thread = current_thread() is not main_thread()
        self.lost.put(problem)


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a group, which the test's end closes."""
    groups: list[Group] = []

    def start(*scripts: dict[str, Any], deadlines: Deadlines = PATIENT, **options: Any) -> Group:
        groups.append(Group(*scripts, deadlines=deadlines, **options))
        return groups[-1]

    yield start
    for group in groups:
        group.followers.close()


@pytest.fixture
def met(start: Start) -> Start:
    """Starts a group that has met."""

    def met(*scripts: dict[str, Any], **options: Any) -> Group:
        group = start(*scripts, **options)
        group.meet()
        return group

    return met


def follow(
    hosts: Sequence[ClusterHost], *command: str, environment: Sequence[str] = ()
) -> Followers:
    """Followers that run `command`, of which nobody hears."""
    return Followers(
        hosts,
        environment=environment,
        deadlines=PATIENT,
        changed=lambda states: None,
        lost=lambda problem: None,
        command=lambda host, environment: list(command),
    )


def running() -> list[psutil.Process]:
    return children_with(scripted_follower.__file__)


def stopped(group: Group, rank: int) -> psutil.Process:
    process = running()[rank - 1]
    process.send_signal(signal.SIGSTOP)
    return process


def test_each_says_who_it_is(start: Start) -> None:
    first, second = start({}, {"hello": {"mlx": "9"}}).meet()
    assert (first.mlx, second.mlx) == ("2", "9")
    assert first.machine.available_bytes == 32


def test_what_a_shell_prints_is_no_answer(met: Start) -> None:
    noisy = {"on": {"find": "Welcome!"}}
    group = met(noisy)
    with pytest.raises(Problem, match="mac1 does not answer"):
        group.ask(FIND, Found, seconds=0.2)


def test_one_with_another_language_is_refused(start: Start) -> None:
    with pytest.raises(Problem, match="mac1: It speaks another language"):
        start({"hello": {"slipstream": ["a", "list"]}}).meet()


def test_a_refusal_names_the_mac_and_leaves_the_group_as_it_was(met: Start) -> None:
    refused = {"kind": "refused", "message": "It has other weights.", "remedy": "Copy them."}
    group = met({}, {"on": {"find": refused}})
    with pytest.raises(Problem) as caught:
        group.ask(FIND, Found)
    assert caught.value.message == "mac2: It has other weights."
    assert caught.value.remedy == "Copy them."
    assert [each.size_bytes for each in group.ask(LOAD, Loaded)] == [7, 7]
    assert group.lost.empty()


def test_two_processes_of_a_mac_are_told_apart(start: Start) -> None:
    group = start({}, {})
    hosts = [ClusterHost("127.0.0.1", ("127.0.0.1",)), ClusterHost("other", ("127.0.0.1",))]
    assert group.followers.name(1) == "mac1"
    with closing(follow([*hosts, hosts[0]], "cat")) as here:
        names = [here.name(rank) for rank in range(3)]
    assert names == ["127.0.0.1 (rank 0)", "other", "127.0.0.1 (rank 2)"]


@pytest.mark.parametrize(
    ("said", "words", "remedy"),
    [
        (
            "ssh: connect to host mac2 port 22: No route to host\n╰──────╯\n",
            "No route to host",
            "mac2",
        ),
        ("Permission denied (publickey).", "Permission denied", "ssh mac2"),
    ],
)
def test_one_that_cannot_be_started_says_why_and_has_a_remedy(
    start: Start, said: str, words: str, remedy: str
) -> None:
    with pytest.raises(Problem, match="mac2") as caught:
        start({}, {"on": {"start": said}}).meet()
    assert words in caught.value.message
    assert remedy in caught.value.remedy


def test_a_command_that_is_not_there_is_a_problem() -> None:
    with pytest.raises(Problem, match="cannot be started"):
        follow([ClusterHost("mac0", ()), ClusterHost("mac1", ())], "/nonexistent/ssh")


@pytest.mark.parametrize("at_once", [False, True])
def test_one_that_ends_while_rank_0_waits_for_it_is_a_problem_there(
    met: Start, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    """Also one that ends before rank 0 has begun to wait."""
    group = met({}, {"on": {"load": "die"}})
    tell, noticed = group.followers.tell, Event()

    def tell_and_see(messages: Any) -> None:
        group.show = lambda ranks: noticed.set()
        tell(messages)
        assert noticed.wait(SECONDS)

    if at_once:
        monkeypatch.setattr(group.followers, "tell", tell_and_see)
    with pytest.raises(Problem, match="mac2 ended"):
        group.ask(LOAD, Loaded)
    assert group.lost.empty()
    assert [each.state for each in group.states[-1]][2] == "lost"


@pytest.mark.slow
def test_one_that_ends_later_is_told_also_where_rank_0_waits_for_it(met: Start) -> None:
    group = met({"on": {"load": "die"}})
    group.followers.joined()
    with pytest.raises(Problem) as caught:
        group.ask(LOAD, Loaded)
    assert group.lost.get(timeout=SECONDS) is caught.value


def test_one_that_ends_at_another_time_is_told_once_and_elsewhere(met: Start) -> None:
    group = met({}, {"on": {"work": "die"}})
    group.followers.wake()
    assert "mac2" in group.lost.get(timeout=SECONDS).message
    assert group.off_the_main_thread
    assert group.states[-1][2].state == "lost"
    assert group.states[-1][2].detail
    group.followers.close()
    assert group.lost.empty()
    assert running() == []


def test_one_that_answers_no_ping_is_lost_where_it_works(met: Start) -> None:
    group = met({"on": {"work": "mute"}}, deadlines=SILENCE)
    group.followers.wake()
    assert "mac1 does not answer" in group.lost.get(timeout=SECONDS).message


def test_one_that_is_stopped_is_lost_and_ended(met: Start) -> None:
    group = met({}, deadlines=SILENCE)
    process = stopped(group, 1)
    group.followers.wake()
    assert "mac1" in group.lost.get(timeout=SECONDS).message
    assert process.wait(SECONDS) is not None


def test_a_mac_may_sleep_while_nothing_is_asked(met: Start) -> None:
    group = met({}, deadlines=SILENCE)
    process = stopped(group, 1)
    with pytest.raises(Exception):  # noqa: B017, PT011 # nothing comes
        group.lost.get(timeout=0.3)
    process.send_signal(signal.SIGCONT)
    assert group.ask(LOAD, Loaded) == [Loaded(7)]


def test_a_wait_that_does_not_end_names_the_rank_whose_states_do_not_arrive(met: Start) -> None:
    wait, asked, stands = object(), Event(), Event()

    def standing() -> object:
        asked.set()
        return wait if stands.is_set() else None

    done, works = ({"kind": "pong", "message": 5, "waits": waits} for waits in (True, False))
    group = met({"on": {"ping": works}}, {"on": {"ping": done}}, deadlines=ROUND, standing=standing)
    asked.wait()
    group.ask(LOAD, Loaded)  # behind the answers to the first pings
    stands.set()
    assert "mac2 sends nothing" in group.lost.get(timeout=SECONDS).message


def test_a_loss_is_told_where_nobody_can_be_shown_the_states(
    met: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = met({}, {"on": {"work": "die"}})

    def unheard(ranks: tuple[RankState, ...]) -> None:
        if ranks[2].state == "lost":
            raise BrokenPipeError

    group.show = unheard
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    group.followers.wake()
    assert "mac2" in group.lost.get(timeout=SECONDS).message
    group.followers.close()


def test_waits_that_end_are_none(met: Start) -> None:
    group = met({}, deadlines=ROUND, standing=object)
    with pytest.raises(Exception):  # noqa: B017, PT011 # nothing comes
        group.lost.get(timeout=0.3)


def test_a_pass_that_failed_on_another_rank_is_told_where_none_has_ended(met: Start) -> None:
    broken = {"kind": "broken", "reason": "[ring] the connection was lost"}
    group = met({"on": {"work": broken}}, deadlines=BROKEN)
    group.followers.wake()
    assert "A pass failed on mac1" in group.lost.get(timeout=SECONDS).message


def test_a_failed_pass_of_rank_0_is_explained_by_the_rank_that_ended(met: Start) -> None:
    group = met({}, {"on": {"work": "die"}}, deadlines=PATIENT)
    group.followers.wake()
    assert "mac2" in group.followers.why(APART).message


def test_a_failed_pass_of_rank_0_is_explained_by_the_rank_that_refused(met: Start) -> None:
    refused = {"kind": "refused", "message": "It could not connect.", "remedy": "Wait."}
    group = met({}, {"on": {"load": refused}}, deadlines=PATIENT)
    group.followers.tell([LOAD, LOAD])
    assert group.followers.why(APART).message == "mac2: It could not connect."


def test_what_was_refused_before_explains_no_failed_pass(met: Start) -> None:
    refused = {"kind": "refused", "message": "It has other weights.", "remedy": "Copy them."}
    group = met({"on": {"find": refused}}, deadlines=Deadlines(broken=0.0, beat=0.01))
    with pytest.raises(Problem):
        group.ask(FIND, Found)
    assert group.followers.why(APART) is APART


def test_a_failed_pass_that_nothing_explains_ends_all(met: Start) -> None:
    group = met({}, deadlines=Deadlines(broken=0.0, beat=0.01))
    assert group.followers.why(APART) is APART
    group.followers.close()
    assert running() == []


def test_what_takes_too_long_on_all_of_them_is_told(met: Start) -> None:
    group = met({})
    with group.followers.within(0.05, APART):
        assert group.lost.get(timeout=SECONDS) is APART


def test_states_follow_what_is_done(met: Start) -> None:
    group = met({})
    group.followers.wake()
    assert {each.state for each in group.followers.states} == {"working"}
    group.followers.rest()
    assert {each.state for each in group.followers.states} == {"ready"}
    group.followers.change(1, layers=(0, 2), needed_bytes=9)
    assert group.states[-1][1] == RankState(1, "mac1", "ready", layers=(0, 2), needed_bytes=9)


@pytest.mark.slow
def test_closing_ends_all_also_one_that_is_stopped(met: Start) -> None:
    group = met({}, {})
    stopped(group, 2)
    group.followers.close()
    group.followers.close()
    assert running() == []
    assert group.lost.empty()


def test_what_waits_for_replies_ends_when_the_group_is_left(met: Start) -> None:
    group = met({"on": {"load": None}})
    leaving = Thread(target=group.followers.close)
    leaving.start()
    with pytest.raises(Problem, match="left"):
        group.ask(LOAD, Loaded)
    leaving.join()
    assert group.lost.empty()


def test_a_follower_is_in_a_session_of_its_own(start: Start) -> None:
    start({}).meet()
    (process,) = running()
    assert os.getsid(process.pid) == process.pid  # Ctrl-C in a terminal is not for it


def test_another_mac_is_reached_by_ssh_and_never_asked_for_a_password() -> None:
    here = follower_command(ClusterHost("localhost", ()), ["A=b c"])
    there = follower_command(ClusterHost("mac2", ()), ["A=b c"])
    assert here[1:] == ["-m", "engine", "follow"]
    assert there[0] == "ssh"
    assert "BatchMode=yes" in there
    assert there[-2] == "mac2"
    assert there[-3] == "--"
    assert there[-1].startswith("env 'A=b c' ")


def test_a_followers_environment_is_that_of_the_hostfile(tmp_path: Path) -> None:
    out = tmp_path / "out"
    here, says = ClusterHost("127.0.0.1", ()), f"env > '{out}'; cat"
    setting = ["MLX_METAL_FAST_SYNCH=1"]
    with closing(follow([here, here], "sh", "-c", says, environment=setting)) as followers:
        followers.tell([Meet(())])
        subprocess.run(["sh", "-c", f"until [ -s '{out}' ]; do sleep 0.01; done"], timeout=SECONDS)
    assert "MLX_METAL_FAST_SYNCH=1" in out.read_text().splitlines()


@pytest.mark.parametrize("dies", [False, True])
def test_macs_are_asked_for_their_memory_and_left(dies: bool) -> None:
    waiting = ["{}", json.dumps({"on": {"meet": "die"}} if dies else {})]

    def command(host: ClusterHost, environment: Sequence[str]) -> list[str]:
        return [sys.executable, "-S", "-E", scripted_follower.__file__, waiting.pop(0)]

    each = tuple(ClusterHost(f"mac{rank}", ("127.0.0.1",)) for rank in range(3))
    hosts = Hosts(Path("hosts.json"), each)
    if dies:
        with pytest.raises(Problem, match="mac2"):
            ask_machines(hosts, deadlines=PATIENT, command=command)
    else:
        here, *others = ask_machines(hosts, deadlines=PATIENT, command=command)
        assert here[0] == "mac0"
        assert here[1].memory_bytes == this_machine().memory_bytes
        assert others == [(f"mac{rank}", Machine("M9", 64, 32, unified=True)) for rank in (1, 2)]
    assert running() == []
