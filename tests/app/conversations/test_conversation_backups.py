"""Backups: when they are made, which are kept, and that they are sound."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from app.conversations import backup
from app.conversations.backup import Backup, backups, is_due, to_drop
from tests.support.app.store_samples import asked, raw

NOW = datetime(2026, 5, 9, 12, tzinfo=UTC)


def made(age, *, size_bytes=1):
    return Backup(path=Path(str(age)), made=NOW - age, size_bytes=size_bytes)


def ages(found):
    return [NOW - backup.made for backup in found]


def test_one_is_made_when_the_last_is_an_hour_old(store, clock):
    asked(store)
    assert store.back_up_if_due().result()
    assert not store.back_up_if_due().result()
    clock.now += timedelta(hours=1)
    assert store.back_up_if_due().result()
    clock.now -= timedelta(days=400)  # the clock is set right
    assert store.back_up_if_due().result()
    assert len(backups(store.backups)) == 3


def test_a_backup_is_a_whole_private_file(store):
    question = asked(store)
    answer = store.begin_answer(question.id, target="t", drafter="d").result()
    store.flush_answer(answer.id, "so far", ()).result()
    assert store.back_up_if_due().result()
    (found,) = backups(store.backups)
    assert [path.name for path in store.backups.iterdir()] == [found.path.name]
    assert found.path.stat().st_mode & 0o077 == 0
    with raw(found.path) as connection:
        rows = connection.execute("SELECT content FROM messages ORDER BY id").fetchall()
    assert rows == [(question.content,), ("so far",)]


def test_other_files_are_no_backups(store):
    store.backups.mkdir()
    for name in ("notes.txt", "mine.sqlite", "20260101.sqlite", "x.partial", "x.partial-wal"):
        (store.backups / name).touch()
    assert backups(store.backups) == ()
    store.back_up_if_due().result()
    left = {path.name for path in store.backups.iterdir()}
    assert left >= {"notes.txt", "mine.sqlite", "20260101.sqlite"}
    assert not any("partial" in name for name in left)


def test_recent_ones_are_all_kept_then_one_a_day_then_one_a_week():
    found = [made(timedelta(hours=hours)) for hours in range(0, 24 * 200, 6)]
    dropped = to_drop(found, now=NOW)
    kept = ages([backup for backup in found if backup not in dropped])
    recent = [age for age in kept if age <= timedelta(days=2)]
    daily = [age for age in kept if timedelta(days=2) < age <= timedelta(days=14)]
    weekly = [age for age in kept if timedelta(days=14) < age]
    assert len(recent) == 9
    assert len({(NOW - age).date() for age in daily}) == len(daily) == 13
    assert len({(NOW - age).isocalendar()[:2] for age in weekly}) == len(weekly)
    assert len(weekly) in (10, 11)
    assert max(kept) <= timedelta(weeks=12)


def test_the_oldest_go_where_they_take_too_much_room_but_three_are_kept():
    found = [made(timedelta(days=1000 + day), size_bytes=9) for day in range(5)]
    assert to_drop(found, now=NOW, largest_total_bytes=1) == tuple(found[3:])
    found = [made(timedelta(hours=hours), size_bytes=10) for hours in range(8)]
    assert to_drop(found, now=NOW, largest_total_bytes=55) == tuple(found[5:])


@given(st.lists(st.timedeltas(timedelta(days=-1), timedelta(days=300)), unique=True))
def test_thinning_keeps_the_newest_and_is_done_at_once(some):
    found = [made(age) for age in some]
    dropped = to_drop(found, now=NOW)
    kept = [backup for backup in found if backup not in dropped]
    newest = sorted(found, key=lambda backup: backup.made)[-3:]
    assert all(backup in kept for backup in newest)
    assert to_drop(kept, now=NOW) == ()
    assert all(age > timedelta(days=2) for age in ages(dropped))


def test_thinning_really_deletes(store, clock):
    for _ in range(40):
        clock.now += timedelta(hours=3)
        assert store.back_up_if_due().result()
    found = backups(store.backups)
    assert len(found) < 40
    assert to_drop(found, now=clock.now) == ()
    assert not is_due(store.backups, now=clock.now)
    good = backup.newest_good(store.backups)
    assert good == found[0]
