"""Backups: when they are made, and which are kept. Of a damaged or missing file the newest good one
comes back, the file is kept, and the user is told."""

import random
import shutil
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.conversations import backup
from app.conversations.backup import Backup, backups, is_due, to_drop
from app.conversations.store import Store, backups_of
from models.errors import Problem
from tests.app.conversations.conftest import Clock
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


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A folder that is filled, and the titles in it."""
    folder = tmp_path_factory.mktemp("sound")
    return folder, fill(folder / "conversations.sqlite", Clock())


@pytest.fixture
def before(sound, path):
    """The titles in the file at `path`, which has backups."""
    folder, found = sound
    shutil.copytree(folder, path.parent)
    return found


def kept(path):
    return [found for found in path.parent.glob("*-damaged-*") if not found.name.endswith("-wal")]


def spoil(path, *, share=1.0):
    """Garbage over part of a file, from the end of its first page on."""
    data = bytearray(path.read_bytes())
    for start in range(4096, int(len(data) * share), 4096):
        data[start : start + 64] = random.Random(start).randbytes(64)
    path.write_bytes(data)


def leave_log(path):
    """A log with a change that the file lacks, as a crash leaves it."""
    with raw(path) as connection:
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("UPDATE conversations SET title = 'of the lost file'")
    assert path.with_name(f"{path.name}-wal").stat().st_size


@pytest.mark.parametrize(
    "kind", ["pages", "first page", "cut", "text", "table", "log", "backup too"]
)
def test_the_newest_sound_backup_is_restored(path, before, kind):
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
        case "log":
            leave_log(path)
            spoil(path)
        case "backup too":
            newest, _ = backups(backups_of(path))
            spoil(newest.path)
            spoil(path)
    restored = before[2:] if kind == "backup too" else before[1:]
    damaged = path.read_bytes()
    with Store.open(path) as store:
        (aside,) = kept(path)
        assert all(fact in store.notice for fact in ("damaged", "restored", str(aside)))
        assert asked(store, "after").content == "after"
        assert store.search("words").result()
    assert aside.read_bytes() == damaged
    assert titles(path) == ["after", *restored]


@pytest.mark.parametrize("way", ["lost", "emptied", "put aside"])
def test_a_lost_file_is_restored_and_its_log_not_played_over_it(path, before, way):
    leave_log(path)
    path.unlink()
    if way == "emptied":
        path.touch()
    if way == "put aside":  # and killed before the backup was in its place
        path.with_name(f"{path.name}.restoring").write_bytes(b"half")
    with Store.open(path) as store:
        assert "missing" in store.notice
    assert (titles(path), kept(path)) == (before[1:], [])
    with raw(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_without_a_backup_one_starts_afresh_and_the_file_is_kept(path):
    path.parent.mkdir()
    path.write_bytes(b"nonsense" * 1000)
    with Store.open(path) as store:
        assert "restored" not in store.notice
        assert store.conversations().result() == ()
    (aside,) = kept(path)
    assert aside.read_bytes() == b"nonsense" * 1000
    with Store.open(path) as store:
        assert store.notice is None


def test_damage_that_shows_later_is_told_and_mended_at_the_next_start(path, clock):
    fill(path, clock, words=20_000)  # more than is kept in memory
    with Store.open(path, clock=clock) as store:
        spoil(path)
        attempts = [store.chat(number) for number in range(1, 41)]
        failures = [error for attempt in attempts if (error := attempt.exception())]
        assert failures
        assert all(isinstance(error, Problem) for error in failures)
        assert "damaged" in str(failures[0])
        clock.now += timedelta(hours=2)
        assert isinstance(store.back_up_if_due().exception(), Problem)
    with Store.open(path) as store:
        assert store.notice is not None
        assert len(store.conversations().result()) == 41


def test_no_damage_that_is_found_makes_the_opening_fail(path, before):
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


def test_one_is_made_when_the_last_is_an_hour_old_and_older_ones_are_deleted(store, clock):
    asked(store)
    assert store.back_up_if_due().result()
    assert not store.back_up_if_due().result()
    clock.now += timedelta(hours=1)
    assert store.back_up_if_due().result()
    clock.now -= timedelta(days=400)  # the clock is set right
    assert store.back_up_if_due().result()
    assert len(backups(store.backups)) == 3
    clock.now += timedelta(days=401)
    for _ in range(40):
        clock.now += timedelta(hours=3)
        assert store.back_up_if_due().result()
    found = backups(store.backups)
    assert len(found) < 40
    assert to_drop(found, now=clock.now) == ()
    assert not is_due(store.backups, now=clock.now)
    assert backup.newest_good(store.backups) == found[0]


def test_a_backup_is_a_whole_private_file_and_others_are_left(store):
    store.backups.mkdir()
    for name in ("notes.txt", "mine.sqlite", "20260101.sqlite", "x.partial", "x.partial-wal"):
        (store.backups / name).touch()
    assert backups(store.backups) == ()
    question = asked(store)
    answer = store.begin_answer(question.id, target="t", drafter="d").result()
    store.flush_answer(answer.id, "so far", ()).result()
    assert store.back_up_if_due().result()
    (found,) = backups(store.backups)
    left = {path.name for path in store.backups.iterdir()}
    assert left == {"notes.txt", "mine.sqlite", "20260101.sqlite", found.path.name}
    assert found.path.stat().st_mode & 0o077 == 0
    with raw(found.path) as connection:
        rows = connection.execute("SELECT content FROM messages ORDER BY id").fetchall()
    assert rows == [(question.content,), ("so far",)]


def test_all_are_kept_for_two_days_then_one_a_day_then_one_a_week_and_too_large_ones_go():
    now = datetime(2026, 5, 9, 12, tzinfo=UTC)

    def made(hours, size_bytes=1):
        return Backup(Path(str(hours)), now - timedelta(hours=hours), size_bytes)

    found = [made(hours) for hours in range(-6, 24 * 200, 6)]  # the first has a wrong clock
    dropped = to_drop(found, now=now)
    kept = [now - backup.made for backup in found if backup not in dropped]
    recent = [age for age in kept if age <= timedelta(days=2)]
    daily = [age for age in kept if timedelta(days=2) < age <= timedelta(days=14)]
    weekly = [age for age in kept if timedelta(days=14) < age]
    assert len(recent) == 10
    assert len({(now - age).date() for age in daily}) == len(daily) == 13
    assert len({(now - age).isocalendar()[:2] for age in weekly}) == len(weekly)
    assert len(weekly) in (10, 11)
    assert max(kept) <= timedelta(weeks=12)
    found = [made(24 * (1000 + day), 9) for day in range(5)]
    assert to_drop(found, now=now, largest_total_bytes=1) == tuple(found[3:])
    found = [made(hours, 10) for hours in range(8)]
    assert to_drop(found, now=now, largest_total_bytes=55) == tuple(found[5:])
