"""The tools that the user has set up: kept in `tools.json`, run by a process, offered to answers.

Knows the configuration and the servers' states; not how these are shown.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject

from app.chat.tool_runner import ToolRunner
from app.steps import Stepper, Steps
from app.tools.server_rows import state_line
from app.tools.tool_process import ToolProcess
from engine.tools.configuration import Configuration, load, others_files, save
from engine.tools.log import ServerLog
from engine.tools.protocol import OWN, Call, Offered, Server, Start
from models.errors import Problem
from models.in_words import one_line

_DAMAGED = ".damaged.json"  # how the name of a file ends that could not be read, and was replaced
_LONGEST_LOG = 16_000  # characters of its end


class Toolbox(ToolRunner):
    """Attributes: `process`; `configuration`, what the user has set up; `problem`, why that could
    not be read or kept.

    `changed` is also emitted for any of these, and for the state of a server.
    """

    def __init__(
        self, file: Path, process: ToolProcess, *, logs: Path, parent: QObject | None = None
    ) -> None:
        """`file` keeps the configuration; `logs` is the folder of the servers' logs."""
        super().__init__(parent)
        self.process, self.configuration = process, Configuration()
        self.problem: Problem | None = None
        self._file, self._logs, self._looked = _File(file), logs, False
        self._changes = 0  # by the user: earlier reads and saves are outdated
        self._stepper = Stepper(self)
        self._disk = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tools")
        process.setParent(self)
        process.changed.connect(self.changed)
        process.progressed.connect(self.progressed)
        process.ended.connect(self.ended)

    @property
    def set_up(self) -> bool:
        return bool(self.configuration.servers or self.configuration.seen)

    @property
    def trouble(self) -> str:
        now = self.configuration
        for server in (OWN, *(server.name for server in now.enabled())):
            line, warns = state_line(self.process.state(server), now)
            if warns and server in now.seen:
                return f"The tools of {one_line(server)}: {one_line(line)}"
        return ""

    def offered(self) -> tuple[Offered, ...]:
        now = self.configuration
        names = (OWN, *(server.name for server in now.enabled()))
        return tuple(
            tool for name in names for tool in self.process.state(name).tools if now.is_on(tool)
        )

    def trusted(self) -> frozenset[str]:
        return self.configuration.trusted

    def begin(self) -> None:
        changes = self._changes

        def steps() -> Steps:
            try:
                read = yield self._disk.submit(self._file.read)
                self.problem = None
                if self._changes == changes:
                    self.configuration = read
            except Problem as problem:
                self._fail(problem, changes)
            self._run()

        self._stepper.run(steps(), failed=partial(self._fail, changes=changes))

    def call(self, call: Call) -> None:
        self.process.call(call)

    def cancel(self, id: str) -> None:
        self.process.cancel(id)

    def close(self) -> None:
        self._stepper.close()
        self.process.close()
        self._disk.shutdown()  # last, as the panel reads a log whenever a server changes

    # What the user does

    def look(self) -> None:
        """Run all servers from now on, as the user looks at their tools. Read the file again, which
        the user may have edited."""
        self._looked = True
        self.begin()

    def change(self, configuration: Configuration) -> None:
        """Set up this instead, and keep it."""
        self.configuration, self.problem = configuration, None
        self._changes += 1
        changes = self._changes
        self._run()

        def steps() -> Steps:
            kept = yield self._disk.submit(self._file.write, configuration)
            if not kept and self._changes == changes:
                self.configuration = yield self._disk.submit(self._file.read)
                self._run()
                raise Problem(
                    "The file of the tools was changed by another program. It was read again.",
                    "Make your change again.",
                )

        self._stepper.run(steps(), failed=partial(self._fail, changes=changes))

    def others(self) -> Future[list[tuple[str, Server]]]:
        """Find the servers that other programs have, with the programs' names."""
        return self._disk.submit(_others)

    def log_of(self, server: str) -> Future[str]:
        """Read the end of a server's log."""
        return self._disk.submit(_tail, ServerLog(self._logs, Server(server)).path)

    # The process

    def _run(self) -> None:
        """Run the servers with tools that are on; once the user has looked, all of them."""
        now = self.configuration
        servers = [one for one in now.enabled() if self._looked or one.name in now.seen]
        if self._looked or servers or OWN in now.seen:
            self.process.use(Start(tuple(servers), now.folders))
        elif self.process.pid:
            self.process.stop()
        self.changed.emit()

    def _fail(self, problem: Problem, changes: int) -> None:
        """Show a problem, unless the user has changed the configuration since."""
        if changes == self._changes:
            self.problem = problem
            self.changed.emit()


class _File:
    """The file of the configuration, for use in one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: bytes | None = None  # its content as it was read or written last

    def read(self) -> Configuration:
        """Read it. Raises Problem."""
        self._known = self._content()
        return load(self._path)

    def write(self, configuration: Configuration) -> bool:
        """Keep a configuration, unless the user has edited the file since. Returns whether it was
        kept. Raises Problem."""
        known = self._known
        try:
            self.read()
        except Problem:  # it may hold what the user can mend
            with suppress(OSError):
                self._path.replace(self._path.with_suffix(_DAMAGED))
        else:
            if known is not None and self._known not in (known, b""):
                self._known = known
                return False
        save(configuration, self._path)
        self._known = self._content()
        return True

    def _content(self) -> bytes:
        with suppress(OSError):
            return self._path.read_bytes()
        return b""


def _others() -> list[tuple[str, Server]]:
    """The servers in files of other programs, as far as these can be read."""
    found: list[tuple[str, Server]] = []
    for program, path in others_files(Path.home()):
        with suppress(Problem):
            found += [(program, server) for server in load(path, whole=False).servers]
    return found


def _tail(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")[-_LONGEST_LOG:]
    return ""
