"""The canary: hostile text, streamed through the window, opens nothing and freezes nothing."""

import pytest
from PySide6.QtGui import QDesktopServices, QImage
from PySide6.QtWidgets import QApplication, QTextEdit

from app.markdown.view import TextView
from app.replay.scrubber import ReplayDialog
from app.start import run_idle_work
from engine.events import Done, Stats, Text
from tests.support.app.canaries import Listener, Watch, hostile
from tests.support.app.frames import Meter, let_python_collect, milliseconds
from tests.support.app.made_traces import made_trace
from tests.support.app.window_maker import events_file, windows_of

LONG_LINE = "<b>a</b> \u202e" * 9_000  # 100 kB as it is sent
BIDI = "\u202e\u2066\u200f"


@pytest.fixture
def listener():
    made = Listener()
    yield made
    made.close()


@pytest.fixture
def canary(tmp_path, monkeypatch):
    path = tmp_path / "canary.png"
    assert QImage(10, 3_000, QImage.Format.Format_RGB32).save(str(path))
    monkeypatch.chdir(tmp_path)
    watch = Watch(path)
    yield path, watch
    watch.close()


@pytest.fixture
def opened(monkeypatch):
    """What was opened in another program, or asked for by a text."""
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", opened.append)
    load = TextView.loadResource

    def spy(view, kind, name):
        opened.append(name)
        return load(view, kind, name)

    monkeypatch.setattr(TextView, "loadResource", spy)
    return opened


def told(text, *, size):
    return [Text("g", text[start : start + size]) for start in range(0, len(text), size)]


def nasty_events(text):
    """Rounds first, whose tokens are nasty too; then the rest at once, and a long line."""
    head = text[:3000]
    return [
        *made_trace(head)[:-1],
        *told(text[3000:], size=400),
        Text("g", "\n\n" + LONG_LINE),
        Done("g", "stop", Stats()),
    ]


def everything_on(window):
    window.menus.actions["provenance"].trigger()
    window.menus.actions["rounds"].trigger()
    assert window.rounds.isVisible()


def test_a_hostile_answer_opens_and_freezes_nothing(
    open_window, until, tmp_path, listener, canary, opened
):
    path, watch = canary
    text = hostile(listener.address, path).replace("\ud800", "")  # no JSON carries half of one
    events = nasty_events(text)
    window = open_window(f"ready take load take play:{events_file(tmp_path, events)} take")
    until(lambda: window.loader.loaded)
    everything_on(window)
    garbage = run_idle_work(windows_of(window))
    meter = Meter(window)
    window.composer.set_text(f"![x](file://{path}) <img src='{listener.address}'> {BIDI}")
    window.composer.send()
    meter.turn(lambda: window.conversation.writing)
    meter.turn(lambda: window.conversation.writing is None and not window.transcript._waiting)
    answer = window.conversation.branch[-1]
    meter.turn(lambda: window.answers.writing(answer.id) is None)
    frames = meter.take()
    window.removeEventFilter(meter)
    let_python_collect(garbage)
    print(milliseconds([frame.seconds for frame in frames]))

    message = window.transcript.messages[-1]
    assert message.written == text + "\n\n" + LONG_LINE
    assert window.store.message(answer.id).result().content == message.written
    window.grab()
    window.dialogs.replay(answer.id)
    meter.turn(lambda: window.findChild(ReplayDialog))
    scrubber = window.findChild(ReplayDialog).scrubber
    scrubber.pause()
    scrubber.go_to(2)
    window.menus.actions["rename"].trigger()  # the title is of the message
    QApplication.processEvents()
    assert opened == []
    assert listener.visits == 0
    assert watch.opened == 0
    shown = message.view.toPlainText()
    assert "<b>a</b> [U+202E]<b>" in shown
    assert not set(BIDI) & set(shown)
    assert not set(BIDI) & set(window.windowTitle())
    assert not set(BIDI) & set(scrubber.findChild(QTextEdit).toPlainText())


def test_who_watches_notices(listener, canary):
    """Else the test above proves nothing."""
    path, watch = canary
    assert watch.opened == 0
    assert not QImage(str(path)).isNull()
    assert watch.opened == (watch.events >= 0)
