"""Draws the Library's pages and saves the pictures."""

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtTest import QTest

from app.models.dialog import LibraryDialog
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
    """Every page, in turn, beside that window."""
    commands, controller = commands_of(window), window.library_controller
    controller.open()
    dialog = controller.dialog
    assert dialog is not None

    def grab(name: str) -> None:
        QTest.qWait(60)
        save(f"library-{name}", lambda path: _grab(dialog, path))

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
    dialog.show_page("search")
    grab("search-empty")
    dialog.search.field.setText("qwen3")
    dialog.search.searched.emit("qwen3")
    commands.asked("search").answer(Found(FOUND))
    grab("search")
    dialog.search.searched.emit("qwen3")
    commands.asked("search").fail(
        "There is no connection to the hub.", "Check the network connection, then try again."
    )
    grab("search-offline")
    dialog.search.searched.emit("qwenn")
    commands.asked("search").answer(Found(()))
    grab("search-nothing")
    dialog.show_page("drafters")
    grab("drafters")
    dialog.show_page("disk")
    grab("disk")
    dialog.show_page("downloads")
    grab("downloads-none")
    dialog.show_page("offers")
    controller.pending_offer = replace(OFFERS[0])
    window.library.refresh()
    answer(INVENTORY_ANSWER)
    grab("offers-downloading")
    dialog.show_page("downloads")
    grab("downloads")
    window.library.search("qwen3")
    commands.asked("search").answer(Found(FOUND))
    dialog.show_page("search")
    grab("search-downloading")
    dialog.close()


def _grab(dialog: LibraryDialog, path: str) -> None:
    dialog.grab().save(path)
