"""What a conversation may take is chosen, kept and loaded; a model can rest until it is asked."""

import pytest
from PySide6.QtCore import QTimer

from app.engine_client.engine_process import EngineState
from app.models.memory_dialog import MemoryDialog
from app.settings import Pair
from engine.process.protocol import Memory


@pytest.fixture
def window(open_window, until):
    window = open_window()
    until(lambda: window.pair_bar.status == "loaded")
    return window


def ask(window):
    window.menus.actions["memory"].trigger()
    return window.findChildren(MemoryDialog)[-1]


def test_what_is_chosen_is_loaded_and_kept(window, until, monkeypatch):
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
    monkeypatch.setattr(window.loader, "load", loads.append)
    again.accept()
    assert loads == [], "the same is not loaded again"


def test_what_is_chosen_is_of_the_model_that_the_dialog_names(window, until):
    dialog = ask(window)
    dialog.context.set_value("2048")
    window.loader.load(Pair("/models/other", "none", "auto"))  # as another window may
    dialog.accept()
    until(lambda: window.loader.loaded and window.loader.loaded.target == "/models/other")
    assert window.settings.memory("") == Memory(2048)
    assert window.settings.memory("/models/other") == Memory()


def test_an_unloaded_model_is_loaded_with_the_next_message(window, until):
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


def test_a_pair_is_measured_again(open_window, until):
    window = open_window("ready take load take failed serve")
    until(lambda: window.pair_bar.status == "loaded")
    window.menus.actions["measure"].trigger()
    until(lambda: "engine" in window.notices.texts)  # the host refuses the request
    assert window.loader.loaded is not None
