"""What is kept of documents and of earlier answers is the user's choice, and can be deleted; the
window waits for no one meanwhile."""

from contextlib import nullcontext
from unittest import mock

import pytest
from filelock import FileLock
from PySide6.QtWidgets import QLabel, QPushButton

from app.settings_dialog import SettingsDialog
from engine import earlier_answers
from tests.support.app.window_use import part


def change(application, *wanted):
    """Switch learning on or off, one change after the other."""
    for learn in wanted:
        application.settings.learn = learn
        application.settings_changed.emit()


def locked(folder):
    """The lock of a folder, as another program has it."""
    return FileLock(folder.with_name(f".{folder.name}.lock"))


@pytest.fixture
def learning(open_window, until):
    """A window where earlier answers are kept, and the file of one."""
    window = open_window()
    folder = window.application.store.earlier_answers
    change(window.application, True)
    until(folder.exists)
    (folder / "some.json").write_text("{}")
    return window, folder / "some.json"


def test_both_are_kept_while_that_is_switched_on(open_window, until):
    window = open_window("ready take load take load take load take load take load serve")
    application, loads, troubles = window.application, [], []
    window.engine.loaded.connect(loads.append)
    application.troubled.connect(troubles.append)
    until(lambda: len(loads) == 1)
    load, folder = application.engine.load, application.store.earlier_answers
    with mock.patch.object(application.engine, "load", side_effect=load) as asked:
        application.settings_changed.emit()
        assert not folder.exists()
        change(application, True)
        until(lambda: len(loads) == 2 and folder.exists())
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "some.json").write_text("{}")
        with mock.patch("shutil.rmtree", side_effect=OSError(13, "Permission denied")):
            change(application, False)
            until(lambda: len(loads) == 3 and troubles)
        assert str(folder) in troubles[0].message
        application.settings_changed.emit()  # another change tries again
        until(lambda: not folder.exists())
        for keep in (False, True):
            application.settings.keep_documents = keep
            application.settings_changed.emit()
            until(lambda keep=keep: len(loads) == 4 + keep)
    told = [(call.kwargs["learn"], call.kwargs["keep_bytes"]) for call in asked.call_args_list]
    assert told == [(True, None), (False, None), (False, 0), (False, None)]
    assert len(troubles) == 1


@pytest.mark.quick(1)
@pytest.mark.parametrize("changes", [(False,), (False, True), (False, True, False)])
def test_the_window_waits_for_no_other_program_and_the_last_change_holds(learning, changes):
    window, file = learning
    with locked(file.parent):
        change(window.application, *changes)
        assert file.exists(), "the other program has it still"
    window.store.folders().result()  # which the store does after all that it was asked for before
    assert not file.exists()
    assert file.parent.exists() == changes[-1]


@pytest.mark.parametrize("hangs", [True, False])
def test_what_was_switched_off_is_deleted_before_it_closes_unless_another_program_hangs(
    learning, monkeypatch, hangs
):
    monkeypatch.setattr(earlier_answers, "LOCK_SECONDS", 0.01)
    window, file = learning
    with locked(file.parent) if hangs else nullcontext():
        change(window.application, False)
        window.close()
    assert file.exists() == file.parent.exists() == hangs


def test_what_is_kept_of_documents_can_be_deleted(open_window, until, tmp_path):
    window = open_window()
    window.store.kept = kept = tmp_path / "kept"
    (kept / "some").mkdir(parents=True)
    (kept / "some" / "block.safetensors").write_bytes(b"x" * 1_500_000)
    window.menus.actions["settings"].trigger()
    dialog = part(window, SettingsDialog)
    buttons = dialog.findChildren(QPushButton)
    (deletion,) = (one for one in buttons if one.text().startswith("Delete"))

    def said():
        return " ".join(label.text() for label in dialog.findChildren(QLabel))

    until(deletion.isEnabled)
    assert "1.50 MB" in said()
    with mock.patch("engine.conversation.kept_blocks._LOCK_SECONDS", 0.01), locked(kept):
        deletion.click()
        until(lambda: window.notices.texts)
    assert deletion.isEnabled()
    assert kept.exists()
    deletion.click()
    until(lambda: not deletion.isEnabled())
    assert not kept.exists()
    assert "empty" in said()
