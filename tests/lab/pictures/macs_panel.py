"""Pictures of the panel of several Macs: from no file to a lost Mac, and of what makes a file.

python -m tests.lab.pictures.macs_panel FOLDER
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.cluster.hostfile_dialog import HostfileDialog
from app.cluster.panel import MacsPanel
from app.window import Window
from engine.cluster.states import RankState
from engine.process.protocol import Ranks
from tests.lab.pictures.__main__ import SIMULATED
from tests.support.app.fake_commands import FakeCommandRunner
from tests.support.app.window_maker import fake_host, make_window

STUDIO = RankState(0, "localhost", "ready", "Apple M3 Ultra", free_bytes=86_000_000_000)
MINI = RankState(1, "mini.local", "ready", "Apple M4 Pro", free_bytes=52_000_000_000)
JOINED = [STUDIO, MINI]
UNREACHED = [
    RankState(0, "localhost", "starting"),
    RankState(
        1,
        "mini.local",
        "lost",
        detail="The process on mini.local could not be started: Permission denied (publickey).",
    ),
]
OPEN = [
    RankState(0, "localhost", "starting", "Apple M3 Ultra", open_network="192.168.1.5/24"),
    RankState(1, "mini.local", "starting", "Apple M4 Pro", open_network="192.168.1.9/24"),
]
REFUSED = ["Others may be on the network of localhost, 192.168.1.5/24.", "Use a cable."]
STOPPED = [UNREACHED[1].detail, "Check the Macs, their cables and their memory, then ask again."]
STATES = ("none", "chosen", "unreached", "open", "checked", "loading", "used", "lost", "failed")


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from app.start import make_application

    application = make_application(["pictures"])
    for dark in (False, True):
        for state in STATES:
            with tempfile.TemporaryDirectory() as home:
                draw(application, Path(home), folder, state=state, dark=dark)


def draw(application: QApplication, home: Path, folder: Path, *, state: str, dark: bool) -> None:
    """One state, in two sizes, and the window behind it where a Mac is lost."""
    hosts = home / "two macs.json"
    hosts.write_text(
        json.dumps(
            [
                {"ssh": "localhost", "ips": ["192.168.0.1"]},
                {"ssh": "mini.local", "ips": ["192.168.0.2"]},
            ]
        )
    )
    commands = FakeCommandRunner()
    steps = {
        "loading": "ready take load take begin ranks:ready:loading hang",
        "used": "ready take load take begin ranks:ready:working load hang",
        "lost": "ready take load take begin ranks:ready:working load take lost -- ready take hang",
        "failed": "ready take load take begin ranks:starting:lost failed hang",
    }.get(state, "ready take load hang")
    window = make_window(
        application, home, fake_host(home, steps), target=SIMULATED, dark=dark, cluster=commands
    )
    window.show()
    window.begin()
    _until(lambda: window.loader.loaded is not None)
    window.menus.actions["macs"].trigger()
    panel = window.findChild(MacsPanel)
    assert panel is not None
    if state != "none":
        window.application.macs.choose(hosts)
        _until(lambda: commands.started)
        _check(commands, state)
        if state in ("loading", "used", "lost", "failed"):
            panel.switch.click()
            QTest.qWait(600)
        if state == "lost":
            window.composer.set_text("Why is the sky blue?")
            window.composer.send()
            QTest.qWait(1500)
    name = "dark" if dark else "light"
    for width, height in ((660, 680), (480, 420), (1000, 800)):
        panel.resize(width, height)
        QTest.qWait(200)
        panel.grab().save(str(folder / f"macs-{state}-{name}-{width}.png"))
    if state in ("lost", "failed", "used"):
        window.grab().save(str(folder / f"macs-{state}-{name}-window.png"))
    if state == "none":
        _draw_dialog(panel, folder / f"macs-make-{name}.png")
    _close(window)


def _check(commands: FakeCommandRunner, state: str) -> None:
    check = commands.started[-1]
    ranks, problem = {
        "chosen": (None, None),
        "unreached": (UNREACHED, STOPPED),
        "open": (OPEN, REFUSED),
    }.get(state, (JOINED, None))
    if ranks is not None:
        check.tell(Ranks(tuple(ranks)))
        if problem is None:
            check.answer()
        else:
            check.fail(*problem)


def _draw_dialog(panel: MacsPanel, path: Path) -> None:
    panel.make.click()
    dialog = panel.findChild(HostfileDialog)
    assert dialog is not None
    dialog.names[1].setText("mini.local")
    dialog.addresses[0].setText("192.168.0.1")
    dialog.addresses[1].setText("192.168.0.300")
    dialog.save()
    QTest.qWait(200)
    dialog.grab().save(str(path))
    dialog.reject()


def _close(window: Window) -> None:
    window.close()
    window.deleteLater()


def _until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError("the panel did not come to that state")
        QTest.qWait(20)


if __name__ == "__main__":
    main()
