"""The transcript: order, the newest line kept in sight, frames, the slot, the empty page."""

import pytest
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.chat.message import Ending
from app.chat.provenance import laid_over
from app.chat.transcript import Transcript
from app.markdown.formats import Formats
from app.rounds.trace import Piece, PieceKind
from app.theme.palette import DARK

LONG = "A paragraph of some words.\n\n" * 60


@pytest.fixture
def transcript(qtbot: QtBot, formats: Formats) -> Transcript:
    made = Transcript(formats)
    qtbot.addWidget(made)
    made.resize(600, 500)
    made.show()
    return made


def at_end(transcript: Transcript) -> bool:
    bar = transcript.verticalScrollBar()
    return bar.value() == bar.maximum() > 0


def jump(transcript: Transcript) -> QWidget:
    return next(
        child
        for child in transcript.findChildren(QWidget)
        if child.accessibleName() == "Jump to the newest line"
    )


def test_a_stream_is_written_by_frames(transcript: Transcript, qtbot: QtBot) -> None:
    message = transcript.add("assistant", name="m", text="", ending=None)
    with qtbot.waitSignal(transcript.all_written):
        transcript.append("a **b")
        transcript.append("** c")
    assert message.view.toPlainText() == "a b c"
    assert transcript.streaming is message
    with qtbot.waitSignal(transcript.all_written):
        transcript.end(Ending("cancelled"))
    assert transcript.streaming is None
    transcript.append("late")
    assert message.written == "a **b** c"


def test_many_deltas_are_one_frame(
    transcript: Transcript, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = transcript.add("assistant", name="m", text="", ending=None)
    transcript.write_all()
    changes: list[int] = []
    message.view.document().contentsChange.connect(lambda *_: changes.append(1))
    for _ in range(500):
        transcript.append("word ")
    assert changes == []
    transcript.write_frame()
    assert len(changes) <= 5
    assert message.view.toPlainText().split() == ["word"] * 500


def test_it_follows_the_newest_line_only_from_there(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.add("assistant", name="m", text=LONG, ending=None)
    qtbot.waitUntil(lambda: at_end(transcript))
    transcript.append(LONG)
    transcript.write_all()
    qtbot.waitUntil(lambda: transcript.verticalScrollBar().maximum() > 1_500)
    qtbot.waitUntil(lambda: at_end(transcript))
    assert not jump(transcript).isVisible()
    transcript.verticalScrollBar().setValue(200)
    assert not transcript.pinned
    assert jump(transcript).isVisible()
    before = transcript.verticalScrollBar().maximum()
    transcript.append(LONG)
    transcript.write_all()
    qtbot.waitUntil(lambda: transcript.verticalScrollBar().maximum() > before)
    assert transcript.verticalScrollBar().value() == 200
    transcript.jump_to_newest()
    assert at_end(transcript)
    assert not jump(transcript).isVisible()
    before = transcript.verticalScrollBar().maximum()
    transcript.append(LONG)
    transcript.write_all()
    qtbot.waitUntil(lambda: transcript.verticalScrollBar().maximum() > before)
    qtbot.waitUntil(lambda: at_end(transcript))


def test_scrolling_to_the_end_pins_again(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.add("assistant", name="m", text=LONG, ending=None)
    qtbot.waitUntil(lambda: at_end(transcript))
    bar = transcript.verticalScrollBar()
    bar.setValue(0)
    assert not transcript.pinned
    bar.setValue(bar.maximum() - 3)
    assert transcript.pinned


def test_a_page_that_grows_long_stays_as_wide(transcript: Transcript, qtbot: QtBot) -> None:
    message = transcript.add("assistant", name="m", text="short", ending=None)
    transcript.write_all()
    qtbot.waitUntil(lambda: 300 < message.width() < transcript.viewport().width())
    before = message.view.width()
    transcript.append(LONG)
    transcript.write_all()
    qtbot.waitUntil(lambda: at_end(transcript))
    assert message.view.width() == before


def test_the_newest_message_is_written_first(transcript: Transcript) -> None:
    for number in range(200):
        transcript.add("assistant", name="m", text=f"number {number}\n\n" + LONG, ending=Ending())
    transcript.write_frame()
    written = [bool(m.view.toPlainText()) for m in transcript.messages]
    assert written[-1]
    assert not written[0]
    transcript.write_all()
    assert all(
        message.view.toPlainText().startswith(f"number {number}")
        for number, message in enumerate(transcript.messages)
    )


def test_the_slot_is_under_the_message_being_written(transcript: Transcript, qtbot: QtBot) -> None:
    lane = QLabel("lane")
    transcript.set_slot(lane)
    assert not lane.isVisible()
    transcript.add("user", name="You", text="q", ending=Ending())
    assert not lane.isVisible()
    answer = transcript.add("assistant", name="m", text="a", ending=None)
    qtbot.waitUntil(lambda: lane.isVisible() and lane.y() > answer.geometry().bottom())
    transcript.end(Ending())
    assert not lane.isVisible()
    other = QLabel("other")
    transcript.set_slot(other)
    assert lane.parent() is None
    transcript.set_slot(None)
    assert other.parent() is None
    lane.deleteLater()
    other.deleteLater()


def test_the_empty_page(transcript: Transcript) -> None:
    welcome = QLabel("Welcome")
    transcript.set_empty(welcome)
    assert welcome.isVisible()
    transcript.add("user", name="You", text="q", ending=Ending())
    assert not welcome.isVisible()
    transcript.cut(0)
    assert welcome.isVisible()
    assert transcript.messages == ()


def test_another_branch(transcript: Transcript, qtbot: QtBot) -> None:
    first = transcript.add("user", name="You", text="q", ending=Ending())
    transcript.add("assistant", name="m", text="a", ending=None)
    transcript.cut(1)
    assert transcript.messages == (first,)
    assert transcript.streaming is None
    transcript.append("late")
    transcript.add("assistant", name="m", text="b", ending=Ending())
    transcript.write_all()
    assert [m.view.toPlainText() for m in transcript.messages] == ["q", "b"]


def test_provenance_of_all_messages(transcript: Transcript, qtbot: QtBot) -> None:
    message = transcript.add("assistant", name="m", text="ab", ending=Ending())
    kinds: tuple[tuple[str, PieceKind], ...] = (
        ("a", "accepted"),
        ("x", "rejected"),
        ("b", "correction"),
    )
    pieces = tuple(
        Piece(text, kind, 1, 1, p=0.5, q=0.5, chance=0.5, drafter="d") for text, kind in kinds
    )
    transcript.show_provenance(True)
    transcript.set_pieces(message, pieces)
    transcript.write_all()
    assert message.view.toPlainText().replace("\u200a", "") == "axb"
    qtbot.waitUntil(lambda: len(laid_over(message.view.document())) == 2)
    later = transcript.add("assistant", name="m", text="later", ending=Ending())
    assert later.provenance.shown
    transcript.show_provenance(False)
    transcript.write_all()
    assert message.view.toPlainText() == "ab"


def test_it_looks_as_it_is_told(transcript: Transcript, formats: Formats) -> None:
    transcript.add("user", name="You", text="q", ending=Ending())
    transcript.set_formats(Formats(formats.font, DARK))
    transcript.write_all()
    picture = transcript.grab().toImage()
    assert picture.pixelColor(2, 2).name() == DARK.paper
