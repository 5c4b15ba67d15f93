"""A chosen pair is loaded between answers, kept, and taken back if it fails, with what a chat
may take. An opened folder is listed once it works, and a model can rest until it is asked."""

from pathlib import Path

import pytest
from PySide6.QtCore import QTimer

from app.engine_client.engine_process import EngineState
from app.models.memory_dialog import MemoryDialog
from app.settings import Pair
from engine.process.protocol import Memory
from models.answers import Offered, Rated
from models.errors import Problem
from tests.support.app.fake_commands import OpeningCommands, commands_of
from tests.support.app.library_samples import CANDIDATES, installed, inventory_answer
from tests.support.app.window_use import box, button_of, choose, drafting, row_of


@pytest.fixture
def loaded(open_window, until):
    """Opens a window and waits for its model; the engine takes these steps."""

    def loaded(*steps, **more):
        window = open_window(*steps, **more)
        until(lambda: window.pair_bar.status == "loaded")
        return window

    return loaded


def test_what_is_chosen_during_an_answer_is_loaded_after_it(open_window, until):
    life = "ready take load take text:begun take"
    window = open_window(f"{life} -- {life} -- ready serve")
    loads = []
    window.engine.loaded.connect(loads.append)

    def begin():
        window.composer.set_text("Go on.")
        window.composer.send()
        until(lambda: window.answers.busy and window.transcript.messages[-1].written == "begun")

    until(lambda: loads)
    window.application.settings_changed.emit()
    assert not window.loader.outdated
    begin()
    window.settings.parallel = 2
    window.application.settings_changed.emit()
    assert window.loader.outdated, "until the answer has ended"
    window.engine.restart()  # which ends it
    until(lambda: loads[-1].parallel == 2)
    assert not window.loader.outdated
    begin()
    window.loader.use(Pair("/models/better", "auto", "auto"))
    assert window.loader.pair.target == ""
    window.engine.restart()
    until(lambda: window.loader.loaded and window.loader.loaded.target == "/models/better")


def test_settings_that_change_while_a_model_is_loaded_load_it_again(open_window, until, tmp_path):
    go = tmp_path / "go"
    window = open_window(f"ready take begin wait:{go} load serve")
    begun = []
    loads = []
    window.engine.loading.connect(begun.append)
    window.engine.loaded.connect(loads.append)
    until(lambda: begun)
    window.settings.parallel = 2
    window.application.settings_changed.emit()
    go.touch()
    until(lambda: loads and loads[-1].parallel == 2)
    assert len(loads) == 2


def test_what_is_refused_is_not_listed_and_a_gguf_file_is_imported_first(loaded, until, tmp_path):
    def opening(target):
        if "damaged" in target:
            raise Problem("The file is damaged.", "Do otherwise.")
        return tmp_path / "imported" if target.endswith("gguf") else Path(target or "/models/tiny")

    (tmp_path / "empty").mkdir()
    steps = "ready take load take failed take failed take load serve"
    window = loaded(steps, loading=OpeningCommands(opening))
    loader = window.loader
    for kind, name, path, open_it in (
        ("drafters", "Draft model", "empty", loader.open_drafter),
        ("targets", "Model", "empty", loader.open_target),
        ("targets", "Model", "damaged.gguf", loader.open_target),
    ):
        before = box(window, name).currentText()
        open_it(tmp_path / path)
        assert box(window, name).currentText() == path
        until(lambda: "Do otherwise." in window.notices.texts.get("engine", ""))
        assert box(window, name).currentText() == before
        assert window.settings.paths(kind) == ()
        assert box(window, name).findText(path) == -1
        assert (window.settings.pair, window.composer.blocked) == (Pair(), ""), path
        assert (window.pair_bar.status, bool(loader.loaded)) == ("loaded", True)
        window.notices.take_back("engine")
    loader.open_target(tmp_path / "large.gguf")
    until(lambda: loader.loaded and loader.loaded.target == str(tmp_path / "imported"))
    assert box(window, "Model").currentText() == "large.gguf"
    assert window.settings.paths("targets") == (str(tmp_path / "large.gguf"),)


