"""The application, as it is run, asks the feed by itself; and not where the person opted out."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PySide6.QtCore import QSettings

from app.settings import Settings
from tests.support.app.engine_listener import TIMEOUT_SECONDS
from tests.support.app.feed_server import PUBLIC_KEY, FeedServer, made_feed, serving
from tests.support.app.window_maker import ROOT

APPLICATION = """
import sys
from app import start
from app.updates import controller as update_controller
from app.updates.feed import Origin
from PySide6.QtCore import QTimer

def begin(window):
    QTimer.singleShot(200, window, lambda: print("begun", flush=True))

update_controller._AFTER_START_MS = 0
start.Origin = lambda: Origin(sys.argv[1], sys.argv[2])
sys.exit(start.run_window(["app"], begin=begin))
"""


@pytest.fixture
def stored(tmp_path: Path) -> Settings:
    return Settings(QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat))


def run_until_asked(server: FeedServer, home: Path, *, wait: bool) -> None:
    application = subprocess.Popen(
        [sys.executable, "-c", APPLICATION, server.address, PUBLIC_KEY.hex()],
        cwd=ROOT,
        env={**os.environ, "SLIPSTREAM_HOME": str(home)},
        stdout=subprocess.PIPE,
    )
    with application:
        assert application.stdout is not None
        assert application.stdout.readline() == b"begun\n"
        end = time.monotonic() + TIMEOUT_SECONDS
        while wait and not server.asked and time.monotonic() < end:
            time.sleep(0.02)
        application.send_signal(signal.SIGTERM)
    assert application.returncode == 0


def test_it_checks_soon_after_its_start(tmp_path: Path) -> None:
    with serving(made_feed()) as server:
        run_until_asked(server, tmp_path, wait=True)
    assert len(server.asked) == 1


def test_it_makes_no_connection_after_opting_out(tmp_path: Path, stored: Settings) -> None:
    stored.automatic_updates = False
    stored.save()
    with serving(made_feed()) as server:
        run_until_asked(server, tmp_path, wait=False)
    assert server.connections == 0
    stored.save()  # which reads too
    assert stored.updates_checked == 0.0
