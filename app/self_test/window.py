"""The window's part of the self-test: opens, has one question answered, and closes.

Says what it sees as lines of JSON on standard output, each with one key; judges nothing. Its home
is one that the self-test made, as it writes settings there.
"""

import json
import os
import time
from pathlib import Path

import PySide6
from PySide6.QtCore import QObject, QTimer, qVersion
from PySide6.QtGui import QGuiApplication

from app.chat.answers import Writing
from app.settings import Pair, Settings
from app.start import run_window, stored_settings
from app.window import Window
from engine.events import Done
from engine.protocol import Loaded, Ready
from models.errors import Problem
from models.files import HOME_VARIABLE

QUESTION = "What is the capital of France?"
_DRAFT_LENGTH = "4"  # left to itself a slow machine may not draft at all, and would prove less
_DRAW_MS = 500  # until what has come is drawn


def main(home: Path, picture: Path | None) -> int:
    """Do it, in a home with nothing in it; the process's exit status."""
    os.environ[HOME_VARIABLE] = str(home)
    settings = Settings(stored_settings(home))
    settings.pair = Pair(draft_length=_DRAFT_LENGTH)
    settings.automatic_updates = False
    settings.save()
    return run_window(["Slipstream"], begin=lambda window: Examination(window, picture).begin())


class Examination(QObject):
    """One question, from the window's first paint until it is closed again."""

    def __init__(self, window: Window, picture: Path | None) -> None:
        super().__init__(window)
        self._window, self._picture = window, picture
        self._asked = self._over = False
        window.engine.ready.connect(self._on_ready)
        window.loader.loaded_now.connect(self._on_loaded)
        window.answers.finished.connect(self._on_finished)
        window.loader.failed.connect(self._on_problem)
        window.conversation.failed.connect(self._on_problem)
        window.conversation.refused.connect(lambda text, problem: self._on_problem(problem))
        window.engine.died.connect(lambda reason: self._give_up(f"The engine died. {reason}"))

    def begin(self) -> None:
        """The window is painted: say so before anything else happens."""
        _say(
            "window",
            painted=time.monotonic(),
            pid=os.getpid(),
            platform=QGuiApplication.platformName(),
            width=self._window.width(),
            height=self._window.height(),
            pyside6=PySide6.__version__,
            qt=qVersion(),
        )
        self._window.begin()

    def _on_ready(self, ready: Ready) -> None:
        _say(
            "engine",
            pid=self._window.engine.pid,
            python=ready.python,
            mlx=ready.mlx,
            mlx_lm=ready.mlx_lm,
            device=ready.device,
        )

    def _on_loaded(self, loaded: Loaded) -> None:
        _say(
            "pair",
            target=Path(loaded.target).name,
            drafter=loaded.drafter,
            draft_length=loaded.draft_length,
            precision=loaded.precision,
        )
        if not self._asked:
            self._asked = True
            self._window.composer.set_text(QUESTION)
            self._window.composer.send()

    def _on_finished(self, writing: Writing) -> None:
        last = writing.events[-1]
        if not isinstance(last, Done):
            self._give_up(writing.failure.message if writing.failure else "There is no answer.")
            return
        _say(
            "answer",
            question=QUESTION,
            text=writing.text,
            ending=last.reason,
            tokens=last.stats.committed,
            proposed=last.stats.proposed,
            accepted=last.stats.accepted,
            tokens_per_second=last.stats.tokens_per_second,
        )
        QTimer.singleShot(_DRAW_MS, self, self._finish)

    def _finish(self) -> None:
        if self._picture is not None and not self._window.grab().save(str(self._picture), "PNG"):
            self._give_up(f"The picture could not be written to {self._picture}.")
        else:
            self._window.close()

    def _on_problem(self, problem: Problem) -> None:
        self._give_up(str(problem))

    def _give_up(self, why: str) -> None:
        if not self._over:
            self._over = True
            _say("failure", why=why)
            # Not from within what the engine or the store is telling just now.
            QTimer.singleShot(0, self, self._window.close)


def _say(key: str, **told: str | int | float | None) -> None:
    print(json.dumps({key: told}), flush=True)