def test_the_pair_is_the_same_in_every_window(open_windows, until):
    windows = open_windows()
    first, second = windows.current, windows.open()
    until(lambda: windows.application.loader.loaded)
    first.pair_bar.pair_chosen.emit("starter", "lookup", "4")

    def chosen(bar):
        return bar.target, bar.drafter, bar.length

    assert chosen(second.pair_bar) == ("starter", "lookup", "4")
    loads = []
    windows.application.loader.loaded_now.connect(loads.append)
    until(lambda: loads)
    assert loads[-1].drafter == "lookup"
    assert chosen(first.pair_bar) == chosen(second.pair_bar) == ("starter", "lookup", "4")


def test_another_drafter_and_target_are_chosen_and_a_pair_that_cannot_be_measured_stays(
    loaded, until, tmp_path
):
    folder = tmp_path / "models" / "other"
    window = loaded("ready take load take drafting take drafting take load take failed serve")
    here = (installed("someone/other", path=str(folder)), installed("head", role="head"))
    commands_of(window).asked("list").answer(inventory_answer(installed=here))
    chooser = box(window, "Model")
    assert chooser.currentText() == "tiny"
    assert [chooser.itemText(place) for place in range(2)] == ["tiny", "other"]
    choose(window, "Draft model", "Lookup")
    until(lambda: drafting(window)[0] == "lookup")
    choose(window, "How far ahead", "4 tokens")
    until(lambda: drafting(window)[1] == "4")
    assert window.settings.pair == Pair("", "lookup", "4")
    choose(window, "Model", "other")
    until(lambda: window.loader.loaded and window.loader.loaded.target == str(folder))
    assert window.settings.pair.target == str(folder)
    until(lambda: window.pair_bar.target == str(folder))
    window.menus.actions["measure"].trigger()
    until(lambda: "engine" in window.notices.texts)  # the host refuses the request
    assert window.loader.loaded is not None
    window.loader.fetch_began.emit()
    window.loader.fetch_progress.emit(25_000_000, 100_000_000)
    assert "25%" in window.pair_bar.status_text
    assert window.pair_bar.status == "loading"
    window.menus.actions["starter"].trigger()
    until(lambda: window.loader.loaded and window.loader.loaded.target == "/models/tiny")
    assert window.settings.pair.target == ""


def test_opened_folders_can_be_taken_off_the_list(loaded, until, tmp_path):
    window = loaded()
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


# What a conversation may take


def ask(window):
    window.menus.actions["memory"].trigger()
    return window.findChildren(MemoryDialog)[-1]


def test_what_is_chosen_is_loaded_and_kept(loaded, until, monkeypatch):
    window = loaded()
    dialog = ask(window)
    dialog.context.set_value("2048")
    dialog.caches.set_value("8")
    dialog.rest.set_value("15")
    dialog.accept()
    until(lambda: window.loader.loaded and window.loader.loaded.memory == Memory(2048, 8))
    assert window.loader.loaded.context_length == 2048
    assert window.settings.memory("") == Memory(2048, 8)
    assert window.settings.unload_minutes == 15
    again = ask(window)
    assert (again.context.value, again.caches.value, again.rest.value) == ("2048", "8", "15")
    loads = []
    with monkeypatch.context() as patch:
        patch.setattr(window.loader, "load", loads.append)
        again.accept()
    assert loads == [], "the same is not loaded again"
    dialog = ask(window)  # what is chosen is of the model that it names
    dialog.context.set_value("4096")
    window.loader.load(Pair("/models/other", "none", "auto"))  # as another window may
    dialog.accept()
    until(lambda: window.loader.loaded and window.loader.loaded.target == "/models/other")
    assert window.settings.memory("") == Memory(4096, 8)
    assert window.settings.memory("/models/other") == Memory()


def test_an_unloaded_model_is_loaded_with_the_next_message(loaded, until):
    window = loaded()
    window.menus.actions["unload"].trigger()
    until(lambda: window.loader.loaded is None)
    assert window.loader.resting
    assert window.pair_bar.status == "empty"
    assert window.engine.state is EngineState.EMPTY
    window.composer.set_text("Are you there?")
    window.composer.send()
    until(lambda: len(window.transcript.messages) == 2 and not window.conversation.busy)
    assert window.transcript.messages[1].written == "served"
    assert not window.loader.resting
    timer = window.loader.findChild(QTimer)
    assert not timer.isActive()
    window.loader.rest_after(5)
    assert timer.isActive()
    assert timer.interval() == 5 * 60_000
    timer.timeout.emit()  # it is not asked for so long
    until(lambda: window.loader.loaded is None)
    window.loader.rest_after(0)
    assert not timer.isActive()
