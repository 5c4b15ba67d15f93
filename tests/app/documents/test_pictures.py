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
from tests.support.documents.pdfs import pdf


@pytest.fixture
def window(open_window, until):
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


def test_a_picture_is_attached_sent_and_shown_large(window, until, photograph, watch):
    seen = watch(window.engine)
    attach(window, until, photograph)
    (chip,) = window.composer.documents.chips
    until(lambda: not chip.picture.image.isNull())
    small = chip.picture.height()
    send(window, "Which boat?")
    until(answered(window, 2))
    ((asked,),) = (one.lines for one in seen)
    (picture,) = asked.pictures
    assert (asked.content, picture.width, picture.height) == ("Which boat?", 64, 48)
    assert [Path(picture.path)] == copies(window)
    row = window.transcript.messages[0]
    (sent,) = row.widget.documents.chips
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
    assert seen[1].lines[0] == asked, "it is never made anew"
    window.conversation.delete_document(1)
    until(lambda: not copies(window))
    until(lambda: window.conversation.branch[0].pictures(window.store.attachments) == ())


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


def test_a_model_without_eyes_is_not_sent_a_picture(window, until, photograph):
    documents = window.composer_controller.documents
    loaded = window.loader.loaded
    documents.use(replace(loaded, sees=False))
    attach(window, until, photograph)
    until(lambda: window.composer.unready)
    send(window, "Which boat?")
    assert (window.conversation.branch, window.composer.text) == ((), "Which boat?")
    documents.use(loaded)
    until(lambda: not window.composer.unready)
    window.composer.send()
    until(answered(window, 2))


def test_a_page_without_text_is_shown_as_a_picture(window, until, tmp_path):
    scan, broken = tmp_path / "scan.pdf", tmp_path / "broken.png"
    scan.write_bytes(pdf("0 0 9 9 re f"))
    broken.write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    documents = window.composer_controller.documents
    window.composer.files_given.emit([broken])
    until(lambda: not documents.attachments.reading)
    (attached,) = documents.attachments.all
    assert attached.problem
    assert copies(window) == []
    documents.attachments.remove(attached)
    window.composer.files_given.emit([scan])
    until(lambda: not documents.attachments.reading)
    offer = window.composer.documents.choice
    until(lambda: offer.words == "scan.pdf, page 1")
    offer.button.click()
    until(lambda: len(copies(window)) == 1 and not documents.attachments.reading)
    until(lambda: not offer.words)
    (attached,) = documents.attachments.all
    assert (attached.name, attached.problem) == ("scan.pdf, page 1", None)
