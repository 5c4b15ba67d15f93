"""The app killed while an answer is written: all that was saved is there, marked, and shown."""

import ast
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from app.conversations.store import Store
from tests.app.made_traces import made_trace
from tests.app.rounds.traces import text_of
from tests.app.window_maker import OFFSCREEN_COMPLAINTS, ROOT, Open, Until, events_file

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_window_loses_nothing_that_was_saved(
    seed: int, tmp_path: Path, open_window: Open, until: Until
) -> None:
    events = events_file(tmp_path, made_trace("A story of some length, with words. " * 20))
    words = [sys.executable, "-m", "tests.app.streaming_window", str(tmp_path), str(events)]
    with subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        told = ast.literal_eval(process.stdout.readline())
        children = psutil.Process(process.pid).children(recursive=True)
        time.sleep(random.Random(seed).uniform(0.0, 0.1))
        process.kill()
        told = [told, *map(ast.literal_eval, process.stdout.read().splitlines())][-1]
    for child in children:  # a fake host that hangs does not see its input end
        child.kill()
    psutil.wait_procs(children)

    with Store.open(tmp_path / "conversations.sqlite") as store:
        assert store.notice is None
        (conversation,) = store.conversations().result()
        question, answer = store.branch(conversation.id).result()
        assert (question.content, question.state) == ("Tell me a story.", "complete")
        assert answer.state == "interrupted"
        assert answer.content.startswith(told)
        assert text_of(store.trace(answer.id).result()) == answer.content

    (tmp_path / "lives").unlink()  # the next host begins its first life
    window = open_window()
    until(lambda: len(window.transcript.messages) == 2)
    assert window.transcript.messages[1].written == answer.content
    window.menus.actions["go_on"].trigger()
    until(lambda: window.transcript.messages[1].written == f"{answer.content}served")
    until(lambda: not window.answers.busy)
