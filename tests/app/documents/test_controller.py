"""Documents and pictures are attached, planned, sent with a message and shown above it; what was
sent stays until the last message with it is gone."""

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from threading import Event
from unittest.mock import Mock

import pytest
from PIL import Image
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent, QImage
from PySide6.QtWidgets import QApplication, QMessageBox

from app.chat.composer import SignButton
from app.documents.controller import ALL_OF_IT, FEWER, MORE, ONLY_PASSAGES
from app.documents.picture_view import PictureDialog
from app.documents.planner import Planner
from app.documents.text_dialog import TextDialog
from engine.documents.prompt import Sent
from engine.documents.reading import read_document
from engine.events import Prefill
from models.errors import Problem
from tests.support.app.attached import Reader, attach, chips, file_in, planned
from tests.support.app.talk import refuse
from tests.support.app.window_use import answered, send
from tests.support.documents.pdfs import line, pdf

LONG = "\n\n".join(
    f"Clause {n}. "
    + ("The tenant pays the deposit. " if n == 40 else "Nothing is said here. ") * 30
    for n in range(80)
)


@pytest.fixture
def reader():
    return Reader()


@pytest.fixture
def opened(open_window, until, reader, monkeypatch):
    """Opens a window that reads files so and plans at once, with a model that counts."""
    monkeypatch.setattr("app.documents.controller._AFTER_MS", 1)

    def opened(read=reader):
        window = open_window(read=read)
        until(lambda: window.loader.loaded is not None)
        return window

    return opened


@pytest.fixture
def file(tmp_path):
    return file_in(tmp_path)


def question(window, place=0):
    row = window.transcript.messages[place]
    assert row.view is not None, "it is built for that"
    return row.widget


def sent(window, place=0):
    return window.conversation.branch[place].sent


def names(widget):
    return [chip.accessibleName() for chip in widget.documents.chips]


def seen_in_a_dialog(window, widget):
    """The text of the first document, as its chip shows it."""
    widget.documents.chips[0].view.click()
    dialog = window.findChild(TextDialog)
    dialog.close()
    dialog.setParent(None)
    return dialog.text


def test_a_file_is_attached_sent_answered_and_there_when_it_is_opened_again(
    opened, until, file, watch, monkeypatch
):
    window = opened()
    seen = watch(window.engine)
    window.composer.findChild(SignButton).setFocus()
    attach(window, until, file)
    assert window.focusWidget() is window.composer.field
    before = seen_in_a_dialog(window, window.composer)
    prompt = window.composer_controller.documents.prompt("What leaks?")
    assert prompt == before + "What leaks?", "a race runs on the same text"
    with monkeypatch.context() as full:
        full.setattr("app.conversations.tree.insert", refuse)
        send(window, "What leaks?")  # which cannot be stored, and comes back
        until(lambda: window.composer.text == "What leaks?" and chips(window) and planned(window))
    window.composer.send()
    until(answered(window, 2))
    assert seen_in_a_dialog(window, question(window)) == before
    (line,) = seen[0].lines
    assert line.content == prompt
    assert line.content == sent(window).text
    assert "The roof leaks." in line.content[: line.attached]
    assert line.content[line.attached :] == "What leaks?"
    assert chips(window) == []
    assert question(window).written == "What leaks?"
    assert names(question(window)) == ["plan.txt, whole"]
    record = window.conversation.record
    assert record.title == "What leaks?"
    window.menus.actions["new"].trigger()
    window.show_conversation(record.id)
    until(lambda: len(window.transcript.messages) == 2)
    assert names(question(window)) == ["plan.txt, whole"]
    send(window, "Anything else?")
    until(answered(window, 4))
    assert seen[1].lines[0] == line, "it is never made again"
    (digest,) = [document.digest for document in sent(window).documents]
    assert [one.request.keep_as for one in seen] == [(digest,), (digest,)]
    window.menus.actions["regenerate"].trigger()
    until(lambda: len(seen) == 3 and answered(window, 4)())
    assert seen[2].lines == seen[1].lines
    window.composer.files_given.emit([file])
    until(lambda: "remark" in window.notices.texts)
    assert chips(window) == [], "it is attached already"
    assert window.store.unsent_documents(record.id).result() == ()
    first = sent(window)
    window.composer_controller.edit(window.conversation.branch[0].id)
    assert window.composer.text == "What leaks?"
    assert chips(window) == ["plan.txt, whole"]
    assert seen_in_a_dialog(window, window.composer) == before
    send(window, " Tell me.")
    until(lambda: len(seen) == 4 and answered(window, 2)())
    assert sent(window) == first.asked("What leaks? Tell me.")
    assert seen[3].lines[0].content == sent(window).text
    assert chips(window) == []
    window.composer_controller.edit(window.conversation.branch[0].id)
    window.conversation.switch(window.conversation.branch[0].id, 1)
    until(lambda: question(window).written == "What leaks?")
    send(window, " It is not shown.")
    until(lambda: len(seen) == 5 and answered(window, 2)())
    assert sent(window) == first.asked("What leaks? Tell me. It is not shown.")


