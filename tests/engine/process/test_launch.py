"""Ranks that MLX's own launcher starts: the text of one process, and one line for what goes wrong.

The ranks are processes on loopback, started with and without a stand-in for ssh.
"""

import shutil
import signal
from pathlib import Path

import psutil
import pytest
from mlx_lm.utils import save_model

from engine.conversation.loading import load
from engine.conversation.session import Session
from engine.drafters.head_network import save_head
from engine.events import Failed, Text
from engine.process.protocol import Loaded
from engine.request import Request, asked
from models.errors import Problem
from models.model_folder import ModelFolder
from tests.support.engine.eagles import KINDS as EAGLES
from tests.support.engine.eagles import eagle_subject
from tests.support.engine.heads import untrained
from tests.support.engine.launched import (
    GREEDY,
    HERE,
    TOKENS,
    Launched,
    gone,
    hostfile,
    launched,
    stand_in_for_ssh,
)
from tests.support.engine.shared_targets import config_of
from tests.support.engine.tiny import build, byte_tokenizer, noisy, save

pytestmark = pytest.mark.slow
QUESTIONS = ("one two three one two", "and then?", "one two three one two")
NAMES = ("here.local", "mini.local")


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture
def hosts(tmp_path, monkeypatch):
    """Two Macs; the second is reached by ssh."""
    monkeypatch.setenv("PATH", stand_in_for_ssh(tmp_path))
    return hostfile(tmp_path, NAMES)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "target"
    vocabulary = byte_tokenizer(folder)
    config = config_of("llama") | {"vocab_size": vocabulary, "eos_token_id": 256}
    model = build("llama", sizes=config, vocabulary=vocabulary)
    save(model, config, folder)
    save_model(Path(shutil.copytree(folder, folder.with_name("drafter"))), noisy(model))
    fingerprint = ModelFolder(folder).fingerprint
    save_head(untrained(model), folder.with_name("head"), target="", fingerprint=fingerprint)
    for kind in EAGLES:
        eagle_subject(kind, model).write(folder.with_name(kind))
    return folder


@pytest.fixture(scope="module")
def alone(target):
    """What one process answers without drafts."""
    session = Session(load(ModelFolder(target)))
    request = Request(sampling=GREEDY, max_tokens=TOKENS)
    return [
        "".join(e.delta for e in session.answer(asked(q).messages, request) if isinstance(e, Text))
        for q in QUESTIONS
    ]


def texts(ranks):
    """Several answers, the last one in a race."""
    first, second, third = QUESTIONS
    return [ranks.answer(first), ranks.answer(second), ranks.answer(third, race=True)]


@pytest.mark.parametrize(
    ("names", "mode", "drafters"),
    [
        ((HERE, HERE), "pipeline", ("none", "lookup", "lookahead", "drafter", "head", *EAGLES)),
        ((HERE, HERE, HERE), "tensor", ("lookup",)),
        (("here.local", "mini.local"), "tensor", ("suffix+drafter",)),
        (("here.local", "mini.local", "max.local"), "pipeline", ("drafter",)),
    ],
    ids=["2, pipeline", "3, tensor", "2, tensor, ssh", "3, pipeline, ssh"],
)
def test_the_text_is_that_of_one_process(
    target, alone, tmp_path, names, mode, drafters, monkeypatch
):
    monkeypatch.setenv("PATH", stand_in_for_ssh(tmp_path))
    with launched(hostfile(tmp_path, names)) as ranks:
        assert [rank.host.split(" ")[0] for rank in ranks.launch.states] == [*names]
        for name in drafters:
            last = name.rpartition("+")[2]
            folder = target.with_name(last)
            drafter = name.replace(last, str(folder)) if folder.is_dir() else name
            assert isinstance(ranks.load(target, drafter, mode=mode), Loaded)
            assert texts(ranks) == alone, drafter
        processes = [*ranks.ranks().values()]
    assert gone(processes)
    assert not ranks.lost


def kill(ranks):
    ranks.ranks()[1].kill()


def kill_rank_0(ranks):
    ranks.ranks()[0].kill()


def stop(ranks):
    ranks.ranks()[1].send_signal(signal.SIGSTOP)


def kill_while_rank_0_hangs(ranks):
    ranks.ranks()[0].send_signal(signal.SIGSTOP)
    kill(ranks)


def kill_the_launcher(ranks):
    psutil.Process(ranks.launch.pid).kill()


FAULTS = {
    kill: r"^The process on mini\.local ended\. Check the Macs",
    kill_rank_0: r"^The process on here\.local ended\. Check the Macs",
    kill_while_rank_0_hangs: r"^The process on mini\.local ended\. Check the Macs",
    stop: "mini.local does not answer any more.",
    kill_the_launcher: "MLX's launcher ended",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_in_an_answer_is_one_line_and_the_next_answer_is_as_before(
    target, alone, hosts, fault
):
    with launched(hosts, silence=5.0 if fault is stop else 60.0) as ranks:
        ranks.load(target)
        processes = [psutil.Process(ranks.launch.pid), *ranks.ranks().values()]
        events = ranks.begin(QUESTIONS[0], 4000)
        next(each for each in events if isinstance(each, Text))
        fault(ranks)
        with pytest.raises(Problem, match=FAULTS[fault]):
            list(events)
        assert len(ranks.lost) == 1
        assert gone(processes)
    with launched(hosts) as ranks:
        ranks.load(target)
        assert ranks.answer(QUESTIONS[0]) == alone[0]


def test_a_target_without_room_or_with_other_files_there_leaves_the_ranks_as_they_are(
    target, alone, tmp_path, monkeypatch
):
    there = (
        "from models.model_folder import ModelFolder as M\nof = M.fingerprint.func\n"
        "M.fingerprint = property(lambda m: 'other' if m.path.name == 'drafter' else of(m))\n"
    )
    monkeypatch.setenv("PATH", stand_in_for_ssh(tmp_path, there=there))
    with launched(hostfile(tmp_path, NAMES)) as ranks:
        failed = ranks.load(target.with_name("drafter"))
        assert isinstance(failed, Failed)
        assert failed.message.startswith("mini.local: Its drafter has other weights")
        monkeypatch.undo()
        ranks.load(target)
        assert ranks.answer(QUESTIONS[0]) == alone[0]


OTHER = "from importlib import metadata as m\nof = m.version\n"
OTHER += "m.version = lambda name: '9.9' if name == 'mlx' else of(name)\n"


@pytest.mark.parametrize(
    ("ssh", "said"),
    [
        ({"refuses": "Host key verification failed."}, "mini.local could not be started"),
        ({"there": OTHER}, "mini.local has MLX 9.9, and this Mac has"),
    ],
)
def test_macs_that_cannot_be_joined_are_said(tmp_path, ssh, said, monkeypatch):
    monkeypatch.setenv("PATH", stand_in_for_ssh(tmp_path, **ssh))
    ranks = Launched(hostfile(tmp_path, NAMES))
    processes = psutil.Process(ranks.launch.pid).children(recursive=True)
    with pytest.raises(Problem, match=said):
        ranks.launch.meet()
    assert not ranks.lost
    assert gone(processes)
