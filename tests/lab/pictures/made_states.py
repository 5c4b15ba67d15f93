"""Brings a window into the states that are worth a picture; where that goes is not known here."""

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QListView, QWidget

from app.race.dialog import RaceDialog
from app.window import Window
from engine.events import Draft, Event, Verdict
from tests.lab.pictures.__main__ import (
    ANSWER,
    EARLIER,
    QUESTION,
    RACE_ANSWER,
    RACE_QUESTION,
    SIMULATED,
)
from tests.lab.pictures.attached_documents import draw_documents
from tests.lab.pictures.copied_words import draw_words
from tests.lab.pictures.library_pages import draw_library
from tests.lab.pictures.tool_steps import draw_tools
from tests.support.app.laid_over import laid_over
from tests.support.app.made_traces import made_trace
from tests.support.app.window_maker import events_file, fake_host, make_window

Save = Callable[[str, Callable[[str], None]], None]
_PATIENCE_SECONDS = 60


class Photographer:
    """One window, from empty to full."""

    def __init__(self, application: QApplication, home: Path, *, dark: bool) -> None:
        self._application, self._home, self._dark = application, home, dark
        whole = events_file(home, made_trace(ANSWER), name="whole.jsonl")
        raced = events_file(home, made_trace(RACE_ANSWER), name="raced.jsonl")
        plain = events_file(home, made_trace(RACE_ANSWER, longest=0), name="plain.jsonl")
        begun = _until_draft(made_trace(ANSWER))
        steps = (
            f"ready take load take part:{begun}:{whole} take "
            f"-- ready take load take play:{whole} take race:{plain}:{raced} serve"
        )
        self.window = make_window(
            application,
            home,
            fake_host(home, steps),
            target=SIMULATED,
            dark=dark,
        )
        self._seed()

    def all(self, save: Save) -> None:
        """Every picture, in turn."""
        window = self.window
        window.show()
        window.begin()
        self._until(lambda: window.loader.loaded is not None)
        self._rest()
        save("empty", lambda path: _grab(window, path))
        window.composer.set_text(QUESTION)
        window.composer.send()
        self._until(lambda: window.rounds.panel.stats.rounds > 10)
        self._rest(0.5)
        save("stream", lambda path: _grab(window, path))
        window.engine.restart()
        self._until(lambda: not window.answers.busy and window.loader.loaded is not None)
        window.menus.actions["regenerate"].trigger()
        self._until(lambda: window.answers.busy)
        self._until(lambda: not window.answers.busy)
        self._rest(0.6)
        save("answer", lambda path: _grab(window, path))
        window.menus.actions["provenance"].trigger()
        view = window.transcript.messages[-1].view
        self._until(lambda: laid_over(view.document()))
        window.transcript.write_all()
        self._rest()
        save("provenance", lambda path: _grab(window, path))
        window.composer.set_text(RACE_QUESTION)
        window.menus.actions["race"].trigger()
        race = window.findChild(RaceDialog)
        assert race is not None
        race.start()
        self._until(lambda: race.verdict.tone != "muted")
        self._rest(0.6)
        save("race", lambda path: _grab(race, path))
        race.reject()
        window.composer.set_text("")
        self._until(lambda: window.loader.loaded is not None)
        window.menus.actions["search"].trigger()
        QTest.keyClicks(window.sidebar.focusWidget() or window.sidebar, "prime")
        self._until(lambda: _list(window, "Found").isVisible())
        self._rest()
        save("search", lambda path: _grab(window, path))
        draw_documents(window, self._home, save, self._until)
        draw_words(window, self._home, save, self._until)
        draw_library(window, save)
        window.close()
        draw_tools(self._application, self._home, save, self._until, dark=self._dark)

    def _seed(self) -> None:
        """Conversations of earlier days, for the sidebar."""
        store = self.window.store
        for number, (title, asked) in enumerate(EARLIER):
            one = store.create(title=title).result()
            store.say(one.id, asked).result()
            if number == 1:
                store.pin(one.id, pinned=True).result()

    def _until(self, holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError("the window did not come to that state")
            QTest.qWait(20)

    def _rest(self, seconds: float = 0.3) -> None:
        QTest.qWait(int(seconds * 1000))


def _until_draft(events: Sequence[Event]) -> int:
    """So many events, more than half, that the last is a good draft of words, not judged yet."""
    return next(
        number
        for number, (event, verdict) in enumerate(pairwise(events), start=1)
        if number > 0.6 * len(events)
        and isinstance(event, Draft)
        and isinstance(verdict, Verdict)
        and verdict.accepted >= 3
        and all(token.text.strip().isalpha() for token in event.tokens)
    )


def _list(window: Window, name: str) -> QListView:
    return next(view for view in window.findChildren(QListView) if view.accessibleName() == name)


def _grab(window: Window | QWidget, path: str) -> None:
    window.grab().save(path)
