"""Pictures of the local server's panel: off, on, with three requests, with several models, with its
port taken.

python -m tests.lab.pictures.server_panel FOLDER
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QTabWidget

from app.server.local_server import ServerState
from app.server.panel import ServerPanel
from tests.lab.pictures.__main__ import SIMULATED
from tests.support.app.window_maker import fake_host, fake_server, make_window

SIZES = ((900, 600), (1600, 1000))
_STATES = "request:1:writing:Zed request:2:reading:claude-cli request:3:waiting:Aider"
SERVERS = {
    "on": "listen rest",
    "requests": f"listen {_STATES} rest",
    "models": f"listen {_STATES} model:loaded:smollm2-135m-instruct "
    "model:loaded:mlx-community/Qwen3-8B-4bit model:loading:mlx-community/gemma-3-12b-it-4bit "
    "model:not_loaded:mlx-community/Llama-3.3-70B-Instruct-4bit rest",
    "problem": "listen:Port_8737_is_in_use_by_another_program._Choose_another_one. exit:1",
}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from app.start import make_application

    application = make_application(["pictures"])
    for dark in (False, True):
        for state in ("off", *SERVERS):
            with tempfile.TemporaryDirectory() as home:
                draw(application, Path(home), folder, state=state, dark=dark)


def draw(application: QApplication, home: Path, folder: Path, *, state: str, dark: bool) -> None:
    """One state, in two sizes, beside and in front of its window."""
    server = fake_server(home, SERVERS.get(state, "rest"))
    window = make_window(
        application,
        home,
        fake_host(home, "ready take load serve"),
        target=SIMULATED,
        dark=dark,
        server=server,
    )
    window.settings.server_models = state == "models"
    window.show()
    window.begin()
    _until(lambda: window.loader.loaded is not None)
    window.menus.actions["server"].trigger()
    panel = window.findChild(ServerPanel)
    assert panel is not None
    pages = panel.findChild(QTabWidget)
    if state != "off":
        panel.switch.click()
        wanted = ServerState.FAILED if state == "problem" else ServerState.ON
        _until(lambda: window.application.server.state is wanted)
    name = "dark" if dark else "light"
    for width, height in SIZES:
        panel.resize(width, height)
        QTest.qWait(500)
        panel.grab().save(str(folder / f"server-{state}-{name}-{width}.png"))
    pages.setCurrentIndex(1)
    panel.resize(panel.minimumSize())
    QTest.qWait(200)
    panel.grab().save(str(folder / f"server-{state}-{name}-programs.png"))
    pages.setCurrentIndex(2)
    QTest.qWait(200)
    panel.grab().save(str(folder / f"server-{state}-{name}-models.png"))
    panel.resize(panel.sizeHint())
    window.close()


def _until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError("the panel did not come to that state")
        QTest.qWait(20)


if __name__ == "__main__":
    main()
