"""A temporary chat leaves nothing on the disk, however it ends; it can be kept."""

import sqlite3
from contextlib import closing
from shutil import copytree

import pytest

from app.conversations.store import is_temporary
from engine.events import Done, Stats, Text
from models.errors import Problem
from tests.support.app.attached import Reader, attach, file_in
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS, events_file, windows_of
from tests.support.app.window_use import answered, send, texts

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)
CANARY = "wallcreeper"
TABLES = ("conversations", "messages", "documents", "attachments", "traces")


@pytest.fixture
def chat(open_window, until, tmp_path):
    """A window with a temporary chat, whose engine answers with the canary."""
    said = [Text("", f"A {CANARY} climbs."), Done("", "stop", Stats())]
    played = f"take play:{events_file(tmp_path.parent, said)}"
    ends = f"take text:{CANARY} wait:{tmp_path / 'stopped'} done serve"
    window = open_window(f"ready take load {played} {played} {ends}", read=Reader())
    until(lambda: window.loader.loaded)
    window.menus.actions["temporary"].trigger()
    until(lambda: window.conversation.temporary)
    return window


def found_in(folder):
    """The files that have the canary."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".txt"]
    return [path.name for path in paths if CANARY.encode() in path.read_bytes()]


def filled(folder):
    """The tables that have a row, once the store is closed: some are compressed."""
    with closing(sqlite3.connect(folder / "conversations.sqlite")) as connection:
        counts = {t: connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in TABLES}
    return [table for table, count in counts.items() if count]


def use(window, until, folder):
    """Have it answered about a file, ask once more, and leave a message in the field."""
    attach(window, until, file_in(folder, "plan.txt", f"A {CANARY}."))
    send(window, f"What is a {CANARY}?")
    until(answered(window, 2))
    window.conversation.regenerate(window.conversation.branch[-1].id)
    until(answered(window, 2))
    window.conversation.configure(system_prompt=f"Speak of a {CANARY}.", settings=None)
    window.store.back_up_if_due().result()
    window.application.settings.save()
    window.composer.field.insertPlainText(f"More of the {CANARY}")
    window.composer_controller.leave()


@pytest.mark.parametrize("ending", ["left while answering", "closed", "left", "left while sending"])
@pytest.mark.quick(2)
def test_nothing_of_it_is_on_the_disk(chat, until, tmp_path, ending):
    use(chat, until, tmp_path)
    gone = chat.conversation.record.id
    if ending == "left while sending":
        chat.composer.send()
    elif ending != "left":
        chat.composer.send()
        until(lambda: texts(chat)[-1] == CANARY)  # an answer that does not end
        chat.answers.flush()
    left = copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-left"))  # by a crash
    assert found_in(left) == filled(left) == []
    if ending != "closed":
        chat.new()
        until(lambda: chat.conversation.record is None)
        (tmp_path / "stopped").touch()
        until(lambda: isinstance(chat.store.conversation(gone).exception(), Problem))
        assert not chat.answers.conversations
        assert chat.application.readiness.matters == {}
    chat.close()
    assert found_in(tmp_path) == filled(tmp_path) == []


def test_it_is_plain_that_it_is_temporary_and_it_can_be_kept(chat, until, tmp_path, watch):
    asked = watch(chat.engine)
    assert "temporary" in chat.notices.shown
    assert "Temporary" in chat.windowTitle()
    picture = tmp_path / "a.png"  # needs a copy on the disk, so it is refused
    picture.write_bytes(b"no matter what")
    chat.composer.files_given.emit([picture])
    attachments = chat.composer_controller.documents.attachments
    until(lambda: [one.problem is not None for one in attachments.all] == [True])
    chat.composer.documents.remove_asked.emit(0)
    other = windows_of(chat).open()  # another window has none of it
    until(lambda: other.conversation.record is None)
    assert is_temporary(chat.conversation.record.id)
    assert chat.application.settings.open_windows == (1, 2)
    assert chat.own.conversation is None
    other.close()
    use(chat, until, tmp_path)
    assert chat.conversation.settings.private  # a race has these
    assert [one.request.private for one in asked] == [True, True]
    attach(chat, until, file_in(tmp_path, "more.txt", "Unsent, too."))
    chat.notices.press("temporary")
    chat.conversation.say("Unsent")  # before it is kept
    until(lambda: chat.conversation.record and not chat.conversation.temporary)
    assert "Unsent" in chat.composer.text
    assert "temporary" not in chat.notices.shown
    assert not chat.conversation.settings.private
    kept = chat.conversation.branch
    assert [message.siblings for message in kept] == [1, 2]
    assert kept[0].sent.documents[0].name == "plan.txt"
    assert CANARY in chat.composer.text
    assert CANARY in chat.conversation.record.title
    assert chat.application.listing.find(chat.conversation.record.id)
    until(lambda: [document.name for _, document in attachments.ready] == ["more.txt"])
