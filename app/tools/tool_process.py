"""The process that runs tools, as the window drives it: from `use` to `stop`.

Knows the process and its calls; not who set the servers up, nor who calls. What each call may be
reported is decided by `engine.tools.client`.
"""

from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine_client.child_process import ChildProcess
from app.engine_client.engine_log import EngineLog
from app.engine_client.watchdog import Watchdog
from engine.process.asking import Garbled, OtherVersion
from engine.process.supervision import Supervisor
from engine.tools.client import ToolClient, host_command
from engine.tools.configuration import keys_of
from engine.tools.protocol import LONGEST_LINE_BYTES, Call, Progress, Result, Start, State

_PAUSES_SECONDS = (0.5, 2.0, 8.0)
_STARTING_SECONDS = 60.0  # a bundle that is read for the first time
_GRACE_SECONDS = 10.0  # beyond the time that a call has, or after it was cancelled
_AGAIN = "Restart it; if that happens again, look at its log."


class ToolProcess(QObject):
    """Runs from `use` to `stop` or `close`. Restarts after a death.

    Signals:
        changed(): a server's state is another.
        progressed(Progress): a call goes on.
        ended(Result): a call is over. Once a call, and never before `call` has returned.
    """

    changed = Signal()
    progressed = Signal(object)
    ended = Signal(object)

    def __init__(
        self,
        log: EngineLog,
        *,
        command: Sequence[str] = (),
        pauses_seconds: Sequence[float] = _PAUSES_SECONDS,
        grace_seconds: float = _GRACE_SECONDS,
        parent: QObject | None = None,
    ) -> None:
        """`command` replaces `host_command`; `pauses_seconds` go to its `Supervisor`;
        `grace_seconds`: how much later than it should a result may come."""
        super().__init__(parent)
        self._log, self._grace_seconds = log, grace_seconds
        self._client = ToolClient()
        self._problem = ""
        self._supervisor = Supervisor(pauses_seconds)
        self._process = ChildProcess(
            command or host_command(),
            limit=LONGEST_LINE_BYTES,
            supervisor=self._supervisor,
            log=log,
            parent=self,
        )
        self._process.began.connect(self._on_began)
        self._process.said.connect(self._hear)
        self._process.ended.connect(self._on_ended)
        self._watchdog = Watchdog(tick_seconds=min(0.5, grace_seconds), parent=self)
        self._watchdog.silent.connect(self._on_silence)

    @property
    def pid(self) -> int:
        """The id of the process; 0 if there is none."""
        return self._process.pid

    def state(self, server: str) -> State:
        """A server that was asked for, as it is now."""
        if (known := self._client.states.get(server)) is not None:
            return known
        if self._problem:
            return State(server, "failed", message=self._problem, remedy=_AGAIN)
        return State(server, "starting")

    # What to do

    def use(self, start: Start) -> None:
        """Run exactly these servers, and the tools that come along."""
        self._client.want(start)
        self._problem = ""
        self._hide()
        self._client.expect()
        self._process.start()
        self._write()
        self.changed.emit()

    def stop(self) -> None:
        """End the process and all servers, without waiting."""
        self._process.stop()
        self._lose("Tools were switched off.", another=False)
        self.changed.emit()

    def restart(self, server: str) -> None:
        """Start a server again, and the process, too, if it was given up."""
        if self._supervisor.plan == "given up":
            self.use(self._client.wanted)
            return
        self._client.restart(server)
        self._write()

    def call(self, call: Call) -> None:
        """Call a tool; `ended` follows, not before this returns."""
        self._hide(call.arguments)
        if (refusal := self._client.call(call)) is not None:
            QTimer.singleShot(0, self, lambda: self.ended.emit(refusal))
        self._write()

    def cancel(self, id: str) -> None:
        """End a call; nothing happens if it is over."""
        if (over := self._client.cancel(id)) is not None:
            QTimer.singleShot(0, self, lambda: self.ended.emit(over))
        self._write()

    def close(self) -> None:
        """End the process and all servers, and wait for that: 3.5 seconds at most."""
        self._process.close()
        self._lose("Slipstream ends.", another=False)
        self._log.close()

    # The life of a process

    def _on_began(self) -> None:
        self._client.begin()
        self._write()

    def _on_ended(self, reason: str, status: int | None) -> None:
        if self._process.death is not None:
            self._report(reason + (self._process.last_words if status else ""))

    def _fail(self, reason: str, *, for_good: bool = False) -> None:
        if self._process.fail(for_good=for_good) is not None:
            self._report(reason)

    def _report(self, reason: str) -> None:
        """Report the calls that a death ends."""
        given_up = self._supervisor.plan == "given up"
        self._problem = f"The process that runs tools has ended. {reason}" if given_up else ""
        self._lose(f"The process that runs tools died. {reason}", another=not given_up)
        self.changed.emit()

    def _lose(self, message: str, *, another: bool) -> None:
        self._watchdog.rest()
        for result in self._client.lose(message, another=another):
            self.ended.emit(result)

    def _hear(self, line: bytes) -> None:
        try:
            heard = self._client.hear(line)
        except OtherVersion as other:
            self._fail(str(other), for_good=True)
            return
        except Garbled:
            if not self._client.excuses(line):
                self._fail("It sent an invalid response.")
            return
        self._watchdog.heard()
        self._watch()
        match heard:
            case State():
                self.changed.emit()
            case Progress():
                self.progressed.emit(heard)
            case Result():
                self._supervisor.forget()
                self.ended.emit(heard)

    def _on_silence(self, seconds: float) -> None:
        self._fail(f"It was silent for {seconds:.0f} seconds.")

    def _write(self) -> None:
        self._process.write(self._client.to_send())
        self._watch()

    def _watch(self) -> None:
        """Set the time by which a result is due."""
        if self._supervisor.child != "running":
            return
        if not self._client.greeted:
            self._watchdog.expect(_STARTING_SECONDS)
        elif (seconds := self._client.due_seconds) is None:
            self._watchdog.rest()
        else:
            self._watchdog.expect(seconds + self._grace_seconds)

    def _hide(self, *texts: str) -> None:
        """Keep the keys of all servers, and these texts, out of the log."""
        keys = (key for server in self._client.wanted.servers for key in keys_of(server))
        self._log.hide((*keys, *texts))
