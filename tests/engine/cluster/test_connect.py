"""A group of processes on loopback: how it begins, and in how many ways it ends."""

import json
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.cluster.connect import Cluster
from engine.cluster.followers import Deadlines
from engine.cluster.hosts import ClusterHost, Hosts
from engine.cluster.links import this_mac
from engine.conversation.loading import load
from engine.conversation.session import Session
from engine.request import Request, Sampling, asked
from models.errors import Problem
from models.model_folder import ModelFolder
from tests.support.engine import between, scripted_follower
from tests.support.engine.led import Led, gone, led
from tests.support.engine.tiny import write_folder

QUESTION = "Tell me a story."
LONG = 3000
DEADLINES = {"silence": 3.0, "round": 10.0, "join": 10.0, "broken": 1.0, "beat": 0.2}
SECONDS = 60  # until what has lost its leader is gone; for hangs only


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "llama"
    write_folder("llama", path, layers=2)
    return path


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Led]:
    with led(tmp_path_factory.mktemp("group")) as group:
        assert group.hear()["said"] == "connected"
        yield group


def scripted(**script: Any) -> list[str]:
    return [sys.executable, "-S", "-E", scripted_follower.__file__, json.dumps(script)]


def alone(folder: Path, tokens: int) -> str:
    """The text of one process."""
    greedy = Sampling(temperature=0.0, logit_bias={256: -1000.0})
    events = Session(load(ModelFolder(folder))).answer(
        asked(QUESTION).messages, Request(sampling=greedy, max_tokens=tokens)
    )
    return "".join(getattr(event, "delta", "") for event in events)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["pipeline", "tensor"])
def test_several_processes_write_the_text_of_one(group: Led, folder: Path, mode: str) -> None:
    assert group.ask(load=str(folder), mode=mode)["said"] == "loaded"
    assert group.ask(ask=QUESTION, tokens=40)["text"] == alone(folder, 40)
    assert {rank["state"] for rank in group.ranks} == {"ready"}
    layers = [rank["layers"] for rank in group.ranks]
    assert layers == ([[1, 2], [0, 1]] if mode == "pipeline" else [None, None])
    assert min(rank["needed_bytes"] for rank in group.ranks) > 0
    assert min(rank["free_bytes"] for rank in group.ranks) > 0


def test_a_target_that_is_refused_leaves_the_group_as_it_was(
    group: Led, folder: Path, tmp_path: Path
) -> None:
    gemma, broken = tmp_path / "gemma", tmp_path / "broken"
    write_folder("gemma3_text", gemma)
    shutil.copytree(folder, broken)
    tokenizer = broken / "tokenizer.json"
    tokenizer.write_text("{}")
    assert group.ask(load=str(folder), mode="pipeline")["said"] == "loaded"
    assert "gemma3_text" in group.ask(load=str(gemma))["message"]
    assert group.ask(ask=QUESTION, tokens=8)["said"] == "answered"
    assert "cannot be loaded" in group.ask(load=str(broken))["message"]
    assert group.ask(load=str(folder))["said"] == "loaded"
    assert group.ask(ask=QUESTION, tokens=8)["text"] == alone(folder, 8)


def test_other_weights_are_refused(folder: Path, group: Led, tmp_path: Path) -> None:
    changing = tmp_path / "changing"
    shutil.copytree(folder, changing)
    group.ask(fingerprint=str(changing))
    shutil.rmtree(changing)
    write_folder("llama", changing, seed=1, layers=2)
    problem = group.ask(load=str(changing))
    assert problem["said"] == "problem"
    assert "rank 1" in problem["message"]
    assert "other weights" in problem["message"]


# How it ends


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["killed", "stopped", "killed at rest"])
def test_a_lost_follower_ends_the_group_with_its_name(
    folder: Path, tmp_path: Path, ending: str
) -> None:
    with led(tmp_path, deadlines=DEADLINES) as group:
        assert group.hear()["said"] == "connected"
        assert group.ask(load=str(folder), mode="pipeline")["said"] == "loaded"
        (follower,) = group.followers
        if ending == "killed at rest":
            group.ask(ask=QUESTION, tokens=8)
        else:
            group.begin(ask=QUESTION, tokens=LONG)
        follower.send_signal(signal.SIGSTOP if ending == "stopped" else signal.SIGKILL)
        end = group.hear()
        assert end["said"] in ("lost", "problem"), end
        assert "rank 1" in end["message"]
        assert gone([follower], SECONDS)
        assert group.ranks[1]["state"] == "lost"


