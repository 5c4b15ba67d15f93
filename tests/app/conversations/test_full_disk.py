"""A disk of 1 MB, and one that may not be written: a clear message, and nothing lost."""

import os
import shutil
import subprocess

import pytest

from app.conversations.store import Store
from models.errors import Problem
from tests.support.app.store_samples import answered, asked, round_of


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True, timeout=20)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no disk of 1 MB can be mounted here: {error}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def remount(place, *options):
    subprocess.run(["mount", "-o", ",".join(["remount", *options]), str(place)], check=True)


def fill(place):
    """Take all the room that is left."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass
    return ballast


def test_a_full_disk_is_told_and_the_answer_can_be_saved_later(small_disk):
    path = small_disk / "c.sqlite"
    with Store.open(path) as store:
        question = asked(store)
        answer = store.begin_answer(question.id, target="t", drafter="d").result()
        events = [event for number in range(50) for event in round_of(number)]
        store.flush_answer(answer.id, "begun", events[:3]).result()
        ballast = fill(small_disk)
        text = os.urandom(200_000).hex()
        for attempt in (
            store.flush_answer(answer.id, text, events),
            store.say(question.conversation, text),
            store.finish_answer(answer.id, text, events, state="complete"),
        ):
            assert "full" in attempt.exception().message
        # What is there can be read all the while.
        assert store.message(answer.id).result().content == "begun"
        assert store.branch(question.conversation).result()[0] == question
        assert store.search("blue").result()
        assert isinstance(store.back_up_if_due().exception(), Problem)
        ballast.unlink()
        remount(small_disk, "size=16m")
        done = store.finish_answer(answer.id, text, events, state="complete").result()
        assert done.content == text
        assert store.trace(answer.id).result() == tuple(events)
        chat, saved = store.create().result().id, []
        while (said := store.say(chat, "on " * 300_000)).exception() is None:
            saved.append(said.result())
    remount(small_disk, "size=32m")
    with Store.open(path) as store:
        assert store.notice is None
        assert store.message(answer.id).result() == done
        assert list(store.branch(chat).result()) == saved != []


def test_the_chats_can_be_read_while_the_disk_is_full_and_no_new_file_be_made(small_disk):
    path = small_disk / "c.sqlite"
    with Store.open(path) as store:
        question = asked(store)
        answer = store.begin_answer(question.id, target="t", drafter="d").result()
    ballast = fill(small_disk)
    with Store.open(path) as store:
        assert "full" in store.notice
        assert store.branch(question.conversation).result()[0] == question
    with pytest.raises(Problem, match=r"disk|space"):
        Store.open(small_disk / "new.sqlite")
    ballast.unlink()
    with Store.open(path) as store:
        assert store.notice is None
        assert store.message(answer.id).result().state == "interrupted"
    with Store.open(small_disk / "new.sqlite") as store:
        assert asked(store).id == 1


def test_a_disk_that_may_not_be_written_is_told_and_not_touched(small_disk, tmp_path, monkeypatch):
    path, killed = small_disk / "c.sqlite", small_disk / "killed"
    with Store.open(path) as store:
        answered(store, asked(store))
        shutil.copytree(small_disk, tmp_path / "killed")  # with the log of its last changes
    shutil.copytree(tmp_path / "killed", killed)
    before = path.read_bytes()
    remount(small_disk, "ro")
    for folder in (small_disk, killed):
        with Store.open(folder / "c.sqlite") as store:
            assert store.notice is not None
            assert str(folder) in store.notice
            found = store.search("blue").result()[0]
            question, answer = store.branch(found.conversation).result()
            assert store.chat(found.conversation).result().entries[0].content == question.content
            for change in (store.say(found.conversation, "x"), store.rename(1, "x")):
                assert "written" in change.exception().message
            assert store.message(answer.id).result() == answer
    with pytest.raises(Problem, match=r"cannot be (written|opened)"):
        Store.open(small_disk / "new" / "c.sqlite")
    assert path.read_bytes() == before
    remount(small_disk, "rw")
    for forbidden in (path, small_disk):
        monkeypatch.setattr("os.access", lambda place, _, no=forbidden: place != no)
        with Store.open(path) as store:
            assert str(small_disk) in store.notice
            assert len(store.conversations().result()) == 1
        assert path.read_bytes() == before
    monkeypatch.undo()
    with Store.open(path) as store:
        assert store.notice is None
        assert len(store.conversations().result()) == 1
