"""What is asked for in the sidebar is done in the store, and can be undone."""

from concurrent.futures import Future

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QLineEdit,
    QListWidget,
    QMenu,
    QPlainTextEdit,
    QProgressDialog,
    QPushButton,
)

from app.conversations.exchange import read_chats
from app.sidebar import controller
from app.sidebar.conversation_list import ConversationList
from app.sidebar.folder_dialog import FolderDialog
from models.errors import Problem
from tests.support.app.attached import Reader, file_in
from tests.support.app.window_maker import windows_of
from tests.support.app.window_use import fill

CTRL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def window(open_window, until):
    """A window with the conversations 1 to 5; 5 is the newest, and 3 is open."""
    window = open_window("ready take load take", read=Reader())
    fill(window.application, 5)
    window.conversation.open(3)
    until(lambda: shown(window) == 3 and listed(window).model().rowCount() == 5)
    return window


def shown(window):
    record = window.conversation.record
    return record.id if record else None


def listed(window):
    return window.findChild(ConversationList)


def stored(window):
    return {record.id: record for record in window.store.conversations().result()}


def test_a_deletion_is_undone_in_the_list_or_opens_the_neighbour(window, until):
    # The window and the list both had the key, so that neither was called.
    window.activateWindow()
    view = listed(window)
    view.setFocus()
    QTest.keyClick(view, Qt.Key.Key_A, CTRL)
    QTest.keyClick(view, Qt.Key.Key_Delete)
    until(lambda: shown(window) is None and window.sidebar.restore_action.isEnabled())
    until(lambda: view.model().rowCount() == 0)
    assert stored(window) == {}
    view.setFocus()
    QTest.keyClick(view, Qt.Key.Key_Z, CTRL)
    until(lambda: view.model().rowCount() == 5)
    assert len(stored(window)) == 5
    window.conversation.open(3)
    until(lambda: shown(window) == 3)
    window.menus.actions["delete"].trigger()
    until(lambda: shown(window) == 2 and listed(window).model().rowCount() == 4)
    window.sidebar.deleted.emit((1, 2))
    until(lambda: shown(window) == 4 and listed(window).model().rowCount() == 2)
    window.sidebar.deleted.emit((4, 5))
    until(lambda: shown(window) is None and not stored(window))


def test_everything_is_exported_as_one_file_or_none(window, until, tmp_path, monkeypatch):
    window.sidebar_controller.export_many(None, tmp_path / "missing" / "all.zip")
    until(lambda: "problem" in window.notices.texts)
    path = tmp_path / "all.zip"
    window.sidebar_controller.export_many(None, path)
    until(lambda: str(path) in window.notices.texts.get("done", ""))
    assert sorted(chat.title for chat in read_chats(path)) == [f"Chat {n}" for n in range(1, 6)]
    window.sidebar_controller.import_files([path])
    until(lambda: len(stored(window)) == 10)
    window.sidebar_controller.export_many((1, 4), path)
    until(lambda: len(read_chats(path)) == 2)
    monkeypatch.setattr(controller, "_AT_A_TIME", 1)
    fill(window.application, 45)
    cancelled = tmp_path / "out" / "all.zip"
    cancelled.parent.mkdir()
    until(lambda: not window.findChildren(QProgressDialog))
    window.sidebar_controller.export_many(None, cancelled)
    until(lambda: window.findChildren(QProgressDialog))
    (progress,) = window.findChildren(QProgressDialog)
    until(lambda: progress.value() > 2)
    assert progress.maximum() == 55
    progress.cancel()
    until(lambda: "cancelled" in window.notices.texts.get("done", ""))
    assert list(cancelled.parent.iterdir()) == []