def test_what_is_attached_to_a_new_conversation_is_there_in_the_next_run(opened, until, file):
    before = opened()
    before.composer.field.setPlainText("What leaks?")
    attach(before, until, file)
    assert "to read" not in chips(before)[0] + before.composer.documents.choice.words
    before.answers.happened.emit(None, Prefill("g", 600, 1000, 100, 100.0))  # it is measured
    before.close()
    window = opened()
    until(lambda: chips(window) and planned(window))
    assert "to read" in chips(window)[0]
    record = window.conversation.record
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


def test_while_a_file_is_read_nothing_is_sent_and_files_are_dropped_anywhere_on_the_window(
    opened, until, tmp_path, reader
):
    window = opened()
    files = [file_in(tmp_path, name) for name in ("slow.txt", "b.txt", "broken.txt")]
    window.composer.files_given.emit(files)
    until(lambda: reader.read)
    assert chips(window)[0] == "slow.txt, Reading…"
    send(window, "What leaks?")
    assert window.composer.text == "What leaks?"
    assert window.conversation.branch == ()
    window.composer.documents.remove_asked.emit(0)
    until(lambda: reader.cancelled == ["slow.txt"])
    until(lambda: len(chips(window)) == 2 and planned(window))
    _, broken = window.composer.documents.chips
    assert "Attach another." in broken.accessibleName()
    assert not broken.view.isVisibleTo(broken)
    window.composer.send()
    until(answered(window, 2))
    assert [one.name for one in sent(window).documents] == ["b.txt"]
    window.composer.documents.remove_asked.emit(0)
    assert chips(window) == []
    copy, move = Qt.DropAction.CopyAction, Qt.DropAction.MoveAction
    left, nothing = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    data, text = QMimeData(), QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(file_in(tmp_path, text="It is dry.")))])
    text.setText("some words")
    hint = window.composer.drop_hint
    for over in (window, window.composer.field.viewport()):
        for held in (data, text):
            QApplication.sendEvent(over, QDragEnterEvent(QPoint(5, 5), copy, held, left, nothing))
            assert hint.isVisible() == (held is data)
            QApplication.sendEvent(over, QDragLeaveEvent())
            assert hint.isHidden()
    window.composer.show_drop(True)
    drop = QDropEvent(QPointF(5, 5), copy | move, data, left, nothing)
    window.dropEvent(drop)
    assert drop.dropAction() == copy
    assert hint.isHidden()
    until(lambda: chips(window) and planned(window))
    assert chips(window)[0].startswith("plan.txt, whole, ")
    asked = []
    for name in ("attach_asked", "folder_asked"):
        signal = getattr(window.composer, name)
        signal.disconnect()
        signal.connect(lambda name=name: asked.append(name))
    menu = window.composer.attach_menu()
    for action in menu.actions():
        action.trigger()
    menu.close()
    assert asked == ["attach_asked", "folder_asked"]


def test_a_deleted_document_is_gone_from_the_prompt(opened, until, tmp_path, watch, reader):
    window = opened()
    attach(window, until, file_in(tmp_path, "<img src=x>.txt"))
    assert "<img" not in window.composer.documents.chips[0].toolTip()
    send(window, "What leaks?")
    until(answered(window, 2))
    home = window.conversation.record.id
    copy = window.store.duplicate(home).result().id
    question(window).documents.remove_asked.emit(0)
    box, closed = window.findChild(QMessageBox), []
    box.finished.connect(closed.append)
    box.setParent(None)
    for other in (copy, home):
        window.show_conversation(other)
        until(lambda other=other: window.conversation.record.id == other)
        assert closed  # a document of another conversation has the same number
    for button, is_left in (("Cancel", "whole"), ("Delete", "deleted")):
        question(window).documents.remove_asked.emit(0)
        box = window.findChild(QMessageBox)
        assert box.textFormat() == Qt.TextFormat.PlainText
        next(b for b in box.buttons() if b.text().replace("&", "") == button).click()
        box.setParent(None)
        until(lambda is_left=is_left: names(question(window)) == [f"<img src=x>.txt, {is_left}"])
    assert window.conversation.branch[1].content == "served"
    record = window.conversation.record
    assert window.store.documents_of(record.id).result() == ()
    seen = watch(window.engine)
    send(window, "Again?")
    until(answered(window, 4))
    assert "The roof" not in seen[0].lines[0].content
    assert seen[0].lines[0].content == sent(window).text
    window.menus.actions["edit"].trigger()  # a message that is edited takes no other documents
    window.composer.files_given.emit([tmp_path / "<img src=x>.txt"])
    assert "remark" in window.notices.texts
    assert (chips(window), len(reader.read)) == ([], 1)
    window.notices.press("edit")
    attach(window, until, file_in(tmp_path))


