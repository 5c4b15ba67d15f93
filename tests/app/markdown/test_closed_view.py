"""The canary: hostile text opens nothing, loads nothing and is shown."""

import pytest
from PySide6.QtCore import QSize, QUrl
from PySide6.QtGui import QDesktopServices, QImage, QTextDocument

from app.chat.message_view import Ending
from app.chat.transcript import Transcript
from app.markdown.links import ask_to_open
from app.markdown.view import TextView
from tests.support.app.canaries import Listener, hostile


@pytest.fixture
def listener():
    made = Listener()
    yield made
    made.close()


@pytest.fixture
def canary(tmp_path):
    """A picture that would be as high as a house, were it shown."""
    path = tmp_path / "canary.png"
    picture = QImage(10, 3_000, QImage.Format.Format_RGB32)
    assert picture.save(str(path))
    return path


def test_nothing_is_opened(qtbot, formats, listener, canary, monkeypatch):
    asked = []
    opened = []
    load = TextView.loadResource

    def spy(view, kind, name):
        asked.append(str(name))
        return load(view, kind, name)

    monkeypatch.setattr(TextView, "loadResource", spy)
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toString()))
    monkeypatch.chdir(canary.parent)
    transcript = Transcript(formats)
    qtbot.addWidget(transcript)
    transcript.resize(600, 500)
    transcript.show()
    message = transcript.add(
        "assistant", name="m", text=hostile(listener.address, canary), ending=Ending()
    )
    transcript.write_all()
    transcript.grab()
    transcript.show_tokens(True)
    transcript.write_all()
    transcript.grab()
    message.view.selectAll()
    message.view.createMimeDataFromSelection()
    assert asked == []  # nothing is even asked for
    assert opened == []
    assert listener.visits == 0
    shown = message.view.toPlainText()
    assert "<iframe src=" in shown
    assert "a" * 900 in shown
    assert "\ufffc" not in shown  # where Qt would put a picture
    for control in "\u202e\u2066\u200f\x1b\x07\x00":
        assert control not in shown


def test_asked_for_a_resource_it_gives_nothing(show, canary):
    view = show("text")
    for name in (QUrl.fromLocalFile(str(canary)), str(canary), QUrl("http://127.0.0.1/")):
        assert [view.loadResource(kind, name) for kind in (1, 3, 4)] == [b""] * 3
        picture = view.loadResource(QTextDocument.ResourceType.ImageResource.value, name)
        assert picture.size() == QSize(1, 1)
    view.document().setHtml(f"<img src='{canary}'>")  # as if the writer had let it through
    assert view.document().size().height() < 3_000


def test_a_link_is_only_asked_about(show, monkeypatch):
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", opened.append)
    view = show("[good.org](https://b\u00fccher.example/a%20b?q=<x>)")
    asked = []
    view.link_asked.connect(asked.append)
    view.anchorClicked.emit(QUrl(view.document().find("good").charFormat().anchorHref()))
    assert asked == ["https://xn--bcher-kva.example/a%20b?q=%3Cx%3E"]
    assert opened == []
    assert view.toPlainText() == "good.org"


def test_the_question_shows_the_address(show):
    view = show("")
    opened = []
    address = f"https://a.b.{'c' * 200}.d/<b>e</b>"
    for button in ("Cancel", "Open"):
        question = ask_to_open(view, address, opening=opened.append)
        lines = question.informativeText().split("\n")
        assert ("".join(lines), len(max(lines, key=len))) == (address, 60)
        assert question.textFormat().name == "PlainText"
        assert question.defaultButton().text() != "Open"
        assert opened == []
        next(b for b in question.buttons() if b.text().replace("&", "") == button).click()
    assert opened == [address]
    endless = ask_to_open(view, f"{address}{'f' * 9_000}g", opening=pytest.fail)
    *_, cut, before, end = endless.informativeText().split("\n")
    assert (cut, len(before), end[-1:]) == ("\u2026", 60, "g")
    for other in ("file:///etc/passwd", "javascript:x", "/etc", "", "httpx://"):
        assert ask_to_open(view, other, opening=pytest.fail) is None
