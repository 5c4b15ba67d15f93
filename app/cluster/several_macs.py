"""The Macs in the hostfile that was chosen: their states, and whether the engine uses them.

Knows the command that checks them and the states that the engine reports; no widget.
"""

import sys
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.commands import CommandRunner, RunningCommand
from app.engine_client.engine_process import EngineProcess, EngineState
from app.models.loader import ModelLoader
from app.settings import Settings
from engine.cluster.states import RankState
from engine.process.protocol import CHECKED, Ranks
from models.errors import Problem

_BEGIN_AGAIN = EngineState.STARTING, EngineState.WAITING


def cluster_command() -> tuple[str, ...]:
    """Return the beginning of every command on several Macs. In a bundle it uses the bundle's
    Python."""
    return (sys.executable, "-m", "engine", "cluster")


class SeveralMacs(QObject):
    """Signals: `changed()`: any of its properties changed."""

    changed = Signal()

    def __init__(
        self,
        engine: EngineProcess,
        loader: ModelLoader,
        *,
        settings: Settings,
        commands: CommandRunner | None = None,
        parent: QObject | None = None,
    ) -> None:
        """`commands` replaces the runner that begins with `cluster_command`."""
        super().__init__(parent)
        self._engine, self._loader, self._settings = engine, loader, settings
        self._commands = commands or CommandRunner(
            cluster_command(), name="The check of the Macs", read=CHECKED.read, parent=self
        )
        self._check: RunningCommand | None = None
        self._found: Problem | None = None
        self._ranks: tuple[RankState, ...] = ()  # as the check reported them
        for change in (
            engine.ranks_changed,
            engine.state_changed,
            loader.loaded_now,
            loader.failed,
            engine.unloaded,
        ):
            change.connect(self.changed)

    @property
    def path(self) -> str:
        """The path of the hostfile; empty for none."""
        return self._settings.hosts_file

    @property
    def used(self) -> bool:
        """Whether targets are loaded on the Macs."""
        return self._settings.hosts_used

    @property
    def checking(self) -> bool:
        """Whether a check runs."""
        return self._check is not None

    @property
    def ranks(self) -> tuple[RankState, ...]:
        """The last reported state of each Mac; empty before a report."""
        return self._engine.ranks if self.used else self._ranks

    @property
    def loading(self) -> bool:
        """Whether the Macs are being joined, or a target is being loaded on them."""
        begins = self._engine.state in (*_BEGIN_AGAIN, EngineState.LOADING)
        return self.used and self.finding is None and begins

    @property
    def waiting(self) -> bool:
        """Whether another model stays loaded until an answer has ended."""
        loaded = self._loader.loaded
        return loaded is not None and loaded.macs != self._settings.macs

    @property
    def loaded(self) -> bool:
        """Whether a target is loaded on the Macs."""
        return self.used and self._loader.loaded is not None and not self.waiting

    @property
    def resting(self) -> bool:
        """Whether the target was unloaded because it was not used. The next request loads it
        again."""
        return self._loader.resting

    @property
    def finding(self) -> Problem | None:
        """The problem, if any: of the check, or of the engine if the Macs are used."""
        if not self.used:
            return self._found
        return self._loader.problem if self._loader.loaded is None else None

    def choose(self, path: Path) -> None:
        """Use the Macs in this hostfile from now on, and check them."""
        self.use(False)
        self._settings.hosts_file = str(path.expanduser().absolute())
        self.check()

    def check(self) -> None:
        """Join the Macs for a moment to find problems; if they are used, load the target
        again."""
        self._forget_check()
        if self.used:
            self._load_again()
        elif self.path:
            self._check = check = self._commands.start("check", "--json", "--hosts", self.path)
            check.line_received.connect(lambda line: self._on_line(check, line))
            check.done.connect(lambda last: self._on_checked(check, None))
            check.failed.connect(lambda problem: self._on_checked(check, problem))
        self.changed.emit()

    def use(self, on: bool) -> None:
        """Load targets on the Macs from now on, or on this Mac alone. Loads the current target
        again."""
        if on != self.used and (self.path or not on):
            self._forget_check()
            self._settings.hosts_used = on
            self._load_again()
        self.changed.emit()

    def close(self) -> None:
        """Stop the check."""
        self._commands.close()

    def _forget_check(self) -> None:
        self._commands.drop(self._check)
        self._check = self._found = None
        self._ranks = ()

    def _load_again(self) -> None:
        if not self._loader.resting:
            self._loader.reload()

    def _on_line(self, check: RunningCommand, line: Ranks) -> None:
        if check is self._check:
            self._ranks = line.ranks
            self.changed.emit()

    def _on_checked(self, check: RunningCommand, problem: Problem | None) -> None:
        if check is self._check:
            self._check, self._found = None, problem
            self.changed.emit()
