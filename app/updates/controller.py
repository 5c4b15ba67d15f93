"""When the feed is checked, and with what result. Knows settings and processes; no widgets.

An automatic check happens once a day at most, and never where the person switched it off or there
is no feed. Its failures are silent, as most of them mean that there is no network.
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
_INTERVAL_MS = 3600 * 1000  # as a window may be open for weeks


class UpdateController(QObject):
    """Attributes: `version`, this copy's; `release`, a newer one that was announced, or None.

    Signals:
        found(Release, bool): there is a newer version; whether the person asked.
        current(): there is none. Only where the person asked.
        failed(Problem): the check failed. Only where the person asked.
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
        """`commands` run `app.updates.check`; `clock` returns seconds since 1970."""
        super().__init__(parent)
        self.version = metadata.version("slipstream")
        self.release: Release | None = None
        self._settings, self._origin = settings, origin
        self._commands, self._clock = commands, clock
        self._running: RunningCommand | None = None
        self._asked = False
        self._timer = QTimer(self, interval=_INTERVAL_MS)
        self._timer.timeout.connect(self.check_if_due)

    @property
    def automatic(self) -> bool:
        """Whether it checks by itself."""
        return self._settings.automatic_updates

    @automatic.setter
    def automatic(self, on: bool) -> None:
        self._settings.automatic_updates = on

    @property
    def checking(self) -> bool:
        """Whether a check is running."""
        return self._running is not None

    def begin(self) -> None:
        """Start the automatic checks."""
        self._timer.start()
        QTimer.singleShot(_AFTER_START_MS, self, self.check_if_due)

    def check_if_due(self) -> None:
        """Check if automatic checks are on and the last one was a day ago."""
        since = self._clock() - self._settings.updates_checked
        due = not 0 <= since < DAY_SECONDS  # also where the clock was set back
        if self.automatic and self._origin.configured and due:
            self._ask(asked=False)

    def check(self) -> None:
        """Check now, as the person asked for it."""
        if self._origin.configured:
            self._ask(asked=True)
        else:
            self.failed.emit(
                Problem(
                    "This copy of Slipstream has no address to check for newer versions.",
                    "Look for a newer version where you got this one.",
                )
            )

    def close(self) -> None:
        """Stop checking."""
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

    def _finish(self) -> bool:
        """End the check that is running; whether the person asked for it."""
        asked, self._asked, self._running = self._asked, False, None
        return asked

    def _on_done(self, answer: JsonObject) -> None:
        try:
            made = datetime.fromisoformat(answer["made"]).isoformat()
            announced = answer["release"]
            loopback = is_loopback(self._origin.address)
            release = None if announced is None else release_from(announced, loopback=loopback)
        except (ValueError, LookupError, TypeError):
            self._on_failed(Problem("The update check gave no answer.", "Try again later."))
            return
        asked = self._finish()
        self._settings.newest_feed = made
        self.release = release
        if release is not None:
            self.found.emit(release, asked)
        elif asked:
            self.current.emit()

    def _on_failed(self, problem: Problem) -> None:
        if self._finish():
            self.failed.emit(problem)
