"""Downloads are begun once, tell how far they are, and stop when they are asked to."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QObject

from app.models.library import Library
from models.errors import Problem
from models.records import Download
from tests.support.app.fake_commands import FakeCommandRunner
from tests.support.app.library_samples import inventory_answer

A = Download("a/a", "", "running", 10, 100, 5.0, 18.0)


class Downloading:
    """A Library that downloads."""

    def __init__(self) -> None:
        self.commands = FakeCommandRunner()
        self.library = Library(self.commands)
        self.downloads = self.library.downloads
        self.problems: list[Problem] = []
        self.arrived: list[str] = []
        self.library.failed.connect(self.problems.append)
        self.downloads.completed.connect(self.arrived.append)

    @property
    def statuses(self) -> dict[str, str]:
        return {one.repository: one.status for one in self.downloads.all}

    def look(self, *downloads: Download) -> None:
        """The queue on the disk is looked at, and is so."""
        if not self.commands.waits("list"):
            self.library.refresh()
        self.commands.asked("list").answer(inventory_answer(downloads=downloads))


@pytest.fixture
def downloading(qapp: QObject) -> Downloading:
    return Downloading()


def test_a_download_is_started_once(downloading: Downloading) -> None:
    downloading.downloads.pull("a/a", "b/b", "a/a")
    assert downloading.statuses == {"a/a": "queued", "b/b": "queued"}
    downloading.downloads.pull("b/b")
    (pull,) = downloading.commands.started
    assert pull.words == ("pull", "--json", "--with-parent", "a/a", "b/b")
    assert downloading.downloads.running == (pull,)
    downloading.downloads.pull("c/c")
    assert downloading.commands.asked("pull", "c/c").words[-1] == "c/c"


def test_progress_is_reported_until_a_download_completes(downloading: Downloading) -> None:
    downloading.downloads.pull("a/a", "b/b")
    pull = downloading.commands.asked("pull")
    pull.download(A)
    assert downloading.downloads.find("a/a") == A
    pull.download(replace(A, status="done", done_bytes=100))
    assert downloading.arrived == ["a/a"]
    assert downloading.statuses == {"b/b": "queued"}
    assert downloading.downloads.find("a/a") is None
    assert downloading.commands.waits("list")  # though the command goes on with the other
    pull.download(replace(A, status="done", done_bytes=100))
    assert downloading.arrived == ["a/a"]
    pull.answer()
    downloading.look(replace(A, repository="b/b", status="done"))
    assert downloading.statuses == {}
    assert not downloading.downloads.running


def test_pausing_and_resuming(downloading: Downloading) -> None:
    downloading.downloads.pull("a/a")
    pull = downloading.commands.asked("pull")
    pull.download(A)
    downloading.downloads.pause("a/a")
    assert downloading.commands.asked("--pause").words == ("pull", "--json", "--pause", "a/a")
    assert downloading.downloads.pending == {"a/a": "pause"}
    pull.download(replace(A, done_bytes=20))  # between two blocks
    assert downloading.downloads.pending == {"a/a": "pause"}
    pull.download(replace(A, status="paused"))
    assert downloading.downloads.pending == {}
    downloading.commands.asked("--pause").answer()
    downloading.look(replace(A, status="paused"))
    pull.answer()
    downloading.downloads.pull("a/a")
    assert downloading.statuses == {"a/a": "queued"}
    assert downloading.downloads.find("a/a") == replace(A, status="queued", bytes_per_second=5.0)
    assert downloading.commands.waits("pull", "a/a", "--with-parent")


def test_an_older_answer_forgets_nothing(downloading: Downloading) -> None:
    downloading.library.refresh()
    downloading.downloads.pull("a/a", "b/b")
    downloading.look(replace(A, status="paused"))  # as it was before
    assert downloading.statuses == {"a/a": "queued", "b/b": "queued"}
    downloading.commands.asked("pull").download(A)
    downloading.downloads.cancel("b/b")
    downloading.look(A)
    assert downloading.statuses == {"a/a": "running"}


def test_downloads_of_another_process_are_recognized(downloading: Downloading) -> None:
    downloading.look(A)
    assert downloading.downloads.elsewhere
    downloading.look(replace(A, status="paused"))
    assert not downloading.downloads.elsewhere
    downloading.downloads.pull("a/a")
    downloading.commands.asked("pull").download(A)
    assert not downloading.downloads.elsewhere


def test_a_waiting_download_is_paused_though_its_command_reports_nothing(
    downloading: Downloading,
) -> None:
    downloading.downloads.pull("a/a", "b/b")
    downloading.downloads.pause("b/b")
    downloading.commands.asked("--pause").answer()
    downloading.look(A, replace(A, repository="b/b", status="paused"))
    assert downloading.statuses == {"a/a": "queued", "b/b": "paused"}
    assert downloading.downloads.pending == {}


def test_a_request_that_fails_is_reported_and_forgotten(downloading: Downloading) -> None:
    downloading.downloads.pull("a/a")
    downloading.downloads.pause("a/a")
    downloading.commands.asked("--pause").fail("The queue is locked.", "Wait.")
    assert downloading.downloads.pending == {}
    assert [problem.remedy for problem in downloading.problems] == ["Wait."]


def test_a_cancelled_download_is_gone(downloading: Downloading) -> None:
    downloading.downloads.pull("a/a")
    downloading.downloads.cancel("a/a")
    assert downloading.downloads.pending == {"a/a": "cancel"}
    downloading.commands.asked("--cancel").answer({"cancelled": "a/a"})
    downloading.look()
    assert downloading.statuses == {}
    assert downloading.downloads.pending == {}


def test_a_download_whose_command_died_can_be_tried_again(downloading: Downloading) -> None:
    downloading.downloads.pull("a/a", "b/b", "c/c")
    pull = downloading.commands.asked("pull")
    pull.download(A)
    pull.download(replace(A, repository="b/b", status="done"))
    pull.download(replace(A, repository="c/c", status="paused"))
    pull.fail("It was ended by SIGKILL.", "Try again.")
    failed = downloading.downloads.find("a/a")
    assert failed is not None
    assert (failed.status, failed.problem, failed.done_bytes) == (
        "failed",
        "It was ended by SIGKILL.",
        10,
    )
    assert downloading.statuses["c/c"] == "paused"
    # The queue on the disk knows nothing of it; the reason stays.
    downloading.look(replace(A, status="paused"), replace(A, repository="c/c", status="paused"))
    assert downloading.statuses == {"a/a": "failed", "c/c": "paused"}
    downloading.downloads.pull("a/a")
    downloading.commands.asked("pull").download(replace(A, status="done"))
    downloading.look()
    assert downloading.statuses == {}


def test_a_failure_that_was_cancelled_does_not_come_back(downloading: Downloading) -> None:
    downloading.downloads.pull("a/a")
    downloading.commands.asked("pull").fail("No.", "No.")
    downloading.downloads.cancel("a/a")
    assert downloading.statuses == {}
    downloading.commands.asked("--cancel").fail("a/a is not among the downloads.", "See them.")
    assert downloading.problems == []
    downloading.look()
    assert downloading.statuses == {}


def test_a_problem_without_a_download_is_reported(downloading: Downloading) -> None:
    downloading.downloads.pull("a/a")
    pull = downloading.commands.asked("pull")
    pull.download(replace(A, status="failed", problem="Damaged.", remedy="Tell them."))
    pull.fail("Damaged.", "Tell them.")
    assert downloading.statuses == {"a/a": "failed"}
    assert len(downloading.problems) == 1


def test_malformed_lines_are_reported_and_skipped(downloading: Downloading) -> None:
    downloading.downloads.pull("a/a")
    pull = downloading.commands.asked("pull")
    pull.tell({"download": {"repository": "a/a"}})
    pull.tell({"progress": [1, 2]})
    assert len(downloading.problems) == 1
    assert downloading.statuses == {"a/a": "queued"}
