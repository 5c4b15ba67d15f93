"""What the Library knows follows the latest answers, and only those; of downloads it is the queue's
latest state, and the requests of its own commands meanwhile."""

from dataclasses import replace

import pytest

from app.models.library import Library
from models.answers import Found, Freed, Offered, Progressed, Rated
from models.errors import Problem
from models.records import Download
from tests.support.app.fake_commands import FakeCommandRunner
from tests.support.app.library_samples import (
    CANDIDATES,
    DOWNLOADS,
    FOUND,
    INSTALLED,
    INVENTORY_ANSWER,
    OFFERS,
    inventory_answer,
)

A = Download("a/a", "", "running", 10, 100, 5.0, 18.0)
B = Download("b/b", "", "queued", 0, 0)


@pytest.fixture
def commands(qapp):
    return FakeCommandRunner()


@pytest.fixture
def library(commands):
    return Library(commands)


@pytest.fixture
def problems(library):
    heard = []
    library.failed.connect(heard.append)
    return heard


@pytest.fixture
def look(commands, library):
    """The queue on the disk is looked at, and is so."""

    def look(*downloads):
        library.refresh()
        commands.asked("list").answer(inventory_answer(downloads=downloads))

    return look


def statuses(library):
    return {one.repository: one.status for one in library.downloads.all}


def requests(library):
    return {one.repository: one.request for one in library.downloads.all if one.request}


def test_every_answer_is_decoded_and_another_is_a_problem(commands, library):
    library.search("   ")
    assert commands.started == []
    library.refresh()
    library.refresh_offers()
    library.search("  qwen   3 ")
    library.refresh_candidates("/models/a")
    assert commands.asked("search").words == ("search", "--json", "--", "qwen 3")
    assert commands.asked("--target").words == ("pair", "--json", "--target", "/models/a")
    commands.asked("search").answer(Found(FOUND))
    commands.answer_all(INVENTORY_ANSWER, Offered(OFFERS), Rated("", CANDIDATES))
    assert library.inventory.value.installed == INSTALLED
    assert library.inventory.value.folders == ("/Volumes/Models and more/mlx",)
    assert library.downloads.all == DOWNLOADS
    assert library.offers.value == OFFERS
    assert library.found.value == FOUND
    assert library.candidates.value == CANDIDATES
    for answer in (None, Freed(3), Offered(())):
        library.search("a")
        commands.asked("search").answer(answer)
        assert isinstance(library.found.problem, Problem), answer
        assert not library.found.asking


def test_pairs_are_those_of_several_macs_where_they_answer(commands):
    chosen = "/hosts.json"
    library = Library(commands, hostfile=lambda: chosen)
    library.refresh_offers()
    assert commands.asked("pair").words == ("pair", "--json", "--hosts", "/hosts.json")
    commands.asked("pair").fail("mini does not answer.", "Switch it on.")
    assert commands.asked("pair").words == ("pair", "--json")
    commands.asked("pair").answer(Offered(OFFERS))
    assert library.offers.value == OFFERS
    assert library.offers.problem is None


def test_only_the_latest_answer_counts(commands, library):
    library.search("first")
    first = commands.asked("search")
    library.search("second")
    assert first.dropped
    first.answer(Found(FOUND))  # it was on its way already
    first.fail("It", "died.")
    assert library.found.value == ()
    assert library.found.problem is None
    assert library.found.asking
    commands.asked("search").answer(Found(FOUND[:1]))
    assert library.found.value == FOUND[:1]
    assert not library.found.asking
    library.refresh()
    look = commands.asked("list")
    library.refresh()
    assert look.dropped
    commands.asked("list").answer(INVENTORY_ANSWER)
    library.refresh()
    commands.asked("list").fail("The disk is gone.", "Plug it in.")
    assert library.inventory.value.installed == INSTALLED, "the last answer is kept"
    assert library.inventory.problem is not None
    library.refresh()
    assert library.inventory.problem is None
    library.refresh_candidates("/models/a")
    commands.asked("--target").answer(Rated("", CANDIDATES))
    library.refresh_candidates("/models/b")
    assert library.candidates.value == (), "which are those of another target"


def test_closing_waits_for_the_downloads_alone(commands, library):
    library.downloads.pull("a/b")
    pull = commands.asked("pull")
    library.refresh()
    library.close()
    assert commands.closed == (pull,)
    pull.answer()
    assert len([one for one in commands.started if "list" in one.words]) == 1  # no more


