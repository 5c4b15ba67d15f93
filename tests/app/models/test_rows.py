"""Records become rows: nothing is greyed out without a reason, and figures can be read. Rows are
widgets that keep the focus while they change."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QWidget

from app.models import formatting
from app.models.offers import memory_line, offer_key, offer_rows, offer_states
from app.models.row_data import (
    Action,
    LoadedPair,
    RowData,
    candidate_rows,
    disk_rows,
    disk_summary,
    download_rows,
    found_rows,
    named_row,
)
from app.models.rows import Rows
from models.records import PROGRAM_NAMES, Candidate, Download, Inventory
from tests.support.app.kept import kept
from tests.support.app.library_samples import (
    CANDIDATES,
    DOWNLOADS,
    DRAFTER,
    FOUND,
    GB,
    INCOMPLETE,
    INSTALLED,
    OFFERS,
    TARGET,
    offer,
)
from tests.support.app.window_use import button_of, row_of

INVENTORY = Inventory(INSTALLED, INCOMPLETE, DOWNLOADS, ("/folder",), 102 * GB)


def look(rows):
    """All of each row, a line for each part that it has."""
    for row in rows:
        yield f"{row.heading} / {row.title} [{row.badge}]{' warns' * row.warns}"
        told = row.progress is None or f"progress: {row.progress:.2f}"
        for part in (row.line, row.remark, row.reasons, "" if told is True else told):
            yield from (f"    {part}",) * bool(part)
        for action in row.actions:
            why = action.reason and f": not now, {action.reason}"
            yield f"    > {action.name}: {action.text}{why}"


PUBLISHED = Candidate(
    *("Qwen/Qwen3.5-27B/mtp.safetensors", "mtp", False, "It is not downloaded."),
    installed=False,
    obstacle="not installed",
    tried=False,
)


def test_each_page_has_these_rows():
    here, nowhere = {"inventory": INVENTORY, "downloads": DOWNLOADS}, {"inventory": INVENTORY}
    offers = {"downloads": (), "loaded": LoadedPair(), "pending": ""}
    missing = CANDIDATES[4]
    candidates = (
        *CANDIDATES,
        replace(missing, drafter="o/reworded", reason="It can be downloaded."),
        replace(missing, drafter="o/large", reason="It has no room.", obstacle="no room"),
    )
    head = replace(INSTALLED[0], role="head")
    shipped = replace(head, removable=False)
    assistant = replace(INSTALLED[3], drafter_kind="gemma-4-assistant")
    theirs = replace(INSTALLED[1], removable=False)
    of_others = (replace(theirs, name=f"{name}:3b", origin=name) for name in PROGRAM_NAMES)
    trained = (
        PUBLISHED,
        replace(PUBLISHED, drafter="o/a", obstacle="unsupported", reason="It is pickled."),
        replace(PUBLISHED, drafter="o/s", kind="dspark", installed=True, works=True, obstacle=""),
    )
    failed = Download("a/a", "", "failed", 1, 4, problem="There is no connection.", remedy="Wait.")
    large = (
        replace(OFFERS[0], caution="It is meant for 36 GB of memory.", recommended=False),
        *(offer(f"o/{macs}", macs=macs) for macs in (1, 2)),
    )
    pages = {
        "search": found_rows(FOUND, **here),
        "search, nothing here": found_rows(FOUND[:1], inventory=Inventory(), downloads=()),
        "downloads": download_rows(DOWNLOADS),
        "downloads that change": download_rows(
            (replace(DOWNLOADS[0], request="pause"), Download("a/b", "", "running", 0, 0))
        ),
        "disk": disk_rows(INVENTORY, LoadedPair(INSTALLED[1].path, INSTALLED[2].path)),
        "heads": disk_rows(Inventory((head, shipped, assistant)), LoadedPair()),
        "of other programs": disk_rows(Inventory((*of_others,)), LoadedPair()),
        "the same failure": download_rows((failed, replace(failed, repository="b/b"))),
        "trained by others": candidate_rows(trained, LoadedPair(), downloads=(), **nowhere),
        "large pairs": offer_rows(offer_states(large, inventory=Inventory(), **offers)),
        "drafters": candidate_rows(candidates, LoadedPair("/t", "lookup"), downloads=(), **nowhere),
        "drafter in use": candidate_rows(
            CANDIDATES[:1], LoadedPair("/t", f"/models/{DRAFTER}"), downloads=(), **nowhere
        ),
        "offers": offer_rows(offer_states(OFFERS, inventory=Inventory(), **offers)),
    }
    for row in (row for rows in pages.values() for row in rows):
        assert row.title in row.accessible_text
        assert row.progress is None or 0 <= row.progress <= 1
        for action in row.actions:
            assert not action.reason or row.reasons or action.reason == row.line
    found = "".join("\n".join((f"== {name}", *look(rows))) + "\n" for name, rows in pages.items())
    assert found + disk_summary(INVENTORY) == kept(
        "library_rows.txt", found + disk_summary(INVENTORY)
    )


def test_a_full_name_can_be_downloaded_though_the_search_did_not_find_it():
    def named(name):
        rows = named_row(name, FOUND, inventory=INVENTORY, downloads=DOWNLOADS)
        assert all([(one.name, one.reason) for one in row.actions] == [("get", "")] for row in rows)
        return [row.key for row in rows]

    for name in ("someone/model", "someone/model/file-Q4_0.gguf"):
        assert named(name) == [name]
    for name in (
        *("qwen", "a b/c", "a/b/c", "/a/b", "a/b/", "a//b.gguf", FOUND[3].repository.upper()),
        *(DOWNLOADS[2].repository, INSTALLED[1].name),
    ):
        assert named(name) == []


def test_a_download_is_known_by_its_name_in_any_case_and_how_far_offers_are():
    here = {
        "inventory": Inventory(),
        "downloads": (Download(TARGET.upper(), "", "running", 1, 4),),
    }
    (offered,) = offer_states(OFFERS[:1], loaded=LoadedPair(), pending="", **here)
    (found,) = found_rows((replace(FOUND[0], repository=TARGET),), **here)
    (_, drafter) = candidate_rows((replace(PUBLISHED, drafter=TARGET),), LoadedPair("/t"), **here)
    assert [one.progress for one in (offered, found, drafter)] == [0.25] * 3
    # How far offers are.
    states = {
        state.key: state
        for state in offer_states(
            OFFERS,
            inventory=INVENTORY,
            downloads=DOWNLOADS,
            loaded=LoadedPair(),
            pending=offer_key(OFFERS[0]),
        )
    }
    best = states[offer_key(OFFERS[0])]
    assert best.progress == pytest.approx(1.24 / 2.631)
    assert best.status_text == "Downloading · 1.24 of 2.63 GB · 45 s left"  # of both
    assert (best.pending, best.downloading, bool(best.action.reason)) == (True, True, True)
    paused = states[offer_key(OFFERS[3])]
    assert paused.status_text == "Paused · 4.00 of 12.1 GB"
    assert paused.action.reason == OFFERS[3].reason
    (failed,) = offer_states(
        OFFERS[:1], inventory=Inventory(), downloads=(replace(DOWNLOADS[3], repository=TARGET),),
        loaded=LoadedPair(), pending="",
    )  # fmt: skip
    assert failed.failed is not None
    assert "model.safetensors is damaged" in failed.status_text
    assert (failed.action.name, failed.action.reason) == ("get", "")
    (here,) = offer_states(
        (replace(OFFERS[0], target=INSTALLED[1].name, installed=True),),
        inventory=INVENTORY,
        downloads=(),
        loaded=LoadedPair(INSTALLED[1].path),
        pending="",
    )
    assert (here.in_use, bool(here.action.reason)) == (True, True)
    assert [formatting.format_licence(one) for one in ("lfm1.0", "cc-by-nc-4.0")] == [
        *("License: LFM 1.0", "License: CC BY NC 4.0")
    ]
    counts = [formatting.format_count(number) for number in (999, 1_200, 999_950)]
    assert counts == ["999", "1.2 k", "1.0 M"]
    for macs in (1, 2):
        assert ("this machine" in memory_line(offer("o/large", macs=macs))) == (macs == 1)


# Widgets keep the focus while rows change, can be used by keyboard, and are read out whole

ONE = RowData(
    "1", "One", "small", actions=(Action("get", "Get"), Action("use", "Use", "Not here."))
)
TWO = RowData("2", "Two", reason="Too large.", actions=(Action("get", "Get", "Too large."),))
THREE = RowData("3", "Three", actions=(Action("get", "Get"),), heading="More", progress=0.5)


@pytest.fixture
def rows(qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    rows = Rows("Models")
    rows.setParent(window)
    rows.resize(500, 300)
    rows.show_rows((ONE, TWO, THREE))
    window.show()
    window.activateWindow()
    yield rows
    window.close()


def test_buttons_and_enter_on_a_row_that_arrows_lead_to_run_an_action_that_can_be_done(rows):
    asked = []
    rows.asked.connect(lambda *words: asked.append(words))
    button_of(row_of(rows, "3"), "get").click()
    button_of(row_of(rows, "2"), "get").click()  # greyed out
    assert asked == [("3", "get")]
    asked.clear()
    row_of(rows, "1").setFocus()
    for row, key in (
        ("1", Qt.Key.Key_Up),
        ("1", Qt.Key.Key_Return),
        ("1", Qt.Key.Key_Down),
        ("2", Qt.Key.Key_Return),  # nothing can be done there
        ("2", Qt.Key.Key_Down),
        ("3", Qt.Key.Key_Down),
        ("3", Qt.Key.Key_Enter),
    ):
        assert row_of(rows, row).hasFocus()
        QTest.keyClick(row_of(rows, row), key)
    assert asked == [("1", "get"), ("3", "get")]


def test_the_focus_stays_where_it_is_while_rows_change(rows):
    button = button_of(row_of(rows, "3"), "get")
    button.setFocus()
    rows.show_rows((TWO, replace(THREE, line="half", progress=0.6), ONE))
    assert [row.data.key for row in rows.rows] == ["2", "3", "1"]
    assert button_of(row_of(rows, "3"), "get") is button
    assert button.hasFocus()
    rows.show_rows((TWO, replace(THREE, actions=(Action("get", "Get", "It comes."),)), ONE))
    assert row_of(rows, "3").hasFocus()  # and not the next one
    rows.show_rows((replace(THREE, actions=(Action("pause", "Pause"),)), ONE))
    assert row_of(rows, "3").hasFocus()
    rows.show_rows((ONE,))
    focused = QApplication.focusWidget()
    assert rows.isAncestorOf(focused)


def test_a_screen_reader_gets_the_whole_row_and_a_heading_stands_above_its_rows(rows):
    assert row_of(rows, "1").accessibleName() == "One. small. Not here"
    assert row_of(rows, "2").accessibleName() == "Two, not available. Too large"
    rows.show_rows((THREE, replace(ONE, heading="More"), TWO))
    headings = [label for label in rows.findChildren(QLabel) if label.text() == "More"]
    assert [label.isHidden() for label in headings].count(False) == 1
    warned = replace(TWO, warns=True, badge="New")
    rows.show_rows((warned,))
    assert {one.textFormat() for one in rows.findChildren(QLabel)} == {Qt.TextFormat.PlainText}
    assert row_of(rows, "2").accessibleName() == "Two. New. Too large"
