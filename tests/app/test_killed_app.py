"""kill -9 of the running app at random moments: nothing acknowledged is lost, what was cut is
there, says so, and can be gone on with."""

import json
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel

from app.conversations.store import Store
from app.rounds.trace import Trace
from tests.lab.window_benchmark.rounds import made_text
from tests.support.app.running_app import CHARACTERS
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS, ROOT, Open, Until

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)
TEXT = made_text(CHARACTERS)
Lines = list[dict[str, str]]


class Kills:
    """One home, and the apps that were killed in it.

    Attributes: `figures`, what there is and what is lost; `acknowledged`, the last that was told
    of each message.
    """

    def __init__(self, home: Path) -> None:
        self.figures: Counter[str] = Counter()
        self.acknowledged: dict[int, dict[str, str]] = {}
        self._home = home
        self._path = home / "conversations.sqlite"

    def kill(
        self, *, when: Callable[[Lines], object], then_seconds: float, speed: int = 400
    ) -> None:
        """Kill one so long after what it told was enough, and look at what it left."""
        told = self._home / "told"  # a file, as a full pipe would hold the app up
        command = [
            sys.executable,
            "-m",
            "tests.support.app.running_app",
            str(self._home),
            str(speed),
        ]
        with told.open("wb") as out, subprocess.Popen(command, cwd=ROOT, stdout=out) as child:
            while child.poll() is None and not when(_lines(told)):
                time.sleep(0.02)
            time.sleep(then_seconds)
            child.kill()
        assert child.returncode == -9
        writes = [write for write in _lines(told) if write["kind"] != "opened"]
        self.acknowledged |= {int(write["id"]): write for write in writes}
        self.figures["kills"] += 1
        self.figures["acknowledged"] += len(writes)
        if self._path.exists():
            self._check()

    def kill_at_random(self, noise: random.Random, *, longest_seconds: float = 2.5) -> None:
        """Some at any moment, while it starts too; the rest amid the first answers."""
        anywhere = noise.random() <= 0.15
        self.kill(
            when=lambda told: anywhere or any(write["kind"] == "streaming" for write in told),
            then_seconds=noise.uniform(0.0, longest_seconds),
        )

    def _check(self) -> None:
        """The store is opened as at the next start."""
        found: Counter[str] = Counter()
        with Store.open(self._path) as store:
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
                    said = [piece.text for piece in Trace(trace).pieces if piece.written]
                    assert "".join(said) == message.content
                    cut = message.state == "interrupted" and message.content != ""
                    found["interrupted with text"] += cut
        with closing(sqlite3.connect(self._path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        for id, write in self.acknowledged.items():
            there = messages.get(id)
            whole = there is not None and (
                there.content == write["content"] and there.state == "complete"
                if write["kind"] == "complete"
                else there.content.startswith(write["content"])
            )
            self.figures["lost"] += not whole
        self.figures |= found


def _lines(told: Path) -> Lines:
    """What was told so far; the last line may be cut off."""
    lines = told.read_bytes().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def test_nothing_is_lost_in_2_kills_and_the_answer_can_be_gone_on_with(
    tmp_path: Path, open_window: Open, until: Until
) -> None:
    kills, noise = Kills(tmp_path), random.Random()
    kills.kill_at_random(noise, longest_seconds=0.5)
    # So slow that the answer is being written still, once a part of it is known to be saved.
    kills.kill(
        when=lambda told: told and told[-1]["kind"] == "streaming" and told[-1]["content"],
        then_seconds=0.0,
        speed=40,
    )
    assert kills.figures["kills"] == 2
    assert kills.figures["lost"] == 0
    id = max(kills.acknowledged)
    known = kills.acknowledged[id]["content"]

    window = open_window()
    until(lambda: len(window.conversation.branch) > 1)
    assert window.conversation.branch[-1].id == id
    window.transcript.write_all()
    shown = window.transcript.messages[-1].widget
    assert shown is not None
    begun = shown.written
    assert begun.startswith(known)
    said = [label.text() for label in shown.findChildren(QLabel) if not label.isHidden()]
    assert any(text.startswith("Interrupted") for text in said)
    until(lambda: window.loader.loaded)
    shown.go_on.click()
    until(lambda: window.transcript.messages[-1].written == f"{begun}served")
    until(lambda: not window.answers.busy)


@pytest.mark.slow
@pytest.mark.parametrize("half", range(2))
def test_nothing_is_lost_in_40_kills(half: int, tmp_path: Path) -> None:
    kills, noise = Kills(tmp_path), random.Random()
    for _ in range(20):
        kills.kill_at_random(noise)
    print(dict(kills.figures))
    assert kills.figures["kills"] == 20
    assert len(kills.acknowledged) > 20
    assert kills.figures["interrupted with text"] > 2
    assert kills.figures["lost"] == 0
