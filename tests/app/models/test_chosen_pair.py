"""A chosen pair is loaded between answers; an opened folder is listed once it works."""

from pathlib import Path

from app.settings import Pair
from models.errors import Problem
from tests.support.app.fake_commands import OpeningCommands
from tests.support.app.window_use import box


def test_loading_waits_for_the_end_of_the_answer(open_window, until):
    window = open_window("ready take load take text:begun take -- ready serve")
    until(lambda: window.pair_bar.status == "loaded")
    window.composer.set_text("Go on.")
    window.composer.send()
    until(lambda: window.answers.busy and window.transcript.messages[-1].written == "begun")
    window.loader.use(Pair("/models/better", "auto", "auto"))
    assert window.loader.pair.target == ""
    window.engine.restart()  # which ends the answer
    until(lambda: window.loader.loaded and window.loader.loaded.target == "/models/better")


def test_other_answers_at_once_load_the_model_again(open_window, until):
    window = open_window("ready take load take text:begun take -- ready serve")
    loads = []
    window.engine.loaded.connect(loads.append)
    until(lambda: loads)
    window.application.settings_changed.emit()
    assert not window.loader.outdated
    window.composer.set_text("Go on.")
    window.composer.send()
    until(lambda: window.answers.busy and window.transcript.messages[-1].written == "begun")
    window.settings.parallel = 2
    window.application.settings_changed.emit()
    assert window.loader.outdated, "until the answer has ended"
    window.engine.restart()  # which ends it
    until(lambda: loads[-1].parallel == 2)
    assert not window.loader.outdated


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


def test_a_gguf_file_is_imported_first_and_a_damaged_one_leaves_the_old_model(
    open_window, until, tmp_path
):
    file, folder = tmp_path / "large.gguf", tmp_path / "imported"
    heard = []

    def opening(target):
        heard.append(target)
        if "damaged" in target:
            raise Problem("The file is damaged.", "Fetch it again.")
        return folder if target else Path("/models/tiny")

    window = open_window("ready take load take load serve", loading=OpeningCommands(opening))
    until(lambda: window.pair_bar.status == "loaded")
    window.loader.open_target(tmp_path / "damaged.gguf")
    until(lambda: "engine" in window.notices.texts)
    assert window.pair_bar.status == "loaded"
    assert window.loader.loaded is not None
    assert window.settings.pair == Pair()
    window.loader.open_target(file)
    until(lambda: window.loader.loaded and window.loader.loaded.target == str(folder))
    assert heard == ["", str(tmp_path / "damaged.gguf"), str(file)]
    assert box(window, "Model").currentText() == "large.gguf"
    assert window.settings.paths("targets") == (str(file),)


def test_a_folder_that_is_refused_is_not_listed(open_window, until, tmp_path):
    (tmp_path / "empty").mkdir()
    window = open_window("ready take load take failed take failed serve")
    until(lambda: window.pair_bar.status == "loaded")
    opening = {"drafters": window.loader.open_drafter, "targets": window.loader.open_target}
    for kind, name in (("drafters", "Draft model"), ("targets", "Model")):
        before = box(window, name).currentText()
        opening[kind](tmp_path / "empty")
        assert box(window, name).currentText() == "empty"
        until(lambda: "Do otherwise." in window.notices.texts.get("engine", ""))
        assert box(window, name).currentText() == before
        assert window.settings.paths(kind) == ()
        assert box(window, name).findText("empty") == -1
        assert (window.settings.pair, window.composer.blocked) == (Pair(), "")
        window.notices.take_back("engine")


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
