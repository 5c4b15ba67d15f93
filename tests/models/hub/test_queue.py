"""The queue keeps its order, survives kills and damage, and has one runner at a time."""

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from models.errors import Problem
from models.hub.queue import FILE_NAME, INTERRUPTED, SAVE_SECONDS, Queue, QueueBusy
from models.installed.added_folders import add_folder
from models.records import Download
from tests.support.mostly_slow import examples

GIVE_UP = Problem("It is gone.", "Try another one.")


@pytest.fixture
def queue(tmp_path):
    return Queue(home=tmp_path)


def statuses(queue):
    return {one.repository: one.status for one in queue.downloads()}


def fetch_all(download, report, cancelled):
    report(replace(download, done_bytes=7, total_bytes=7))


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


def test_all_are_fetched_in_order(queue, tmp_path):
    fetched, told = [], []
    for name in ("x/1", "x/2", "x/3"):
        queue.enqueue(name)
    queue.pause("x/2")

    def fetch(download, report, cancelled):
        assert statuses(queue)[download.repository] == "running"
        fetched.append(download.repository)
        if len(fetched) == 1:
            Queue(home=tmp_path).enqueue("x/4")
        fetch_all(download, report, cancelled)

    queue.run(fetch, report=told.append)
    assert fetched == ["x/1", "x/3", "x/4"]
    queue.enqueue("x/1")
    left = {"x/2": "paused", "x/3": "done", "x/4": "done", "x/1": "queued"}
    assert list(statuses(queue).items()) == list(left.items())
    assert [(one.repository, one.status, one.done_bytes) for one in told] == [
        (name, status, done)
        for name in fetched
        for status, done in (("running", 0), ("running", 7), ("done", 7))
    ]


def test_a_failure_is_kept_with_its_remedy_and_the_next_one_begins(queue):
    def fetch(download, report, cancelled):
        report(replace(download, done_bytes=3, total_bytes=7, bytes_per_second=9.0))
        if download.repository == "x/1":
            raise GIVE_UP

    queue.enqueue("x/1")
    queue.enqueue("x/2")
    queue.run(fetch)
    failed, done = queue.downloads()
    assert (failed.status, failed.problem, failed.remedy) == (
        "failed",
        GIVE_UP.message,
        GIVE_UP.remedy,
    )
    assert (failed.done_bytes, failed.total_bytes, failed.bytes_per_second) == (3, 7, 0.0)
    assert (done.status, done.done_bytes) == ("done", 7)
    again = queue.resume("x/1")
    assert (again.status, again.problem, again.remedy) == ("queued", "", "")


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


KILLED = """
import sys, time
from pathlib import Path
from models.hub.queue import Queue
def fetch(download, report, cancelled):
    print("begun", flush=True)
    sys.stdin.read()
Queue(home=Path(sys.argv[1])).run(fetch)
"""


@pytest.mark.parametrize(
    ("request_", "left"), [("", "failed"), ("pause", "paused"), ("cancel", None)]
)
def test_what_a_killed_runner_was_asked_for_is_carried_out(queue, tmp_path, request_, left):
    running = Download("x/1", "", "running", 3, 7, request=request_)
    (tmp_path / FILE_NAME).write_text(json.dumps({"downloads": [asdict(running)]}))
    assert statuses(queue) == ({"x/1": left} if left else {})
    for download in queue.downloads():
        assert (download.done_bytes, download.request) == (3, "")
        assert bool(download.problem) == (left == "failed")


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


