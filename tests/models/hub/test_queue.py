"""The queue keeps its order, survives kills and damage, and has one runner at a time."""

import errno
import json
import os
import threading
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import count

import pytest
from filelock import FileLock

from models.errors import Problem
from models.hub.queue import FILE_NAME, INTERRUPTED, SAVE_SECONDS, Queue, QueueBusy
from models.installed.added_folders import add_folder
from models.records import Download

GIVE_UP = Problem("It is gone.", "Try another one.")


@pytest.fixture
def queue(tmp_path):
    return Queue(home=tmp_path)


def statuses(queue):
    return {one.repository: one.status for one in queue.downloads()}


def test_one_of_a_repository_is_queued_and_another_revision_takes_its_place(queue):
    for name, *revision in (("a/b",), ("c/d",), ("A/b",), ("a/b", "v2"), ("a/b",)):
        queue.enqueue(name, *revision)
    assert [(one.repository, one.revision) for one in queue.downloads()] == [
        ("a/b", "v2"),
        ("c/d", ""),
    ]
    for action in (queue.pause, queue.resume, queue.cancel):
        with pytest.raises(Problem, match="e/f is not among the downloads"):
            action("e/f")


ACTIONS = (  # what becomes of one that is queued, paused, failed or done
    ("enqueue", "queued queued queued queued"),
    ("pause", "paused paused failed done"),
    ("resume", "queued queued queued done"),
    ("resume_all", "queued queued queued done"),
    ("cancel", ""),
)


@pytest.mark.parametrize(("action", "after"), ACTIONS)
def test_each_action_does_what_it_says_to_each_download(tmp_path, action, after):
    names = ["x/1", "x/2", "x/3", "x/4"]
    listed = zip(names, ("queued", "paused", "failed", "done"), strict=True)
    downloads = [asdict(Download(name, "", status, 1, 2)) for name, status in listed]
    (tmp_path / FILE_NAME).write_text(json.dumps({"downloads": downloads}))
    queue = Queue(home=tmp_path)
    for name in names:
        getattr(queue, action)(*() if action == "resume_all" else (name,))
    assert list(statuses(Queue(home=tmp_path)).items()) == list(
        zip(names, after.split(), strict=False)
    )


def test_all_are_fetched_in_order_by_one_runner_and_a_failure_is_kept_with_its_remedy(
    queue, tmp_path
):
    fetched, told, other = [], [], Queue(home=tmp_path)
    for name in ("x/1", "x/2", "x/3"):
        queue.enqueue(name)
    queue.pause("x/2")

    def fetch(download, report, cancelled):
        assert statuses(queue)[download.repository] == "running"
        with pytest.raises(QueueBusy):
            other.run(fetch)
        fetched.append(download.repository)
        if len(fetched) == 1:
            other.enqueue("x/4")
            report(replace(download, done_bytes=3, total_bytes=7, bytes_per_second=9.0))
            raise GIVE_UP
        report(replace(download, done_bytes=7, total_bytes=7))

    queue.run(fetch, report=told.append)
    assert fetched == ["x/1", "x/3", "x/4"]
    left = {"x/1": "failed", "x/2": "paused", "x/3": "done", "x/4": "done"}
    assert list(statuses(queue).items()) == list(left.items())
    done = (("running", 0), ("running", 7), ("done", 7))
    assert [(one.repository, one.status, one.done_bytes) for one in told] == [
        *(("x/1", "running", 0), ("x/1", "running", 3), ("x/1", "failed", 3)),
        *((name, *end) for name in fetched[1:] for end in done),
    ]
    failed = queue.downloads()[0]
    assert (failed.problem, failed.remedy) == (GIVE_UP.message, GIVE_UP.remedy)
    assert (failed.done_bytes, failed.total_bytes, failed.bytes_per_second) == (3, 7, 0.0)
    again = queue.resume("x/1")
    assert (again.status, again.problem, again.remedy) == ("queued", "", "")
    queue.enqueue("x/3")
    assert list(statuses(queue))[-1] == "x/3"


@pytest.mark.parametrize("noticed", [False, True])
@pytest.mark.parametrize("again", ["resumed", "queued again", "in another revision"])
def test_what_was_changed_while_it_ran_goes_on(queue, tmp_path, again, noticed):
    queue.enqueue("x/1", "v1")
    other, begun = Queue(home=tmp_path), []

    def fetch(download, report, cancelled):
        begun.append(download.revision)
        if len(begun) > 1:
            return
        if again == "in another revision":
            other.enqueue("x/1", "v2")
            assert not noticed or cancelled()
        else:
            other.pause("x/1")
            assert not noticed or cancelled()
            other.resume("x/1") if again == "resumed" else other.enqueue("x/1", "v1")
            assert noticed or not cancelled()
        if noticed:
            raise GIVE_UP

    queue.run(fetch)
    assert statuses(queue) == {"x/1": "done"}
    if again == "in another revision":
        assert begun == ["v1", "v2"]
    else:
        assert begun == ["v1"] * (1 + noticed)


