"""Windows for tests, opened on a folder of their own and closed again; and views of Markdown."""

import gc
import time
from typing import NamedTuple

import pytest
from PySide6.QtGui import QFont, QPalette
from PySide6.QtWidgets import QToolTip, QWidget
from pytestqt.qtbot import QtBot

from app.conversations.think_tags import stretches_in
from app.housekeeping import Program, leave_texts
from app.markdown.formats import Formats
from app.markdown.streaming import StreamingMarkdown
from app.markdown.view import TextView
from app.theme.palette import LIGHT
from tests.support.app.engine_listener import TIMEOUT_SECONDS
from tests.support.app.talk import Talk
from tests.support.app.window_maker import fake_host, make_window, make_windows
from tests.support.app.window_use import answered, let_go, send

_FULL_AFTER = 10  # tests
_LOOKS_APART_MS = 2


class PatientBot(QtBot):
    """Waits as long as only a hang takes, and looks often meanwhile."""

    def waitUntil(self, callback, *, timeout=TIMEOUT_SECONDS * 1000):
        last = time.monotonic() + timeout / 1000
        while not callback():
            assert time.monotonic() < last, "it hangs"
            self.wait(_LOOKS_APART_MS)

    def waitSignal(self, signal, **options):
        return super().waitSignal(signal, **{"timeout": TIMEOUT_SECONDS * 1000, **options})


@pytest.fixture(scope="session")
def qapp_cls():
    return Program


@pytest.fixture
def qtbot(qapp, request):
    return PatientBot(request)


@pytest.fixture(autouse=True, scope="session")
def modules_are_not_looked_through():
    """What is imported by now stays to the end: no collection need go through it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def only_this_thread_collects():
    """As in the application: a thread that collected would destroy widgets that are not its own."""
    gc.disable()
    yield
    gc.collect() if gc.get_count()[2] >= _FULL_AFTER else gc.collect(1)


@pytest.fixture(autouse=True)
def clipboard_outlasts_python(qapp):
    """As at the end of the application; else the process would end with a fault."""
    yield
    leave_texts()


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """A tiny model's. Only those who ask for it import MLX, which takes a while."""
    from tests.support.engine.tiny import write_folder

    path = tmp_path_factory.mktemp("models") / "llama"
    write_folder("llama", path)
    return path


@pytest.fixture
def plain_application(qapp):
    """The application, which gets back the looks that a test gives it."""
    palette, tips, font = QPalette(qapp.palette()), QToolTip.palette(), QFont(qapp.font())
    yield qapp
    qapp.setPalette(palette)
    QToolTip.setPalette(tips)
    qapp.setFont(font)


@pytest.fixture
def until(qtbot):
    """Waits until something holds; hangs fail."""
    return qtbot.waitUntil


@pytest.fixture
def open_window(plain_application, tmp_path):
    """Opens a window whose engine takes these steps, or is this command, and begins."""
    windows = []

    def open_window(steps="ready take load serve", **options):
        command = fake_host(tmp_path, steps) if isinstance(steps, str) else steps
        window = make_window(plain_application, tmp_path, command, **options)
        windows.append(window)
        window.show()
        window.begin()
        return window

    yield open_window
    for window in windows:
        window.close()
        let_go(window.application, window)


@pytest.fixture
def talked(open_window, until):
    """A window in which a first message is answered."""
    window = open_window()
    send(window, "first")
    until(answered(window, 2))
    return window


@pytest.fixture
def open_windows(plain_application, tmp_path):
    """Opens the windows that were open at the end of the run before, one at first, and begins."""
    runs = []

    def open_windows(steps="ready take load serve"):
        windows = make_windows(plain_application, tmp_path, fake_host(tmp_path, steps))
        runs.append(windows)
        for window in windows.restore():
            window.show()
            window.begin()
        return windows

    yield open_windows
    for windows in runs:
        opened = windows.all  # closing forgets them, and those of an ended run are not deleted
        windows.close()
        let_go(windows.application, *opened)


@pytest.fixture
def begin(qtbot, tmp_path):
    """Begins a talk with a fake host that takes these steps."""
    talks = []

    def begin(steps, tools=None):
        talks.append(Talk(tmp_path, steps, qtbot, tools=tools))
        return talks[-1]

    yield begin
    for talk in talks:
        talk.close()


class Asked(NamedTuple):
    """How an engine was asked for a generation."""

    conversation: str
    lines: tuple
    request: object
    tools: str


@pytest.fixture
def watch(monkeypatch):
    """Watches an engine: the list of how it is asked from now on."""

    def watch(engine):
        asked, generate = [], engine.generate

        def spy(conversation, messages, request, **options):
            lines = tuple(messages)
            asked.append(Asked(conversation, lines, request, options.get("tools", "")))
            return generate(conversation, lines, request, **options)

        monkeypatch.setattr(engine, "generate", spy)
        return asked

    return watch


@pytest.fixture
def formats(qapp):
    font = QFont("DejaVu Sans")
    font.setPointSizeF(10)
    return Formats(font, LIGHT)


@pytest.fixture
def show(qtbot, formats):
    """A view with a finished Markdown text, on the screen."""

    windows = []  # qtbot does not keep them

    def make(text, drawn_with=formats):
        window = QWidget()
        windows.append(window)
        qtbot.addWidget(window)
        window.resize(700, 900)
        view = TextView(drawn_with, StreamingMarkdown())
        view.setParent(window)
        view.resize(700, 400)
        window.show()
        view.text.set_stretches(stretches_in(text))
        view.text.append(text)
        view.text.finish()
        view.text.settle()
        view.place_buttons()
        return view

    return make
