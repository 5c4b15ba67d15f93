"""What the Library knows follows the latest answers, and only those."""

import pytest

from app.models.library import Library
from models.answers import Found, Freed, Offered, Rated
from models.errors import Problem
from tests.support.app.fake_commands import FakeCommandRunner
from tests.support.app.library_samples import (
    CANDIDATES,
    DOWNLOADS,
    FOUND,
    INSTALLED,
    INVENTORY_ANSWER,
    OFFERS,
)


@pytest.fixture
def commands(qapp):
    return FakeCommandRunner()


@pytest.fixture
def library(commands):
    return Library(commands)


def test_every_answer_is_decoded(commands, library):
    library.search("   ")
    assert commands.started == []
    assert not library.found.answered
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


@pytest.mark.parametrize("answer", [None, Freed(3), Offered(())])
def test_another_answer_is_a_problem(commands, library, answer):
    library.search("a")
    commands.asked("search").answer(answer)
    assert isinstance(library.found.problem, Problem)
    assert not library.found.asking


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda one: one.remove("a/b"), ("remove", "--json", "--yes", "--", "a/b")),
        (lambda one: one.clean("/x"), ("remove", "--json", "--yes", "--incomplete", "--", "/x")),
        (lambda one: one.add_folder("/x"), ("folders", "--json", "--add", "/x")),
        (lambda one: one.remove_folder("/x"), ("folders", "--json", "--remove", "/x")),
    ],
)
def test_everything_is_refreshed_after_a_change(commands, library, act, words):
    freed = []
    problems = []
    library.done.connect(freed.append)
    library.failed.connect(problems.append)
    library.refresh_offers()
    commands.asked("pair").answer(Offered(OFFERS))
    act(library)
    assert commands.asked(words[0]).words == words
    assert not commands.waits("list")
    commands.asked(words[0]).answer(Freed(1_234_000_000))
    assert freed == [1_234_000_000]
    assert commands.waits("list")
    assert commands.waits("pair")
    act(library)
    commands.asked(words[0]).fail("It is in use.", "Close it.")
    assert [problem.remedy for problem in problems] == ["Close it."]


def test_closing_waits_for_the_downloads_alone(commands, library):
    library.downloads.pull("a/b")
    pull = commands.asked("pull")
    library.refresh()
    library.close()
    assert commands.closed == (pull,)
    pull.answer()
    assert len([one for one in commands.started if "list" in one.words]) == 1  # no more
