"""The child process where several Macs hold the target: rank 0's on scripted Macs, and the process
that has rank 0 do what it is asked for."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.cluster.states import RankState, divided
from engine.core.decoder import Decoder
from engine.events import Done, Failed, Stats, Text
from engine.process import led
from engine.process.host import CommandQueue, Host
from engine.process.protocol import (
    COMMANDS,
    RESPONSES,
    Cancel,
    Command,
    Generate,
    Load,
    Loaded,
    Loading,
    Macs,
    Memory,
    Ranks,
    SetDrafter,
    Unload,
    Unloaded,
)
from engine.request import Prompt, Request, Sampling, asked
from models.drafters.folders import DrafterFolder
from models.errors import Problem
from models.memory.model_size import weigh
from models.model_folder import ModelFolder
from tests.support.engine.launched import hostfile
from tests.support.engine.scripted_cluster import FULL, ScriptedCluster, Torn
from tests.support.engine.tiny import write_folder

LOST = Problem("mini.local was lost: its connection ended.", "Switch it on.")
Step = Command | Callable[[], object]


class Ended(BaseException):
    """The process has ended."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "llama"
    write_folder("llama", path)
    return str(path)


@pytest.fixture
def two(tmp_path):
    return Macs(str(hostfile(tmp_path, ("127.0.0.1", "mini.local"))))


class Play:
    """Has a host do what it is told, one thing after the other. Attributes: `told`, its responses;
    `last`, those with which the process ended; `cluster`, the Macs that it leads as rank 0."""

    def __init__(self, cluster=None):
        self.told = []
        self.last = []
        self.cluster = cluster

    def __call__(self, *steps):
        """Commands come as soon as they can; functions are called once nothing is left to do."""
        script = list(steps)

        class Queue(CommandQueue):
            @property
            def waiting(self):
                return bool(script) and not callable(script[0])

            def take(self):
                while script:
                    step = script.pop(0)
                    if not callable(step):
                        self.owed[step.id] = step
                        return step
                    step()
                return None

        def end(last):
            self.last += last
            raise Ended

        Host(Queue(self.told.append), self.told.append, end=end, cluster=self.cluster).run()

    def of(self, kind):
        return [response for response in self.told if isinstance(response, kind)]


def generate(id, tokens=8):
    sampling = Sampling(logit_bias={256: -1000.0})  # without an end
    return Generate(id, "chat", asked("hello"), Request(sampling=sampling, max_tokens=tokens))


# Rank 0


@pytest.fixture
def macs():
    return ScriptedCluster()


@pytest.fixture
def play(macs):
    return Play(macs)


def test_targets_on_several_macs_answer(play, macs, folder, two):
    tensor = Macs(two.hosts, "tensor")
    play(Load("1", folder, macs=two), generate("g"), Load("2", folder, macs=tensor))
    assert macs.modes == [None, "tensor"]
    first, second = play.of(Loaded)
    pipeline = next(each for each in play.of(Ranks) if each.ranks[0].layers)
    assert divided(pipeline.ranks) in first.remark
    assert "tensor" in second.remark
    assert (first.macs, second.macs) == (two, tensor)
    assert play.of(Text)
    assert play.of(Done)


def test_there_must_be_room_for_the_drafter_and_the_conversation(play, macs, folder, two):
    """Another drafter needs it on this Mac alone: a whole target may be larger than that."""
    small = SetDrafter("3", "lookup")
    play(Load("1", folder, folder, "2", Memory(512), macs=two), SetDrafter("2", folder), small)
    (room,) = macs.rooms
    weight = weigh(DrafterFolder.of_model(ModelFolder(Path(folder))))
    assert room == {"context": 512, "cache_bits": None, "drafter": weight}
    assert macs.drafting == [weight, None]
    macs.free_bytes = 1
    play.told.clear()
    macs.load = lambda *_, **__: (_ for _ in ()).throw(FULL)
    play(Load("4", folder, macs=two))
    assert play.told[-1] == Failed("4", FULL.message, FULL.remedy, "request")


