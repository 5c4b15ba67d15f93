"""Documents are attached, planned, sent with a message and shown above it; what was sent stays."""

import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QAction, QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QMessageBox, QPushButton, QWidget

from app.chat.composer import SignButton
from app.chat.message import MessageWidget
from app.documents.controller import ALL_OF_IT, ONLY_PASSAGES
from app.documents.text_dialog import TextDialog
from app.window import Window
from engine.documents.plan import Plan
from engine.documents.prompt import Sent, sent_from_json
from engine.events import Prefill
from engine.request import ChatMessage, Request
from models.errors import Problem
from tests.support.app.attached import Reader, attach, chips, file_in, planned
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS, Open, Until
from tests.support.app.window_use import answered, send
from tests.support.documents.pdfs import line, pdf

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)

LONG = "\n\n".join(
    f"Clause {n}. "
    + ("The tenant pays the deposit. " if n == 40 else "Nothing is said here. ") * 30
    for n in range(80)
)

Opened = Callable[[], Window]
Asked = Callable[[Window], list[list[ChatMessage]]]


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def opened(open_window: Open, until: Until, reader: Reader) -> Opened:
    """Opens a window that reads files so, with a model that counts."""

    def opened() -> Window:
        window = open_window(read=reader)
        until(lambda: window.loader.loaded is not None)
        return window

    return opened


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return file_in(tmp_path)


@pytest.fixture
def requests() -> list[Request]:
    """How the engine was asked, by those that `asked` watches."""
    return []


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, requests: list[Request]) -> Asked:
    """What the engine is asked from now on."""

    def asked(window: Window) -> list[list[ChatMessage]]:
        seen: list[list[ChatMessage]] = []
        generate = window.engine.generate

        def spy(conversation: str, lines: Any, request: Request, **options: str) -> str:
            seen.append(list(lines))
            requests.append(request)
            return generate(conversation, lines, request, **options)

        monkeypatch.setattr(window.engine, "generate", spy)
        return seen

    return asked


def question(window: Window, place: int = 0) -> MessageWidget:
    row = window.transcript.messages[place]
    assert row.view is not None, "it is built for that"
    assert row.widget is not None
    return row.widget


def sent(window: Window, place: int = 0) -> Sent:
    found = window.conversation.branch[place].sent
    assert found is not None
    return found


def names(widget: MessageWidget) -> list[str]:
    return [chip.accessibleName() for chip in widget.documents.chips]


def test_a_file_is_attached_sent_answered_and_there_when_it_is_opened_again(
    opened: Opened, until: Until, file: Path, asked: Asked
) -> None:
    window = opened()
    seen = asked(window)
    attach(window, until, file)
    send(window, "What leaks?")
    until(answered(window, 2))
    ((line,),) = seen
    assert line.content == sent(window).text
    assert "The roof leaks." in line.content[: line.attached]
    assert line.content[line.attached :] == "What leaks?"
    assert chips(window) == []
    assert question(window).written == "What leaks?"
    assert names(question(window)) == ["plan.txt, whole"]
    record = window.conversation.record
    assert record is not None
    assert record.title == "What leaks?"
    window.menus.actions["new"].trigger()
    window.show_conversation(record.id)
    until(lambda: len(window.transcript.messages) == 2)
    assert names(question(window)) == ["plan.txt, whole"]
    send(window, "Anything else?")
    until(answered(window, 4))
    assert seen[1][0] == line, "it is never made anew"


def test_an_answer_from_notes_of_an_earlier_version_is_shown(opened: Opened, until: Until) -> None:
    told = sent_from_json(
        '{"text": "It leaks. What leaks?", "documents": [{"number": 1, "name": "plan.txt", '
        '"ranges": [], "passages": 0, "among": 4, "start": 0, "end": 10, "digest": "00", '
        '"notes": 2, "pixels": null}]}'
    )
    window = opened()
    asked = window.store.ask(None, "What leaks?", sent=told, target="", drafter="").result()
    record, (_, answer) = asked
    window.store.finish_answer(answer.id, "The roof.", (), state="complete").result()
    window.show_conversation(record.id)
    until(lambda: len(window.transcript.messages) == 2)
    assert question(window, 1).written == "The roof."
    assert names(question(window)) == ["plan.txt, notes on its parts"]
    send(window, "Anything else?")
    until(answered(window, 4))


