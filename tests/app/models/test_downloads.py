"""The window shows the queue's latest state, and the requests of its own commands meanwhile."""

from dataclasses import replace

import pytest

from app.models.library import Library
from models.answers import Progressed
from models.records import Download
from tests.support.app.fake_commands import FakeCommandRunner
from tests.support.app.library_samples import inventory_answer

A = Download("a/a", "", "running", 10, 100, 5.0, 18.0)
B = Download("b/b", "", "queued", 0, 0)


class Downloading:
    """A Library that downloads."""

    def __init__(self):
        self.commands = FakeCommandRunner()
        self.library = Library(self.commands)
        self.downloads = self.library.downloads
        self.problems = []
        self.arrived = []
        self.broken = []
        self.downloads.broke.connect(self.broken.append)
        self.library.failed.connect(self.problems.append)
        self.downloads.completed.connect(self.arrived.append)

    @property
    def statuses(self):
        return {one.repository: one.status for one in self.downloads.all}

    @property
    def requests(self):
        return {one.repository: one.request for one in self.downloads.all if one.request}

    def look(self, *downloads):
        """The queue on the disk is looked at, and is so."""
        self.library.refresh()
        self.commands.asked("list").answer(inventory_answer(downloads=downloads))


@pytest.fixture
def downloading(qapp):
    return Downloading()


def test_a_download_is_started_once(downloading):
    downloading.downloads.pull("a/a", "b/b", "a/a")
    assert downloading.statuses == {"a/a": "queued", "b/b": "queued"}
    downloading.downloads.pull("b/b")
    (pull,) = downloading.commands.started
    assert pull.words == ("pull", "--json", "--with-parent", "a/a", "b/b")
    assert downloading.downloads.running == (pull,)
    downloading.downloads.pull("c/c")
    assert downloading.commands.asked("pull", "c/c").words[-1] == "c/c"


def test_progress_is_reported_until_a_download_completes(downloading):
    downloading.downloads.pull("a/a", "b/b")
    pull = downloading.commands.asked("pull")
    pull.download(A)
    assert downloading.downloads.find("A/a") == A
    pull.download(replace(A, status="done", done_bytes=100))
    assert downloading.arrived == ["a/a"]
    assert downloading.statuses == {"b/b": "queued"}
    assert downloading.downloads.find("a/a") is None
    assert downloading.commands.waits("list")  # though the command goes on with the other
    pull.download(replace(A, status="done", done_bytes=100))
    assert downloading.arrived == ["a/a"]
    pull.download(replace(B, status="done"))
    pull.answer()
    downloading.look()
    assert downloading.statuses == {}
    assert not downloading.downloads.running


def test_a_waiting_one_is_paused_though_its_own_command_reports_nothing(downloading):
    downloading.downloads.pull("a/a", "b/b")
    for queued in (replace(A, status="queued"), B, A):  # as the command reports at once
        downloading.commands.asked("pull").download(queued)
    downloading.downloads.pause("b/b")
    asked = downloading.commands.asked("--pause")
    asked.download(replace(B, status="paused"))
    asked.answer()
    assert downloading.statuses == {"a/a": "running", "b/b": "paused"}
    assert downloading.requests == {}


def test_an_older_answer_forgets_nothing(downloading):
    downloading.library.refresh()
    look = downloading.commands.asked("list")
    downloading.downloads.pull("a/a", "b/b")
    pull = downloading.commands.asked("pull")
    pull.download(A)
    look.answer(inventory_answer(downloads=(replace(A, status="paused"),)))  # as it was before
    assert downloading.statuses == {"a/a": "running", "b/b": "queued"}
    downloading.library.refresh()
    look = downloading.commands.asked("list")
    pull.download(replace(A, status="cancelled"))
    look.answer(inventory_answer(downloads=(A, B)))
    assert downloading.statuses == {"b/b": "queued"}


def test_what_another_process_does_is_seen(downloading):
    downloading.look(A, B)
    downloading.downloads.pause("a/a")
    asked = downloading.commands.asked("--pause")
    asked.download(replace(A, request="pause"))
    asked.answer()
    assert downloading.requests == {"a/a": "pause"}
    downloading.look(replace(A, status="paused"), replace(B, status="running"))
    assert downloading.statuses == {"a/a": "paused", "b/b": "running"}
    downloading.look(replace(A, status="paused"), replace(B, status="failed"))
    assert downloading.broken == [replace(B, status="failed")]


def test_a_request_that_fails_is_reported_and_forgotten(downloading):
    downloading.downloads.pull("a/a")
    downloading.commands.asked("pull").download(replace(A, status="queued"))
    downloading.downloads.pause("a/a")
    downloading.commands.asked("--pause").fail("The queue is locked.", "Wait.")
    assert downloading.requests == {}
    assert [problem.remedy for problem in downloading.problems] == ["Wait."]


def test_a_request_that_fails_at_once_is_not_taken_for_the_downloads_own_failure(downloading):
    downloading.look(A, replace(B, status="failed", problem="There is no connection."))
    downloading.downloads.pause("a/a")
    downloading.commands.asked("--pause").fail("The queue is locked.", "Wait.")
    downloading.downloads.pull("b/b")
    downloading.commands.asked("pull").fail("The disk is full.", "Make room.")
    assert [problem.remedy for problem in downloading.problems] == ["Wait.", "Make room."]


def test_a_command_that_died_leaves_it_to_the_queue_to_say_so(downloading):
    downloading.downloads.pull("a/a", "b/b")
    pull = downloading.commands.asked("pull")
    pull.download(A)
    pull.fail("It was ended by SIGKILL.", "Try again.")
    assert downloading.problems == []
    failed = replace(A, status="failed", problem="It was interrupted.", remedy="Try again.")
    downloading.look(failed, B)
    assert downloading.broken == [failed]
    assert downloading.statuses == {"a/a": "failed", "b/b": "paused"}
    downloading.downloads.pull("a/a")
    (again, _) = downloading.downloads.all
    assert (again.status, again.problem, again.done_bytes) == ("queued", "", 10)
    downloading.commands.asked("pull").download(replace(A, status="done"))
    downloading.look()
    assert downloading.statuses == {}


def test_a_command_that_was_refused_leaves_nothing(downloading):
    downloading.downloads.pull("a b")
    downloading.commands.asked("pull").fail("a b is not a name.", "Write organization/model.")
    assert downloading.statuses == {}
    assert [problem.message for problem in downloading.problems] == ["a b is not a name."]
    downloading.downloads.pull("a/a")
    downloading.commands.asked("pull").tell(Progressed(1, 2))  # not an answer of its own
    assert downloading.statuses == {"a/a": "queued"}
    assert len(downloading.problems) == 1


def test_a_failure_that_the_queue_knows_is_told_once(downloading):
    downloading.downloads.pull("a/a")
    pull = downloading.commands.asked("pull")
    pull.download(replace(A, status="failed", problem="Damaged.", remedy="Tell them."))
    pull.fail("Damaged.", "Tell them.")
    assert downloading.statuses == {"a/a": "failed"}
    assert [one.problem for one in downloading.broken] == ["Damaged."]
    assert downloading.problems == []
