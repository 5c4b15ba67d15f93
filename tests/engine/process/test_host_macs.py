"""The child process where several Macs hold the target, which are scripted here."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import mlx.core as mx
import pytest

from engine.cluster.hosts import ClusterHost as Mac
from engine.cluster.hosts import Hosts
from engine.cluster.states import divided
from engine.core.decoder import Decoder
from engine.events import Done, Failed, Text, Verdict
from engine.process.host import CommandQueue, Host
from engine.process.macs import LedMacs
from engine.process.protocol import (
    Command,
    Generate,
    Load,
    Loaded,
    Loading,
    Macs,
    Memory,
    Ranks,
    Response,
    SetDrafter,
    Unload,
    Unloaded,
)
from engine.request import Prompt, Request, Sampling, asked
from models.drafters.folders import DrafterFolder
from models.errors import Problem
from models.memory.machine import Machine
from models.memory.model_size import weigh
from models.memory.shares import plan
from models.model_folder import ModelFolder
from tests.support.engine.scripted_cluster import FULL, LOST, Connecting, ScriptedCluster
from tests.support.engine.tiny import write_folder

HUGE = Machine("Mac", 1 << 33, 1 << 33, unified=True)
TWO = Macs("/two.json", trusted=True)
Step = Command | Callable[[], object]


class Ended(BaseException):
    """The process has ended."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "llama"
    write_folder("llama", path)
    return str(path)


@pytest.fixture(autouse=True)
def hostfile(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: Path) -> Hosts:
        if path.name == "missing.json":
            raise Problem(f"There is no file {path}.", "Make one.")
        macs = Mac("127.0.0.1", ("127.0.0.1",)), Mac("mini.local", ("169.254.1.2",))
        return Hosts(path, macs)

    monkeypatch.setattr("engine.process.macs.read_hosts", read)


class Play:
    """Has a host do what it is told, one thing after the other. Attributes: `told`, its responses;
    `last`, those with which the process ended; `connect`, the Macs."""

    def __init__(self) -> None:
        self.told: list[Response] = []
        self.last: list[Response] = []
        self.connect = Connecting()

    def __call__(self, *steps: Step, after: Callable[[Response], object] = lambda _: None) -> None:
        """Commands come as soon as they can; functions are called once nothing is left to do, and
        `after` after each response."""
        script = list(steps)

        def send(response: Response) -> None:
            self.told.append(response)
            after(response)

        class Queue(CommandQueue):
            @property
            def waiting(self) -> bool:
                return bool(script) and not callable(script[0])

            def take(self) -> Any:
                while script:
                    step = script.pop(0)
                    if not callable(step):
                        self.owed[step.id] = step  # type: ignore[union-attr, assignment]
                        return step
                    step()
                return None

        def end(last: Sequence[Response]) -> None:
            self.last += last
            raise Ended

        macs: Any = partial(LedMacs, connect=self.connect)  # type: ignore[arg-type]
        Host(Queue(send), send, end=end, macs=macs).run()

    @property
    def cluster(self) -> ScriptedCluster:
        (only,) = self.connect.made
        return only

    def of(self, kind: Any) -> list[Any]:
        return [response for response in self.told if isinstance(response, kind)]


@pytest.fixture
def play() -> Play:
    return Play()


def generate(id: str, tokens: int = 8) -> Generate:
    sampling = Sampling(logit_bias={256: -1000.0})  # without an end
    return Generate(id, "chat", asked("hello"), Request(sampling=sampling, max_tokens=tokens))


def test_a_target_on_several_macs_answers(play: Play, folder: str) -> None:
    play(Load("1", folder, macs=TWO), generate("g"))
    assert play.connect.made[0].trusted
    assert play.connect.made[0].hosts.path == Path("/two.json")
    ranks, loaded = play.of(Ranks), play.of(Loaded)[0]
    assert [each.host for each in ranks[0].ranks] == ["127.0.0.1", "mini.local"]
    assert [each.layers for each in ranks[-1].ranks] == [(2, 4), (0, 2)]
    assert loaded.macs == TWO
    assert divided(ranks[-1].ranks) in loaded.remark
    assert isinstance(play.told[-1], Done)
    assert play.of(Text)


def test_there_must_be_room_for_the_drafter_and_the_conversation(play: Play, folder: str) -> None:
    play(Load("1", folder, folder, "2", Memory(512), macs=TWO))
    (room,) = play.cluster.rooms
    assert (room["context"], room["cache_bits"]) == (512, None)
    assert room["drafter"] == weigh(DrafterFolder.of_model(ModelFolder(Path(folder))))


def test_another_drafter_needs_room_on_this_mac_alone(play: Play, folder: str) -> None:
    """And not for a whole target, which may be larger than this Mac."""
    play(Load("1", folder, macs=TWO), SetDrafter("2", folder), SetDrafter("3", "lookup"))
    assert play.cluster.drafting == [weigh(DrafterFolder.of_model(ModelFolder(Path(folder)))), None]
    assert [each.drafter for each in play.of(Loaded)] == ["none", folder, "lookup"]


def test_a_drafter_without_room_changes_nothing(play: Play, folder: str) -> None:
    def crowd() -> None:
        play.cluster.free_bytes = 1

    play(Load("1", folder, "lookup", "2", macs=TWO), crowd, SetDrafter("2", folder), generate("g"))
    (failed,) = play.of(Failed)
    assert (failed.generation, failed.message) == ("2", FULL.message)
    assert isinstance(play.told[-1], Done)


