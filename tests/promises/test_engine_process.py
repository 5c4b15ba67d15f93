"""The real engine on a tiny model: answers, deaths at random moments, silence, endings."""

import random
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise

import psutil
import pytest
from PySide6.QtCore import QTimer

from app.engine_client.engine_log import EngineLog
from app.engine_client.engine_process import EngineProcess, EngineState, Patience, host_command
from engine.conversation.stats import tally
from engine.events import Done, Draft, Failed, Prefill, Text, Verdict, Waiting
from engine.request import ChatMessage, Request, Sampling
from tests.support.app.engine_listener import ROOT, TIMEOUT_SECONDS, Listener
from tests.support.mostly_slow import mostly_slow

QUESTION = [ChatMessage("user", "Tell me a story, and a long one.")]
WITHOUT_END = Sampling(logit_bias={256: -1000.0})
LONG = 3000  # tokens, several seconds' worth

Start = Callable[..., Listener]


@pytest.fixture
def start(qtbot, tmp_path):
    """Starts the engine. Options as of EngineProcess."""
    started = []

    def start(**options):
        engine = EngineProcess(EngineLog(tmp_path), **options)
        engine.start()
        started.append(heard := Listener(engine, qtbot))
        return heard

    yield start
    for heard in started:
        pid = heard.engine.pid
        heard.engine.stop()
        heard.check()
        assert not (pid and psutil.pid_exists(pid))


def ask(heard, tokens=32):
    request = Request(sampling=WITHOUT_END, max_tokens=tokens)
    return heard.engine.generate("chat", QUESTION, request)


def streaming(heard, tokens=LONG):
    """A generation that has begun to write."""
    id = ask(heard, tokens)
    heard.until(lambda: heard.text(id))
    return id


def cancel_while_it_is_written(heard):
    id = streaming(heard)
    assert heard.engine.answering
    assert not any(isinstance(event, Done) for event in heard.of(id))
    assert sum(isinstance(event, Text) for event in heard.of(id)) < LONG
    waiting = ask(heard)
    heard.engine.cancel(id)
    heard.engine.cancel(waiting)
    heard.engine.cancel("nothing")
    done, never = heard.end_of(id), heard.end_of(waiting)
    assert isinstance(done, Done)
    assert isinstance(never, Done)
    assert done.reason == never.reason == "cancelled"
    assert heard.of(waiting) == [never]
    assert tally(heard.of(id)) == done.stats
    assert 0 < done.stats.committed < LONG
    assert heard.end_of(ask(heard, 2)) is heard.all("happened")[-1]
    heard.end_of(id)
    assert not heard.engine.answering


def test_answers_obey_the_laws_after_what_could_not_be_loaded_and_can_be_cancelled(
    start, tiny_folder, tmp_path
):
    heard = start()
    load = heard.engine.load(tmp_path / "nothing")
    failed = heard.until_told("failed")
    assert failed.generation == load
    assert failed.remedy
    answer = heard.end_of(ask(heard))
    assert isinstance(answer, Failed)
    assert answer.message == "No model is loaded."
    assert heard.engine.state is EngineState.EMPTY

    heard.engine.load(tiny_folder, drafter="early-exit", draft_length="3")
    id = ask(heard, 24)
    done = heard.end_of(id)
    assert isinstance(done, Done)
    assert done.reason == "length"
    events = heard.of(id)
    assert isinstance(events[0], Prefill)
    assert tally(events) == done.stats
    assert done.stats.proposed > 0
    rounds = [event for event in events if isinstance(event, Draft | Verdict)]
    assert [event.round for event in rounds] == sorted(event.round for event in rounds)
    for event, after in pairwise(rounds):
        if isinstance(event, Draft):
            assert isinstance(after, Verdict)
            assert after.round == event.round
    assert heard.text(id)
    loaded = heard.all("loaded")[0]
    assert (loaded.target, loaded.drafter, loaded.draft_length) == (
        str(tiny_folder),
        "early-exit",
        "3",
    )

    heard.engine.use_drafting(drafter="none")
    heard.until_told("loaded", 2)
    plain = ask(heard, 24)
    heard.end_of(plain)
    assert heard.text(plain) == heard.text(id)
    cancel_while_it_is_written(heard)


@pytest.mark.slow
def test_answers_are_written_side_by_side(start, tiny_folder):
    heard = start()
    heard.engine.load(tiny_folder, parallel=2)
    first, second = streaming(heard), streaming(heard)
    third = ask(heard, 2)
    heard.until_events(third, 1)
    assert heard.of(third) == [Waiting(third, 0)]
    heard.engine.cancel(second)
    heard.end_of(third)
    assert isinstance(heard.of(second)[-1], Done)
    assert not isinstance(heard.of(first)[-1], Done), "it goes on beside them"
    heard.engine.cancel(first)
    heard.end_of(first)
    assert heard.all("loaded")[0].parallel == 2