def test_each_question_gets_its_passages_of_a_file(opened, until, tmp_path, watch, monkeypatch):
    window = opened()
    seen = watch(window.engine)
    attach(window, until, file_in(tmp_path, "lease.txt", LONG))
    window.composer.field.setPlainText("Who pays the deposit?")
    until(lambda: "passage" in chips(window)[0])
    assert "part by part" in window.composer.documents.remark
    assert not window.composer.unready
    choice = window.composer.documents.choice.button
    monkeypatch.setattr("engine.documents.slow._FEWEST", 1000)
    window.answers.happened.emit(None, Prefill("g", 600, 1000, 100, 40.0))
    window.composer.field.setPlainText("Who pays the deposit now?")
    for shown in (FEWER, MORE):
        until(lambda shown=shown: choice.text() == shown)
        choice.click()
    until(lambda: choice.text() == FEWER)
    window.composer.send()
    until(answered(window, 2))
    first = sent(window).documents[0]
    assert 0 < first.passages < first.among
    assert "pays the deposit" in sent(window).text
    assert "passages of" in names(question(window))[0]
    line = seen[0].lines[0]
    window.composer.field.setPlainText("And what does clause 70 say about it?")
    until(lambda: chips(window) and "passage" in chips(window)[0])
    assert window.composer.documents.remark == ""
    window.composer.send()
    until(answered(window, 4))
    assert seen[1].lines[0] == line
    second = sent(window, 2).documents[0]
    assert (second.number, second.name) == (1, "lease.txt")
    assert not {part.offset for part in first.ranges} & {part.offset for part in second.ranges}


def test_of_a_document_that_is_slow_to_read_passages_can_be_chosen(opened, until, tmp_path):
    window = opened()
    documents = window.composer.documents
    for processed, seconds in ((100, 0.0), (100, 20.0), (600, 22.5)):  # caches came from the disk
        window.answers.happened.emit(None, Prefill("g", processed, 1000, 100, seconds))
    attach(window, until, file_in(tmp_path, "a.txt", "word deposit. " * 540))
    assert "whole" in chips(window)[0]
    assert documents.choice.button.text() == ""  # it takes 12 s
    window.answers.happened.emit(None, Prefill("h", 600, 1000, 100, 10.0))
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


def test_what_is_on_its_way_is_kept_until_it_is_in_the_store(
    opened, until, file, monkeypatch, tmp_path
):
    window = opened()
    attach(window, until, file)
    record = window.conversation.record
    documents = window.composer_controller.documents
    planned_later, failing, plan, plans = Future(), Future(), Planner.plan, []

    def plan_later(planner, message):
        plans.append(plan(planner, message).result())
        return planned_later

    with monkeypatch.context() as slow:
        slow.setattr(Planner, "plan", plan_later)
        window.composer.field.setPlainText("What ")
        until(lambda: plans)
        window.composer.field.setPlainText("Does it leak?")
        window.composer.send()
        until(answered(window, 2))
        texts = []
        documents.changed.connect(lambda: texts.append(documents.texts))
        planned_later.set_result(plans[0])
        QApplication.processEvents()
        assert not any(texts)
    planned_later = Future()
    attach(window, until, file_in(tmp_path, "b.txt", "The cellar is wet."))
    with monkeypatch.context() as slow:
        slow.setattr(documents, "sent", lambda text: planned_later)
        send(window, "What leaks?")
    window.composer_controller.leave()
    assert window.store.conversation(record.id).result().unsent == "What leaks?"
    planned_later.set_result(Sent("What leaks?"))
    until(answered(window, 4))
    assert window.store.conversation(record.id).result().unsent == ""
    asked = []
    monkeypatch.setattr(Planner, "plan", lambda planner, message: asked.append(message) or failing)
    window.composer.field.setPlainText("Where?")
    until(lambda: asked)
    window.new()
    until(lambda: window.conversation.record is None)
    shown = []
    documents.changed.connect(lambda: shown.append(window.composer.unready))
    failing.set_exception(Problem("There is no room.", "Ask less."))
    QApplication.processEvents()
    assert not any(shown)


@pytest.fixture
def window(opened):
    """A window that reads files as they are."""
    return opened(read=read_document)


