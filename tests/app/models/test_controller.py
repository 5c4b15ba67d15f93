"""The Library carries out its commands, reports them, and uses a finished download."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog, QMessageBox, QPushButton

from app.settings import Pair
from models.answers import Found, Freed, Offered, Rated
from models.errors import Problem
from models.records import Download
from tests.support.app.fake_commands import commands_of
from tests.support.app.library_samples import (
    CANDIDATES,
    DRAFTER,
    FOUND,
    INCOMPLETE,
    INSTALLED,
    OFFERS,
    TARGET,
    installed,
    inventory_answer,
)
from tests.support.app.window_use import button_of, row_of, words_of
from tests.support.engine.scripted_host import LOADED

HERE = (
    installed(TARGET, path="/models/target"),
    installed(DRAFTER, path="/models/drafter"),
)
STARTER = INSTALLED[0]


class Opened:
    """A window with its Library open, whose commands answer when a test says so."""

    def __init__(self, window, until):
        self.window, self.until = window, until
        self.commands = commands_of(window)
        window.menus.actions["library"].trigger()
        self.view = window.library_controller.view

    def answer(self, *models, downloads=()):
        """Answer the usual questions: these models are here."""
        self.commands.answer_all(
            inventory_answer(installed=models, downloads=downloads, incomplete=INCOMPLETE),
            Offered(OFFERS),
            Rated("", CANDIDATES),
        )

    def see(self, name):
        """Go to a page; it is up to date when it is seen."""
        self.view.show_page(name)
        return self.view.pages[name]

    def press(self, name, key, action):
        button_of(row_of(self.see(name).rows, key), action).click()

    def arrive(self, *repositories):
        """The download that was asked for last is over."""
        pull = self.commands.asked("pull")
        for repository in repositories:
            pull.download(Download(repository, "", "done", 5, 5))
        pull.answer()

    @property
    def target(self):
        loaded = self.window.loader.loaded
        return loaded.target if loaded else ""


@pytest.fixture
def opened(open_window, until):
    window = open_window()
    until(lambda: window.loader.loaded is not None)
    return Opened(window, until)


def test_every_page_says_what_it_waits_for_why_it_is_empty_and_what_failed(opened):
    view = opened.view
    assert view.page == "offers"
    for page in ("offers", "disk", "drafters"):
        assert opened.see(page).status.kind == "waiting"
        assert words_of(opened.see(page).status)
    opened.commands.answer_all(inventory_answer(), Offered(()), Rated("", ()))
    for name in view.pages:
        assert opened.see(name).status.kind == "empty"
    assert len({words_of(page.status) for page in view.pages.values()} - {""}) == len(view.pages)
    opened.window.library.refresh()
    opened.window.library.refresh_offers()
    view.search.searched.emit("qwen")
    for page, asked in (("disk", "list"), ("offers", "pair"), ("search", "search")):
        commands = [one for one in opened.commands.started if asked in one.words]
        [one for one in commands if "--target" not in one.words][-1].fail("No.", "Connect.")
        assert words_of(opened.see(page).status) == "No. Connect.", page
    disk = opened.see("disk")
    buttons = [one for one in disk.findChildren(QPushButton) if one.isVisible()]
    (again,) = (one for one in buttons if one.text() == "Try again")
    again.click()
    assert disk.status.kind == "waiting"
    opened.answer(*INSTALLED)
    assert disk.status.kind == "none"
    assert len(disk.rows.rows) == len(INSTALLED) + len(INCOMPLETE)


def test_only_the_open_page_is_refreshed_and_downloads_of_another_process_are_followed(opened):
    there = Download("a/a", "", "running", 1, 4)
    opened.answer(downloads=(there,))
    opened.window.library_controller.follow()
    assert opened.commands.waits("list")
    opened.answer(downloads=(replace(there, status="paused"),))
    opened.window.library_controller.follow()
    assert not opened.commands.waits("list")
    opened.window.library.refresh()
    opened.answer(downloads=(there,))
    opened.view.leave()
    opened.window.library_controller.follow()
    assert not opened.commands.waits("list"), "only while the Library is seen"
    opened.window.open_library("offers")
    opened.answer(*INSTALLED)
    assert opened.view.disk.rows.rows == ()
    assert opened.see("disk").rows.rows
    opened.view.leave()
    opened.window.library.refresh()
    opened.answer()
    assert len(opened.view.disk.rows.rows) > len(INSTALLED)
    opened.window.open_library("disk")
    assert len(opened.view.disk.rows.rows) == len(INCOMPLETE)
    opened.press("offers", f"{OFFERS[2].target}+", "get")
    opened.view.leave()  # the window shows a notice
    pull = opened.commands.asked("pull")
    pull.download(Download(OFFERS[2].target, "", "failed", 1, 4, problem="No.", remedy="Wait."))
    pull.fail("No.", "Wait.")
    told = opened.window.notices.texts["library"]
    assert (OFFERS[2].target in told, "No. Wait." in told) == (True, True)


def test_the_recommended_pair_is_downloaded_also_after_a_death_and_used(opened):
    opened.answer()
    card = opened.view.offers.card
    assert card.button.isEnabled()
    card.button.click()
    pull = opened.commands.asked("pull")
    assert pull.words == ("pull", "--json", "--with-parent", TARGET, DRAFTER)
    assert not card.button.isEnabled()
    assert "Qwen3 4B with Qwen3 0.6B" in opened.view.line.text
    pull.download(Download(TARGET, "", "running", 1, 4))
    pull.fail("It was ended by SIGKILL.", "Try again.")
    killed = Download(TARGET, "", "failed", 1, 4, problem="It was killed.", remedy="Try again.")
    opened.answer(downloads=(killed, Download(DRAFTER, "", "queued", 0, 4)))
    assert opened.view.line.tone == "warning"
    assert row_of(opened.see("downloads").rows, TARGET).data.warns
    opened.see("offers")
    assert card.button.isEnabled()
    opened.press("downloads", TARGET, "resume")
    opened.see("offers")
    opened.commands.asked("pull").download(Download(TARGET, "", "done", 5, 5))
    opened.answer(HERE[0])
    assert opened.window.library_controller.pending_offer is not None  # half of it
    opened.arrive(DRAFTER)
    opened.answer(*HERE)
    opened.until(lambda: opened.target == "/models/target")
    assert opened.window.settings.pair == Pair("/models/target", DRAFTER, "auto")
    assert opened.window.pair_bar.target == "/models/target"
    opened.until(lambda: card.button.text() == "In use")


def test_a_pair_chosen_in_the_meantime_is_kept(opened):
    opened.answer()
    opened.view.offers.card.button.click()
    opened.window.loader.load(Pair("/models/other", "auto", "auto"))
    opened.until(lambda: opened.target == "/models/other")
    opened.arrive(TARGET, DRAFTER)
    opened.answer(*HERE)
    assert opened.window.notices.texts["library"].startswith("target ")
    assert opened.target == "/models/other"
    opened.window.notices.press("library")
    opened.until(lambda: opened.target == "/models/target")
    opened.window.loader.load(Pair("/models/other", "auto", "auto"))
    opened.until(lambda: opened.target == "/models/other")
    opened.view.offers.card.button.click()
    opened.window.loader.load(Pair("/models/third", "auto", "auto"))
    opened.until(lambda: opened.target == "/models/third")
    assert opened.view.line.text == "", "another one is loaded"


def test_an_installed_pair_is_used_at_once_and_its_loading_reported(opened):
    opened.answer(*HERE, STARTER)
    opened.view.offers.card.button.click()
    assert not opened.commands.waits("pull")
    begun = opened.view.line.text
    assert "Qwen3 4B" in begun
    opened.until(lambda: opened.view.line.text != begun)
    assert "Qwen3 4B" in opened.view.line.text
    assert opened.target == "/models/target"
    opened.press("disk", f"model:{STARTER.path}", "use")
    assert opened.window.loader.pair.target == "", "it is the starter, wherever it is"
    begun = opened.view.line.text
    opened.window.engine.loaded.emit(replace(LOADED, id="an earlier request"))
    assert opened.view.line.text == begun
    opened.window.loader.failed.emit(Problem("It does not fit.", "Choose another."))
    assert opened.view.line.text == "It does not fit. Choose another."
    opened.window.loader.failed.emit(Problem("Something else.", ""))
    assert opened.view.line.text == "It does not fit. Choose another."


def test_models_are_searched_and_downloaded_and_drafters_chosen(opened):
    opened.answer()
    view, search = opened.view, opened.view.search
    view.show_page("search")
    assert search.field.hasFocus()
    QTest.keyClicks(search.field, "qwen")
    QTest.keyClick(search.field, Qt.Key.Key_Return)
    assert view.isVisible()  # nothing else was pressed by that
    assert len([one for one in opened.commands.started if "search" in one.words]) == 1
    opened.commands.asked("search").answer(Found(FOUND))
    assert len(search.rows.rows) == len(FOUND)
    opened.press("search", TARGET, "get")
    opened.commands.asked("pull").download(Download(TARGET, "", "running", 1, 4))
    row = row_of(search.rows, TARGET)
    assert (row.data.badge, row.data.progress) == ("Downloading", 0.25)
    opened.arrive(TARGET)
    opened.answer(*HERE)
    assert TARGET in view.line.text
    assert opened.target == "/models/tiny"  # it was not chosen for use
    opened.window.pair_bar.more_drafters_asked.emit()
    assert view.page == "drafters"
    rows = opened.see("drafters").rows
    assert [row.data.key for row in rows.rows] == ["auto", *(one.drafter for one in CANDIDATES)]
    opened.press("drafters", DRAFTER, "use")
    loader = opened.window.loader
    opened.until(lambda: loader.loaded and loader.loaded.drafter == DRAFTER)
    opened.until(lambda: row_of(rows, DRAFTER).data.badge == "In use")
    opened.press("drafters", "mlx-community/Qwen3-1.7B-4bit", "get")
    assert opened.commands.waits("pull", "mlx-community/Qwen3-1.7B-4bit")


def test_downloads_are_paused_resumed_and_cancelled(opened):
    running = Download("a/a", "", "running", 1, 4)
    paused = Download("b/b", "", "paused", 1, 4)
    opened.answer(downloads=(running, paused))
    view, commands = opened.view, opened.commands
    page = opened.see("downloads")
    opened.press("downloads", "a/a", "pause")
    assert row_of(page.rows, "a/a").data.actions[0].reason
    asked = commands.asked("--pause", "a/a")
    asked.download(replace(running, request="pause"))
    asked.answer()
    assert row_of(page.rows, "a/a").data.actions[0].reason
    opened.answer(downloads=(replace(running, status="paused"), paused))
    assert not view.pause_all.isEnabled()
    view.resume_all.click()
    assert commands.waits("pull", "--with-parent", "a/a")
    assert commands.waits("pull", "--with-parent", "b/b")
    view.pause_all.click()
    assert commands.waits("--pause", "a/a")
    assert commands.waits("--pause", "b/b")
    opened.press("downloads", "a/a", "pause")  # it is being paused already
    assert len([one for one in commands.started if {"--pause", "a/a"} <= {*one.words}]) == 2
    commands.asked("--pause", "b/b").answer()
    opened.answer(downloads=(paused,))
    opened.press("downloads", "b/b", "cancel")
    assert commands.waits("--cancel", "b/b")
    assert "On this machine" in view.line.text
    opened.see("offers").card.button.click()
    pull = commands.asked("pull")
    pull.download(Download(DRAFTER, "", "running", 1, 4))
    opened.press("downloads", DRAFTER, "cancel")
    assert opened.window.library_controller.pending_offer is None, "half of it will not come"
    opened.window.close()
    assert not view.isVisible()
    assert pull in commands.closed


def test_deleting_asks_first_and_folders_are_added_and_forgotten(opened):
    opened.answer(*HERE, STARTER)
    key = "model:/models/drafter"

    def ask():
        opened.press("disk", key, "delete")
        (box,) = (one for one in opened.view.findChildren(QMessageBox) if one.isVisible())
        return box

    box = ask()
    assert DRAFTER in box.text()
    assert "1.00 GB" in box.informativeText()
    assert box.defaultButton().text().replace("&", "") == "Cancel"
    box.reject()
    assert not opened.commands.waits("remove")
    box = ask()
    (delete,) = (one for one in box.buttons() if one.text().replace("&", "") == "Delete")
    delete.click()
    words = opened.commands.asked("remove").words
    assert words == ("remove", "--json", "--yes", "--", "/models/drafter")
    opened.commands.asked("remove").answer(Freed(1_000_000_000))
    opened.answer(HERE[0], STARTER)
    assert "1.00 GB" in opened.view.line.text
    assert key not in [row.data.key for row in opened.see("disk").rows.rows]
    opened.press("disk", "incomplete:/cache/x", "clean")
    words = opened.commands.asked("remove").words
    assert words == ("remove", "--json", "--yes", "--incomplete", "--", "/cache/x")
    opened.view.add_folder.click()
    (chooser,) = opened.view.findChildren(QFileDialog)
    chooser.fileSelected.emit("/folder of mine")
    chooser.reject()
    asked = opened.commands.asked("folders")
    assert asked.words == ("folders", "--json", "--add", "/folder of mine")
    asked.fail("There is no such folder.", "Choose another.")
    assert opened.view.line.text == "There is no such folder. Choose another."
    assert opened.view.line.tone == "warning"
    opened.commands.asked("list").answer(inventory_answer(folders=("/folder of mine",)))
    opened.press("disk", "folder:/folder of mine", "forget")
    assert opened.commands.asked("folders").words[-2:] == ("--remove", "/folder of mine")


def test_the_conversation_comes_back(open_window):
    window = open_window()  # without a model as yet
    view = window.library_controller.view

    (back,) = (one for one in view.findChildren(QPushButton) if "Back" in one.text())
    ways = {
        "button": back.click,
        "esc": lambda: QTest.keyClick(view.search.field, Qt.Key.Key_Escape),
        "conversation": window.sidebar.clicked.emit,
        "new": window.menus.actions["new"].trigger,
    }
    doors = (window.welcome.library_asked.emit, window.pair_bar.library_asked.emit)
    for number, (way, leave) in enumerate(ways.items()):
        doors[number % 2]()
        assert view.isVisible()
        assert (window.transcript.isVisible(), window.composer.isVisible()) == (False, False)
        QTest.keyClick(window, "a")
        assert window.composer.text == "", "letters do not go where no one sees them"
        view.show_page("search")
        leave()
        assert not view.isVisible(), way
        assert (window.transcript.isVisible(), window.composer.isVisible()) == (True, True)