@pytest.mark.slow
def test_the_engine_may_keep_what_it_reads_of_a_whole_document(
    opened: Opened, until: Until, file: Path, asked: Asked, requests: list[Request]
) -> None:
    window = opened()
    asked(window)
    attach(window, until, file)
    send(window, "What leaks?")
    until(answered(window, 2))
    send(window, "Anything else?")
    until(answered(window, 4))
    (digest,) = [document.digest for document in sent(window).documents]
    window.menus.actions["new"].trigger()
    send(window, "Hello")
    until(answered(window, 2))
    assert [request.keep_as for request in requests] == [(digest,), (digest,), ()]


def test_files_that_are_read_by_the_real_reader(
    open_window: Open, until: Until, file: Path
) -> None:
    window = open_window()
    until(lambda: window.loader.loaded is not None)
    attach(window, until, file, file.parent / "gone.txt")
    read, gone = chips(window)
    assert read.startswith("plan.txt, whole, ")
    assert "gone.txt" in gone


@pytest.mark.slow
def test_another_version_and_another_answer_keep_what_was_sent(
    opened: Opened, until: Until, file: Path, asked: Asked
) -> None:
    window = opened()
    seen = asked(window)
    attach(window, until, file)
    send(window, "first")
    until(answered(window, 2))
    before = sent(window)
    window.menus.actions["regenerate"].trigger()
    until(lambda: len(seen) == 2 and answered(window, 2)())
    assert seen[1] == seen[0]
    window.menus.actions["edit"].trigger()
    assert window.composer.text == "first"
    assert chips(window) == ["plan.txt, whole"]
    window.composer.documents.view_asked.emit(0)
    dialog = window.findChild(TextDialog)
    assert dialog is not None
    assert dialog.text == before.given(1)
    dialog.close()
    send(window, " and more")
    until(lambda: len(seen) == 3 and answered(window, 2)())
    assert sent(window) == before.asked("first and more")
    assert seen[2][0].content == sent(window).text
    assert chips(window) == []


def test_a_message_that_is_edited_takes_no_other_documents(
    opened: Opened, until: Until, file: Path, reader: Reader
) -> None:
    window = opened()
    send(window, "first")
    until(answered(window, 2))
    window.menus.actions["edit"].trigger()
    window.composer.files_given.emit([file])
    assert "remark" in window.notices.texts
    assert (chips(window), reader.read) == ([], [])
    window.notices.press("edit")
    attach(window, until, file)


@pytest.mark.slow
def test_what_is_attached_waits_in_its_conversation(
    opened: Opened, until: Until, file: Path
) -> None:
    window = opened()
    window.composer.field.setPlainText("What leaks?")
    attach(window, until, file)
    record = window.conversation.record
    assert record is not None
    window.menus.actions["new"].trigger()
    assert (chips(window), window.composer.text) == ([], "")
    window.show_conversation(record.id)
    until(lambda: chips(window) and planned(window))
    assert window.composer.text == "What leaks?"
    ((number, document),) = window.store.documents_of(record.id).result()
    assert (number, document.text) == (1, "The roof leaks.")
    window.composer.documents.remove_asked.emit(0)
    assert chips(window) == []
    assert window.store.documents_of(record.id).result() == ()


def test_what_is_attached_to_a_new_conversation_is_there_in_the_next_run(
    opened: Opened, until: Until, file: Path
) -> None:
    before = opened()
    before.composer.field.setPlainText("What leaks?")
    attach(before, until, file)
    before.close()
    window = opened()
    until(lambda: chips(window) and planned(window))
    assert window.composer.text == "What leaks?"


def test_while_a_file_is_read_nothing_is_sent(
    opened: Opened, until: Until, tmp_path: Path, reader: Reader
) -> None:
    window = opened()
    window.composer.files_given.emit([file_in(tmp_path, "slow.txt"), file_in(tmp_path, "b.txt")])
    until(lambda: reader.read)
    assert chips(window)[0] == "slow.txt, Reading…"
    send(window, "What leaks?")
    assert window.composer.text == "What leaks?"
    assert window.conversation.branch == ()
    window.composer.documents.remove_asked.emit(0)
    until(lambda: reader.cancelled == ["slow.txt"])
    until(lambda: len(chips(window)) == 1 and planned(window))
    window.composer.send()
    until(answered(window, 2))
    assert [one.name for one in sent(window).documents] == ["b.txt"]


def test_a_file_that_cannot_be_read_says_why_and_is_in_nobodys_way(
    opened: Opened, until: Until, tmp_path: Path, asked: Asked
) -> None:
    window = opened()
    seen = asked(window)
    attach(window, until, file_in(tmp_path, "broken.txt"))
    (chip,) = window.composer.documents.chips
    assert "Attach another." in chip.accessibleName()
    assert not chip.view.isVisibleTo(chip)
    send(window, "Hello")
    until(answered(window, 2))
    assert seen == [[ChatMessage("user", "Hello")]]
    window.composer.documents.remove_asked.emit(0)
    assert chips(window) == []


