"""How the app starts: with a display, without one, and where its data is."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import app.__main__ as program
from app import display, start
from app.conversations.store import Store
from app.display import has_display
from tests.support.app.window_maker import ROOT


def test_without_a_display_it_chats_in_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(program, "has_display", lambda: False)
    monkeypatch.setattr(sys, "argv", ["app"])

    def execute(path: str, arguments: list[str]) -> None:
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
def test_whether_there_is_a_display(
    platform: str, environment: dict[str, str], expected: bool
) -> None:
    assert has_display(platform=platform, environment=environment) is expected


@pytest.mark.parametrize("starts", [True, False])
def test_a_display_that_is_named_is_tried(monkeypatch: pytest.MonkeyPatch, starts: bool) -> None:
    monkeypatch.setattr(display, "_qt_starts", lambda: starts)
    assert has_display(platform="linux", environment={"DISPLAY": ":0"}) is starts


def test_qt_is_tried_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    assert display._qt_starts()
    monkeypatch.setenv("QT_QPA_PLATFORM", "nothing")
    assert not display._qt_starts()


def test_no_import_of_the_window_is_slow_or_of_mlx() -> None:
    """What is not needed for the first paint is imported after it."""
    code = "import sys, app.start; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = {name.partition(".")[0] for name in done.stdout.split()}
    assert "PySide6" in names
    assert not names & {
        "mlx",
        "mlx_lm",
        "numpy",
        "gguf",
        "tokenizers",
        "huggingface_hub",
    }


def test_the_window_has_an_icon() -> None:
    code = (
        "from app.start import make_application; application = make_application(['app']);"
        "image = application.windowIcon().pixmap(16, 16).toImage();"
        "print(len({image.pixel(x, y) for x in range(16) for y in range(16)}))"
    )
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) > 20  # colours


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_closes_the_window_in_order(tmp_path: Path, number: signal.Signals) -> None:
    environment = {
        **os.environ,
        "QT_QPA_PLATFORM": "offscreen",
        "SLIPSTREAM_HOME": str(tmp_path),
        "SLIPSTREAM_STARTER_GGUF": str(tmp_path / "nothing.gguf"),
    }
    window = subprocess.Popen([sys.executable, "-m", "app"], cwd=ROOT, env=environment)
    process = psutil.Process(window.pid)
    while not process.children():  # the engine: it has begun
        assert window.poll() is None
        time.sleep(0.02)
    children = process.children(recursive=True)
    window.send_signal(number)
    assert window.wait() == 0
    psutil.wait_procs(children)
    assert (tmp_path / "settings.ini").is_file(), "it was closed, not cut off"
    with Store.open(tmp_path / "conversations.sqlite") as store:
        assert store.notice is None


def test_data_has_a_home_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    assert Path(start.stored_settings(tmp_path).fileName()) == tmp_path / "settings.ini"
