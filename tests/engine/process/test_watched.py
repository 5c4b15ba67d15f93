"""Why ranks do not meet or are lost, by what they say. The launcher is `cat`, which repeats it."""

import os
import socket
import subprocess
from contextlib import suppress
from dataclasses import replace
from time import sleep
from types import SimpleNamespace

import pytest

from engine.cluster.hosts import ClusterHost, Hosts
from engine.process import launch
from engine.process.launch import SAID, Beat, Broken, Deadlines, Hello, Launch
from models.errors import Problem
from models.memory.machine import Machine

HOSTS = Hosts(tuple(map(ClusterHost, ("here", "mini", "max"))), "jaccl")
LOGGED = b"No.\n", b"[transformers] Odd keys.\n"  # which explain no end
MAC = Machine("M4", 1 << 36, 1 << 35, unified=True)
HELLO = HERE, THERE, _ = [Hello(rank, "1", "2", "3", "26.2", MAC) for rank in range(3)]
MET = *HELLO, Beat(0, 7), Beat(1, 7), Beat(2, 7)
WORKS, STANDS = Beat(0, 7, works=True), Beat(0, 7, works=True, stood=1.0)
EXIT = b"Node with rank %d exited with code %d\n"


def said_of(monkeypatch, said):
    """What is said of ranks that say these things, one once the other is judged; a number lets so
    many seconds pass. Empty if all is well."""
    clock, lines, problems, made = [0.0], [], [], []

    def cat(command, **options):
        made.extend((subprocess.Popen(["cat"], **options), command[-2]))
        return made[0]

    monkeypatch.setattr(launch, "monotonic", lambda: clock[0])
    monkeypatch.setattr(launch, "subprocess", SimpleNamespace(Popen=cat, PIPE=subprocess.PIPE))
    deadlines = Deadlines(start=9.0, silence=1.0, round=1.0, broken=1.0)
    ranks = Launch(HOSTS, lost=problems.append, complained=lines.append, deadlines=deadlines)
    (cat, place), well = made, False
    with socket.socket(socket.AF_UNIX) as rank_0, suppress(BrokenPipeError):
        pipe = os.dup(cat.stdin.fileno())
        rank_0.connect(place)
        for each in said:
            if isinstance(each, float):
                clock[0] += each
            else:
                os.write(pipe, each if isinstance(each, bytes) else SAID.to_line(each))
            for _ in range(2):  # until it is read, and until it is judged
                count = len(lines)
                os.write(pipe, b"?\n")
                while lines[count:].count(b"?\n") == 0 and cat.poll() is None:
                    sleep(0.001)
        well = cat.poll() is None
    os.close(pipe)
    cat.kill()
    try:
        ranks.close()
        ranks.meet()
    except Problem as problem:
        problems.append(problem)
    return "" if well else " ".join(map(str, problems))


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ([HERE, replace(THERE, mlx="9")], "mini has MLX 9, and this Mac has 2."),
        ([HERE, replace(THERE, system="26.3")], "mini has macOS 26.3"),  # RDMA needs the same
        ([HERE, b"No.\n", EXIT % (1, 255), 1.5], "The process on mini could not be started: No."),
        ([*HELLO, Broken(1, "No RDMA.", "Use a ring.")], "mini: No RDMA. Use a ring."),
        ([HERE, 9.5], "mini does not answer. Check that ssh mini works"),
        ([*MET[:-1], 9.5], "The Macs do not find each other"),
        ([*MET, WORKS, 0.9, WORKS, Beat(2, 7), 0.9], "mini does not answer any more."),
        ([*MET, 1.9, 1.9], ""),  # a Mac may sleep while nothing is asked
        ([*MET, 1.9, WORKS], ""),  # and has time to wake up
        ([*MET, WORKS, 2.5], ""),  # held up by a slow listener, this Mac has not heard the others
        # Blamed is the first Mac after rank 0's that has sent its states, or else the last.
        ([*MET, Beat(1, 7, waits=True), Beat(2, 7, waits=True), STANDS], "mini sends nothing"),
        ([*MET, Beat(1, 6), Beat(2, 7, waits=True), STANDS], "max sends nothing any more."),
        ([*MET, Beat(2, 6, waits=True), STANDS], "max sends nothing any more."),
        ([*MET, *LOGGED, EXIT % (1, -15), EXIT % (0, -11), 1.5], "The process on here ended: No."),
        ([*MET, Broken(1, "No room."), EXIT % (1, 75), 1.5], "A pass failed on mini: No room."),
    ],
)
def test_why_ranks_do_not_meet_or_are_lost(monkeypatch, said, problem):
    found = said_of(monkeypatch, said)
    assert found.startswith(problem)
    assert bool(found) == bool(problem)
