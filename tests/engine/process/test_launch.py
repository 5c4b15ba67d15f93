"""Ranks that MLX's launcher starts: the text of one process, and one line for what goes wrong."""

import os
import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import sleep
from types import SimpleNamespace

import psutil
import pytest
from mlx_lm.utils import save_model

from engine.cluster.hosts import ClusterHost, Hosts
from engine.conversation.loading import load
from engine.conversation.session import Session
from engine.drafters.head_network import save_head
from engine.events import Text
from engine.process import launch
from engine.process.launch import SAID, Beat, Broken, Deadlines, Hello, Launch
from engine.request import Request, Sampling, asked
from models.errors import Problem
from models.memory.machine import Machine
from models.model_folder import ModelFolder
from tests.support.engine.eagles import eagle_subject
from tests.support.engine.ended import change_json
from tests.support.engine.heads import untrained
from tests.support.engine.launched import (
    GREEDY,
    HERE,
    TOKENS,
    gone,
    hostfile,
    launched,
    stand_in_for_ssh,
)
from tests.support.engine.parity.subjects import TARGET as SIZES
from tests.support.engine.parity.subjects import WIDTH, Subject, subjects
from tests.support.engine.tiny import build, byte_tokenizer, noisy, save

TARGET = SIZES | {"model_type": "qwen3", "max_position_embeddings": 4096}
TARGET |= {"num_attention_heads": 12, "num_key_value_heads": 6}  # for three ranks, too
DIGITS = dict.fromkeys(b"123 ", 60.0)  # which come again, and are copied
WARM = Sampling(temperature=0.8, seed=5, repeatable=True, logit_bias=DIGITS)
LONG = "1 2 3 " * 20  # the answers' prompts begin alike, and are read once
QUESTIONS = ((LONG, GREEDY), (LONG + "12?", WARM), ("1 2 3", Sampling(logit_bias=DIGITS)))
NAMES = ("here.local", "mini.local")
HEAD = {"0.linear.weight": (WIDTH, WIDTH), "0.linear.bias": (WIDTH,), "1.weight": (64, WIDTH)}
HEADS = {f"{head}.{name}": shape for head in range(3) for name, shape in HEAD.items()}
PUBLISHED = {"medusa": Subject("medusa", {"model_type": "medusa"}, HEADS)}
PUBLISHED |= subjects("dflash") | subjects("dspark")
OTHERS = ("dflash", "dflash2", "dspark-deepspec", "medusa", "pard")
EAGLES = ("EAGLE", "EAGLE-3")


@pytest.fixture(autouse=True)
def environment(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setenv("PATH", stand_in_for_ssh(tmp_path))


def write(folder, sizes):
    """A target that reads bytes, and writes 64 of them."""
    byte_tokenizer(folder)
    config = sizes | {"eos_token_id": 256}
    save(build(config["model_type"], sizes=config), config, folder)
    return folder


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """A target's folder; beside it drafters of all kinds, and a target with a module of its own."""
    folder = write(tmp_path_factory.mktemp("models") / "target", TARGET)
    model = build("qwen3", sizes=TARGET)
    save_model(Path(shutil.copytree(folder, folder.with_name("drafter"))), noisy(model))
    pard = Path(shutil.copytree(folder.with_name("drafter"), folder.with_name("pard")))
    change_json(pard / "config.json", pard_token=63)
    fingerprint = ModelFolder(folder).fingerprint
    save_head(untrained(model), folder.with_name("head"), target="", fingerprint=fingerprint)
    eagles = (eagle_subject(kind, model) for kind in EAGLES)
    for subject in (*eagles, *map(PUBLISHED.get, OTHERS[:-1])):
        subject.write(folder.with_name(subject.name))
    module = subjects("mtp")["mtp-qwen3.5-sidecar"]
    write(folder.with_name("qwen3_5"), module.target)
    module.write(folder.with_name("module"))
    return folder


@cache
def alone(target):
    """What one process answers without drafts."""
    session = Session(load(ModelFolder(target)))
    return [
        "".join(e.delta for e in session.answer(asked(q).messages, request) if isinstance(e, Text))
        for q, sampling in QUESTIONS
        for request in [Request(sampling=sampling, max_tokens=TOKENS)]
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "mode", "name", "drafters"),
    [
        ((HERE, HERE), "pipeline", "target", ("none", "lookup", "lookahead", "head", *EAGLES)),
        ((HERE, HERE), "pipeline", "target", ("drafter", *OTHERS)),
        ((HERE, HERE), "tensor", "target", OTHERS),
        ((HERE, HERE, HERE), "tensor", "target", ("lookup",)),
        (NAMES, "tensor", "target", ("suffix+drafter",)),
        ((*NAMES, "max.local"), "pipeline", "target", ("drafter", *OTHERS[:3])),
        ((HERE, HERE), "pipeline", "qwen3_5", ("module",)),
        ((HERE, HERE), "tensor", "qwen3_5", ("suffix+module",)),
    ],
)
def test_the_text_is_that_of_one_process(target, tmp_path, names, mode, name, drafters):
    target = target.with_name(name)
    with launched(hostfile(tmp_path, names)) as ranks:
        assert [rank.host.split(" ")[0] for rank in ranks.launch.states] == [*names]
        for drafter in drafters:
            last = drafter.rpartition("+")[2]
            folder = target.with_name(last)
            full = drafter.replace(last, str(folder)) if folder.is_dir() else drafter
            loaded = ranks.load(target, full, mode=mode)
            assert (loaded.macs.mode, "tensor" in loaded.remark) == (mode, mode == "tensor")
            before = ranks.proposed
            assert ranks.answers(QUESTIONS) == alone(target), drafter
            assert ranks.proposed > before or drafter == "none"
        processes = [*ranks.ranks().values()]
    assert gone(processes)
    assert not ranks.lost


