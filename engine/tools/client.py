"""The asking side of `engine.tools.protocol`: the servers that are wanted, and the calls that are
not over.

Pure: no process, no pipe, no clock. The caller runs the process, reports its beginning, each of its
lines and its end, writes what `to_send` returns, and passes on each `Result`.

Laws, in any order of calls, lines and deaths:

- Each call has exactly one `Result`, and no `Progress` follows that.
- A call is sent once, because a tool may have done its work before the process died. Calls that
  were not sent wait for the process that follows.
- Each process is asked for the servers that were wanted last.
"""

import sys
from typing import Literal

from engine.tools.protocol import (
    COMMANDS,
    LONGEST_LINE_BYTES,
    OWN,
    PROTOCOL,
    RESPONSES,
    Call,
    Cancel,
    Command,
    Progress,
    Ready,
    Restart,
    Result,
    Start,
    State,
)
from models.errors import Problem


class OtherVersion(Problem):
    """The process speaks another version of the protocol."""


def host_command() -> tuple[str, ...]:
    """The command that starts the process; in a bundle with the Python inside it."""
    return (sys.executable, "-X", "faulthandler", "-m", "engine", "tools-host")


class ToolClient:
    """Attributes: `wanted`, the servers and folders that were asked for last; `states`, of those
    of them that the process has reported, by their names; `greeted`, whether it takes commands."""

    def __init__(self) -> None:
        self.wanted = Start(())
        self.states: dict[str, State] = {}
        self.greeted = False
        self._process: Literal["none", "expected", "running"] = "none"
        self._waiting: dict[str, Call] = {}  # for a process
        self._sent: dict[str, Call] = {}
        self._cancelled: set[str] = set()  # sent, and not ended
        self._lines = bytearray()

    @property
    def due_seconds(self) -> float | None:
        """How long the process may be silent: as long as its slowest call may take, and no longer
        once a call was cancelled. None if no result is due."""
        slowest = max((call.seconds for call in self._sent.values()), default=None)
        return 0.0 if self._cancelled else slowest

    @property
    def _names(self) -> set[str]:
        return {OWN, *(server.name for server in self.wanted.servers)}

    # What to ask

    def want(self, start: Start) -> None:
        """Run exactly these servers, now and after a death."""
        self.wanted = start
        self.states = {name: s for name, s in self.states.items() if name in self._names}
        self._send(start)

    def restart(self, server: str) -> None:
        """Start a server again. Without a process this does nothing: the next one starts it."""
        self._send(Restart(server))

    def call(self, call: Call) -> Result | None:
        """Call a tool, now or when there is a process. Returns the result where it cannot be."""
        if len(COMMANDS.to_line(call)) > LONGEST_LINE_BYTES:
            return Result(call.id, "failed", f"The call is over {LONGEST_LINE_BYTES >> 20} MB.")
        if self._process == "none":
            return Result(call.id, "failed", "The tools are not running.")
        calls = self._sent if self._send(call) else self._waiting
        calls[call.id] = call
        return None

    def cancel(self, id: str) -> Result | None:
        """End a call that is not over. Returns its result where it was not sent."""
        if self._waiting.pop(id, None) is not None:
            return Result(id, "cancelled", "It was stopped before it began.")
        if id in self._sent and id not in self._cancelled:
            self._cancelled.add(id)
            self._send(Cancel(id))
        return None

    def to_send(self) -> bytes:
        """The lines for the process that were not returned before."""
        data = bytes(self._lines)
        self._lines.clear()
        return data

    # The life of a process

    def expect(self) -> None:
        """A process will begin: until then, keep all commands."""
        if self._process == "none":
            self._process = "expected"

    def begin(self) -> None:
        """There is a new process: ask it for the servers, and for the calls that wait."""
        self._process = "running"
        self._send(self.wanted)
        for call in self._waiting.values():
            self._send(call)
        self._sent, self._waiting = self._waiting, {}

    def lose(self, message: str, *, another: bool) -> list[Result]:
        """The process is gone. Returns a result with this text for each call that was sent; and for
        all of them unless `another` process follows."""
        over, cancelled = [*self._sent], self._cancelled
        if not another:
            over += self._waiting
            self._waiting = {}
        self._sent, self._cancelled, self.states = {}, set(), {}
        self._lines.clear()
        self._process, self.greeted = "expected" if another else "none", False
        return [Result(id, "cancelled" if id in cancelled else "failed", message) for id in over]

    def hear(self, line: bytes) -> State | Progress | Result | None:
        """Take a line of the process. Returns its response, unless that is stale.

        Raises WrongJson and OtherVersion.
        """
        match response := RESPONSES.read(line):
            case Ready(protocol):
                if protocol != PROTOCOL:
                    message = f"The tools' process uses version {protocol} of the protocol."
                    raise OtherVersion(message, "Install Slipstream again.")
                self.greeted = True
            case State():
                if response.server in self._names:
                    self.states[response.server] = response
                    return response
            case Progress(id) if id in self._sent:
                return response
            case Result(id) if id in self._sent:
                del self._sent[id]
                self._cancelled.discard(id)
                return response
        return None

    def _send(self, command: Command) -> bool:
        if self._process == "running":
            self._lines += COMMANDS.to_line(command)
        return self._process == "running"