def test_a_conversation_is_exported_in_every_form(window, until, tmp_path, monkeypatch):
    forms = {
        "markdown": b"# Chat 4", "json": b"{", "html": b"<!DOCTYPE html>", "pdf": b"%PDF",
    }  # fmt: skip
    window.store.edit(window.store.branch(4).result()[0].id, "off").result()
    for form, begin in forms.items():
        path = tmp_path / form
        window.sidebar_controller.export(4, form, path)
        until(lambda path=path: str(path) in window.notices.texts.get("done", ""))
        assert path.read_bytes().startswith(begin)
        left_out = "1 message of other versions" in window.notices.texts["done"]
        assert left_out == (form != "json")
    opened = []
    monkeypatch.setattr("app.window_dialogs.open_path", opened.append)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "Slipstream").mkdir(mode=0o755)  # of another user
    window.menus.actions["export_print"].trigger()
    until(lambda: opened)
    assert opened[0].name == "Chat 3.pdf"
    assert opened[0].read_bytes().startswith(b"%PDF")
    assert opened[0].parent.stat().st_mode & 0o777 == 0o700
    windows_of(window).open(None).close()
    assert opened[0].exists()  # it is the first window's
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "markdown"))  # no folder
    other = windows_of(window).open(4)
    until(lambda: shown(other) == 4)
    other.menus.actions["export_print"].trigger()
    until(lambda: "No PDF can be made" in other.notices.texts.get("problem", ""))
    monkeypatch.undo()
    other.close()
    window.sidebar_controller.export(3, "pdf", tmp_path / "missing" / "x.pdf")
    until(lambda: "problem" in window.notices.texts)
    window.close()
    assert not opened[0].exists()


def test_a_folder_is_named_and_gives_new_conversations_its_instruction_and_files(
    window, until, tmp_path, monkeypatch
):
    window.sidebar.folder_wanted.emit((2, 4))
    until(lambda: listed(window).editing)
    (editor,) = (e for e in window.findChildren(QLineEdit) if e.accessibleName() == "New name")
    QTest.keyClicks(editor, "Work")
    QTest.keyClick(editor, Qt.Key.Key_Return)
    until(lambda: [folder.name for folder in window.store.folders().result()] == ["Work"])
    (folder,) = window.store.folders().result()
    assert [id for id, record in stored(window).items() if record.folder == folder.id] == [4, 2]
    window.sidebar.folder_setup_asked.emit(folder)
    (dialog,) = window.findChildren(FolderDialog)
    dialog.findChild(QPlainTextEdit).setPlainText(" Be brief.\n")
    files = [str(file_in(tmp_path, name)) for name in ("plan.txt", "x.txt", "broken.txt")]
    dialog.add([*files, files[0]])
    remove = next(one for one in dialog.findChildren(QPushButton) if one.text() == "Remove")
    assert not remove.isEnabled()
    dialog.findChild(QListWidget).setCurrentRow(1)
    remove.click()
    with monkeypatch.context() as full:
        full.setattr(window.store, "set_up_folder", refusing)
        dialog.accept()
        until(lambda: "problem" in window.notices.texts and dialog.isVisible())
    dialog.accept()  # all of it is still there
    until(lambda: window.store.folders().result()[0].instruction == "Be brief.")
    until(lambda: not window.findChildren(FolderDialog))
    assert window.store.folders().result()[0].files == (files[0], files[2])
    window.sidebar.new_in_folder_asked.emit(folder.id)
    until(lambda: shown(window) == 6)
    assert stored(window)[6].folder == folder.id
    assert window.conversation.configured[0] == "Be brief."
    attachments = window.composer_controller.documents.attachments
    until(lambda: attachments.ready and not attachments.reading)
    assert [document.name for _, document in attachments.ready] == ["plan.txt"]
    assert [one.name for one in attachments.all if one.problem] == ["broken.txt"]
    assert not stored(window)[3].system_prompt, "those that exist stay as they are"
    path = tmp_path / "one.json"
    window.sidebar_controller.export(1, "json", path)
    until(path.exists)
    for make in (
        lambda: window.sidebar.new_in_folder_asked.emit(folder.id),
        lambda: window.sidebar.duplicate_asked.emit(1),
        lambda: window.sidebar_controller.import_files([path]),
    ):
        count = len(stored(window))
        make()
        window.show_conversation(2)  # before it is made
        until(lambda count=count: len(stored(window)) > count)
        until(window.application.listing.refresh().done)
        QApplication.processEvents()
        assert window.conversation.shown == 2
    window.sidebar.new_in_folder_asked.emit(folder.id)
    until(lambda: shown(window) == 10)
    window.show_conversation(7)  # which was begun in the folder before, and not opened
    until(lambda: shown(window) == 7)
    until(lambda: [document.name for _, document in attachments.ready] == ["plan.txt"])
    window.sidebar_controller.begin_temporary()
    window.show_conversation(2)
    until(window.application.listing.refresh().done)
    QApplication.processEvents()
    assert window.conversation.shown == 2
    window.notices.take_back("problem")
    window.sidebar.folder_wanted.emit((99,))  # which is gone
    until(lambda: "problem" in window.notices.texts)
    until(lambda: len(window.application.listing.folders) == 2)


