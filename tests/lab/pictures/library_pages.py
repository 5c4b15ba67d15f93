"""Draws the Library's pages and saves the pictures."""

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtTest import QTest

from app.window import Window
from models.answers import Found, Offered, Rated
from models.catalog import load_catalog, offers
from models.records import Inventory
from tests.lab.catalog.__main__ import pretended
from tests.support.app.fake_commands import commands_of
from tests.support.app.library_samples import CANDIDATES, FOUND, INVENTORY_ANSWER, OFFERS

Save = Callable[[str, Callable[[str], None]], None]
QUIET = replace(INVENTORY_ANSWER, downloads=())


def draw_library(window: Window, save: Save) -> None:
    """Every page, in turn, in that window."""
    commands, controller = commands_of(window), window.library_controller
    window.open_library()
    view = controller.view

    def grab(name: str) -> None:
        QTest.qWait(60)
        save(f"library-{name}", lambda path: _grab(window, path))

    def answer(inventory: Inventory) -> None:
        commands.answer_all(inventory, Offered(OFFERS), Rated("", CANDIDATES))

    grab("waits")
    answer(QUIET)
    grab("offers")
    for chip, memory_gb in (("M1", 8), ("M4", 16), ("M4 Pro", 48)):
        found = offers(load_catalog(), machine=pretended(chip, memory_gb))
        window.library.refresh_offers()
        commands.answer_all(QUIET, Offered(tuple(found)), Rated("", CANDIDATES))
        grab(f"offers-{chip.replace(' ', '-').lower()}-{memory_gb}")
    view.show_page("search")
    grab("search-empty")
    view.search.field.setText("qwen3")
    view.search.searched.emit("qwen3")
    commands.asked("search").answer(Found(FOUND))
    grab("search")
    view.search.searched.emit("qwen3")
    commands.asked("search").fail(
        "There is no connection to the hub.", "Check the network connection, then try again."
    )
    grab("search-offline")
    view.search.searched.emit("qwenn")
    commands.asked("search").answer(Found(()))
    grab("search-nothing")
    view.show_page("drafters")
    grab("drafters")
    view.show_page("disk")
    grab("disk")
    view.show_page("downloads")
    grab("downloads-none")
    view.show_page("offers")
    controller.pending_offer = replace(OFFERS[0])
    window.library.refresh()
    answer(INVENTORY_ANSWER)
    grab("offers-downloading")
    view.show_page("downloads")
    grab("downloads")
    window.library.search("qwen3")
    commands.asked("search").answer(Found(FOUND))
    view.show_page("search")
    grab("search-downloading")
    view.leave()


def _grab(window: Window, path: str) -> None:
    window.grab().save(path)
