"""kill -9 of the running app in mid-answer: nothing acknowledged is lost, what was cut is there,
says so, and can be gone on with. At any other moment: `conversations/test_killed_writer.py`."""

import json
import subprocess
import sys
import time

from PySide6.QtWidgets import QLabel

from app.conversations.store import Store
from app.rounds.trace import Trace
from tests.support.app.long_texts import made_text
from tests.support.app.running_app import CHARACTERS
from tests.support.app.window_maker import ROOT


def lines_of(told):
    """What was told so far; the last line may be cut off."""
    lines = told.read_bytes().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def kill_in_an_answer(home):
    """Run an app, and kill it once a part of its answer is known to be saved; its last line.

    It writes so slowly that the answer is being written still.
    """
    told = home / "told"  # a file, as a full pipe would hold the app up
    command = [sys.executable, "-m", "tests.support.app.running_app", str(home), "40"]
    with told.open("wb") as out, subprocess.Popen(command, cwd=ROOT, stdout=out) as child:
        last = {}
        while child.poll() is None and not (last.get("kind") == "streaming" and last["content"]):
            time.sleep(0.02)
            last = next(reversed(lines_of(told)), {})
        child.kill()
    assert child.returncode == -9
    return lines_of(told)[-1]


def test_nothing_is_lost_and_the_answer_can_be_gone_on_with(tmp_path, open_window, until):
    saved = kill_in_an_answer(tmp_path)
    with Store.open(tmp_path / "conversations.sqlite") as store:
        assert store.notice is None
        (conversation,) = store.conversations().result()
        *_, answer = store.branch(conversation.id).result()
        assert (answer.id, answer.state) == (int(saved["id"]), "interrupted")
        assert answer.content.startswith(saved["content"])
        assert made_text(CHARACTERS).startswith(answer.content)
        pieces = Trace(store.trace(answer.id).result()).pieces
        assert "".join(piece.text for piece in pieces if piece.written) == answer.content

    window = open_window()
    until(lambda: len(window.conversation.branch) > 1)
    assert window.conversation.branch[-1].id == answer.id
    window.transcript.write_all()
    shown = window.transcript.messages[-1].widget
    assert shown.written == answer.content
    said = [label.text() for label in shown.findChildren(QLabel) if not label.isHidden()]
    assert any(text.startswith("Interrupted") for text in said)
    until(lambda: window.loader.loaded)
    shown.go_on.click()
    until(lambda: window.transcript.messages[-1].written == f"{answer.content}served")
    until(lambda: not window.answers.busy)
