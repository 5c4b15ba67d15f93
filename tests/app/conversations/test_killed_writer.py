"""kill -9 at random moments: whatever was acknowledged is there, and the file is sound."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import app
from app.conversations.backup import backups
from app.conversations.store import Store, backups_of
from tests.support.app.store_samples import raw

ROOT = Path(app.__file__).parents[1]


def write_until_killed(path, *, noise, longest_seconds):
    """What a writing process had acknowledged when it was killed."""
    told = path.with_name("told")  # a file, as a full pipe would hold the writer up
    command = [sys.executable, "-m", "tests.support.app.writing_child", str(path)]
    told.parent.mkdir(exist_ok=True)
    with told.open("wb") as out, subprocess.Popen(command, cwd=ROOT, stdout=out) as child:
        # A quarter at any moment, while the file is opened too; a half while an answer is written.
        chance = noise.random()
        while chance > 0.25 and child.poll() is None and not told.stat().st_size:
            time.sleep(0.01)
        time.sleep(noise.uniform(0.0, longest_seconds))
        while chance > 0.5 and child.poll() is None:
            if [line["kind"] for line in _lines(told)[-1:]] == ["streaming"]:
                break
            time.sleep(0.001)
        child.kill()
    assert child.returncode == -9
    return _lines(told)


def _lines(told):
    """What was told so far; the last line may be cut off."""
    lines = told.read_bytes().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def lost_of(path, acknowledged):
    """The acknowledged writes that are lost, after the store was opened as it is after a crash."""
    with Store.open(path) as store:
        assert store.notice is None
        found = {
            message.id: message
            for conversation in store.conversations().result()
            for message in store.branch(conversation.id).result()
        }
        for message in found.values():
            assert message.state in ("complete", "interrupted")
            assert message.role == "assistant" or message.state == "complete"
            if message.state == "interrupted":
                parts = message.content.split("part ")
                assert len(store.trace(message.id).result()) == 3 * len(set(parts[1:]))
    with raw(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        for index in ("message_words", "title_words"):
            connection.execute(f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)")
        alone = connection.execute(
            "SELECT id FROM messages q WHERE q.role = 'user' "
            "AND NOT EXISTS (SELECT 1 FROM messages a WHERE a.parent = q.id)"
        ).fetchall()
        assert alone == [], "a question and its answer are begun together"

    def whole(there, write):
        if write["kind"] == "complete":
            return (there.content, there.state) == (write["content"], "complete")
        return there.content.startswith(write["content"])

    return [
        write
        for id, write in acknowledged.items()
        if id not in found or not whole(found[id], write)
    ]


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("times", "longest_seconds", "least_writes", "least_answers"),
    [(3, 0.3, 0, 0), (100, 1.0, 1001, 11)],
    ids=["3 kills", "100 kills"],
)
def test_nothing_acknowledged_is_lost(path, times, longest_seconds, least_writes, least_answers):
    noise, acknowledged, count = random.Random(), {}, 0
    for _ in range(times):
        written = write_until_killed(path, noise=noise, longest_seconds=longest_seconds)
        writes = [write for write in written if write["kind"] != "opened"]
        acknowledged |= {int(write["id"]): write for write in writes}
        count += len(writes)
        assert lost_of(path, acknowledged) == []
    with raw(path) as connection:
        interrupted = connection.execute("SELECT 1 FROM messages WHERE state = 'interrupted'")
        assert len(interrupted.fetchall()) >= least_answers
    assert count >= least_writes
    for backup in backups(backups_of(path)):
        with raw(backup.path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