FULL = Problem("The disk is full, so this could not be saved.", "Free some space and try again.")


def refusing(*_, **__):
    future = Future()
    future.set_exception(FULL)
    return future


def test_a_failed_undo_keeps_what_it_would_bring_back(window, until, monkeypatch):
    window.store.make_folder("Work").result()
    window.store.move(2, folder=1).result()

    def everything():
        chats = window.store.chats(range(1, 6)).result()
        return chats, window.store.folders().result()

    before, undo = everything(), window.sidebar.restore_action
    for change in (
        lambda: window.conversation.delete_message(window.conversation.branch[0].id),
        lambda: window.sidebar.archived.emit((3,), True),
        lambda: window.sidebar.moved.emit((1, 3), 1),
        lambda: window.sidebar.folder_deleted.emit(1),
        lambda: window.sidebar.deleted.emit((3, 4)),
    ):
        change()
        until(undo.isEnabled)
        assert everything() != before
        with monkeypatch.context() as full:
            full.setattr(window.store, "undo", refusing)
            for _ in range(2):
                window.notices.take_back("problem")
                undo.trigger()
                until(lambda: "problem" in window.notices.texts and undo.isEnabled())
        undo.trigger()
        until(lambda: everything() == before and not undo.isEnabled())


def test_what_was_deleted_is_restored_or_erased_in_a_menu(window, until):
    window.conversation.delete_message(window.conversation.branch[0].id)
    until(window.sidebar.restore_action.isEnabled)
    window.store.delete(1, 2).result()
    window.store.delete(4).result()

    def menu():
        window.menus.actions["deleted"].trigger()
        until(lambda: QApplication.activePopupWidget() is not None)
        found = QApplication.activePopupWidget()
        assert isinstance(found, QMenu)
        return found

    def press(found, *keys):
        for key in keys:
            QTest.keyClick(QApplication.activePopupWidget() or found, key)
        until(lambda: QApplication.activePopupWidget() is None)

    down, right, enter = Qt.Key.Key_Down, Qt.Key.Key_Right, Qt.Key.Key_Return
    first = menu()
    titles = [entry.text()[18:] for entry in first.actions()]
    assert titles == ["Chat 4", "2 conversations", "Message in Chat 3: on"]
    press(first, down, right, down, enter)  # delete now
    until(lambda: len(window.store.deleted().result()) == 2)
    press(menu(), down, right, enter)  # restore
    until(lambda: sorted(stored(window)) == [1, 2, 3, 5])
    press(menu(), down, right, enter)
    until(lambda: bool(window.conversation.branch) and shown(window) == 3)
    assert [entry.text() for entry in menu().actions()] == ["Nothing deleted in the last 30 days"]
    press(menu(), Qt.Key.Key_Escape)
    assert not window.sidebar.restore_action.isEnabled(), "the message is there"
