"""How answers reach the process that runs tools: `app.tools` has the real runner. Knows no process.

Without one nothing is offered, so that no answer calls a tool.
"""

from PySide6.QtCore import QObject, QTimer, Signal

from engine.tools.protocol import Call, Offered, Result


class ToolRunner(QObject):
    """Offers the tools that the user has switched on, and runs them.

    Signals:
        changed(): other tools are offered now, or another server is trusted.
        progressed(Progress): of a call that runs.
        ended(Result): exactly one for each call, also if its server or the process dies.
    """

    changed = Signal()
    progressed = Signal(object)
    ended = Signal(object)

    @property
    def set_up(self) -> bool:
        """Whether the user has set up any tools, also if none can be used now."""
        return False

    @property
    def trouble(self) -> str:
        """A line on tools that are on and cannot be used; empty if all can be used."""
        return ""

    def offered(self) -> tuple[Offered, ...]:
        """Return the tools that are switched on, of the servers that run."""
        return ()

    def trusted(self) -> frozenset[str]:
        """Return the servers that the user believes which of their tools change nothing."""
        return frozenset()

    def call(self, call: Call) -> None:
        """Call a tool; `ended` follows, not before this returns."""
        gone = Result(call.id, "failed", "No tools are running.")
        QTimer.singleShot(0, self, lambda: self.ended.emit(gone))

    def cancel(self, id: str) -> None:
        """End the call with this id; `ended` follows unless it has ended."""

    def begin(self) -> None:
        """Read which tools the user has switched on, and run their servers."""

    def close(self) -> None:
        """End the process. Waits for it."""