LOST = [  # the signals that ranks get, or the launcher, and the line that is said
    ({1: signal.SIGKILL}, r"^The process on mini\.local ended\. Check the Macs"),
    ({0: signal.SIGKILL}, r"^The process on here\.local ended\. Check the Macs"),
    ({0: signal.SIGSTOP, 1: signal.SIGKILL}, r"^The process on mini\.local ended\. Check the Macs"),
    ({1: signal.SIGSTOP}, "mini.local does not answer any more."),
    ({"launcher": signal.SIGKILL}, "MLX's launcher ended"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("signals", "line"), LOST)
def test_a_fault_in_an_answer_is_one_line_and_the_next_answer_is_as_before(
    target, tmp_path, signals, line
):
    hosts = hostfile(tmp_path, NAMES)
    with launched(hosts, silence=5.0 if signals == LOST[3][0] else 60.0) as ranks:
        ranks.load(target)
        processes = {"launcher": psutil.Process(ranks.launch.pid)} | ranks.ranks()
        events = ranks.begin(QUESTIONS[0][0], 4000)
        next(each for each in events if isinstance(each, Text))
        for name, number in signals.items():
            processes[name].send_signal(number)
        with pytest.raises(Problem, match=line):
            list(events)
        assert len(ranks.lost) == 1
        assert gone(processes.values())
    with launched(hosts) as ranks:
        ranks.load(target)
        assert ranks.answers(QUESTIONS[:1]) == alone(target)[:1]


# Why ranks do not meet or are lost, by what they say. The launcher is `cat`, which repeats it

HOSTS = Hosts(tuple(map(ClusterHost, ("here", "mini", "max"))), "jaccl")
LOGGED = b"No.\n", b"[transformers] Odd keys.\n"  # which explain no end
MAC = Machine("M4", 1 << 36, 1 << 35, unified=True)
HELLO = OURS, THEIRS, _ = [Hello(rank, "1", "2", "3", "26.2", MAC) for rank in range(3)]
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
        ([OURS, replace(THEIRS, mlx="9")], "mini has MLX 9, and this Mac has 2."),
        ([OURS, replace(THEIRS, system="26.3")], "mini has macOS 26.3"),  # RDMA needs the same
        ([OURS, b"No.\n", EXIT % (1, 255), 1.5], "The process on mini could not be started: No."),
        ([*HELLO, Broken(1, "No RDMA.", "Use a ring.")], "mini: No RDMA. Use a ring."),
        ([OURS, 9.5], "mini does not answer. Check that ssh mini works"),
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
