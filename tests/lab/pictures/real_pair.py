"""The window with the starter pair that really answers: the pictures of the README.

    python -m tests.lab.pictures.real_pair FOLDER [--scale 2]

Takes the starter's weights from where they lie, and everything else in a home of its own. What the
model writes and every figure in the pictures is what this machine gave.
"""

import os
import time
from dataclasses import replace

from PySide6.QtTest import QTest

from app.chat.conversation import DEFAULTS
from app.commands import CommandRunner
from app.conversations.records import settings_to_json
from app.engine_client.engine_process import host_command
from app.race.dialog import RaceDialog
from engine.request import Sampling
from models.files import HOME_VARIABLE, models_folder
from tests.support.app.laid_over import laid_over
from tests.support.app.window_maker import make_window

QUESTIONS = (
    "Give me three tips for a good night's sleep, as a numbered list.",
    "Write a Python function that counts the vowels in a word, and show how to use it.",
)
WEIGHTS = models_folder()
_PATIENCE_SECONDS = 240


def real_pair(stage):
    """The first window, an answer that comes, each token's origin, a race, and the Library."""
    os.environ[HOME_VARIABLE] = str(stage.home)
    (stage.home / "models").symlink_to(WEIGHTS)
    window = make_window(
        stage.application,
        stage.home,
        host_command(),
        loading=CommandRunner(),
        commands=CommandRunner(),
        dark=stage.dark,
    )
    greedy = replace(DEFAULTS, sampling=Sampling())  # so that pictures can be taken again
    window.settings.new_settings = settings_to_json(greedy)
    window.resize(1280, 840)
    window.show()
    window.begin()
    until(lambda: window.loader.loaded is not None)
    yield "first", window
    for number, question in enumerate(QUESTIONS):
        window.menus.actions["new"].trigger()
        window.composer.set_text(question)
        window.composer.send()
        until(lambda: window.answers.busy)
        if number:
            until(lambda: window.rounds.panel.stats.rounds > 14)
            yield from _a_round(window)
        until(lambda: not window.answers.busy)
    window.menus.actions["rounds"].trigger()
    message = window.transcript.messages[-1].widget
    assert message is not None
    window.presenter.show_tokens(message.id, True)
    until(lambda: laid_over(message.view.document()))
    yield "tokens", window
    window.presenter.show_tokens(message.id, False)
    window.menus.actions["new"].trigger()  # next to the answer, lookup would copy it
    window.composer.set_text(QUESTIONS[1])
    window.menus.actions["race"].trigger()
    race = window.findChild(RaceDialog)
    assert race is not None
    race.start()
    until(lambda: race.verdict.tone != "muted")
    yield "race", race
    race.reject()
    window.composer.set_text("")
    until(lambda: window.loader.loaded is not None)
    window.open_library()
    until(window.library_controller.view.offers.card.isVisible)
    yield "library", window
    window.close()


def _a_round(window):
    """Three pictures in a row: a draft ahead of the text, its verdict, and the next draft."""
    last = None
    for what in ("draft", "verdict", "next"):
        until(lambda last=last: _differs(window, last))
        row = window.transcript.streaming
        if row is None:
            return  # the answer has ended
        last = row.shown.ahead
        yield f"stream-{what}", window


def _differs(window, last):
    row = window.transcript.streaming
    return row is None or (row.shown.ahead is not None and row.shown.ahead != last)


def until(holds):
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("the window did not come to that state")
        QTest.qWait(20)


if __name__ == "__main__":
    from tests.lab.pictures.__main__ import main

    main({"real": real_pair}, scale="2")
