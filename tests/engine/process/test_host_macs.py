"""The child process where several Macs hold the target: rank 0's on scripted Macs, and the process
that has rank 0 do what it is asked for."""

import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from engine.cluster.states import RankState
from engine.conversation.loading import load
from engine.core.decoder import Decoder
from engine.events import Done, Failed, Stats, Text
from engine.process import led
from engine.process.protocol import (
    COMMANDS,
    RESPONSES,
    Cancel,
    Generate,
    Hurry,
    Load,
    Loading,
    Macs,
    Memory,
    Ranks,
    SetDrafter,
    Unload,
    Unloaded,
)
from engine.request import Prompt, Request, asked
from models.drafters.folders import DrafterFolder
from models.errors import Problem
from models.memory.machine import Machine
from models.memory.model_size import weigh
from models.memory.shares import plan
from models.model_folder import ModelFolder
from tests.support.engine.hosted import all_at_once, hosted, of
from tests.support.engine.launched import hostfile
from tests.support.engine.tiny import write_folder

LOST = Problem("mini.local was lost: its connection ended.", "Switch it on.")


FULL = Problem("There is no room for it.", "Draft with lookup.")


class Ended(BaseException):
    """The process has ended."""


class Torn(BaseException):
    """The process has ended, in the middle of a pass."""


class FarDecoder(Decoder):
    """Reads as if others had a part in it."""


class ScriptedCluster:
    """Stands in for a `Cluster` of two Macs: what rank 0 loads on them is loaded here. Attributes:
    `rooms`, what there was to be room for; `drafting`, what was to draft later; `over`, whether the
    ranks are out of step."""

    ranks, over, plan = (RankState(0, "here", "ready"), RankState(1, "there", "ready")), False, None

    def __init__(self):
        self.rooms, self.drafting = [], []

    def load(self, folder, *, make_room, mode=None, **room):
        make_room()
        self.rooms.append(room)
        mac = Machine("Mac", 1 << 33, 1 << 33, unified=True)
        self.plan = plan(folder, [mac] * 2, mode=mode, **room)
        return replace(load(folder), decoder=FarDecoder)

    def draft_with(self, drafter, *, cache_bits=None):
        self.drafting.append(drafter)

    def torn(self, error):
        raise Torn(str(error))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "llama"
    write_folder("llama", path)
    return str(path)


@pytest.fixture
def two(tmp_path):
    return Macs(str(hostfile(tmp_path, ("127.0.0.1", "mini.local"))))


def generate(id):
    return Generate(id, "chat", asked("hello"), Request(max_tokens=8))


# Rank 0


def test_there_must_be_room_for_the_drafter_and_the_conversation(folder, two):
    """Another drafter needs it on this Mac alone: a whole target may be larger than that."""
    macs = ScriptedCluster()
    load = Load("1", folder, folder, "2", Memory(512), macs=two)
    hosted([load, SetDrafter("2", folder), SetDrafter("3", "lookup")], cluster=macs)
    (room,) = macs.rooms
    weight = weigh(DrafterFolder.of_model(ModelFolder(Path(folder))))
    assert room == {"context": 512, "cache_bits": None, "drafter": weight}
    assert macs.drafting == [weight, None]


@pytest.mark.parametrize(
    ("error", "over", "ends"),
    [
        (RuntimeError("a peer was lost"), False, Torn),
        (Problem("Out of step.", "!"), True, Ended),
        (Problem("The model has no token to go on with.", "!"), False, None),
    ],
)
def test_a_pass_that_leaves_the_ranks_apart_ends_the_process(
    folder, two, error, over, ends, monkeypatch
):
    macs, end = ScriptedCluster(), mock.Mock(side_effect=Ended)

    def commands():
        yield Load("1", folder, macs=two)
        monkeypatch.setattr(Decoder, "read", mock.Mock(side_effect=error))
        macs.over = over
        yield generate("g")
        monkeypatch.undo()
        yield from (generate("h"), Generate("i", "chat", Prompt()))

    if ends is None:
        told = hosted(commands(), cluster=macs)
        assert [each.generation for each in of(Failed, told)] == ["g", "i"]
        assert [each.generation for each in of(Done, told)] == ["h"]
        return
    with pytest.raises(ends):
        hosted(commands(), cluster=macs, end=end)
    if ends is Ended:
        said = [(each.generation, each.message) for each in end.call_args.args[0]]
        assert said == [("g", "Out of step."), ("", "Out of step.")]


def test_a_target_that_the_macs_refuse_leaves_the_one_before(folder, two):
    macs = ScriptedCluster()

    def commands():
        yield Load("1", folder, macs=two)
        macs.load = mock.Mock(side_effect=FULL)
        yield from (Load("2", folder, macs=two), generate("g"))

    told = hosted(commands(), cluster=macs)
    assert of(Failed, told) == [Failed("2", FULL.message, FULL.remedy, "request")]
    assert of(Done, told)


# The process that leads


class FakeLaunch:
    """Stands in for a `Launch`. Attributes: `written`, to rank 0; `running`, the answers that end
    before it unloads; `closed`."""

    def __init__(self, hosts, *, heard, lost, complained):
        self.heard, self.lost, self.closed = heard, lost, False
        self.complained = complained
        self.written, self.running = [], []
        self.states = (RankState(0, hosts.name(0), "ready"), RankState(1, hosts.name(1), "ready"))
        self.made.append(self)

    def meet(self, stopped):
        if self.refusal is not None:
            raise self.refusal

    def write(self, line):
        self.written.append(COMMANDS.read(line))
        if isinstance(self.written[-1], Unload):
            for id in self.running:
                self.say(Done(id, "stop", Stats()))
            self.say(Unloaded(self.written[-1].id))

    def say(self, response):
        self.heard(RESPONSES.to_line(response))

    def close(self):
        self.closed = True