@pytest.mark.parametrize("crowded", [True, False])
def test_answers_share_the_room_that_the_macs_have(play: Play, folder: str, crowded: bool) -> None:
    """Where that is too little for two, one waits for the other."""
    memory = Memory(64)
    if crowded:
        made = plan(ModelFolder(Path(folder)), [HUGE, HUGE], context=64)
        play.connect.free_bytes = max(each.needed_bytes for each in made.fits) + 1
    load = Load("1", folder, memory=memory, parallel=2, macs=TWO)
    play(load, generate("a", 40), generate("b", 40))
    first = [told.generation for told in play.told if isinstance(told, Verdict | Done)]
    assert play.cluster.plan is not None
    assert play.cluster.plan.fits_all
    together = "b" in first[: first.index("a") + 8]
    assert together == (not crowded)
    assert len(play.of(Done)) == 2


def test_macs_stay_led_for_another_model_and_in_another_mode(play: Play, folder: str) -> None:
    other = Macs(TWO.hosts, trusted=True, mode="tensor")
    play(Load("1", folder, macs=TWO), Load("2", folder, macs=other))
    assert play.cluster.modes == [None, "tensor"]
    assert not play.cluster.closed
    assert play.of(Loaded)[-1].macs == other
    assert "tensor" in play.of(Loaded)[-1].remark


@pytest.mark.parametrize("macs", [Macs(), Macs("/others.json"), Macs(TWO.hosts)])
def test_a_process_that_leads_macs_loads_nowhere_else(play: Play, folder: str, macs: Macs) -> None:
    play(Load("1", folder, macs=TWO), Load("2", folder, macs=macs), generate("g"))
    (failed,) = play.of(Failed)
    assert failed.generation == "2"
    assert isinstance(play.told[-1], Done), "the model is still there"
    assert len(play.connect.made) == 1


def test_unloading_leaves_the_macs_for_good(play: Play, folder: str) -> None:
    play(Load("1", folder, macs=TWO), Unload("2"), Load("3", folder, macs=TWO))
    assert play.cluster.closed
    assert play.of(Unloaded) == [Unloaded("2")]
    assert play.of(Ranks)[-1].ranks == ()
    assert isinstance(play.told[-1], Failed)


def test_macs_that_cannot_be_joined_are_said(play: Play, folder: str) -> None:
    play.connect.refusal = Problem("mini.local does not answer.", "Switch it on.")
    play(Load("1", folder, macs=TWO))
    assert play.told[-1] == Failed("1", "mini.local does not answer.", "Switch it on.", "request")


def test_a_hostfile_that_is_not_there_costs_nothing(play: Play, folder: str) -> None:
    play(Load("1", folder, macs=Macs("/missing.json")), Load("2", folder, macs=TWO))
    assert [failed.generation for failed in play.of(Failed)] == ["1"]
    assert play.of(Loaded)[0].macs == TWO


def test_a_lost_mac_ends_all_that_is_not_done_with_the_line_that_names_it(
    play: Play, folder: str
) -> None:
    def after(response: Response) -> None:
        if isinstance(response, Verdict) and response.generation == "b":
            play.cluster.lose()

    with pytest.raises(Ended):
        play(
            *(Load("1", folder, macs=TWO), generate("a", 2), generate("b", 500)),
            *(Unload("later"),),
            after=after,
        )
    assert [each.state for each in play.of(Ranks)[-1].ranks] == ["ready", "lost"]
    failed = [(each.generation, each.message, each.remedy) for each in play.last]  # type: ignore[union-attr]
    assert failed == [(id, LOST.message, LOST.remedy) for id in ("b", "later", "")]


def test_a_mac_that_is_lost_while_nothing_is_asked_is_said_too(play: Play, folder: str) -> None:
    with pytest.raises(Ended):
        play(Load("1", folder, macs=TWO), lambda: play.cluster.lose())
    assert play.last == [Failed("", LOST.message, LOST.remedy)]


@pytest.mark.parametrize("error", [RuntimeError("a peer was lost"), Problem("Out of step.", "!")])
def test_a_pass_that_fails_ends_the_process(
    play: Play, folder: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(decoder: Decoder, tokens: mx.array) -> mx.array:
        raise error

    def break_it() -> None:
        monkeypatch.setattr(Decoder, "read", fail)
        play.cluster.over = isinstance(error, Problem)  # as where the ranks differ

    with pytest.raises(Ended):
        play(Load("1", folder, macs=TWO), break_it, generate("g"))
    asked_why = isinstance(error, RuntimeError)
    assert play.cluster.broken == ([error] if asked_why else [])
    said = LOST.message if asked_why else "Out of step."
    assert [(each.generation, each.message) for each in play.last] == [("g", said), ("", said)]  # type: ignore[union-attr]


def test_a_request_that_cannot_be_answered_ends_nothing(play: Play, folder: str) -> None:
    play(Load("1", folder, macs=TWO), Generate("g", "chat", Prompt()), generate("h"))
    assert [failed.generation for failed in play.of(Failed)] == ["g"]
    assert isinstance(play.told[-1], Done)


@pytest.mark.parametrize(
    ("macs", "error"),
    [
        (TWO, Problem("The model has no token to go on with.", "Ask for something else.")),
        (Macs(), RuntimeError("out of memory")),
    ],
    ids=["what is wrong with it, on two Macs", "a pass that fails, here"],
)
def test_the_failure_of_one_answer_ends_nothing_else(
    play: Play, folder: str, macs: Macs, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_it() -> None:
        monkeypatch.setattr(Decoder, "read", mock.Mock(side_effect=error))

    load_it = Load("1", folder, macs=macs)
    play(load_it, break_it, generate("g"), monkeypatch.undo, generate("h"))
    assert [failed.generation for failed in play.of(Failed)] == ["g"]
    assert isinstance(play.of(Loading | Loaded)[-1], Loaded)
    assert not play.of(Unloaded)
    assert isinstance(play.told[-1], Done)
