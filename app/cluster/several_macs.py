"""The Macs that a person chose: their names and states, and whether the engine uses them.

Knows the hostfile, the command that checks it and the states that the engine reports; no widget.
"""

import sys
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.commands import CommandRunner, RunningCommand
from app.engine_client.engine_process import EngineProcess, EngineState
from app.models.loader import ModelLoader
from app.models.pair_choice import PairChoice
from app.settings import Settings
from app.steps import Stepper, Steps, in_thread
from engine.cluster.hosts import read_hosts
from engine.cluster.states import RankState
from engine.process.protocol import CHECKED, Ranks
from models.errors import Problem

_BEGIN_AGAIN = EngineState.STARTING, EngineState.WAITING


def cluster_command() -> tuple[str, ...]:
    """Return the beginning of every command on several Macs. In a bundle it uses the bundle's
    Python."""
    return (sys.executable, "-m", "engine", "cluster")


class SeveralMacs(QObject):
    """Attributes: `names`, from the hostfile, once it is read; `checking`, whether a check runs;
    `checked`, whether a check found no problem.

    Signals: `changed()`: any of its properties changed.
    """

    changed = Signal()

    def __init__(
        self,
        engine: EngineProcess,
        loader: ModelLoader,
        pairs: PairChoice,
        *,
        settings: Settings,
        commands: CommandRunner | None = None,
        parent: QObject | None = None,
    ) -> None:
        """`commands` replaces the runner that begins with `cluster_command`."""
        super().__init__(parent)
        self._engine, self._loader, self._pairs = engine, loader, pairs
        self._settings = settings
        self._commands = commands or CommandRunner(
            cluster_command(), name="The check of the Macs", read=CHECKED.read, parent=self
        )
        self._stepper = Stepper(self)
        self._check: RunningCommand | None = None
        self._check_waits = False  # until the file is read
        self._found: Problem | None = None
        self._ranks: tuple[RankState, ...] = ()  # as the check reported them
        self._unreadable: Problem | None = None
        self.names: tuple[str, ...] = ()
        self.checked = False
        for change in (
            engine.ranks_changed,
            engine.state_changed,
            loader.loaded_now,
            loader.failed,
            engine.unloaded,
        ):
            change.connect(self.changed)
        self._read()

    @property
    def path(self) -> str:
        """The path of the hostfile; empty for none."""
        return self._settings.hosts_file

    @property
    def used(self) -> bool:
        """Whether targets are loaded on the Macs."""
        return self._settings.hosts_used

    @property
    def trusted(self) -> bool:
        """Whether everybody on the Macs' network is trusted."""
        return self._settings.hosts_trusted

    @property
    def checking(self) -> bool:
        return self._check_waits or self._check is not None

    @property
    def ranks(self) -> tuple[RankState, ...]:
        """The last reported state of each Mac; empty before a report."""
        return self._engine.ranks if self.used else self._ranks

    @property
    def lost(self) -> RankState | None:
        """The Mac without which the engine cannot go on, until it has started again; or None."""
        if not self.used or self._engine.state is not EngineState.WAITING:
            return None
        return next((rank for rank in self.ranks if rank.state == "lost"), None)

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
            return self._unreadable or self._found
        return self._loader.problem if self._loader.loaded is None else None

    def choose(self, path: Path) -> None:
        """Use the Macs in this hostfile from now on, without trusting their network, and check
        them."""
        self.use(False)
        self.names = ()
        self._settings.hosts_file = str(path.expanduser().absolute())
        self._settings.hosts_trusted = False
        self.check()

    def check(self) -> None:
        """Read the hostfile again, and join the Macs for a moment to find out what is missing."""
        self._forget_check()
        self._check_waits = True
        self._read()

    def _begin_check(self) -> None:
        waits, self._check_waits = self._check_waits, False
        if waits and self.names and not self.used:
            trust = ("--trust-network",) if self.trusted else ()
            self._check = check = self._commands.start(
                "check", "--json", "--hosts", self.path, *trust
            )
            check.line_received.connect(lambda line: self._on_line(check, line))
            check.done.connect(lambda last: self._on_checked(check, None))
            check.failed.connect(lambda problem: self._on_checked(check, problem))

    def use(self, on: bool) -> None:
        """Load targets on the Macs from now on, or on this Mac alone. Loads the current target
        again."""
        if on == self.used or (on and not self.path):
            return
        self._forget_check()
        self._settings.hosts_used = on
        self._load_again()

    def trust(self, on: bool) -> None:
        """Trust everybody on the Macs' network, or nobody. Then try again what was refused."""
        self._settings.hosts_trusted = on
        if self.used:
            self._load_again()
        else:
            self.check()

    def try_again(self) -> None:
        """Load the target again, after a failure."""
        self._load_again()

    def close(self) -> None:
        """Stop the check."""
        self._stepper.close()
        self._commands.close()

    def _forget_check(self) -> None:
        self._commands.drop(self._check)
        self._check, self._check_waits = None, False
        self._found, self._ranks, self.checked = None, (), False

    def _load_again(self) -> None:
        self._read()
        if not self._loader.resting:
            self._pairs.reload()

    def _read(self) -> None:
        """Read the hostfile again, in a thread, as disks may be slow. Then start a check that
        waits."""
        path = self.path

        def read() -> Steps:
            names: tuple[str, ...] = ()
            if path:
                hosts = yield in_thread(lambda: read_hosts(Path(path)))
                names = tuple(host.ssh for host in hosts.each)
            done(names, None)

        def done(names: tuple[str, ...], unreadable: Problem | None) -> None:
            if path == self.path:
                self.names, self._unreadable = names, unreadable
                self._begin_check()
                self.changed.emit()

        self._unreadable = None
        self._stepper.run(read(), failed=lambda problem: done((), problem))
        self.changed.emit()

    def _on_line(self, check: RunningCommand, line: Ranks) -> None:
        if check is self._check:
            self._ranks = line.ranks
            self.changed.emit()

    def _on_checked(self, check: RunningCommand, problem: Problem | None) -> None:
        if check is self._check:
            self._check, self._found, self.checked = None, problem, problem is None
            self.changed.emit()