def test_what_the_model_gets_can_be_seen_before_and_after(
    opened: Opened, until: Until, file: Path
) -> None:
    window = opened()
    attach(window, until, file)
    window.composer.documents.chips[0].view.click()
    before = window.findChild(TextDialog)
    assert before is not None
    text = before.text
    before.close()
    before.setParent(None)
    send(window, "What leaks?")
    until(answered(window, 2))
    question(window).documents.chips[0].view.click()
    after = window.findChild(TextDialog)
    assert after is not None
    assert after.text == text == sent(window).text.removesuffix("What leaks?")
    after.close()


def test_a_deleted_document_is_gone_from_the_prompt(
    opened: Opened, until: Until, file: Path, asked: Asked
) -> None:
    window = opened()
    attach(window, until, file)
    send(window, "What leaks?")
    until(answered(window, 2))
    question(window).documents.remove_asked.emit(0)
    box = window.findChild(QMessageBox)
    assert box is not None
    press(box, "Delete")
    until(lambda: names(question(window)) == ["plan.txt, deleted"])
    assert window.conversation.branch[1].content == "served"
    record = window.conversation.record
    assert record is not None
    assert window.store.documents_of(record.id).result() == ()
    seen = asked(window)
    send(window, "Again?")
    until(answered(window, 4))
    assert "The roof" not in seen[0][0].content
    assert seen[0][0].content == sent(window).text


@pytest.mark.slow
def test_a_document_is_not_deleted_by_a_look_at_it(
    opened: Opened, until: Until, file: Path
) -> None:
    window = opened()
    attach(window, until, file)
    send(window, "What leaks?")
    until(answered(window, 2))
    question(window).documents.remove_asked.emit(0)
    box = window.findChild(QMessageBox)
    assert box is not None
    press(box, "Cancel")
    assert names(question(window)) == ["plan.txt, whole"]


def press(box: QMessageBox, text: str) -> None:
    button = next(b for b in box.findChildren(QPushButton) if b.text().replace("&", "") == text)
    button.click()


def test_files_are_dropped_anywhere_on_the_window(opened: Opened, until: Until, file: Path) -> None:
    window = opened()
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(file))])
    copy, move = Qt.DropAction.CopyAction, Qt.DropAction.MoveAction
    drop = QDropEvent(
        QPointF(5, 5), copy | move, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    window.dropEvent(drop)
    assert drop.dropAction() == copy
    until(lambda: chips(window) and planned(window))
    assert chips(window)[0].startswith("plan.txt, whole, ")


def test_the_composer_says_that_files_can_be_dropped_while_they_are_held_over_the_window(
    opened: Opened, file: Path
) -> None:
    window = opened()
    copy, nothing = Qt.DropAction.CopyAction, Qt.KeyboardModifier.NoModifier
    data, text = QMimeData(), QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(file))])
    text.setText("some words")
    hint = window.composer.drop_hint

    def held(over: QWidget, what: QMimeData) -> bool:
        """Whether the hint is shown then, after it was not."""
        over_it = QDragEnterEvent(QPoint(5, 5), copy, what, Qt.MouseButton.LeftButton, nothing)
        QApplication.sendEvent(over, over_it)
        shown = hint.isVisible()
        QApplication.sendEvent(over, QDragLeaveEvent())
        assert hint.isHidden()
        return shown

    field = window.composer.field.viewport()
    assert [held(window, data), held(field, data)] == [True, True]
    assert [held(window, text), held(field, text)] == [False, False]


@pytest.mark.slow
def test_the_hint_goes_with_the_drop(opened: Opened, until: Until, file: Path) -> None:
    window = opened()
    window.composer.show_drop(True)
    assert window.composer.drop_hint.size() == window.composer.size()
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(file))])
    copy, nothing = Qt.DropAction.CopyAction, Qt.KeyboardModifier.NoModifier
    window.dropEvent(QDropEvent(QPointF(5, 5), copy, data, Qt.MouseButton.LeftButton, nothing))
    assert window.composer.drop_hint.isHidden()
    until(lambda: chips(window) and planned(window))


def test_the_button_offers_files_and_folders(opened: Opened) -> None:
    window = opened()
    asked, folders = list[bool](), list[bool]()
    window.composer.attach_asked.disconnect()
    window.composer.folder_asked.disconnect()
    window.composer.attach_asked.connect(lambda: asked.append(True))
    window.composer.folder_asked.connect(lambda: folders.append(True))
    menu = window.composer.attach_menu()
    actions: list[QAction] = menu.actions()
    for action in actions:
        action.trigger()
    assert (asked, folders) == ([True], [True])
    menu.close()
    assert window.menus.actions["attach"].shortcut().toString() == "Ctrl+Shift+A"


