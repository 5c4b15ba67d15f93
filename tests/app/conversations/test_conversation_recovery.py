"""A damaged or missing file: it is kept, the newest good backup comes back, the user is told."""

import random
import sqlite3
from datetime import timedelta

import pytest

from app.conversations.backup import backups
from app.conversations.store import Store, backups_of
from models.errors import Problem
from tests.support.app.store_samples import answered, asked, raw
from tests.support.mostly_slow import examples


def fill(path, clock, *, words=100):
    """Three titles in two backups; the last is in the newer one only, and a fourth in none."""
    with Store.open(path, clock=clock) as store:
        for number in range(40):
            answered(store, asked(store, f"one {number}"), "words " * words)
        assert store.back_up_if_due().result()
        asked(store, "two")
        clock.now += timedelta(hours=2)
        assert store.back_up_if_due().result()
        asked(store, "three")
    return titles(path)


def titles(path):
    with Store.open(path) as store:
        return [conversation.title for conversation in store.conversations().result()]


def kept(path):
    return [found for found in path.parent.glob("*-damaged-*") if not found.name.endswith("-wal")]


def spoil(path, *, share=1.0):
    """Garbage over part of a file, from the end of its first page on."""
    data = bytearray(path.read_bytes())
    for start in range(4096, int(len(data) * share), 4096):
        data[start : start + 64] = random.Random(start).randbytes(64)
    path.write_bytes(data)


@pytest.mark.parametrize("kind", ["pages", "first page", "cut", "text", "table"])
def test_the_newest_backup_is_restored(path, clock, kind):
    before = fill(path, clock)
    data = path.read_bytes()
    match kind:
        case "pages":
            spoil(path)
        case "first page":
            path.write_bytes(b"\0" * 4096 + data[4096:])
        case "cut":
            path.write_bytes(data[: len(data) // 2])
        case "text":
            path.write_text("my notes\n" * 1000)
        case "table":
            with raw(path) as connection:
                connection.execute("DROP TABLE traces")
    damaged = path.read_bytes()
    with Store.open(path) as store:
        assert "damaged" in store.notice
        assert "was restored" in store.notice
        (aside,) = kept(path)
        assert str(aside) in store.notice
        found = [conversation.title for conversation in store.conversations().result()]
        assert found == before[1:]
        assert asked(store, "after").content == "after"
        assert store.search("words").result()
    assert aside.read_bytes() == damaged
    assert titles(path) == ["after", *before[1:]]


def test_a_bad_backup_is_passed_over(path, clock):
    before = fill(path, clock)
    newest, _ = backups(backups_of(path))
    spoil(newest.path)
    spoil(path)
    with Store.open(path) as store:
        assert store.notice is not None
        found = [conversation.title for conversation in store.conversations().result()]
    assert found == before[2:]


def test_without_a_backup_one_starts_afresh_and_the_file_is_kept(path):
    path.parent.mkdir()
    path.write_bytes(b"nonsense" * 1000)
    with Store.open(path) as store:
        assert "No usable backup" in store.notice
        assert store.conversations().result() == ()
    (aside,) = kept(path)
    assert aside.read_bytes() == b"nonsense" * 1000
    with Store.open(path) as store:
        assert store.notice is None


@pytest.mark.parametrize("way", ["lost", "emptied", "put aside"])
def test_a_lost_file_is_restored_and_its_log_not_played_over_it(path, clock, way):
    before = fill(path, clock)
    with raw(path) as connection:
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("UPDATE conversations SET title = 'of the lost file'")
    path.unlink()
    if way == "emptied":
        path.touch()
    if way == "put aside":  # and killed before the backup was in its place
        path.with_name(f"{path.name}.restoring").write_bytes(b"half")
    assert path.with_name(f"{path.name}-wal").stat().st_size
    with Store.open(path) as store:
        assert "missing" in store.notice
    assert titles(path) == before[1:]
    assert kept(path) == []
    with raw(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_damage_that_shows_later_is_told_and_mended_at_the_next_start(path, clock):
    fill(path, clock, words=20_000)  # more than is kept in memory
    with Store.open(path) as store:
        spoil(path)
        attempts = [store.chat(number) for number in range(1, 41)]
        failures = [error for attempt in attempts if (error := attempt.exception())]
        assert failures
        assert all(isinstance(error, Problem) for error in failures)
        assert "damaged" in str(failures[0])
        with pytest.raises(Problem, match="damaged"):
            store._thread.submit(store._back_up_if_due).result()
    with Store.open(path) as store:
        assert store.notice is not None
        assert len(store.conversations().result()) == 41


def test_a_chat_with_a_reference_to_nowhere_is_exported(path):
    with Store.open(path) as store:
        question = asked(store, "whole")
        store.say(question.conversation, "lost").result()
    with raw(path) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("UPDATE conversations SET leaf = 99")
        connection.execute("UPDATE messages SET parent = 77 WHERE content = 'lost'")
    with Store.open(path) as store:
        chat = store.chat(question.conversation).result()
        assert [entry.parent for entry in chat.entries] == [None, None]
        assert chat.leaf is None


def test_no_damage_that_is_found_makes_the_opening_fail(path, clock):
    fill(path, clock)
    sound = path.read_bytes()
    for seed in range(examples(100)):
        noise = random.Random(seed)
        data = bytearray(sound)
        for _ in range(noise.choice([1, 8, 64])):
            start = noise.randrange(100, len(data))  # the header says whose file it is
            data[start : start + 16] = noise.randbytes(16)
        path.write_bytes(data)
        with Store.open(path) as store:
            for conversation in store.conversations().result():
                store.chat(conversation.id).result()
            asked(store, "still here")
        with raw(path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
