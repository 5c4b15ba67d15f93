"""Whatever is done to the queue, in whatever order, it is what a plain list would be."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from models.errors import Problem
from models.hub.queue import FILE_NAME, Queue
from tests.support.mostly_slow import examples

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
