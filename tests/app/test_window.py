"""The first use, end to end: open, type, watch, look closer, search, edit, quit, reopen; what opens
over a window; two sides where there is room, one where there is not."""

import pytest
from PySide6.QtCore import QPoint, QRect, QSettings, Qt
from PySide6.QtGui import QAction
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QDialogButtonBox,
    QLabel,
    QPushButton,
    QSplitter,
    QWidget,
)

from app.conversations.records import Entry, ExportedChat
from app.race.dialog import RaceDialog
from app.replay.scrubber import ReplayDialog
from app.sampling.dialog import SamplingDialog
from app.settings import Pair, Settings
from app.side_panels import SidePanels
from app.welcome import EXAMPLES
from engine.events import Prefill
from engine.request import Request
from tests.support.app.laid_over import laid_over
from tests.support.app.made_traces import made_trace
from tests.support.app.window_maker import events_file
from tests.support.app.window_use import answered, box, part, send, texts, visible_list

TEXT = "A table of **two** primes:\n\n| a | b |\n|---|---|\n| 2 | 3 |\n"


def ahead(window):
    """What stands behind the text that is being written."""
    row = window.transcript.streaming
    return None if row is None else row.shown.ahead


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


def test_an_answer_grows_and_can_be_looked_into_also_after_a_restart(open_window, until, tmp_path):
    events, go_on = made_trace(TEXT), tmp_path / "go_on"
    drafts = [n for n, event in enumerate(events) if type(event).__name__ == "Draft"]
    first = events_file(tmp_path, events[: drafts[2] + 1], name="first")
    rest = events_file(tmp_path, events[drafts[2] + 1 :], name="rest")
    window = open_window(f"ready take load take play:{first} wait:{go_on} play:{rest} serve")
    window.menus.actions["rounds"].trigger()
    assert (window.rounds.hint.isVisible(), window.rounds.panel.isVisible()) == (True, False)
    send(window, "go")
    until(lambda: getattr(ahead(window), "number", 0) == events[drafts[2]].round)
    assert window.composer.answering
    assert window.rounds.panel.stats.rounds > 0
    assert not box(window, "Model").isEnabled()
    go_on.touch()
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
    window.sidebar.hit_chosen.emit(1, 31, "needle 30")
    until(lambda: len(texts(window)) == 60 and window.transcript.messages[30].shown.marks)
    row = window.transcript.messages[30]
    assert [row.written[m.start : m.end] for m in row.shown.marks] == ["needle", "30"]
    assert window.transcript.in_sight(row, row.written.index("needle"))
    window.menus.actions["before"].trigger()
    assert window.rounds.answer == window.conversation.branch[29].id
    assert window.transcript.first_in_sight() in (28, 29)
    window.menus.actions["find"].trigger()
    assert window.presenter.finder.bar.isVisible()
    window.new()
    assert not window.presenter.finder.bar.isVisible()


@pytest.fixture
def window(open_window, until):
    window = open_window()
    until(lambda: window.pair_bar.status == "loaded")
    return window


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


def test_what_is_fetched_is_told_on_the_first_page(window, qtbot):
    with qtbot.waitSignal(window.welcome.explanation_asked):
        part(window.welcome, QPushButton, "What am I looking at?").click()

    def told(words):
        lines = (label.text() for label in window.welcome.findChildren(QLabel))
        return [line for line in lines if words in line]

    window.loader.fetch_progress.emit(46_435_520, 92_871_040)
    assert told("46.4 of 92.9 MB")
    window.loader.pair = Pair("/models/Tiny-Q4.gguf")
    window.loader.fetch_began.emit()
    assert "starter" not in told("Tiny")[0]


DIALOGS = (
    *("settings", "sampling", "memory", "keys", "explain_rounds", "about", "server", "macs"),
    "tools",
)


def test_a_race_loads_a_model_that_was_unloaded(window, until):
    window.menus.actions["unload"].trigger()
    until(lambda: window.loader.loaded is None)
    window.composer.set_text("Which is faster?")
    window.menus.actions["race"].trigger()
    assert "race" in window.notices.texts
    until(lambda: window.findChild(RaceDialog))
    assert window.loader.loaded is not None
    assert not {"race", "problem"} & window.notices.texts.keys()
    window.findChild(RaceDialog).close()
    until(lambda: window.findChild(RaceDialog) is None)
    loaded = []
    window.loader.loaded_now.connect(loaded.append)
    window.menus.actions["restart"].trigger()
    until(lambda: loaded)
    assert window.findChild(RaceDialog) is None  # it was wanted once


def test_what_waits_is_of_the_conversation_of_before(window, until, monkeypatch):
    said = Entry(None, "user", "Which is faster?"), Entry(0, "assistant", "This one.")
    chat = ExportedChat("Mine", said, leaf=1, settings=Request(max_tokens=7))
    (record,) = window.store.add([chat]).result()
    window.show_conversation(record.id)
    until(lambda: window.conversation.branch)
    window.menus.actions["unload"].trigger()
    until(lambda: window.loader.loaded is None)
    names = []
    monkeypatch.setattr("app.files.ask_to_save", lambda over, title, name, then: names.append(name))
    raced = []
    monkeypatch.setattr(
        window.application.race, "start", lambda lines, request: raced.append(request)
    )
    until(lambda: window.menus.actions["export_trace"].isEnabled())
    window.menus.actions["export_trace"].trigger()
    window.menus.actions["race"].trigger()
    window.new()
    until(lambda: names and window.findChild(RaceDialog))
    window.findChild(RaceDialog).start()
    assert (names, [request.max_tokens for request in raced]) == (["Mine trace.json"], [7])
    window.findChild(RaceDialog).close()
    window.show_conversation(record.id)
    until(lambda: window.conversation.record)
    window.menus.actions["sampling"].trigger()
    other = window.store.create(title="Other").result()
    window.show_conversation(other.id)
    until(lambda: window.conversation.record.id == other.id)
    window.findChild(SamplingDialog).applied.emit("Briefly", None)

    def prompts():
        chats = [window.store.conversation(each.id).result() for each in (record, other)]
        return [chat.system_prompt for chat in chats]

    until(lambda: any(prompts()))
    assert prompts()[1] == ""


