"""The window with the starter pair that really answers: the pictures of the README.

    python -m tests.lab.pictures.real_pair FOLDER

Takes the starter's weights from where they lie, and everything else in a home of its own. What the
model writes and every figure in the pictures is what this machine gave.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from app.chat.conversation import DEFAULTS
from app.chat.provenance import laid_over
from app.commands import CommandRunner
from app.conversations.records import settings_to_json
from app.engine_client.engine_process import host_command
from app.models.target_process import open_target
from app.race.dialog import RaceDialog
from app.rounds.pace import RoundOnShow
from app.start import make_application
from engine.request import Sampling
from models.files import HOME_VARIABLE, models_folder
from tests.support.app.window_maker import make_window

QUESTIONS = (
    "Give me three tips for a good night's sleep, as a numbered list.",
    "Write a Python function that counts the vowels in a word, and show how to use it.",
)
_PATIENCE_SECONDS = 240


def main(folder: Path) -> None:
    """Save the pictures in `folder`; light and dark take turns."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    os.environ.setdefault("QT_SCALE_FACTOR", "2")
    folder.mkdir(parents=True, exist_ok=True)
    weights = models_folder()
    application = make_application(["pictures"])
    for dark in (False, True):
        with tempfile.TemporaryDirectory() as home:
            os.environ[HOME_VARIABLE] = home
            (Path(home) / "models").symlink_to(weights)
            _draw(application, Path(home), folder, dark=dark)


def _draw(application: QApplication, home: Path, folder: Path, *, dark: bool) -> None:
    window = make_window(
        application,
        home,
        host_command(),
        opening=open_target,
        commands=CommandRunner(),
        dark=dark,
    )
    name = "dark" if dark else "light"
    greedy = replace(DEFAULTS, sampling=Sampling())  # so that pictures can be taken again
    window.settings.new_settings = settings_to_json(greedy)

    def save(what: str, widget: QWidget = window) -> None:
        QTest.qWait(500)
        widget.grab().save(str(folder / f"{what}-{name}.png"))

    window.resize(1280, 840)  # it may be more than the screen of the platform without one
    window.show()
    window.begin()
    QTest.qWait(300)
    save("starting")
    until(lambda: window.loader.loaded is not None)
    save("empty")
    for number, question in enumerate(QUESTIONS):
        window.menus.actions["new"].trigger()
        window.composer.set_text(question)
        window.composer.send()
        until(lambda: window.answers.busy)
        if number:
            window.lane.reduce_motion = True  # so that no token is caught on its way
            until(lambda: window.rounds.panel.stats.rounds > 14 and _is_judged(window.lane.shown))
            window.grab().save(str(folder / f"stream-{name}.png"))
        until(lambda: not window.answers.busy)
    window.menus.actions["rounds"].trigger()
    save("answer")
    window.pair_bar.open()
    save("pill", window.pair_bar.page)
    window.pair_bar.page.close()
    window.menus.actions["provenance"].trigger()
    window.rounds.scrubber.go_to(12)
    until(lambda: laid_over(window.transcript.messages[-1].view.document()))
    save("provenance")
    window.menus.actions["provenance"].trigger()
    window.menus.actions["new"].trigger()  # where the answer stands already, lookup copies it
    window.composer.set_text(QUESTIONS[1])
    window.menus.actions["race"].trigger()
    race = window.findChild(RaceDialog)
    assert race is not None
    until(lambda: race.result_line.tone != "muted")
    save("race", race)
    race.reject()
    window.composer.set_text("")
    until(lambda: window.loader.loaded is not None)
    window.library_controller.open()
    assert window.library_controller.dialog is not None
    window.library_controller.dialog.resize(1040, 780)
    QTest.qWait(6000)
    save("library", window.library_controller.dialog)
    window.library_controller.dialog.close()
    window.close()


def _is_judged(shown: RoundOnShow | None) -> bool:
    return shown is not None and shown.judged_at is not None and shown.judged_at < time.monotonic()


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("the window did not come to that state")
        QTest.qWait(20)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