@pytest.mark.slow  # in `test_engine_faults` one that hangs is noticed, replaced and stopped
def test_a_stopped_engine_is_noticed_and_may_come_back(start, tiny_folder):
    heard = start(patience=Patience(answering_seconds=1.0))
    heard.engine.load(tiny_folder)
    id = streaming(heard)
    heard.signal(signal.SIGSTOP)
    heard.until(lambda: heard.engine.hanging)
    assert heard.all("hung")
    heard.signal(signal.SIGCONT)
    heard.until(lambda: not heard.engine.hanging)
    heard.engine.cancel(id)
    assert isinstance(heard.end_of(id), Done)


@pytest.mark.slow
def test_stopping_ends_the_answer_too(start, tiny_folder):
    heard = start()
    heard.engine.load(tiny_folder)
    id, pid = streaming(heard), heard.engine.pid
    heard.engine.stop()
    assert not psutil.pid_exists(pid)
    done = heard.end_of(id)
    assert isinstance(done, Done)
    assert done.reason == "cancelled"
    assert not heard.all("died")


@pytest.mark.parametrize(("kills", "seed"), mostly_slow([(1, 6), (20, 0)], quick=[(1, 6)]))
def test_kills_at_random_moments(kills, seed, start, tiny_folder):
    heard, draw = start(), random.Random(seed)
    heard.engine.load(tiny_folder, drafter="early-exit", draft_length="3")
    longest = 400 if kills > 1 else 60
    whole = ask(heard, longest)
    heard.end_of(whole)
    expected = heard.text(whole)
    for count in range(1, kills + 1):
        id = ask(heard, LONG)
        # From before it reads the prompt to some way into the answer.
        wanted = draw.choice([0, 1, draw.randrange(2, 40), draw.randrange(40, longest)])
        heard.until_events(id, wanted)
        heard.signal(signal.SIGKILL)
        failed = heard.end_of(id)
        assert isinstance(failed, Failed)
        assert "SIGKILL" in failed.message
        assert failed.remedy
        # What was told of it is the beginning of the answer, without a hole.
        begun = heard.text(id)[: len(expected)]
        assert expected.startswith(begun)
        after = ask(heard, 8)
        assert isinstance(heard.end_of(after), Done)
        assert expected.startswith(heard.text(after))
        heard.until_told("died", count)
    assert len(heard.all("died")) == kills
    assert len(heard.all("loaded")) == kills + 1
    assert not heard.all("failed")


@pytest.mark.slow
def test_kills_at_any_time_at_all(start, tiny_folder):
    # While it starts, greets, loads and answers: by the clock, not by what was told.
    heard, draw = start(delays_seconds=[0.1] * 9), random.Random(1)
    heard.engine.load(tiny_folder)
    heard.until_told("loaded")

    def kill():
        heard.signal(signal.SIGKILL)

    for count in range(1, 4):
        QTimer.singleShot(draw.randrange(1500), kill)
        id = ask(heard, LONG)
        heard.until_told("died", count)
        heard.end_of(id)
        heard.until_told("loaded", 1 + count)
    assert isinstance(heard.end_of(ask(heard)), Done)


def test_it_does_not_outlive_a_window_that_is_killed(tiny_folder, tmp_path):
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from PySide6.QtCore import QCoreApplication\n"
        "from app.engine_client.engine_log import EngineLog\n"
        "from app.engine_client.engine_process import EngineProcess\n"
        "from engine.events import Text\n"
        "from engine.request import ChatMessage, Request\n"
        "assert not [name for name in sys.modules if name.split('.')[0] in ('mlx', 'mlx_lm')]\n"
        "application = QCoreApplication([])\n"
        "engine = EngineProcess(EngineLog(Path(sys.argv[2])))\n"
        "engine.load(Path(sys.argv[1]))\n"
        f"engine.generate('chat', [ChatMessage('user', 'Go.')], Request(max_tokens={LONG}))\n"
        "engine.happened.connect(\n"
        "    lambda event: isinstance(event, Text) and print(engine.pid, flush=True))\n"
        "application.exec()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tiny_folder), str(tmp_path)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    ) as window:
        engine = psutil.Process(int(window.stdout.readline()))
        assert "engine" in engine.cmdline()
        window.kill()
        engine.wait(TIMEOUT_SECONDS)


def test_a_crash_of_the_engine_tells_where_without_variables_too():
    """In a bundle Python is isolated."""
    python, *options = host_command()[: host_command().index("-m")]
    code = "import faulthandler; print(faulthandler.is_enabled())"
    done = subprocess.run([python, "-I", *options, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True\n"
