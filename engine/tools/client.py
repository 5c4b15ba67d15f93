"""The client of `engine.tools.protocol`: the wanted servers, and the calls without a result.

The laws of `engine.process.asking`, and these, in any order of calls, lines and deaths:

- The end of a call is its `Result`.
- A call is sent once, because a tool may have done its work before the process died. Calls that
  were not sent wait for the process that follows.
- Each process is asked for the servers that were wanted last.
"""

import sys
from dataclasses import replace

from engine.process.asking import Asking
from engine.tools.protocol import (
    COMMANDS,
    LONGEST_LINE_BYTES,
    OWN,
    PROTOCOL,
    RESPONSES,
    Call,
    Cancel,
    Progress,
    Ready,
    Response,
    Restart,
    Result,
    Start,
    State,
)


def host_command() -> tuple[str, ...]:
    """The command that starts the process; in a bundle with the Python inside it."""
    return (sys.executable, "-X", "faulthandler", "-m", "engine", "tools-host")


class ToolClient(Asking[Call, Response, State | Progress | Result]):
    """Attributes: `wanted`, the servers and folders that were asked for last; `states`, of those
    of them that the process has reported, by their names."""

    def __init__(self) -> None:
        super().__init__("The tools' process", COMMANDS, RESPONSES, protocol=PROTOCOL)
        self.wanted = Start(())
        self.states: dict[str, State] = {}

    @property
    def due_seconds(self) -> float | None:
        """How long the process may be silent: as long as its slowest call may take, and no longer
        once a call was cancelled. None if no result is due."""
        if self._process != "running" or not self.owed:
            return None
        return 0.0 if self._cancelled else max(call.seconds for call in self.owed.values())

    @property
    def _names(self) -> set[str]:
        return {OWN, *(server.name for server in self.wanted.servers)}

    def want(self, start: Start) -> None:
        """Run exactly these servers, now and after a death."""
        self.wanted = start
        self.states = {name: s for name, s in self.states.items() if name in self._names}
        self._tell(start)

    def restart(self, server: str) -> None:
        """Start a server again. Without a process this does nothing: the next one starts it."""
        self._tell(Restart(server))

    def call(self, call: Call) -> Result | None:
        """Call a tool, now or when there is a process. Returns the result where it cannot be.
        A limit that the user has set for its server replaces the call's."""
        limits = {server.name: server.tool_timeout_sec for server in self.wanted.servers}
        call = replace(call, seconds=limits.get(call.server) or call.seconds)
        match self._take(call):
            case "too long":
                return Result(call.id, "failed", f"The call is over {LONGEST_LINE_BYTES >> 20} MB.")
            case "no process":
                return Result(call.id, "failed", "The tools are not running.")
        return None

    def cancel(self, id: str) -> Result | None:
        """End a call that is not over. Returns its result where it was not sent."""
        call = self.owed.get(id)
        if call is not None and self._cancel(call, Cancel(id)):
            return Result(id, "cancelled", "It was stopped before it began.")
        return None

    def begin(self) -> None:
        """There is a new process: ask it for the servers, and for the calls that wait."""
        self._process = "running"
        self._tell(self.wanted)
        super().begin()

    def lose(
        self, message: str, remedy: str = "", *, another: bool
    ) -> list[State | Progress | Result]:
        """As `Asking.lose`: calls that were not sent wait for the next process."""
        self.states = {}
        return super().lose(message, remedy, another=another)

    def _outlives(self, command: Call) -> bool:
        return self._process != "running"

    def _failure(self, command: Call, message: str, remedy: str) -> Result:
        return Result(
            command.id, "cancelled" if command.id in self._cancelled else "failed", message
        )

    def _heard(self, response: Response) -> State | Progress | Result | None:
        match response:
            case Ready(protocol):
                self._greet(protocol)
                return None
            case State(server) if server in self._names:
                self.states[server] = response
            case State():
                return None
            case Progress(id) | Result(id) if id not in self.owed or self._process != "running":
                return None
            case Result(id):
                self._finish(id)
        return response
