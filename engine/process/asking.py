"""The asking side of a child process, in any language: the commands without an end.

Pure: no process, no pipe, no clock. A driver runs the process, reports its beginning, each of its
lines and its end, writes the bytes of `to_send`, and passes on what `hear` and `lose` return.

Laws, for any order of commands, lines and deaths:

- Each command that is not refused has one end, and no response to it follows that.
- A process is sent all commands that have no end, each once; a command is cancelled once.
- A command that a lost process may have begun is lost with it, so none is done twice.
"""

from abc import ABC, abstractmethod
from typing import Any, Literal, Protocol

from models.errors import Problem
from models.json_lines import Language
from models.typed_json import WrongJson

_AGAIN = "Install Slipstream again."


class Garbled(Problem):
    """The process wrote a line that cannot be read, so a response may be missing."""


class OtherVersion(Problem):
    """The process speaks another version of the protocol."""


class HasId(Protocol):
    """A command that has one end, which names its id."""

    @property
    def id(self) -> str: ...


class Asking[Command: HasId, Response, Delivery](ABC):
    """Attributes: `owed`, the commands without an end, in the order in which they were asked for;
    `greeted`, whether the process takes commands; `own_failure`, its report about itself before
    it ended, until another process begins; `name`, the process as the subject of a sentence."""

    def __init__(
        self, name: str, commands: Language[Any], responses: Language[Response], *, protocol: int
    ) -> None:
        """`protocol`: the version of both languages."""
        self.name, self._protocol = name, protocol
        self._commands, self._responses = commands, responses
        self.owed: dict[str, Command] = {}
        self.greeted, self.own_failure = False, ""
        self._cancelled = set[str]()
        self._unsent = bytearray()
        self._process: Literal["none", "expected", "running"] = "none"

    @property
    def longest_bytes(self) -> int:
        """The longest line that the process may write."""
        return self._responses.longest_bytes

    @property
    def held_bytes(self) -> int:
        """The bytes of models and caches, which the process needs time to let go of."""
        return 0

    # What to ask

    def _take(
        self, command: Command, *, always: bool = False
    ) -> Literal["", "too long", "no process"]:
        """Send a command, or keep it for the process that follows. Returns why neither can be;
        `always`: it is also kept if no process is expected."""
        line = self._commands.to_line(command)
        if len(line) > self._commands.longest_bytes:
            return "too long"
        if self._process == "none" and not always:
            return "no process"
        self.owed[command.id] = command
        self._send(line)
        return ""

    def _cancel(self, command: Command, cancel: object) -> bool:
        """Cancel a command that is owed, once. Returns whether that is its end, as it was not
        sent."""
        if self._process != "running":
            self._finish(command.id)
            return True
        if command.id not in self._cancelled:
            self._cancelled.add(command.id)
            self._tell(cancel)
        return False

    def _tell(self, wish: object) -> None:
        """Send a command that has no end. Without a process this does nothing."""
        self._send(self._commands.to_line(wish))

    def _send(self, line: bytes) -> None:
        if self._process == "running":
            self._unsent += line

    def _finish(self, id: str) -> None:
        del self.owed[id]
        self._cancelled.discard(id)

    def to_send(self) -> bytes:
        """The lines for the process that were not returned before."""
        data = bytes(self._unsent)
        self._unsent.clear()
        return data

    # The life of a process

    def expect(self) -> None:
        """A process will begin: until then, keep commands for it."""
        if self._process == "none":
            self._process = "expected"

    def begin(self) -> None:
        """There is a new process: send it the commands without an end."""
        self._process, self.own_failure = "running", ""
        for command in self.owed.values():
            self._send(self._commands.to_line(command))

    def lose(self, message: str, remedy: str = "", *, another: bool) -> list[Delivery]:
        """The process is gone. Returns a failure with this text for each command that no process
        will do; with `another`, a process follows."""
        lost = [work for work in self.owed.values() if not (another and self._outlives(work))]
        failures = [self._failure(work, message, remedy) for work in lost]
        for work in lost:
            del self.owed[work.id]
        self._process, self.greeted = "expected" if another else "none", False
        self._cancelled.clear()
        self._unsent.clear()
        return failures

    def hear(self, line: bytes) -> Delivery | None:
        """Take a line of the process. Returns its response, unless that is stale. Raises Garbled
        and OtherVersion."""
        try:
            response = self._responses.read(line)
        except WrongJson:
            raise Garbled(f"{self.name} wrote an unreadable line.", _AGAIN) from None
        return self._heard(response)

    def excuses(self, line: bytes) -> bool:
        """Whether nothing is missing after a line that cannot be read: until a process is ready,
        libraries may print, and a death leaves half a line."""
        whole = line.endswith(b"\n") or len(line) > self.longest_bytes
        return not (self.greeted and whole)

    def _greet(self, protocol: int) -> None:
        if protocol != self._protocol:
            message = f"{self.name} uses version {protocol} of the protocol, and this program"
            raise OtherVersion(f"{message} version {self._protocol}.", _AGAIN)
        self.greeted = True

    # What differs

    @abstractmethod
    def _outlives(self, command: Command) -> bool:
        """Whether the next process does a command of a process that is gone."""

    @abstractmethod
    def _failure(self, command: Command, message: str, remedy: str) -> Delivery:
        """The end of a command that is lost."""

    @abstractmethod
    def _heard(self, response: Response) -> Delivery | None:
        """Take a response, and return it unless it is stale."""
