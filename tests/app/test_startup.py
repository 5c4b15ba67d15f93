"""How the app starts: with a display, without one, and where its data is."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

import app.__main__ as program
from app import display, start
from app.conversations.store import Store
from app.display import PACKAGES, QtCannotStart, has_display
from tests.support.app.window_maker import ROOT, fake_host


def test_without_a_display_it_chats_in_the_terminal(monkeypatch, capsys):
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


def test_a_display_on_which_qt_starts_is_one(wayland, monkeypatch):
    monkeypatch.setattr(display, "_qt_complaint", lambda environment: "")
    assert has_display(platform="linux", environment=wayland)
    monkeypatch.setattr(display, "_qt_complaint", lambda environment: "It is broken.")
    with pytest.raises(QtCannotStart) as raised:
        has_display(platform="linux", environment=wayland)
    assert raised.value.complaint == "It is broken."


def test_a_library_that_is_missing_is_named(wayland, monkeypatch):
    missing = "raise SystemExit('libEGL.so.1: cannot open shared object file')"
    monkeypatch.setattr(display, "_PROBE", missing)
    with pytest.raises(QtCannotStart) as raised:
        has_display(platform="linux", environment=wayland)
    assert raised.value.complaint.startswith("libEGL.so.1")


@pytest.mark.parametrize(
    ("error", "complaint"),
    [
        (subprocess.TimeoutExpired(["python"], 120), "Qt gave no answer within 2 minutes."),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "Cannot allocate memory"),
    ],
)
def test_a_probe_that_gives_no_answer_is_told_in_a_sentence(wayland, monkeypatch, error, complaint):
    def fail(*words, **settings):
        raise error

    monkeypatch.setattr(display.subprocess, "run", fail)
    with pytest.raises(QtCannotStart) as raised:
        has_display(platform="linux", environment=wayland)
    assert complaint in raised.value.complaint
    assert str(error) not in raised.value.complaint


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


@pytest.mark.slow  # the other signal ends one below
def test_ctrl_c_closes_the_window_in_order(tmp_path):
    window, _ = begin(tmp_path)
    end(window, tmp_path, number=signal.SIGINT)


def test_a_second_start_shows_the_first_window_which_a_signal_closes_in_order():
    with tempfile.TemporaryDirectory() as folder:  # short, as a socket's path must be
        home = Path(folder)
        first, environment = begin(home)
        try:
            second = subprocess.run(
                [sys.executable, "-c", SECOND_START],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
            )
        finally:
            end(first, home, number=signal.SIGTERM)
        assert second.returncode == 0, "it would show an error otherwise, and wait"
        colours, *modules = second.stdout.split()
        assert int(colours) > 20  # of the icon
        names = {name.partition(".")[0] for name in modules}
        assert "PySide6" in names
        assert not names & NEEDED_LATER
        assert not list(home.glob("*.socket"))


def test_data_has_a_home_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    assert Path(start.stored_settings(tmp_path).fileName()) == tmp_path / "settings.ini"
