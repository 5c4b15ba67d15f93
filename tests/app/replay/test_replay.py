"""Any answer can be walked through and exported; the first page plays one while it is seen."""

import json

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QPushButton, QToolButton, QWidget

from app.chat.draft_ahead import DraftAhead
from app.markdown.copying import written_text
from app.markdown.view import TextView
from app.replay.first_page import RecordedLoop, read_recording
from app.replay.scrubber import ReplayDialog, Scrubber
from app.rounds.trace import Replay
from app.theme.palette import DARK
from app.theme.style import qt_palette
from tests.support.app.laid_over import laid_over
from tests.support.app.traces import recorded, text_of
from tests.support.app.window_use import part

EVENTS = recorded("stories_early_exit.jsonl")
ROUNDS = 42


@pytest.fixture
def scrubber(qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    scrubber = Scrubber(parent=window)
    scrubber.resize(500, 400)
    scrubber.show_replay(Replay(EVENTS))
    window.show()
    yield scrubber
    window.close()


def shown(scrubber):
    """All that is shown of the answer, with the tokens that are struck out."""
    return scrubber.findChild(TextView).toPlainText()


def kept(scrubber):
    """The text without struck words."""
    document = scrubber.findChild(TextView).document()
    return written_text(document, 0, document.characterCount() - 1)


def written(replay, place):
    return "".join(piece.text for piece in replay.pieces_until(place) if piece.written)


def flat(text):
    return " ".join(text.split())


def test_every_place_shows_the_answer_so_far(scrubber):
    assert scrubber.place == ROUNDS
    assert flat(kept(scrubber)) == flat(text_of(EVENTS))
    for place in [0, 1, 2, 17, 3, ROUNDS, 41, 40, 0, 5]:
        scrubber.go_to(place)
        assert flat(kept(scrubber)) == flat(written(scrubber.replay, place))


def test_rejected_tokens_stand_where_they_would_have_stood(scrubber, qtbot):
    scrubber.go_to(2)
    assert shown(scrubber).replace("\u200a", "") == "named “O Lily went v."
    assert kept(scrubber) == "named Lily."
    document = scrubber.findChild(TextView).document()
    assert "Lily" in [text for text, _ in laid_over(document)], "each token is marked by its kind"
    scrubber.setPalette(qt_palette(DARK))

    def inks():
        return {mark.foreground().color().name() for _, mark in laid_over(document)}

    qtbot.waitUntil(lambda: DARK.accepted in inks())
    assert kept(scrubber) == "named Lily."


def test_keys_and_buttons_step_and_know_the_ends(scrubber):
    slider = scrubber.focusProxy()
    keys = {Qt.Key.Key_Home: 0, Qt.Key.Key_Right: 1, Qt.Key.Key_Left: 0, Qt.Key.Key_End: ROUNDS}
    for widget in (slider, scrubber):
        for key, place in keys.items():
            QTest.keyClick(widget, key)
            assert scrubber.place == place
    QTest.keyClick(scrubber, Qt.Key.Key_Left, Qt.KeyboardModifier.ControlModifier)
    assert scrubber.place == ROUNDS, "a shortcut of the window"
    for playing in (True, False):
        QTest.keyClick(slider, Qt.Key.Key_Space)
        assert scrubber.playing == playing
    scrubber.go_to(ROUNDS)
    assert not part(scrubber, QToolButton, "Next round").isEnabled()
    for name, place in (
        ("Previous round", ROUNDS - 1),
        ("Next round", ROUNDS),
        ("To the beginning", 0),
        ("To the end", ROUNDS),
    ):
        part(scrubber, QToolButton, name).click()
        assert scrubber.place == place
        assert part(scrubber, QToolButton, "Previous round").isEnabled() == (place > 0)


def test_a_draft_runs_ahead_its_text_comes_with_the_verdict_and_the_end_stops_it(scrubber, qtbot):
    scrubber.go_to(1)
    scrubber.speeds.setCurrentIndex(1)
    scrubber.play()
    qtbot.waitUntil(lambda: scrubber.place == 2)
    ahead = scrubber.findChild(DraftAhead)
    assert flat(kept(scrubber)) == flat(written(scrubber.replay, 1))
    assert ahead.round.number == 2
    assert {token.fate for token in ahead.round.tokens} == {"drafted"}
    scrubber.pause()
    after = flat(written(scrubber.replay, 2))
    qtbot.waitUntil(lambda: flat(kept(scrubber)) == after and ahead.round is None)
    scrubber.go_to(ROUNDS)
    scrubber.play()
    assert (scrubber.place, scrubber.playing) == (0, True), "from the end it begins again"
    scrubber.speeds.setCurrentIndex(scrubber.speeds.count() - 1)
    assert scrubber.speed == 8
    scrubber.go_to(ROUNDS - 1)
    qtbot.waitUntil(lambda: not scrubber.playing)
    assert scrubber.place == ROUNDS


def test_the_dialog_plays_from_the_beginning_and_exports_the_whole_trace(qtbot):
    dialog = ReplayDialog(Replay(EVENTS))
    qtbot.addWidget(dialog)
    assert dialog.scrubber.playing
    dialog.scrubber.go_to(9)
    assert dialog.panel.stats.rounds == 9
    with qtbot.waitSignal(dialog.scrubber.export_wanted) as signal:
        part(dialog.scrubber, QPushButton, "Export data…").click()
    values = json.loads(signal.args[0])
    assert len(values) == len(EVENTS)
    assert values[-1]["event"] == "done"


def test_calls_stand_where_they_were_made_and_without_an_answer_there_is_nothing_to_press(
    scrubber, qtbot
):
    place = len(written(scrubber.replay, 5))
    scrubber.show_replay(Replay(EVENTS, [(place, "read_file a.md")]))
    qtbot.waitUntil(lambda: "read_file a.md" in shown(scrubber))
    scrubber.go_to(4)
    assert "read_file" not in shown(scrubber)
    ends_in_a_call = scrubber.findChild(TextView).text.ends_in_aside
    assert not ends_in_a_call, "a draft would be shown below the later call"
    scrubber.show_replay(Replay(()))
    assert shown(scrubber) == ""
    assert not any(b.isEnabled() for b in scrubber.findChildren(QToolButton))
    for words in ("Export data…", "Share…"):
        assert not part(scrubber, QPushButton, words).isEnabled()
    scrubber.play()
    assert not scrubber.playing
    assert "No rounds" in [label.text() for label in scrubber.findChildren(QLabel)]


@pytest.fixture
def loop(qtbot):
    loop = RecordedLoop(read_recording())
    qtbot.addWidget(loop)
    loop.resize(500, loop.height())
    return loop


def text(loop):
    return loop.findChild(TextView).toPlainText()


def moves(loop):
    return any(timer.isActive() for timer in loop.findChildren(QTimer))


def test_a_draft_runs_ahead_is_judged_and_then_part_of_the_text(loop, qtbot):
    ahead = loop.findChild(DraftAhead)
    loop.go_on()
    qtbot.waitUntil(lambda: ahead.round is not None)
    assert (text(loop), {token.fate for token in ahead.round.tokens}) == ("", {"drafted"})
    loop.go_on()
    qtbot.waitUntil(lambda: ahead.round.verdict is not None)
    assert text(loop) == "The reason"
    while loop.place < len(read_recording().replay):
        loop.go_on()
    qtbot.waitUntil(lambda: text(loop) == read_recording().text)
    loop.go_on()
    assert text(loop) == "", "it begins again"
    for _ in range(6 * len(read_recording().replay)):
        loop.go_on()
    qtbot.waitUntil(lambda: not moves(loop))  # it rests after the third time
    assert text(loop) == read_recording().text  # no word of it moves


def test_it_moves_only_while_it_is_seen_and_with_reduced_motion_shows_all_tokens(loop, qtbot):
    assert not moves(loop)
    loop.show()
    qtbot.waitUntil(lambda: loop.place == 1)
    loop.hide()
    qtbot.waitUntil(lambda: not moves(loop))
    still = RecordedLoop(read_recording(), still=True)
    qtbot.addWidget(still)
    still.resize(500, still.height())
    still.show()
    qtbot.waitUntil(lambda: bool(laid_over(still.findChild(TextView).document())))
    assert "night" in text(still), "which was rejected"
    qtbot.waitUntil(lambda: not moves(still))