def test_a_runner_that_is_killed_leaves_a_failed_download(queue, tmp_path):
    queue.enqueue("x/1")
    queue.enqueue("x/2")
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as runner:
        assert runner.stdout.readline() == b"begun\n"
        assert statuses(queue) == {"x/1": "running", "x/2": "queued"}
        with pytest.raises(QueueBusy):
            queue.run(fetch_all)
        runner.send_signal(signal.SIGKILL)
    assert statuses(queue) == {"x/1": "failed", "x/2": "queued"}
    assert queue.downloads()[0].problem == INTERRUPTED.message
    queue.run(fetch_all)
    assert statuses(queue) == {"x/1": "failed", "x/2": "done"}
    queue.resume("x/1")
    queue.run(fetch_all)
    assert statuses(queue) == {"x/1": "done"}


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
        [SOUND | {"bytes_per_second": float("nan")}],
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


# Whatever is done to the queue, in whatever order, it is what a plain list would be.


NAMES = st.sampled_from(["a/1", "a/2", "b/1", "b/2"])


class History(RuleBasedStateMachine):
    """`expected`: name to status, in order."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.home = Path(self.folder.name)
        self.queue = Queue(home=self.home)
        self.expected = {}

    def teardown(self):
        self.folder.cleanup()

    @invariant()
    def is_as_expected(self):
        told = [(one.repository, one.status) for one in self.queue.downloads()]
        assert told == list(self.expected.items())

    @rule(name=NAMES)
    def enqueue(self, name):
        if self.expected.get(name) == "done":
            del self.expected[name]
        self.expected[name] = "queued"
        self.queue.enqueue(name)

    @rule(name=NAMES)
    def pause(self, name):
        if name in self.expected:
            self.queue.pause(name)
            if self.expected[name] == "queued":
                self.expected[name] = "paused"

    @rule(name=NAMES)
    def resume(self, name):
        if name in self.expected:
            self.queue.resume(name)
            if self.expected[name] in ("paused", "failed"):
                self.expected[name] = "queued"

    @rule()
    def resume_all(self):
        self.queue.resume_all()
        for name, status in self.expected.items():
            if status in ("paused", "failed"):
                self.expected[name] = "queued"

    @rule(name=NAMES)
    def cancel(self, name):
        if self.expected.pop(name, None):
            self.queue.cancel(name)

    @rule(ends=st.lists(st.sampled_from(["done", "failed", "paused", "gone"]), min_size=4))
    def run(self, ends):
        """Each of those that wait ends otherwise; others pause and cancel from outside."""
        for name in [name for name, status in self.expected.items() if status == "done"]:
            del self.expected[name]
        waiting = [name for name, status in self.expected.items() if status == "queued"]
        outcomes = dict(zip(waiting, ends, strict=False))
        other = Queue(home=self.home)

        def fetch(download, report, cancelled):
            name = download.repository
            report(replace(download, done_bytes=1, total_bytes=2))
            if outcomes[name] == "done":
                return
            if outcomes[name] == "paused":
                other.pause(name)
            if outcomes[name] == "gone":
                other.cancel(name)
            assert cancelled() == (outcomes[name] != "failed")
            raise Problem("No.", "Yes.")

        self.queue.run(fetch)
        for name, outcome in outcomes.items():
            self.expected[name] = outcome
            if outcome == "gone":
                del self.expected[name]

    @precondition(lambda self: "queued" in self.expected.values())
    @rule()
    def kill(self):
        """What a runner leaves that was killed in the middle of the first one."""
        path = self.home / FILE_NAME
        plain = json.loads(path.read_text())
        for entry in plain["downloads"]:
            if entry["status"] == "queued":
                entry["status"] = "running"
                self.expected[entry["repository"]] = "failed"
                break
        path.write_text(json.dumps(plain))
        self.queue = Queue(home=self.home)

    @rule()
    def start_again(self):
        self.queue = Queue(home=self.home)

    @precondition(lambda self: self.expected)
    @rule(share=st.floats(0, 0.9))
    def truncate(self, share):
        path = self.home / FILE_NAME
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * share)])
        self.expected.clear()
        self.queue = Queue(home=self.home)
        assert self.queue.downloads() == []
        assert self.queue.notice


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=examples(80), stateful_step_count=15, deadline=None)
