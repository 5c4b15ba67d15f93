"""Pictures are attached, shown small and large, sent, and gone with their last message."""

from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from PIL import Image
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication

from app.documents.picture_view import PictureDialog
from tests.support.app.attached import attach, chips
from tests.support.app.window_use import answered, send
from tests.support.documents.pdfs import line, pdf


@pytest.fixture
def window(open_window, until, monkeypatch):
    monkeypatch.setattr("app.documents.controller._AFTER_MS", 1)
    window = open_window()
    until(lambda: window.loader.loaded is not None)
    return window


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
    until(lambda: "picture 20 × 10" in "".join(chips(window)))
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
    documents._attach_written("Screenshot.png", lambda path: None)  # that was given up
    until(lambda: not documents.attachments.reading)
    assert documents.attachments.all == ()


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
