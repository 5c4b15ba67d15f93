"""When the feed is asked, and what has come of it. Knows the settings and processes; no pixels.

Once a day at most by itself, and not at all where the person has switched that off, or where there
is no feed. Then failures are silent: most of them are a computer without a network.
"""

import time
from collections.abc import Callable
from datetime import datetime
from importlib import metadata

from PySide6.QtCore import QObject, QTimer, Signal

from app.commands import CommandRunner, JsonObject, RunningCommand
from app.settings import Settings
from app.updates.feed import Origin, Release, is_loopback, release_from
from models.errors import Problem

DAY_SECONDS = 24 * 3600
_AFTER_START_MS = 20_000  # the engine is loaded first
_LOOK_AGAIN_MS = 3600 * 1000  # a window may be open for weeks


class UpdateController(QObject):
    """Attributes: `version`, ours; `release`, the newest that was announced, where it is newer.

    Signals:
        found(Release, bool): there is a newer one; whether the person asked.
        current(): there is none; told where the person asked.
        failed(Problem): it is not known; told where the person asked.
    """

    found = Signal(Release, bool)
    current = Signal()
    failed = Signal(Problem)

    def __init__(
        self,
        settings: Settings,
        *,
        origin: Origin,
        commands: CommandRunner,
        clock: Callable[[], float] = time.time,
        parent: QObject | None = None,
    ) -> None:
        """`commands` run `app.updates.check`; `clock` gives seconds since 1970."""
        super().__init__(parent)
        self.version = metadata.version("slipstream")
        self.release: Release | None = None
        self._settings, self._origin = settings, origin
        self._commands, self._clock = commands, clock
        self._running: RunningCommand | None = None
        self._asked = False
        self._timer = QTimer(self, interval=_LOOK_AGAIN_MS)
        self._timer.timeout.connect(self.check_if_due)

    @property
    def automatic(self) -> bool:
        """Whether it looks by itself."""
        return self._settings.automatic_updates

    @automatic.setter
    def automatic(self, on: bool) -> None:
        self._settings.automatic_updates = on

    def begin(self) -> None:
        """Look by itself from now on, where it is wanted."""
        self._timer.start()
        QTimer.singleShot(_AFTER_START_MS, self, self.check_if_due)

    def check_if_due(self) -> None:
        """Ask, where a day has passed since, and nobody has said otherwise."""
        since = self._clock() - self._settings.updates_checked
        due = not 0 <= since < DAY_SECONDS  # a clock that was put back must not stop it
        if self.automatic and self._origin.configured and due:
            self._ask(asked=False)

    def check(self) -> None:
        """Ask now: the person wants to know."""
        if self._origin.configured:
            self._ask(asked=True)
        else:
            self.failed.emit(
                Problem(
                    "This copy of Slipstream does not know where newer versions are announced.",
                    "Look where you got it.",
                )
            )

    def close(self) -> None:
        """Ask no more."""
        self._timer.stop()
        self._commands.close()

    def _ask(self, *, asked: bool) -> None:
        self._asked = self._asked or asked
        if self._running is not None:
            return
        self._settings.updates_checked = self._clock()
        origin = self._origin
        self._running = running = self._commands.start(
            origin.address, origin.public_key, self.version, self._settings.newest_feed
        )
        running.done.connect(self._on_done)
        running.failed.connect(self._on_failed)

    def _end(self) -> bool:
        """It is over; whether the person asked."""
        asked, self._asked, self._running = self._asked, False, None
        return asked

    def _on_done(self, answer: JsonObject) -> None:
        try:
            made = datetime.fromisoformat(answer["made"]).isoformat()
            told = answer["release"]
            loopback = is_loopback(self._origin.address)
            release = None if told is None else release_from(told, loopback=loopback)
        except (ValueError, LookupError, TypeError):
            self._on_failed(Problem("What looks for updates said nothing.", "Try again later."))
            return
        asked = self._end()
        self._settings.newest_feed = made
        self.release = release
        if release is not None:
            self.found.emit(release, asked)
        elif asked:
            self.current.emit()

    def _on_failed(self, problem: Problem) -> None:
        if self._end():
            self.failed.emit(problem)