def test_every_dialog_fits_is_plain_text_and_can_be_closed(window, until):
    for _ in range(6):
        window.menus.actions["larger"].trigger()
    room = window.screen().availableSize()
    for name in DIALOGS:
        window.menus.actions[name].trigger()
        (dialog,) = (one for one in window.findChildren(QDialog) if one.isVisible())
        QApplication.processEvents()
        assert dialog.width() <= room.width(), name
        assert dialog.height() < room.height(), name
        assert dialog.minimumSizeHint().height() <= dialog.height(), name
        below = [one for one in dialog.findChildren(QDialogButtonBox) if one.isVisible()]
        assert all(dialog.rect().contains(one.geometry()) for one in below), name
        buttons = dialog.findChildren(QPushButton)
        if name in ("settings", "server", "tools"):  # Enter in a field presses nothing there
            assert not any(one.autoDefault() for one in buttons), name
        labels = [one for one in dialog.findChildren(QLabel) if one.text() and not one.buddy()]
        assert {one.textFormat() for one in labels} <= {Qt.TextFormat.PlainText}, name
        if name == "tools":
            dialog.close()
            continue
        words = [button.text().replace("&", "") for button in buttons]
        buttons[words.index("Close" if "Close" in words else "Cancel")].click()
        until(lambda: not any(one.isVisible() for one in window.findChildren(QDialog)))


WIDE, NARROW = 1200, 720


@pytest.fixture
def make(qtbot, tmp_path):
    """Make the panels of a window with these least widths, the middle in second place, a page
    hidden. Returns the columns, the panels, and what names the shown ones."""

    def made(widths):
        settings = Settings(QSettings(str(tmp_path / "s.ini"), QSettings.Format.IniFormat))
        columns, middle = QSplitter(), QWidget()
        qtbot.addWidget(columns)
        parts = {name: QWidget() for name in widths}
        for name, side in parts.items():
            side.setMinimumWidth(widths[name])
            columns.addWidget(side)
        columns.insertWidget(1, middle)
        actions = {name: QAction(name) for name in parts}
        for action in actions.values():
            action.setCheckable(True)
        own = settings.window(1)
        sides = SidePanels(
            columns, parts, middle=middle, actions=actions, settings=own, hidden=("page",)
        )
        sides.restore()

        def shown():
            for name, side in parts.items():
                assert actions[name].isChecked() != side.isHidden()
            return " ".join(name for name, side in parts.items() if not side.isHidden())

        return columns, sides, shown

    return made


TWO, THREE = {"left": 180, "right": 300}, {"left": 200, "right": 200, "page": 200}


@pytest.mark.parametrize(
    ("widths", "steps"),
    [
        pytest.param(
            TWO,
            [("width", WIDE, "left right"), ("width", NARROW, "left"),
             ("width", WIDE, "left right")],
            id="one side folds away and comes back",
        ),
        pytest.param(
            TWO,
            [("width", WIDE, "left right"), ("rest", ("right",), "left"),
             ("rest", (), "left right"), ("rest", ("right",), "left"),
             ("switch", "right", "left right")],
            id="panels rest until they are asked for",
        ),
        pytest.param(  # the other one is wanted too, and has room once one is switched off
            TWO,
            [("width", NARROW, "left"), ("switch", "right", "right"), ("switch", "left", "left"),
             ("switch", "left", "right"), ("switch", "right", ""), ("width", WIDE, "")],
            id="what was asked for last is shown",
        ),
        pytest.param(
            TWO,
            [("width", NARROW, "left"), ("opened again", WIDE, "left right"),
             ("switch", "left", "right"), ("opened again", WIDE, "right")],
            id="folding away is not remembered as a wish",
        ),
        pytest.param(
            THREE,
            [("width", 1400, "left right"), ("show", "page", "left right page"),
             ("width", 920, "left page"), ("width", 720, "page"), ("switch", "page", "left"),
             ("width", 1400, "left right")],
            id="of three sides as many are shown as have room",
        ),
    ],
)  # fmt: skip
def test_what_has_room_is_shown(make, widths, steps):
    columns, sides, shown = make(widths)
    for step, value, expected in steps:
        if step == "opened again":
            sides.keep()
            columns, sides, shown = make(widths)
        if step in ("width", "opened again"):
            columns.resize(value, 500)
            sides.fit()
        else:
            getattr(sides, step)(value)
        assert shown() == expected, (step, value)
    assert sides.narrowest <= NARROW


def test_a_narrow_window_shows_all_of_its_text(window, until):
    window.composer.set_text("word " * 50)
    window.composer.send()
    until(lambda: len(window.transcript.messages) == 2)
    window.resize(NARROW, 560)
    assert window.width() == NARROW
    for name in ("rounds", "sidebar"):
        if not getattr(window, name).isVisible():
            window.menus.actions[name].trigger()
        until(lambda: window.transcript.widget().width() <= window.transcript.viewport().width())
        assert window.transcript.messages[0].view.width() < window.transcript.viewport().width()
