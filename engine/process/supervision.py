"""When a child process starts, is given up, and starts again after a death.

Pure: no process, no clock. A driver reports what happens, and starts a child when one is `due`:
`app.engine_client.child_process` for the window, `engine.server.child` for the server.

Laws, for any order of requests, starts and ends:

- There is never a second child: none is due before the last one has ended, even if it was killed.
- A stop is final: none is due until the next `start`.
- Each child has one end. It is a `Death` unless it was asked for.
- Deaths in a row have longer and longer pauses, and a limit, unless the last pause repeats.

A child is asked to end by the end of its input, and killed if it has not ended soon after; the end
of its input is also how it ends with its parent (`engine.process.interrupts`). A child with large
models has more time: a killed child's wired memory may be lost.
"""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

GRACE_SECONDS = 5  # from the end of its input until the engine ends itself, or is killed
_MOST_GRACE_SECONDS = 10.0
_BYTES_A_SECOND = 2e9  # of models: 512 tokens of a prompt take about so long
KILLED = "It ran out of memory, or was killed (SIGKILL)."
WORD_SECONDS = 0.5  # from the end of its input until a child that hangs is killed


def grace_seconds(held_bytes: int, least: float = GRACE_SECONDS) -> float:
    """Return the seconds that a child has to end which holds these bytes of models and caches."""
    return max(least, min(held_bytes / _BYTES_A_SECOND, _MOST_GRACE_SECONDS))


@dataclass(frozen=True, slots=True)
class Death:
    """The end of a child that no one asked for.

    `count`: deaths in a row, this one included; `pause_seconds`: until the next child is due, None
    if none follows.
    """

    count: int
    pause_seconds: float | None


class Supervisor:
    """Decides when the child starts, and when it is given up.

    Attributes: `child`, the state of the only child: it is "ending" once it was asked to end, was
    killed or failed; `plan`, whether there is to be a child: "waiting" after a death, "given up"
    after too many.
    """

    def __init__(self, pauses_seconds: Sequence[float] = (), *, endless: bool = False) -> None:
        """`pauses_seconds` follow the first death in a row, the second and so on. One death more is
        too many, unless it is `endless`: then the last pause repeats."""
        self._pauses_seconds = tuple(pauses_seconds)
        self._last = self._pauses_seconds[-1] if endless else None
        self._deaths = 0
        self.child: Literal["none", "running", "ending"] = "none"
        self.plan: Literal["stopped", "on", "waiting", "given up"] = "stopped"

    @property
    def due(self) -> bool:
        """Whether a child is to be started now."""
        return self.plan == "on" and self.child == "none"

    # Requests

    def start(self) -> None:
        """Plan for a child, which follows after the last one has ended. Forgets earlier deaths."""
        self.plan, self._deaths = "on", 0

    def stop(self) -> None:
        """Plan for no child: a running child is asked to end."""
        self.plan = "stopped"
        if self.child == "running":
            self.child = "ending"

    # What happens

    def begin(self) -> None:
        """Note that the child that was due was started."""
        assert self.due
        self.child = "running"

    def forget(self) -> None:
        """Note that the child has proved itself: earlier deaths are not counted with the next."""
        self._deaths = 0

    def fail(self, *, for_good: bool = False) -> Death | None:
        """Note that the child is of no use: it died, or is to be killed. `for_good`: another child
        would not help. Returns None if its end was asked for, or if it has failed before."""
        if self.child != "running":
            return None
        self.child = "ending"
        pause = None if for_good else next(iter(self._pauses_seconds[self._deaths :]), self._last)
        self.plan = "given up" if pause is None else "waiting"
        self._deaths += 1
        return Death(self._deaths, pause)

    def end(self) -> Death | None:
        """Note that the child has ended, or could not be started. Returns as `fail`."""
        death = self.fail()
        self.child = "none"
        return death

    def resume(self) -> None:
        """Note that the pause after a death is over."""
        if self.plan == "waiting":
            self.plan = "on"


def how_it_ended(status: int) -> str:
    """Return a sentence on how a process ended. `status` is -9 for signal 9, as in `subprocess`."""
    names = (each.name for each in signal.Signals if each == -status)
    name = next(names, f"signal {-status}") if status < 0 else f"status {status}"
    return KILLED if name == "SIGKILL" else f"It ended with {name}."
