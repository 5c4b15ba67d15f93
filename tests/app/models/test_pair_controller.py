"""A choice in the pair bar is loaded and kept, and taken back if it fails."""

from app.settings import Pair
from models.answers import Offered, Rated
from tests.support.app.fake_commands import commands_of
from tests.support.app.library_samples import (
    CANDIDATES,
    installed,
    inventory_answer,
)
from tests.support.app.window_use import box, button_of, choose, drafting, row_of


def test_the_pair_is_shown_and_its_drafter_changed(open_window, until):
    window = open_window()
    until(lambda: window.pair_bar.status == "loaded")
    assert box(window, "Model").currentText() == "tiny"
    choose(window, "Draft model", "Lookup")
    until(lambda: drafting(window)[0] == "lookup")
    choose(window, "How far ahead", "4 tokens")
    until(lambda: drafting(window)[1] == "4")
    assert window.settings.pair == Pair("", "lookup", "4")
    window.loader.fetch_began.emit()
    window.loader.fetch_progress.emit(25_000_000, 100_000_000)
    assert "25%" in window.pair_bar.status_text
    assert window.pair_bar.status == "loading"


def test_another_target_is_listed_and_loaded(open_window, until, tmp_path):
    folder = tmp_path / "models" / "other"
    window = open_window("ready take load take load serve")
    until(lambda: window.pair_bar.status == "loaded")
    here = (installed("someone/other", path=str(folder)), installed("head", role="head"))
    commands_of(window).asked("list").answer(inventory_answer(installed=here))
    chooser = box(window, "Model")
    assert [chooser.itemText(place) for place in range(2)] == ["tiny", "other"]
    choose(window, "Model", "other")
    until(lambda: window.loader.loaded and window.loader.loaded.target == str(folder))
    assert window.settings.pair.target == str(folder)
    until(lambda: window.pair_bar.target == str(folder))
    window.menus.actions["starter"].trigger()
    until(lambda: window.loader.loaded and window.loader.loaded.target == "/models/tiny")
    assert window.settings.pair.target == ""


def test_opened_folders_can_be_taken_off_the_list(open_window, until, tmp_path):
    window = open_window()
    until(lambda: window.pair_bar.status == "loaded")
    commands_of(window).asked("--target").answer(Rated("", CANDIDATES))
    window.settings.remember_path("drafters", str(tmp_path / "gone"))
    for kind in ("targets", "drafters"):
        (tmp_path / kind).mkdir()
        window.settings.remember_path(kind, str(tmp_path / kind))
    window.pair_controller.show_choices()
    assert box(window, "Draft model").findText("gone") == -1
    assert box(window, "Draft model").findText("drafters") >= 0
    assert box(window, "Model").findText("targets") >= 0
    window.open_library("drafters")
    view = window.library_controller.view
    commands_of(window).answer_all(inventory_answer(), Offered(()), Rated("", CANDIDATES))
    button_of(row_of(view.drafters.rows, f"opened:{tmp_path / 'drafters'}"), "forget").click()
    view.show_page("disk")
    button_of(row_of(view.disk.rows, f"opened:{tmp_path / 'targets'}"), "forget").click()
    assert window.settings.opened_paths("drafters") == window.settings.paths("targets") == ()
    assert box(window, "Model").findText("targets") == -1
    assert box(window, "Draft model").findText("drafters") == -1
