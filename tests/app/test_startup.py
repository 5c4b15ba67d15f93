"""How the app starts: with a display, without one, and a second time, which the first answers."""

import errno
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from PySide6.QtCore import QSocketNotifier

import app.__main__ as program
from app import start
from app.conversations.store import Store
from app.display import PACKAGES, QtCannotStart, has_display
from app.one_window import SecondStarts, show_first_window
from tests.support.app.window_maker import ROOT, fake_host


def test_without_a_display_it_chats_in_the_terminal(monkeypatch, capsys, tmp_path):
    ran = []
    monkeypatch.setattr(program, "has_display", lambda: False)
    monkeypatch.setattr(sys, "argv", ["app"])

    def execute(path, arguments):
        ran.append(arguments)
        raise SystemExit  # it does not come back

    monkeypatch.setattr("os.execv", execute)
    with pytest.raises(SystemExit):
        program.main()
    assert ran == [[sys.executable, "-m", "engine", "chat"]]
    assert capsys.readouterr().out.count("\n") == 1
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    assert Path(start.stored_settings(tmp_path).fileName()) == tmp_path / "settings.ini"


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {}, False),
        ("linux", {"DISPLAY": ""}, False),
        ("linux", {"QT_QPA_PLATFORM": "offscreen"}, True),
        ("darwin", {"QT_QPA_PLATFORM": "offscreen"}, True),
    ],
)
def test_whether_there_is_a_display(platform, environment, expected):
    assert has_display(platform=platform, environment=environment) is expected


@pytest.fixture
def wayland(tmp_path):
    """The environment of a process whose display is gone."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("QT_QPA_PLATFORM", "DISPLAY")
    }
    return {**environment, "WAYLAND_DISPLAY": "wayland-9", "SLIPSTREAM_HOME": str(tmp_path)}


def test_qts_own_error_is_shown_and_the_packages(wayland, tmp_path):
    # Qt's plugins are not there, or find no display.
    wayland["QT_QPA_PLATFORM_PLUGIN_PATH"] = str(tmp_path)
    ended = subprocess.run(
        [sys.executable, "-m", "app"], cwd=ROOT, env=wayland, capture_output=True, text=True
    )
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "no Qt platform plugin could be initialized" in ended.stderr
    assert PACKAGES in ended.stderr


MISSING = "libEGL.so.1: cannot open shared object file"


def failing(error):
    def fail(*words, **settings):
        raise error

    return fail


@pytest.mark.parametrize(
    ("patched", "complaint"),
    [
        ({"_qt_complaint": lambda environment: ""}, ""),
        ({"_qt_complaint": lambda environment: "It is broken."}, "It is broken."),
        ({"_PROBE": f"raise SystemExit({MISSING!r})"}, MISSING),
        (
            {"subprocess.run": failing(subprocess.TimeoutExpired(["python"], 120))},
            "Qt gave no answer within 2 minutes.",
        ),
        (
            {"subprocess.run": failing(OSError(errno.ENOMEM, "Cannot allocate memory"))},
            "Cannot allocate memory",
        ),
    ],
    ids=["Qt starts", "Qt complains", "a library is missing", "no answer", "no memory"],
)
def test_a_display_is_one_on_which_qt_starts(wayland, monkeypatch, patched, complaint):
    for name, value in patched.items():
        monkeypatch.setattr(f"app.display.{name}", value)
    if not complaint:
        assert has_display(platform="linux", environment=wayland)
        return
    with pytest.raises(QtCannotStart) as raised:
        has_display(platform="linux", environment=wayland)
    first, *more = raised.value.complaint.splitlines()
    assert first.rstrip(".").endswith(complaint.rstrip(".")), "no name of an exception, no number"
    assert more == []


NEEDED_LATER = {"mlx", "mlx_lm", "numpy", "gguf", "tokenizers", "huggingface_hub"}
FIRST_START = (  # with an engine that begins at once
    "import sys, app.__main__ as program; from functools import partial; from app import start;"
    "start.EngineProcess = partial(start.EngineProcess, command=sys.argv[1:]);"
    "sys.argv = ['app']; raise SystemExit(program.main())"
)
SECOND_START = (  # goes as far as to the first window, with all that is imported before the paint
    "import sys, app.__main__ as program; from app.start import make_application;"
    "image = make_application(['app']).windowIcon().pixmap(16, 16).toImage();"
    "colours = {image.pixel(x, y) for x in range(16) for y in range(16)};"
    "sys.argv = ['app']; status = program.main();"
    "print(len(colours), *sys.modules); raise SystemExit(status)"
)


def begin(home):
    """An app whose engine has begun, and its environment."""
    environment = {
        **os.environ,
        "QT_QPA_PLATFORM": "offscreen",
        "SLIPSTREAM_HOME": str(home),
        "SLIPSTREAM_STARTER_GGUF": str(home / "nothing.gguf"),
    }
    words = (sys.executable, "-c", FIRST_START, *fake_host(home, "ready take load serve"))
    window = subprocess.Popen(words, cwd=ROOT, env=environment)
    process = psutil.Process(window.pid)
    while not process.children():
        assert window.poll() is None
        time.sleep(0.02)
    return window, environment


def end(window, home, *, number):
    """By a signal, as it should."""
    children = psutil.Process(window.pid).children(recursive=True)
    window.send_signal(number)
    assert window.wait() == 0
    psutil.wait_procs(children)
    assert (home / "settings.ini").is_file(), "it was closed, not cut off"
    with Store.open(home / "conversations.sqlite") as store:
        assert store.notice is None


@pytest.mark.quick(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_start_shows_the_first_window_which_a_signal_closes_in_order(number, folder):
    first, environment = begin(folder)
    words = (sys.executable, "-c", SECOND_START)
    try:
        second = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    finally:
        end(first, folder, number=number)
    assert second.returncode == 0, "it would show an error otherwise, and wait"
    colours, *modules = second.stdout.split()
    assert int(colours) > 20  # of the icon
    names = {name.partition(".")[0] for name in modules}
    assert "PySide6" in names
    assert not names & NEEDED_LATER
    assert not list(folder.glob("*.socket"))


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory() as folder:  # short, as a socket's path must be
        yield Path(folder)


def test_the_first_is_asked_and_not_one_that_was_killed(folder, qtbot):
    assert not show_first_window(folder)
    before = SecondStarts(folder)
    (path,) = folder.iterdir()
    before.close()
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    assert not show_first_window(folder), "its socket is still there"
    first = SecondStarts(folder)
    asked = []
    first.asked.connect(lambda: asked.append(True))
    with ThreadPoolExecutor() as threads:
        second = threads.submit(show_first_window, folder)
        qtbot.waitUntil(second.done)
    assert second.result()
    assert asked == [True]
    first.close()
    assert not show_first_window(folder)
    assert list(folder.iterdir()) == []


def test_a_folder_whose_path_is_too_long_has_no_socket(folder):
    deep = folder / ("x" * 120)
    deep.mkdir()
    first = SecondStarts(deep)
    assert not show_first_window(deep)
    wakes = first.findChild(QSocketNotifier).isEnabled()
    assert not wakes, "it would do so all the time"
    first.close()