@pytest.fixture
def photograph(tmp_path):
    path = tmp_path / "boat.jpg"
    Image.new("RGB", (64, 48), "teal").save(path)
    return path


def copies(window):
    folder = window.store.attachments
    return sorted(folder.iterdir()) if folder.exists() else []


def test_a_picture_and_a_pdf_are_sent_shown_and_deleted(window, until, photograph, watch, tmp_path):
    """A model without eyes is not sent the picture."""
    seen = watch(window.engine)
    plan = tmp_path / "plan.pdf"
    plan.write_bytes(pdf(line("The roof leaks."), line("The cellar is dry.")))
    documents, loaded = window.composer_controller.documents, window.loader.loaded
    documents.use(replace(loaded, sees=False))
    attach(window, until, photograph, plan)
    until(lambda: window.composer.unready)
    send(window, "Which boat?")
    assert (window.conversation.branch, window.composer.text) == ((), "Which boat?")
    documents.use(loaded)
    until(lambda: not window.composer.unready)
    chip, of_the_plan = window.composer.documents.chips
    assert of_the_plan.accessibleName().startswith("plan.pdf, 2 pages · whole, ")
    until(lambda: not chip.picture.image.isNull())
    small = chip.picture.height()
    record = window.conversation.record
    _, (_, document) = window.store.documents_of(record.id).result()
    window.composer.send()
    until(answered(window, 2))
    ((asked,),) = (one.lines for one in seen)
    (picture,) = asked.pictures
    assert (picture.width, picture.height) == (64, 48)
    assert "[page 2]" in asked.content
    copy = window.store.copy_of(document)
    assert copy.read_bytes() == plan.read_bytes()
    assert {Path(picture.path), copy} == {*copies(window)}
    row = window.transcript.messages[0]
    sent, _ = row.widget.documents.chips
    until(lambda: not sent.picture.image.isNull())
    assert sent.picture.height() == 48 > small
    sent.picture.clicked.emit()
    until(lambda: window.findChildren(PictureDialog))
    (dialog,) = window.findChildren(PictureDialog)
    until(lambda: not dialog.view.image.isNull())
    assert dialog.view.image.width() == 64
    dialog.reject()
    send(window, "And its colour?")
    until(answered(window, 4))
    assert seen[1].lines[0] == asked, "it is never made again"
    window.conversation.delete_document(1)
    until(lambda: copies(window) == [copy])
    until(lambda: window.conversation.branch[0].pictures(window.store.attachments) == ())
    window.conversation.delete_document(2)
    until(lambda: not copies(window))


def test_a_picture_is_attached_where_it_was_pasted(window, until, monkeypatch):
    picture = QImage(20, 10, QImage.Format.Format_RGB32)
    picture.fill(0xFF3366)
    QApplication.clipboard().setImage(picture)
    window.composer.field.paste()
    until(lambda: "picture 20 × 10, about 257 tokens" in "".join(chips(window)))
    assert len(copies(window)) == 1
    (chip,) = window.composer.documents.chips
    chip.removal_asked.emit()
    until(lambda: not copies(window))
    assert chips(window) == []
    documents, record = window.composer_controller.documents, window.conversation.record
    written = Event()
    save = QImage.save
    monkeypatch.setattr(QImage, "save", lambda *given: written.wait(9) and save(*given))
    documents.attach_picture(QImage(20, 10, QImage.Format.Format_RGB32))
    assert documents.attachments.reading, "nothing is sent without it"
    window.new()
    written.set()
    until(lambda: window.store.unsent_documents(record.id).result())
    assert chips(window) == []
    given_up = Mock()
    monkeypatch.setattr("app.documents.controller.subprocess.run", given_up)
    window.composer.screenshot_asked.emit()
    until(lambda: not documents.attachments.reading)
    assert (given_up.call_args.args[0][0], documents.attachments.all) == ("screencapture", ())


@pytest.mark.quick(1)
@pytest.mark.parametrize("files", [1, 2])
def test_a_page_without_text_is_shown_as_a_picture(window, until, tmp_path, files):
    documents, offer = window.composer_controller.documents, window.composer.documents.choice
    for number in range(1, files + 1):  # with the same name
        scan = tmp_path / str(number) / "scan.pdf"
        scan.parent.mkdir()
        scan.write_bytes(pdf(f"0 0 {9 * number} 9 re f"))
        window.composer.files_given.emit([scan])
        until(lambda: not documents.attachments.reading)
        until(lambda: offer.words == "scan.pdf, page 1")
        offer.button.click()
        until(lambda n=number: len(copies(window)) == n and not documents.attachments.reading)
        until(lambda: not offer.words)
        attached = [(each.name, each.problem) for each in documents.attachments.all]
        assert attached == number * [("scan.pdf, page 1", None)]