@pytest.mark.parametrize(
    ("error", "left"),
    [(KeyboardInterrupt(), ("paused", "", "")), (GIVE_UP, ("paused", "", "")),
     (ZeroDivisionError("by zero"), ("failed", "x/1 failed unexpectedly: by zero.", "Try again."))],
)  # fmt: skip
def test_of_what_was_stopped_or_broke_the_queue_knows_how(queue, error, left):
    queue.enqueue("x/1")
    queue.enqueue("x/2")
    stop = threading.Event()

    def fetch(download, report, cancelled):
        if error is GIVE_UP:
            stop.set()
            assert cancelled()
        raise error

    with suppress(Problem) if error is GIVE_UP else pytest.raises(type(error)):
        queue.run(fetch, stopped=stop.is_set)
    first, second = queue.downloads()
    assert (first.status, first.problem, first.remedy, second.status) == (*left, "queued")
    assert {one.status for one in queue.resume_all()} == {"queued"}


@pytest.mark.parametrize(
    ("request_", "left"), [("", "failed"), ("pause", "paused"), ("cancel", None)]
)
def test_what_a_killed_runner_was_asked_for_is_carried_out(queue, tmp_path, request_, left):
    running = Download("x/1", "", "running", 3, 7, request=request_)
    (tmp_path / FILE_NAME).write_text(json.dumps({"downloads": [asdict(running)]}))
    assert statuses(queue) == ({"x/1": left} if left else {})
    for download in queue.downloads():
        assert (download.done_bytes, download.request) == (3, "")
        assert download.problem == (INTERRUPTED.message if left == "failed" else "")


@pytest.mark.parametrize(("request_", "end"), [("pause", "paused"), ("cancel", "cancelled")])
def test_a_request_is_in_the_queue_until_the_runner_carries_it_out(queue, tmp_path, request_, end):
    queue.enqueue("x/1")
    other, told = Queue(home=tmp_path), []

    def fetch(download, report, cancelled):
        asked = getattr(other, request_)("x/1")
        assert (asked.status, asked.request) == ("running", request_)
        assert other.downloads() == [asked]
        report(replace(download, done_bytes=3, total_bytes=7))
        assert cancelled()
        raise GIVE_UP

    seconds = count(0, int(SAVE_SECONDS))  # so each report is saved, and must not undo the request
    queue.run(fetch, report=told.append, clock=lambda: float(next(seconds)))
    assert [(one.status, one.request, one.done_bytes) for one in told] == [
        ("running", "", 0),
        ("running", request_, 3),
        (end, "", 3),
    ]
    assert statuses(queue) == ({"x/1": "paused"} if request_ == "pause" else {})


def test_progress_is_seen_by_others_now_and_then(queue, tmp_path):
    now, seen = [0.0], []
    queue.enqueue("x/1")

    def fetch(download, report, cancelled):
        for done in (1, 2, 3):
            now[0] += SAVE_SECONDS / 2
            report(replace(download, revision="abc", done_bytes=done, total_bytes=4))
            seen.append(Queue(home=tmp_path).downloads()[0].done_bytes)

    queue.run(fetch, clock=lambda: now[0])
    assert seen == [0, 2, 2]
    assert queue.downloads() == [Download("x/1", "abc", "done", 4, 4)]


SOUND = asdict(Download("x/1", "main", "queued", 0, 0))


def test_a_queue_that_cannot_be_understood_is_put_aside(tmp_path, subtests):
    path, aside = tmp_path / FILE_NAME, tmp_path / "downloads.damaged.json"
    for downloads in [
        3,
        [SOUND, SOUND],
        [SOUND, SOUND | {"repository": "X/1"}],
        [SOUND | {"status": "flying"}],
        [SOUND | {"repository": ""}],
        [SOUND | {"done_bytes": -1}],
    ]:
        with subtests.test(downloads=downloads):
            path.write_text(text := json.dumps({"downloads": downloads}))
            queue = Queue(home=tmp_path)
            assert queue.downloads() == []
            assert aside.read_text() == text
            assert str(aside) in queue.notice
            queue.enqueue("y/1")
            assert statuses(Queue(home=tmp_path)) == {"y/1": "queued"}
    path.write_text(json.dumps({"downloads": [SOUND | {"mirror": "x"}], "version": 7}))  # newer
    assert Queue(home=tmp_path).downloads() == [Download("x/1", "main", "queued", 0, 0)]


def test_a_queue_that_cannot_be_locked_is_read(tmp_path, monkeypatch, subtests):
    queue = Queue(home=tmp_path)
    queue.enqueue("o/x")
    for number in [errno.EACCES, errno.EROFS, errno.ENOSPC]:

        def refuse(*_, number=number, **__):
            raise OSError(number, os.strerror(number), "lock")

        monkeypatch.setattr(FileLock, "acquire", refuse)
        with subtests.test(number=number):
            assert [each.repository for each in queue.downloads()] == ["o/x"]
            assert not queue.is_run()
            with pytest.raises(Problem, match=os.strerror(number)):
                queue.enqueue("o/y")
            with pytest.raises(Problem, match=os.strerror(number)):
                add_folder(tmp_path, home=tmp_path)
