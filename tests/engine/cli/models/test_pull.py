"""The queue is worked through by this process, or by another that is then watched."""

import threading
from dataclasses import replace

import pytest

from engine.cli.models.pull import paced, pull
from models.errors import Problem
from models.hub.queue import Queue
from models.records import Download


@pytest.fixture
def queue(tmp_path):
    return Queue(home=tmp_path)


def fetching(size_bytes=100):
    def fetch(download, report, cancelled):
        for done in range(0, size_bytes + 1, 50):
            if cancelled():
                raise RuntimeError("stopped")
            report(replace(download, done_bytes=done, total_bytes=size_bytes))

    return fetch


def never():
    return False


def statuses(downloads):
    return [(one.repository, one.status) for one in downloads]


def test_all_that_was_asked_for_in_that_order(queue):
    told = []
    ends = pull(["o/a", "o/b@v1", "o/a"], queue, fetching(), report=told.append, stopped=never)
    assert statuses(ends) == [("o/a", "done"), ("o/b", "done")]
    assert ends[1].revision == "v1"
    assert [one.done_bytes for one in told if one.repository == "o/a"][-1] == 100
    assert statuses(told)[:3] == [("o/a", "queued"), ("o/b", "queued"), ("o/a", "running")]
    assert statuses(told)[-1] == ("o/b", "done")


def test_names_that_cannot_be_any(queue):
    for name in ("", "a b", "../a", "a/b/c", "o/a@../x", "@main"):
        with pytest.raises(Problem):
            pull(["o/good", name], queue, fetching(), report=print, stopped=never)
        assert queue.downloads() == [], name


ADDRESSES = (
    ("o/a/x.Q4.gguf@v1", "o/a/x.Q4.gguf", "v1"),
    ("o/a@", "o/a", ""),
    ("https://hub.example/o/a", "o/a", ""),
    ("https://hub.example/o/a/tree/main", "o/a", ""),
    ("https://hub.example/o/a/tree/v1?x=y", "o/a", "v1"),
    ("https://hub.example/o/a/blob/main/x.Q4.gguf", "o/a/x.Q4.gguf", ""),
    ("https://hub.example/o/a/resolve/v1/x.gguf?download=true", "o/a/x.gguf", "v1"),
    ("https://hub.example/o/a/discussions/3#4", "o/a", ""),
)


def test_a_file_in_a_repository_and_an_address_of_a_browser(queue):
    for address, name, revision in ADDRESSES:
        (end,) = pull([address], queue, fetching(), report=print, stopped=never)
        assert (end.repository, end.revision) == (name, revision), address


def test_what_was_stopped_is_paused_and_gone_on_with(queue):
    queue.enqueue("o/old")
    queue.pause("o/old")
    told = []
    ends = pull(
        ["o/a", "o/b"],
        queue,
        fetching(),
        report=told.append,
        stopped=lambda: any(one.done_bytes == 50 for one in told),
    )
    assert statuses(ends) == [("o/a", "paused"), ("o/b", "paused")]
    assert statuses(queue.downloads()) == [("o/old", "paused"), *statuses(ends)]
    ends = pull(["o/a", "o/b"], queue, fetching(), report=print, stopped=never)
    assert statuses(ends) == [("o/a", "done"), ("o/b", "done")]
    assert ("o/old", "paused") in statuses(queue.downloads())
    ends = pull([], queue, fetching(), report=print, stopped=never)
    assert statuses(ends) == [("o/old", "done")]
    assert pull([], queue, fetching(), report=print, stopped=never) == []


class Other:
    """Another process, as far as the queue can tell: it has its own object, lock and thread."""

    def __init__(self, home, fetch):
        self.queue = Queue(home=home)
        self.begun, self.go_on = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(fetch,))

    def __enter__(self):
        self.queue.enqueue("o/theirs")
        self._thread.start()
        assert self.begun.wait(30)
        return self

    def __exit__(self, *_):
        self.go_on.set()
        self._thread.join()

    def _run(self, fetch):
        def slow(download, report, cancelled):
            self.begun.set()
            assert self.go_on.wait(30)
            fetch(download, report, cancelled)

        self.queue.run(slow)


def unheard(*_):
    pytest.fail("fetched by the wrong one")


def test_another_process_fetches_and_is_watched(queue, tmp_path):
    told = []
    with Other(tmp_path, fetching()) as other:

        def sleep(_):
            other.go_on.set()

        ends = pull(["o/mine"], queue, unheard, report=told.append, stopped=never, sleep=sleep)
    assert statuses(ends) == [("o/mine", "done")]
    assert ("o/mine", "done") in statuses(told)
    assert not [one for one in told if one.repository == "o/theirs"]


def test_what_another_process_leaves_is_taken_over(queue, tmp_path):
    def end(download, report, cancelled):
        other.queue.pause("o/theirs")
        raise RuntimeError("as if it were ended")

    with Other(tmp_path, end) as other:
        stopped = threading.Event()
        other.queue.run = None

        def sleep(_):
            queue.pause("o/mine")
            other.go_on.set()
            while any(one.status == "running" for one in queue.downloads()):
                stopped.wait(0.01)
            queue.resume("o/mine")

        ends = pull(["o/mine"], queue, fetching(), report=print, stopped=never, sleep=sleep)
    assert statuses(ends) == [("o/mine", "done")]
    assert ("o/theirs", "paused") in statuses(queue.downloads())


def test_a_queue_that_cannot_be_used_is_not_taken_for_a_busy_one(queue, monkeypatch):
    runs = []

    def full(*_, **__):
        runs.append(1)
        raise Problem("The disk is full.", "Make room.")

    monkeypatch.setattr(queue, "run", full)
    with pytest.raises(Problem, match="full"):
        pull(["o/a"], queue, unheard, report=print, stopped=never)
    assert len(runs) == 1


def test_watching_can_be_stopped(queue, tmp_path):
    with Other(tmp_path, fetching()):
        looks = []
        ends = pull(
            ["o/mine"],
            queue,
            unheard,
            report=print,
            stopped=lambda: len(looks) > 1,
            sleep=looks.append,
        )
        assert statuses(ends) == [("o/mine", "queued")]
    assert ("o/mine", "done") in statuses(queue.downloads())


def test_reports_are_paced_but_changes_are_not():
    moment, told = [0.0], list[tuple[str, int]]()
    report = paced(lambda one: told.append((one.status, one.done_bytes)), lambda: moment[0])
    one = Download("o/a", "", "queued", 0, 100)
    report(one)
    for done in range(100):
        moment[0] += 0.01
        report(replace(one, status="running", done_bytes=done))
    report(replace(one, repository="o/b"))
    report(replace(one, status="done"))
    assert told[0] == ("queued", 0)
    assert told[-2:] == [("queued", 0), ("done", 0)]
    running = [done for status, done in told if status == "running"]
    assert running[0] == 0
    assert 4 <= len(running) <= 5