@pytest.mark.slow
def test_followers_never_outlive_their_leader(tmp_path: Path) -> None:
    folder = tmp_path / "llama"
    write_folder("llama", folder, layers=3)  # one for each
    with led(tmp_path, size=3) as group:
        assert group.hear()["said"] == "connected"
        assert group.ask(load=str(folder), mode="pipeline")["said"] == "loaded"
        group.begin(ask=QUESTION, tokens=LONG)
        followers = group.followers
        assert len(followers) == 2
        group.process.kill()
        assert gone(followers, SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize("deed", ["stranger", "stranger that sends"])
def test_a_stranger_in_a_ranks_place_is_noticed(tmp_path: Path, deed: str) -> None:
    follower = [sys.executable, between.__file__, deed]
    with led(tmp_path, deadlines=DEADLINES, follower=follower) as group:
        end = group.hear()
        assert end["said"] in ("lost", "problem"), end
        assert "127.0.0.1 (rank 1)" in end["message"]
        assert "Mac" in end["message"]
        assert gone(group.followers, SECONDS)


@pytest.mark.slow
def test_nobody_where_a_rank_should_be_is_noticed(tmp_path: Path) -> None:
    follower = scripted(on={"join": None}, hello=_hello())
    with led(tmp_path, deadlines=DEADLINES | {"join": 2.0}, follower=follower) as group:
        end = group.hear()
        assert end["said"] in ("lost", "problem"), end
        assert "127.0.0.1 (rank 1)" in end["message"]
        assert gone(group.followers, SECONDS)


@pytest.mark.slow
def test_a_rank_that_is_there_and_takes_no_part_is_noticed(folder: Path, tmp_path: Path) -> None:
    follower = [sys.executable, between.__file__, "drop work"]
    with led(tmp_path, deadlines=DEADLINES | {"round": 2.0}, follower=follower) as group:
        assert group.hear()["said"] == "connected"
        assert group.ask(load=str(folder), mode="pipeline")["said"] == "loaded"
        end = group.ask(ask=QUESTION, tokens=8)
        assert end["said"] == "lost", end
        assert "127.0.0.1 (rank 1) sends nothing" in end["message"]
        assert gone(group.followers, SECONDS)


@pytest.mark.slow
def test_a_follower_that_has_fallen_asleep_is_missed_when_a_target_is_loaded(
    folder: Path, tmp_path: Path
) -> None:
    with led(tmp_path, deadlines=DEADLINES) as group:
        assert group.hear()["said"] == "connected"
        (follower,) = group.followers
        follower.send_signal(signal.SIGSTOP)
        end = group.ask(load=str(folder), mode="pipeline")
        assert end["said"] in ("lost", "problem"), end
        assert "rank 1" in end["message"]


# Before anything is connected


def _hello(**changes: Any) -> dict[str, Any]:
    """What a scripted follower says that has the versions of this process."""
    own = this_mac(())
    return {"slipstream": own.slipstream, "mlx": own.mlx, "mlx_lm": own.mlx_lm} | changes


def connect(*addresses: str, trusted: bool = False, **hello: Any) -> Problem:
    """How a group with one follower, which says this, is refused."""
    hosts = Hosts(
        Path("hosts.json"),
        (
            ClusterHost("127.0.0.1", ("127.0.0.1",)),
            ClusterHost("mac2", addresses or ("127.0.0.1",)),
        ),
    )
    with pytest.raises(Problem) as caught:
        Cluster.connect(
            hosts,
            trusted=trusted,
            deadlines=Deadlines(join=0.2, broken=0.0, beat=0.05),
            command=lambda host, environment: scripted(hello=_hello(**hello), on={"join": None}),
        )
    return caught.value


def test_another_version_is_refused() -> None:
    for what in ("slipstream", "mlx", "mlx_lm", "control"):
        version: Any = 99 if what == "control" else "99"
        problem = connect(**{what: version})
        assert "mac2" in problem.message, what
        assert "99" in problem.message, what


def test_a_network_with_others_is_refused() -> None:
    problem = connect("192.168.1.5", networks=["192.168.1.5/24"])
    assert "mac2" in problem.message
    assert "--trust-network" in problem.remedy


def test_an_address_that_a_mac_does_not_have_is_refused() -> None:
    problem = connect("10.0.0.1", networks=[""], ports=[])
    assert "mac2" in problem.message
    assert "10.0.0.1" in problem.message


def test_a_process_of_another_group_does_not_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLX_RANK", "0")
    with pytest.raises(Problem, match="part of a cluster"):
        Cluster.connect(Hosts(Path("hosts.json"), (ClusterHost("127.0.0.1", ("127.0.0.1",)),) * 2))


@pytest.mark.skipif(mx.distributed.is_available("jaccl"), reason="this MLX has it")
@pytest.mark.parametrize("backend", ["jaccl", "jaccl-ring"])
def test_without_jaccl_nothing_is_started(backend: str, tmp_path: Path) -> None:
    macs = (ClusterHost("127.0.0.1", ("127.0.0.1",)), ClusterHost("nowhere.invalid", ("10.0.0.2",)))
    with pytest.raises(Problem, match=r"macOS 26\.2"):
        Cluster.connect(Hosts(tmp_path / "hosts.json", macs, backend))