@pytest.mark.parametrize(
    ("error", "over", "ends"),
    [
        (RuntimeError("a peer was lost"), False, Torn),
        (Problem("Out of step.", "!"), True, Ended),
        (Problem("The model has no token to go on with.", "!"), False, None),
    ],
)
def test_a_pass_that_leaves_the_ranks_apart_ends_the_process(
    play, macs, folder, two, error, over, ends, monkeypatch
):
    def fail(decoder, tokens):
        raise error

    def break_it():
        monkeypatch.setattr(Decoder, "read", fail)
        macs.over = over

    steps = (Load("1", folder, macs=two), break_it, generate("g"), monkeypatch.undo, generate("h"))
    if ends is None:
        play(*steps, Generate("i", "chat", Prompt()))
        assert [each.generation for each in play.of(Failed)] == ["g", "i"]
        assert [each.generation for each in play.of(Done)] == ["h"]
        return
    with pytest.raises(ends):
        play(*steps)
    if ends is Ended:
        said = [(each.generation, each.message) for each in play.last]
        assert said == [("g", "Out of step."), ("", "Out of step.")]


# The process that leads


class FakeLaunch:
    """Stands in for a `Launch`. Attributes: `written`, to rank 0; `closed`."""

    made: list["FakeLaunch"]
    refusal: Problem | None

    def __init__(self, hosts, *, heard, lost, complained):
        self.heard, self.lost, self.closed = heard, lost, False
        self.written = []
        self.states = (RankState(0, hosts.name(0), "ready"), RankState(1, hosts.name(1), "ready"))
        self.made.append(self)

    def meet(self, stopped):
        if self.refusal is not None:
            raise self.refusal

    def write(self, line):
        self.written.append(COMMANDS.read(line))

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


def test_rank_0_does_what_is_asked_for(made, two):
    play, load, answer = Play(), Load("1", "/model", macs=two), generate("g")
    again = Load("2", "/other", macs=two)
    play(
        *(load, answer, Cancel("g"), lambda: made[0].say(Done("g", "cancelled", Stats()))),
        again,
    )
    assert made[0].written == [load, answer, Cancel("g"), again]
    assert isinstance(play.told[0], Loading), "joining takes long"
    assert [each.host for each in play.of(Ranks)[-1].ranks] == ["127.0.0.1", "mini.local"]
    assert play.of(Done)
    assert len(made) == 1


def test_a_process_that_leads_loads_nowhere_else(made, two, folder):
    play, missing = Play(), Macs("/missing.json")
    play(
        *(Load("0", folder, macs=missing), Load("1", folder), Load("2", folder, macs=two)),
        *(Load("3", folder), Load("4", folder, macs=missing)),
    )
    assert [each.generation for each in play.of(Failed)] == ["0", "3", "4"]
    assert play.of(Unloaded), "what was loaded here"
    assert [each.id for each in made[0].written] == ["2"]


def test_the_ranks_end_with_the_target_and_are_joined_again(made, two):
    play = Play()
    play(Load("1", "/a", macs=two), Unload("2"), generate("g"), Load("3", "/a", macs=two))
    assert play.of(Unloaded) == [Unloaded("2")]
    assert [each.ranks for each in play.of(Ranks)].count(()) == 1
    assert [each.generation for each in play.of(Failed)] == ["g"]
    assert len(made) == 2


def test_macs_that_cannot_be_joined_are_said(made, two):
    FakeLaunch.refusal = Problem("mini.local does not answer.", "Switch it on.")
    play = Play()
    play(Load("1", "/a", macs=two))
    assert play.told[-1] == Failed("1", "mini.local does not answer.", "Switch it on.", "request")


@pytest.mark.parametrize("known", [False, True], ids=["to the launcher", "to rank 0"])
def test_a_lost_mac_fails_all_that_is_not_done(made, two, known):
    play, why = Play(), Problem("Out of step.", "Load again.") if known else LOST
    with pytest.raises(Ended):
        play(
            *(Load("1", "/a", macs=two), generate("a"), generate("b")),
            lambda: made[0].say(Done("a", "stop", Stats())),
            lambda: known and made[0].say(Failed("", why.message, why.remedy)),
            lambda: made[0].lost(LOST),
        )
    failed = [(each.generation, each.message, each.remedy) for each in play.last]
    assert failed == [(id, why.message, why.remedy) for id in ("1", "b", "")]
