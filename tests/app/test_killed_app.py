"""kill -9 of the running app at random moments: nothing acknowledged is lost, what was cut is
there and says so."""

import json
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel

from app.benchmark_rounds import made_text
from app.conversations.store import Store
from app.rounds.trace import pieces
from tests.app.running_app import CHARACTERS
from tests.app.window_maker import OFFSCREEN_COMPLAINTS, ROOT, Open, Until

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)
TEXT = made_text(CHARACTERS)
Acknowledged = dict[int, dict[str, str]]


def run_until_killed(home: Path, *, noise: random.Random) -> list[dict[str, str]]:
    """What the app had acknowledged when it was killed."""
    home.mkdir(exist_ok=True)
    told = home / "told"  # a file, as a full pipe would hold the app up
    command = [sys.executable, "-m", "tests.app.running_app", str(home), "400"]
    with told.open("wb") as out, subprocess.Popen(command, cwd=ROOT, stdout=out) as child:
        # Some at any moment, while it starts too; the rest amid the first answers.
        if noise.random() > 0.15:
            while child.poll() is None and b'"streaming"' not in told.read_bytes():
                time.sleep(0.02)
        time.sleep(noise.uniform(0.0, 2.5))
        child.kill()
    assert child.returncode == -9
    lines = told.read_bytes().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def check(path: Path, acknowledged: Acknowledged) -> Counter[str]:
    """What there is and what is lost, once the store was opened as at the next start."""
    figures: Counter[str] = Counter()
    with Store.open(path) as store:
        assert store.notice is None
        messages = {
            message.id: message
            for conversation in store.conversations().result()
            for message in store.branch(conversation.id).result()
        }
        for message in messages.values():
            assert message.state in ("complete", "interrupted")
            if message.role == "assistant":
                assert TEXT.startswith(message.content)
                trace = store.trace(message.id).result()
                said = [piece.text for piece in pieces(trace) if piece.kind != "rejected"]
                assert "".join(said) == message.content
                figures["interrupted"] += message.state == "interrupted"
                figures["interrupted with text"] += bool(
                    message.state == "interrupted" and message.content
                )
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    for id, write in acknowledged.items():
        there = messages.get(id)
        whole = there is not None and (
            there.content == write["content"] and there.state == "complete"
            if write["kind"] == "complete"
            else there.content.startswith(write["content"])
        )
        figures["lost"] += not whole
    return figures


def kill_many(home: Path, *, times: int) -> Counter[str]:
    noise = random.Random()
    acknowledged: Acknowledged = {}
    figures: Counter[str] = Counter()
    for _ in range(times):
        writes = [w for w in run_until_killed(home, noise=noise) if w["kind"] != "opened"]
        acknowledged |= {int(write["id"]): write for write in writes}
        figures["kills"] += 1
        figures["acknowledged"] += len(writes)
        if (path := home / "conversations.sqlite").exists():
            found = check(path, acknowledged)
            figures["lost"] += found.pop("lost", 0)
            figures |= found
    figures["messages"] = len(acknowledged)
    return figures


def test_nothing_is_lost_in_3_kills_and_the_answer_says_so(
    tmp_path: Path, open_window: Open, until: Until
) -> None:
    figures = kill_many(tmp_path, times=3)
    assert figures["kills"] == 3
    assert figures["lost"] == 0
    assert figures["acknowledged"] > 0
    with Store.open(tmp_path / "conversations.sqlite") as store:
        cut = next(
            (conversation.id, message)
            for conversation in store.conversations().result()
            for message in store.branch(conversation.id).result()
            if message.state == "interrupted"
        )
    window = open_window()
    window.conversation.open(cut[0])
    until(lambda: cut[1] in window.conversation.branch)
    shown = window.transcript.messages[window.conversation.branch.index(cut[1])]
    window.transcript.settle()
    assert shown.written == cut[1].content
    said = [label.text() for label in shown.findChildren(QLabel) if not label.isHidden()]
    assert any(text.startswith("Interrupted") for text in said)


@pytest.mark.slow
def test_nothing_is_lost_in_100_kills(tmp_path: Path) -> None:
    figures = kill_many(tmp_path, times=100)
    print(dict(figures))
    assert figures["kills"] == 100
    assert figures["messages"] > 100
    assert figures["interrupted with text"] > 10
    assert figures["lost"] == 0