def test_who_attached_a_file_can_write_at_once(opened: Opened, until: Until, file: Path) -> None:
    window = opened()
    button = window.composer.findChild(SignButton)
    assert button is not None
    button.setFocus()
    assert window.focusWidget() is button
    attach(window, until, file)
    assert window.focusWidget() is window.composer.field


@pytest.mark.slow
def test_what_is_there_already_is_not_attached_again(
    opened: Opened, until: Until, file: Path
) -> None:
    window = opened()
    attach(window, until, file)
    send(window, "What leaks?")
    until(answered(window, 2))
    window.composer.files_given.emit([file])
    until(lambda: "remark" in window.notices.texts)
    assert chips(window) == []
    record = window.conversation.record
    assert record is not None
    assert window.store.unsent_documents(record.id).result() == ()


@pytest.mark.slow
def test_what_could_not_be_stored_comes_back_with_its_documents(
    opened: Opened, until: Until, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = opened()
    attach(window, until, file)
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL

    def refuse(*arguments: object, **options: object) -> None:
        raise full

    monkeypatch.setattr("app.conversations.tree._insert", refuse)
    send(window, "What leaks?")
    until(lambda: window.composer.text == "What leaks?" and chips(window) and planned(window))
    monkeypatch.undo()
    window.composer.send()
    until(answered(window, 2))
    assert "The roof" in sent(window).text


def test_of_a_long_document_each_question_gets_passages_in_its_own_message(
    opened: Opened, until: Until, tmp_path: Path, asked: Asked
) -> None:
    window = opened()
    seen = asked(window)
    attach(window, until, file_in(tmp_path, "lease.txt", LONG))
    window.composer.field.setPlainText("Who pays the deposit?")
    until(lambda: "passage" in chips(window)[0])
    assert "part by part" in window.composer.documents.remark
    assert not window.composer.unready
    window.composer.send()
    until(answered(window, 2))
    first = sent(window).documents[0]
    assert 0 < first.passages < first.among
    assert "pays the deposit" in sent(window).text
    assert "passages of" in names(question(window))[0]
    line = seen[0][0]
    window.composer.field.setPlainText("And what does clause 70 say about it?")
    until(lambda: chips(window) and "passage" in chips(window)[0])
    assert window.composer.documents.remark == ""
    window.composer.send()
    until(answered(window, 4))
    assert seen[1][0] == line
    second = sent(window, 2).documents[0]
    assert (second.number, second.name) == (1, "lease.txt")
    assert not {part.offset for part in first.ranges} & {part.offset for part in second.ranges}


@pytest.mark.slow
def test_without_room_for_a_passage_nothing_is_sent(
    opened: Opened, until: Until, file: Path
) -> None:
    window = opened()
    text = "word " * 4000  # alone it fills the context
    window.composer.field.setPlainText(text)
    attach(window, until, file)
    until(lambda: window.composer.unready)
    assert window.composer.documents.remark == window.composer.unready
    window.composer.send()
    assert window.composer.text == text
    window.composer.field.setPlainText("What leaks?")
    until(lambda: not window.composer.unready)
    window.composer.send()
    until(answered(window, 2))


@pytest.mark.slow
def test_how_long_it_takes_to_read_is_known_from_the_answers(
    opened: Opened, until: Until, tmp_path: Path
) -> None:
    window = opened()
    attach(window, until, file_in(tmp_path, "a.txt", "word " * 1200))
    assert "to read" not in chips(window)[0]
    window.answers.happened.emit(None, Prefill("g", 600, 1000, 100, 5.0))
    window.composer.field.setPlainText("?")
    until(lambda: "about 20 s to read" in chips(window)[0])


def test_how_long_it_takes_to_read_is_known_in_the_next_run(
    opened: Opened, until: Until, tmp_path: Path
) -> None:
    before = opened()
    before.answers.happened.emit(None, Prefill("g", 600, 1000, 100, 5.0))
    before.close()
    window = opened()
    attach(window, until, file_in(tmp_path, "a.txt", "word " * 1200))
    assert "about 20 s to read" in chips(window)[0]


def test_of_a_document_that_is_slow_to_read_passages_can_be_chosen(
    opened: Opened, until: Until, tmp_path: Path
) -> None:
    window = opened()
    documents = window.composer.documents
    window.answers.happened.emit(None, Prefill("g", 600, 1000, 100, 2.5))
    attach(window, until, file_in(tmp_path, "a.txt", "word deposit. " * 540))
    assert "whole" in chips(window)[0]
    assert documents.choice.button.text() == ""  # it takes 12 s
    window.answers.happened.emit(None, Prefill("g", 600, 1000, 100, 10.0))
    window.composer.field.setPlainText("What is the deposit?")
    until(lambda: documents.choice.button.text() == ONLY_PASSAGES)
    assert "to read" in documents.choice.words
    documents.choice.button.click()
    until(lambda: documents.choice.button.text() == ALL_OF_IT)
    assert "passage" in chips(window)[0]
    documents.choice.button.click()
    until(lambda: "whole" in chips(window)[0])
    documents.choice.button.click()
    until(lambda: documents.choice.button.text() == ALL_OF_IT)
    window.composer.send()
    until(answered(window, 2))
    assert sent(window).documents[0].passages
    assert documents.choice.button.text() == ""


def test_before_anything_is_measured_no_time_is_said(
    opened: Opened, until: Until, tmp_path: Path
) -> None:
    window = opened()
    weights = tmp_path / "model" / "model.safetensors"
    weights.parent.mkdir()
    with weights.open("wb") as file:
        file.truncate(4 * 10**9)
    loaded = window.loader.loaded
    assert loaded is not None
    window.composer_controller.documents.use(replace(loaded, target=str(weights.parent)))
    attach(window, until, file_in(tmp_path, "a.txt", "word " * 5000))
    until(lambda: "tokens" in chips(window)[0])
    assert "to read" not in chips(window)[0] + window.composer.documents.choice.words


@pytest.mark.slow
def test_a_race_runs_on_the_message_with_its_documents(
    opened: Opened, until: Until, file: Path
) -> None:
    window = opened()
    attach(window, until, file)
    window.composer.field.setPlainText("What leaks?")
    until(lambda: planned(window))
    prompt = window.composer_controller.documents.prompt("What leaks?")
    assert "The roof leaks." in prompt
    assert prompt.endswith("What leaks?")


def test_of_a_pdf_a_private_copy_is_kept_until_it_is_deleted(
    open_window: Open, until: Until, tmp_path: Path
) -> None:
    window = open_window()
    until(lambda: window.loader.loaded is not None)
    path = tmp_path / "plan.pdf"
    path.write_bytes(pdf(line("The roof leaks."), line("The cellar is dry.")))
    attach(window, until, path)
    assert chips(window)[0].startswith("plan.pdf, 2 pages · whole, ")
    send(window, "What leaks?")
    until(answered(window, 2))
    assert "[page 2]" in sent(window).text
    record = window.conversation.record
    assert record is not None
    ((_, document),) = window.store.documents_of(record.id).result()
    copy = window.store.copy_of(document)
    assert copy is not None
    assert copy.read_bytes() == path.read_bytes()
    window.conversation.delete_document(1)
    until(lambda: names(question(window)) == ["plan.pdf, deleted"])
    assert not copy.exists()


def test_a_name_is_no_html(opened: Opened, until: Until, tmp_path: Path) -> None:
    window = opened()
    attach(window, until, file_in(tmp_path, "<img src=x>.txt"))
    assert "<img" not in window.composer.documents.chips[0].toolTip()
    send(window, "What leaks?")
    until(answered(window, 2))
    question(window).documents.remove_asked.emit(0)
    box = window.findChild(QMessageBox)
    assert box is not None
    assert box.textFormat() == Qt.TextFormat.PlainText
    press(box, "Cancel")


def test_what_cannot_be_planned_is_in_no_other_conversations_way(
    opened: Opened, until: Until, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = opened()
    attach(window, until, file)
    documents, planning = window.composer_controller.documents, Future[Plan]()
    monkeypatch.setattr(documents._planner, "plan", lambda message: planning)
    documents._begin()
    window.new()
    planning.set_exception(Problem("There is no room.", "Ask less."))
    until(lambda: not documents._planning)
    assert (window.composer.unready, window.composer.documents.remark) == ("", "")


def test_what_is_on_its_way_is_kept_until_it_is_in_the_store(
    opened: Opened, until: Until, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = opened()
    attach(window, until, file)
    record = window.conversation.record
    assert record is not None
    documents = window.composer_controller.documents
    planned_later: Future[Sent] = Future()
    monkeypatch.setattr(documents, "sent", lambda text: planned_later)
    send(window, "What leaks?")
    window.composer_controller.leave()
    assert window.store.conversation(record.id).result().unsent == "What leaks?"
    planned_later.set_result(Sent("What leaks?"))
    until(answered(window, 2))
    assert window.store.conversation(record.id).result().unsent == ""
