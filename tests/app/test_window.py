"""The first use, end to end: open, type, watch, look closer, search, edit, quit, reopen."""

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QPushButton

from app.conversations.records import Entry, ExportedChat
from app.replay.scrubber import ReplayDialog
from app.settings import Pair
from app.welcome import EXAMPLES
from engine.events import Prefill
from tests.support.app.laid_over import laid_over
from tests.support.app.made_traces import made_trace
from tests.support.app.window_maker import events_file
from tests.support.app.window_use import answered, box, part, send, texts, visible_list

TEXT = "A table of **two** primes:\n\n| a | b |\n|---|---|\n| 2 | 3 |\n"


def ahead(window):
    """What stands behind the text that is being written."""
    row = window.transcript.streaming
    return None if row is None else row.shown.ahead


def test_an_answer_grows_with_its_drafts(open_window, until, tmp_path):
    events = made_trace(TEXT)
    drafts = [n for n, event in enumerate(events) if type(event).__name__ == "Draft"]
    path = events_file(tmp_path, events)
    window = open_window(f"ready take load take part:{drafts[2] + 1}:{path} take rest")
    send(window, "go")
    until(lambda: getattr(ahead(window), "number", 0) == events[drafts[2]].round)
    assert window.transcript.streaming is not None
    assert window.composer.answering
    assert window.rounds.panel.stats.rounds > 0
    assert not box(window, "Model").isEnabled()


def test_a_window_fits_on_the_screen_at_first_and_when_it_is_restored(open_window):
    for place in range(2):
        window = open_window()
        room = window.screen().availableGeometry()  # 800 by 800
        assert window.width() <= room.width()
        assert window.frameGeometry().top() >= room.top()
        assert window.frameGeometry().bottom() <= room.bottom()
        composer = QRect(window.composer.mapTo(window, QPoint(0, 0)), window.composer.size())
        assert window.rect().contains(composer)
        window.setGeometry(300 * place, 200, 1800, 1400)  # as on a larger screen
        window.close()


def test_what_is_being_done_is_shown_at_three_places(open_window, until, tmp_path):
    reading = [Prefill("", 0, 5447, 0, 0.0), Prefill("", 1920, 5447, 0, 26.0)]
    path = events_file(tmp_path, reading)
    window = open_window(f"ready take load take part:2:{path} take waiting:0 rest")
    until(lambda: window.loader.loaded)
    ready = window.pair_bar.status_text
    send(window, "first")
    until(lambda: "1,920" in str(ahead(window)))
    assert window.pair_bar.status_text not in ("", ready)
    window.menus.actions["new"].trigger()
    send(window, "second")
    until(lambda: "next" in str(ahead(window)))
    assert window.pair_bar.status_text == "1 reading, 1 waiting"
    model = visible_list(window).model()
    until(lambda: model.rowCount() == 2)
    spoken = [model.index(row, 0).data(Qt.ItemDataRole.AccessibleTextRole) for row in range(2)]
    assert any("1,920" in line for line in spoken)
    assert any("Queued" in line for line in spoken)
    window.conversation.stop()
    until(lambda: window.transcript.streaming is None)
    rows = [model.index(row, 0) for row in range(2)]
    assert not any("Queued" in row.data(Qt.ItemDataRole.AccessibleTextRole) for row in rows)


def test_an_answer_can_be_looked_into_also_after_a_restart(open_window, until, tmp_path):
    events = made_trace(TEXT)
    window = open_window(f"ready take load take play:{events_file(tmp_path, events)} serve")
    send(window, "go")
    until(answered(window, 2))
    assert texts(window)[1] == TEXT
    until(lambda: window.rounds.panel.stats.proposed == events[-1].stats.proposed)
    view, message = window.transcript.messages[1].view, window.transcript.messages[1].widget
    until(lambda: laid_over(view.document()))
    assert message.legend is not None, "of the very first answer the tokens are shown"
    window.menus.actions["provenance"].trigger()
    window.menus.actions["provenance"].trigger()
    until(lambda: not laid_over(view.document()))
    assert message.legend is None
    until(lambda: window.menus.actions["replay"].isEnabled())
    window.menus.actions["replay"].trigger()
    until(lambda: window.findChild(ReplayDialog))
    replay = part(window, ReplayDialog)
    replay.scrubber.go_to(3)
    assert replay.panel.stats.rounds == 3
    replay.close()

    send(window, "more")
    until(answered(window, 4))
    assert window.rounds.answer == window.conversation.branch[-1].id
    window.menus.actions["before"].trigger()
    until(lambda: window.rounds.panel.stats.proposed == events[-1].stats.proposed)

    QTest.keyClicks(window.composer.field, "unsent")
    window.menus.actions["rounds"].trigger()
    window.menus.actions["provenance"].trigger()
    window.close()
    again = open_window()
    until(lambda: len(texts(again)) == 4)
    assert texts(again)[:2] == ["go", TEXT]
    assert again.composer.text == "unsent"
    assert not again.rounds.isVisible()
    assert again.presenter.provenance
    until(lambda: laid_over(again.transcript.messages[1].view.document()))
    again.menus.actions["rounds"].trigger()
    again.menus.actions["before"].trigger()
    until(lambda: again.rounds.panel.stats.proposed == events[-1].stats.proposed)