# Downloads


def test_a_download_is_started_once_and_its_progress_told_until_it_completes(
    commands, library, look
):
    downloads, arrived = library.downloads, []
    downloads.completed.connect(arrived.append)
    downloads.pull("a/a", "b/b", "a/a")
    assert statuses(library) == {"a/a": "queued", "b/b": "queued"}
    downloads.pull("b/b")
    (pull,) = commands.started
    assert pull.words == ("pull", "--json", "--with-parent", "a/a", "b/b")
    assert downloads.running == (pull,)
    downloads.pull("c/c")
    other = commands.asked("pull", "c/c")
    assert other.words[-1] == "c/c"
    other.download(Download("c/c", "", "done", 1, 1))
    other.answer()
    pull.download(A)
    assert downloads.find("A/a") == A
    for _ in range(2):
        pull.download(replace(A, status="done", done_bytes=100))
        assert arrived == ["c/c", "a/a"]
    assert statuses(library) == {"b/b": "queued"}
    assert downloads.find("a/a") is None
    assert commands.waits("list")  # though the command goes on with the other
    pull.download(replace(B, status="done"))
    pull.answer()
    look()
    assert statuses(library) == {}
    assert not downloads.running


def test_an_older_answer_forgets_nothing(commands, library):
    library.refresh()
    look = commands.asked("list")
    library.downloads.pull("a/a", "b/b")
    pull = commands.asked("pull")
    pull.download(A)
    look.answer(inventory_answer(downloads=(replace(A, status="paused"),)))  # as it was before
    assert statuses(library) == {"a/a": "running", "b/b": "queued"}
    library.refresh()
    look = commands.asked("list")
    pull.download(replace(A, status="cancelled"))
    look.answer(inventory_answer(downloads=(A, B)))
    assert statuses(library) == {"b/b": "queued"}


def test_what_another_process_does_is_seen_and_a_request_that_fails_is_reported(
    commands, library, look, problems
):
    broken = []
    library.downloads.broke.connect(broken.append)
    look(A, B)
    library.downloads.pause("a/a")
    asked = commands.asked("--pause")
    asked.download(replace(A, request="pause"))
    asked.answer()
    assert requests(library) == {"a/a": "pause"}
    look(replace(A, status="paused"), replace(B, status="running"))
    assert statuses(library) == {"a/a": "paused", "b/b": "running"}
    failed = replace(B, status="failed", problem="There is no connection.")
    look(replace(A, status="paused"), failed)
    assert broken == [failed]
    library.downloads.pause("a/a")
    commands.asked("--pause").fail("The queue is locked.", "Wait.")
    assert requests(library) == {}
    library.downloads.pull("b/b")  # a failure at once is not that of the download
    commands.asked("pull").fail("The disk is full.", "Make room.")
    assert [problem.remedy for problem in problems] == ["Wait.", "Make room."]
    library.downloads.pull("a b")
    commands.asked("pull").fail("a b is not a name.", "Write organization/model.")
    assert "a b" not in statuses(library)
    assert len(problems) == 3
    library.downloads.pull("c/c")
    commands.asked("pull").tell(Progressed(1, 2))  # not an answer of its own
    assert statuses(library)["c/c"] == "queued"
    assert len(problems) == 3


def test_a_command_that_died_leaves_it_to_the_queue_to_say_so(commands, library, look, problems):
    broken = []
    library.downloads.broke.connect(broken.append)
    library.downloads.pull("a/a", "b/b")
    pull = commands.asked("pull")
    pull.download(A)
    pull.fail("It was ended by SIGKILL.", "Try again.")
    assert problems == []
    failed = replace(A, status="failed", problem="It was interrupted.", remedy="Try again.")
    look(failed, B)
    assert broken == [failed]
    assert statuses(library) == {"a/a": "failed", "b/b": "paused"}
    library.downloads.pull("a/a")
    (again, _) = library.downloads.all
    assert (again.status, again.problem, again.done_bytes) == ("queued", "", 10)
    commands.asked("pull").download(replace(A, status="done"))
    look()
    assert statuses(library) == {}
    library.downloads.pull("a/a")
    pull = commands.asked("pull")
    pull.download(replace(failed, problem="Damaged."))
    pull.fail("Damaged.", "Tell them.")  # which the queue knows: it is told once
    assert statuses(library) == {"a/a": "failed"}
    assert [one.problem for one in broken] == ["It was interrupted.", "Damaged."]
    assert problems == []
