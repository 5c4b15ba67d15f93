"""The window's part of the self-test: opens, has one question answered, and closes.

Prints its observations as facts (`app.self_test.facts`); judges nothing. It writes settings, so its
home must be the self-test's own.
"""

import os
import time
from dataclasses import replace
from pathlib import Path

import PySide6
from PySide6.QtCore import QObject, QTimer, qVersion
from PySide6.QtGui import QGuiApplication

from app.chat.conversation import DEFAULTS
from app.chat.writing import Writing
from app.conversations.records import settings_to_json
from app.self_test.facts import (
    AnswerFacts,
    EngineFacts,
    Fact,
    FailureFacts,
    PairFacts,
    WindowFacts,
    write_fact,
)
from app.settings import Pair, Settings
from app.start import run_window, stored_settings
from app.window import Window
from engine.events import Done, Stats
from engine.process.protocol import Loaded, Ready
from engine.request import Sampling
from models.errors import Problem
from models.files import HOME_VARIABLE

QUESTION = "What is the capital of France?"
_DRAFT_LENGTH = "4"  # fixed, as "auto" may not draft at all on a slow machine
_DRAW_MS = 500  # until the answer is drawn


def main(home: Path, picture: Path | None) -> int:
    """Run the window in an empty home. Returns the exit status."""
    os.environ[HOME_VARIABLE] = str(home)
    settings = Settings(stored_settings(home))
    settings.pair = Pair(draft_length=_DRAFT_LENGTH)
    settings.new_settings = settings_to_json(replace(DEFAULTS, sampling=Sampling()))  # greedy
    settings.save()
    return run_window(["Slipstream"], begin=lambda window: WindowTest(window, picture).begin())


class WindowTest(QObject):
    """Asks one question, from the window's first paint until the window is closed."""

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
        """Report that the window is painted, and continue."""
        _report(
            WindowFacts(
                painted_at=time.monotonic(),
                pid=os.getpid(),
                platform=QGuiApplication.platformName(),
                width=self._window.width(),
                height=self._window.height(),
                pyside6=PySide6.__version__,
                qt=qVersion() or "",
            )
        )
        self._window.begin()

    def _on_ready(self, ready: Ready) -> None:
        _report(
            EngineFacts(
                pid=self._window.engine.pid,
                python=ready.python,
                mlx=ready.mlx,
                mlx_lm=ready.mlx_lm,
                device=ready.device,
            )
        )

    def _on_loaded(self, loaded: Loaded) -> None:
        _report(
            PairFacts(
                target=Path(loaded.target).name,
                drafter=loaded.drafter,
                draft_length=loaded.draft_length,
                precision=loaded.precision,
            )
        )
        if not self._asked:
            self._asked = True
            self._window.composer.set_text(QUESTION)
            self._window.composer.send()

    def _on_finished(self, writing: Writing) -> None:
        last = writing.events[-1]
        if not isinstance(last, Done):
            self._give_up(writing.failure.message if writing.failure else "There was no answer.")
            return
        _report(
            AnswerFacts(
                question=QUESTION,
                text=writing.text,
                ending=last.reason,
                tokens=last.stats.committed,
                proposed=last.stats.proposed,
                accepted=last.stats.accepted,
                drafting=drafting_share(last.stats),
                tokens_per_second=last.stats.tokens_per_second,
            )
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
            _report(FailureFacts(why=why))
            # Later, as this may run inside a signal of the engine or the store.
            QTimer.singleShot(0, self, self._window.close)


def _report(fact: Fact) -> None:
    print(write_fact(fact), flush=True)


def drafting_share(stats: Stats) -> float:
    """Return drafting's share of the time of drafted rounds; 0 if nothing was drafted."""
    drafted = stats.decode_seconds - stats.plain_seconds
    return round(stats.draft_seconds / drafted, 3) if drafted > 0 else 0.0