def test_what_was_found_is_led_to_and_marked(open_window, until):
    """Twice the same hit is twice the same place."""
    window = open_window()
    long = "A paragraph of some words.\n\n" * 40
    entries = tuple(
        Entry(number - 1 if number else None, "assistant", f"{long}the needle {number}\n\n{long}")
        for number in range(60)
    )
    window.store.add([ExportedChat("Long", entries, leaf=59)]).result()
    until(QApplication.focusWidget)
    window.menus.actions["search"].trigger()
    field = QApplication.focusWidget()
    QTest.keyClicks(field, "needle 30")
    places = []
    for _ in range(2):
        window.sidebar.hit_chosen.emit(1, 31, "needle 30")
        until(lambda: len(texts(window)) == 60 and window.transcript.messages[30].shown.marks)
        row = window.transcript.messages[30]
        with_hit = row.written.index("needle")
        assert [row.written[m.start : m.end] for m in row.shown.marks] == ["needle", "30"]
        assert window.transcript.in_sight(row, with_hit)
        places.append(row.view.mapTo(window, row.view.cursorRect().topLeft()).y())
    assert places[0] == places[1]
    window.menus.actions["before"].trigger()
    assert window.rounds.answer == window.conversation.branch[29].id
    assert window.transcript.first_in_sight() in (28, 29)
    window.menus.actions["find"].trigger()
    assert window.presenter.finder.bar.isVisible()
    window.new()
    assert not window.presenter.finder.bar.isVisible()


def test_where_there_is_no_answer_the_panel_says_what_will_be_there(open_window, until):
    window = open_window()
    assert not window.rounds.isVisible()
    window.menus.actions["rounds"].trigger()
    assert window.rounds.hint.isVisible()
    assert not window.rounds.panel.isVisible()
    send(window, "hello")
    until(answered(window, 2))
    assert window.rounds.panel.isVisible()
    window.menus.actions["new"].trigger()
    assert window.rounds.hint.isVisible()
    entries = (Entry(None, "user", "q"), Entry(0, "assistant", "<think>hm</think>imported"))
    window.store.add([ExportedChat("Imported", entries, leaf=1)]).result()
    window.show_conversation(2)
    until(lambda: len(texts(window)) == 2 and "imported" in window.rounds.hint.text())
    assert window.rounds.hint.isVisible(), "no wall of figures without values"
    window.transcript.write_all()
    row = window.transcript.messages[1]
    assert row.view.text.reasoning is not None
    assert row.shown.reasoning is None, "no tokens and no time are claimed"


@pytest.fixture
def window(open_window, until):
    window = open_window()
    until(lambda: window.pair_bar.status == "loaded")
    return window


def page(window):
    """The texts of the first page."""
    return [label.text() for label in window.welcome.findChildren(QLabel)]


def test_an_example_is_sent_and_unsent_text_stays(window, until):
    window.composer.set_text("not yet")
    for card, (title, question) in zip(window.welcome.examples, EXAMPLES, strict=True):
        assert card.accessibleName() == f"{title}: {question}"
    card = window.welcome.examples[1]
    QTest.mouseClick(card, Qt.MouseButton.LeftButton)
    until(lambda: window.conversation.branch)
    assert window.conversation.branch[0].content == EXAMPLES[1][1] == card.question
    assert window.composer.text == "not yet"
    until(answered(window, 2))
    stored = window.store.create().result().id  # a stored one keeps it on the disk, too
    window.show_conversation(stored)
    until(lambda: window.conversation.record and window.conversation.record.id == stored)
    QTest.keyClicks(window.composer.field, "nor this")
    window.composer_controller.leave()
    QTest.mouseClick(card, Qt.MouseButton.LeftButton)
    until(lambda: window.conversation.branch)
    unsent = window.store.conversation(stored).result().unsent
    assert unsent == window.composer.text == "nor this"
    window.composer.set_blocked("The engine stopped.")
    window.welcome.examples[2].setFocus()
    QTest.keyClick(window.welcome.examples[2], Qt.Key.Key_Space)
    assert window.composer.text == EXAMPLES[2][1]  # it waits for the user
    field = window.composer.field
    QTest.keyClick(field, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert window.composer.text == "nor this"


def test_a_question_has_its_lines_and_more_is_offered_and_told(window, qtbot):
    card = window.welcome.examples[3]
    window.resize(window.minimumSizeHint().width(), 900)
    qtbot.waitUntil(lambda: card.width() < 230)
    assert card.height() >= card.heightForWidth(card.width()) > card.sizeHint().height()
    assert any(".\n" in text for text in page(window))
    window.resize(1280, 900)
    qtbot.waitUntil(lambda: not any(".\n" in text for text in page(window)))
    window.settings.theme = "light" if window.theme.dark else "dark"
    window.theme.refresh()
    title, colour = card.findChild(QLabel), QColor(window.theme.colours.text)
    qtbot.waitUntil(lambda: title.palette().color(title.foregroundRole()) == colour)
    with qtbot.waitSignal(window.welcome.explanation_asked):
        part(window.welcome, QPushButton, "What am I looking at?").click()
    window.loader.fetch_progress.emit(46_435_520, 92_871_040)
    assert any("46.4 of 92.9 MB" in text for text in page(window))
    window.loader.pair = Pair("/models/Tiny-Q4.gguf")
    window.loader.fetch_began.emit()
    (said,) = (text for text in page(window) if "Tiny" in text)
    assert "starter" not in said