@pytest.fixture
def made(monkeypatch):
    FakeLaunch.made, FakeLaunch.refusal = [], None
    monkeypatch.setattr(led, "Launch", FakeLaunch)
    yield FakeLaunch.made
    assert all(each.closed for each in FakeLaunch.made if not FakeLaunch.refusal)


def test_rank_0_does_what_is_asked_for(made, two, folder, tmp_path, monkeypatch):
    load, answer, again = Load("1", folder, macs=two), generate("g"), Load("2", folder, macs=two)

    def commands():
        yield from (load, answer, Cancel("g"))
        made[0].say(Text("g", "a"))
        made[0].say(Done("g", "cancelled", Stats()))
        yield again
        made[0].complained(b"Traceback\n")
        assert (tmp_path / "log").read_text() == "Traceback\n", "it is in the log at once"

    with (tmp_path / "log").open("w", buffering=1) as log:
        monkeypatch.setattr(sys, "stderr", log)
        told = hosted(commands())
    assert made[0].written == [load, answer, Cancel("g"), again]
    assert isinstance(told[0], Loading), "joining takes long"
    assert [each.host for each in of(Ranks, told)[-1].ranks] == ["127.0.0.1", "mini.local"]
    assert RESPONSES.to_line(Text("g", "a")) in told, "as it was written"
    assert of(Done, told)


def test_a_process_that_leads_loads_nowhere_else(made, two, folder):
    places = enumerate((Macs("/missing.json"), Macs(), two, Macs(), Macs("/missing.json")))
    told = hosted([Load(str(id), folder, macs=macs) for id, macs in places])
    assert [each.generation for each in of(Failed, told)] == ["0", "3", "4"]
    assert of(Unloaded, told), "what was loaded here"
    assert [each.id for each in made[0].written] == ["2"]


def test_macs_that_cannot_be_joined_leave_the_model_here(made, two, folder):
    FakeLaunch.refusal = LOST
    refused = Load("2", folder, "nonsense", macs=two), Load("3", folder, macs=two)
    told = hosted([Load("1", folder), *refused, generate("g"), Load("4", folder)])
    assert [each.generation for each in of(Failed, told)] == ["2", "3"]
    assert of(Done, told)
    assert of(Unloaded, told) == [Unloaded("4")], "on this Mac, which can be used as before"
    told = hosted([Load("1", folder, macs=two)])
    assert told[-1] == Failed("1", LOST.message, LOST.remedy, "request")
    assert of(Ranks, told)[-1] == Ranks(())


def test_the_ranks_end_with_the_target_and_are_joined_again(made, two, folder):
    load = Load("1", folder, macs=two)
    told = hosted([load, Unload("2"), generate("g"), load])
    assert of(Unloaded, told) == [Unloaded("2")]
    assert [each.ranks for each in of(Ranks, told)].count(()) == 1
    assert [each.generation for each in of(Failed, told)] == ["g"]
    assert len(made) == 2

    def commands():
        yield from (load, generate("g"))
        made[2].running.append("g")
        yield Unload("2")

    told = hosted(commands())
    assert [type(each) for each in told[-3:]] == [Done, Ranks, Unloaded], "after the answers before"


def test_wishes_that_come_before_their_answer_is_passed_on_follow_it(made, two, folder):
    asked = Load("1", folder, macs=two), generate("g")
    all_at_once(*asked, Hurry("g"), Cancel("g"))
    assert made[0].written == [*asked, Cancel("g"), Hurry("g")]


@pytest.mark.parametrize(
    ("architecture", "drafter", "mode", "said"),
    [
        ("gemma3_text", "none", "auto", "gemma3_text"),
        ("llama", "suffix+early-exit:1", "auto", "early-exit"),
        ("llama", "nobody", "auto", "nobody"),
        ("lfm2", "none", "tensor", "lfm2"),
    ],
)
def test_what_no_macs_can_do_is_said_before_they_are_joined(
    made, two, tmp_path, architecture, drafter, mode, said
):
    write_folder(architecture, tmp_path, layers=3)
    told = hosted([Load("1", str(tmp_path), drafter, macs=Macs(two.hosts, mode))])
    assert said in told[-1].message
    assert not made


@pytest.mark.parametrize("known", [False, True], ids=["to the launcher", "to rank 0"])
def test_a_lost_mac_fails_all_that_is_not_done(made, two, folder, known):
    why = Problem("Out of step.", "Load again.") if known else LOST
    end = mock.Mock(side_effect=Ended)

    def commands():
        yield from (Load("1", folder, macs=two), generate("a"), generate("b"))
        made[0].say(Done("a", "stop", Stats()))
        if known:
            made[0].say(Failed("", why.message, why.remedy))
        made[0].lost(LOST)

    with pytest.raises(Ended):
        hosted(commands(), end=end)
    failed = [(each.generation, each.message, each.remedy) for each in end.call_args.args[0]]
    assert failed == [(id, why.message, why.remedy) for id in ("1", "b", "")]
