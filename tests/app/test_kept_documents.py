"""What the engine keeps of documents is a person's choice, and can be deleted."""

from unittest import mock

import pytest
from filelock import FileLock
from PySide6.QtWidgets import QLabel, QPushButton

from app.settings_dialog import SettingsDialog
from engine.process.protocol import Loaded


@pytest.fixture
def window(open_window, tmp_path):
    """A window, and something that is kept of a document."""
    window = open_window("ready take load take load take load serve")
    window.store.kept = tmp_path / "kept"
    folder = window.store.kept / "some"
    folder.mkdir(parents=True)
    (folder / "block.safetensors").write_bytes(b"x" * 1_500_000)
    return window


@pytest.fixture
def deletion(window, until):
    """The button in the settings, once the size is known."""
    window.menus.actions["settings"].trigger()
    (dialog,) = window.findChildren(SettingsDialog)
    buttons = [one for one in dialog.findChildren(QPushButton) if one.text().startswith("Delete")]
    (button,) = buttons
    until(button.isEnabled)
    return button


def said(window):
    (dialog,) = window.findChildren(SettingsDialog)
    texts = [label.text() for label in dialog.findChildren(QLabel)]
    return next(text for text in texts if text.startswith("The cache"))


def test_documents_are_kept_while_that_is_switched_on(window, until):
    application, loads = window.application, list[Loaded]()
    load = application.engine.load
    window.engine.loaded.connect(loads.append)
    until(lambda: window.loader.loaded is not None)
    loads.clear()
    with mock.patch.object(application.engine, "load", side_effect=load) as asked:
        for times, keep in enumerate((False, True), start=1):
            application.settings.keep_documents = keep
            application.settings_changed.emit()
            until(lambda times=times: len(loads) == times)
    assert [call.kwargs["keep_bytes"] for call in asked.call_args_list] == [0, None]


def test_it_is_told_how_much_is_kept_and_all_can_be_deleted(window, deletion, until):
    assert "1.50 MB" in said(window)
    kept = window.store.kept
    with (
        mock.patch("engine.conversation.kept_blocks._LOCK_SECONDS", 0.01),
        FileLock(kept.with_name(f".{kept.name}.lock")),
    ):
        deletion.click()
        until(lambda: window.notices.texts)
    assert deletion.isEnabled()
    assert kept.exists()
    deletion.click()
    until(lambda: not deletion.isEnabled())
    assert not kept.exists()
    assert "empty" in said(window)
