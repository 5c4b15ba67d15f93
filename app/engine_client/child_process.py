"""A child process that writes lines, over QProcess: run as a `Supervisor` decides.

Knows bytes, lines, and how a process starts and ends; not what the lines mean.
"""

import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, QTimer, Signal

from app.engine_client.engine_log import EngineLog
from engine.pipes import Lines
from engine.process.client import FOLDER
from engine.process.supervision import WORD_SECONDS, Death, Supervisor, how_it_ended

_LONGEST_COMPLAINT_BYTES = 4096
GRACE_SECONDS = 1.5  # from the end of its input until it is killed: the user may wait for it
_AT_ONCE_SECONDS = 0.006  # of emitting lines
_APART_MILLISECONDS = 10  # so that in a flood of lines the window has more time than the engine
_KILL_SECONDS = 2.0  # to wait for the end of a killed process


class ChildProcess(QObject):
    """Runs one process of a program at a time, none before `start`.

    Attributes: `command`, of the next process; `grace_seconds`, from the end of this one's input
    until it is killed; `death`, of the last one, None if its end was asked for; `last_words`, a
    sentence with its last line of standard error, if there is a log.

    Signals:
        began(): a process was started; maybe from within `start` or `replace`.
        said(bytes): a line of its standard output, with its end; the last one may lack it. None
            follows once it is killed.
        complained(bytes): the same of standard error, where lines over 4 KB are cut off.
        ended(str, int | None): it no longer runs, or never did: how it ended, as a sentence, and
            its exit status, None if it was killed or could not be started. Emitted once a process,
            after every line, and never from within `start`.
    """

    began = Signal()
    said = Signal(object)
    complained = Signal(object)
    ended = Signal(str, object)

    def __init__(
        self,
        command: Sequence[str] = (),
        *,
        folder: Path = FOLDER,
        limit: int,
        supervisor: Supervisor | None = None,
        log: EngineLog | None = None,
        parent: QObject | None = None,
    ) -> None:
        """`command` will run in `folder`; `limit` is the longest line in bytes. Without a
        `supervisor` a process that died is not started again."""
        super().__init__(parent)
        self.command, self.last_words = tuple(command), ""
        self.grace_seconds = GRACE_SECONDS
        self.death: Death | None = None
        self._limit, self._supervisor, self._log = limit, supervisor or Supervisor(), log
        self._lines, self._complaints = Lines(limit), Lines(_LONGEST_COMPLAINT_BYTES)
        self._heard: deque[bytes] = deque()
        self._ignored = self._closing = False
        self._process = process = QProcess(self)
        self._soon = QTimer(self, singleShot=True, interval=_APART_MILLISECONDS)
        self._soon.timeout.connect(self._tell)
        self._grace = QTimer(self, singleShot=True)
        self._grace.timeout.connect(process.kill)
        self._pause = QTimer(self, singleShot=True)
        self._pause.timeout.connect(self._resume)
        process.setWorkingDirectory(str(folder))
        environment = QProcessEnvironment.systemEnvironment()
        environment.insert("PYTHONFAULTHANDLER", "1")  # a crash writes where, on standard error
        process.setProcessEnvironment(environment)
        process.readyReadStandardOutput.connect(self._read)
        process.readyReadStandardError.connect(self._read_complaints)
        process.finished.connect(self._finish)
        process.errorOccurred.connect(self._on_error)

    @property
    def pid(self) -> int:
        """The id of its process; 0 while none runs that is not to end."""
        return int(self._process.processId()) if self._supervisor.child == "running" else 0

    @property
    def running(self) -> bool:
        return self._supervisor.child != "none"

    def write(self, line: bytes) -> None:
        """Send a line, with its end. Does not wait; what the process no longer reads is lost."""
        if self.pid:
            self._process.write(line)

    # Commands

    def start(self) -> None:
        """Start a process, now or when the last one has ended, unless there is one."""
        if not self._closing:
            self._supervisor.start()
            self._launch()

    def replace(self, *, kill: bool = False) -> None:
        """End this process, and start another once it has ended."""
        self.stop(kill=kill)
        self.start()

    def stop(self, *, kill: bool = False) -> None:
        """Close its input, and kill it if it has not ended soon after. With `kill`, kill it now; a
        process with more grace than others gets half a second. Does not wait."""
        self._supervisor.stop()
        self._end(kill=kill)

    def close(self, *, kill: bool = False) -> None:
        """Stop the process and wait until it has ended: for its grace, and 2 seconds at most.

        Its last lines are emitted meanwhile; a `start` meanwhile has no effect.
        """
        self.stop(kill=kill)
        self._closing = True
        seconds = WORD_SECONDS if kill else self.grace_seconds
        if not self._process.waitForFinished(int(seconds * 1000)):
            self._process.kill()
            self._process.waitForFinished(int(_KILL_SECONDS * 1000))
        self._closing = False

    def fail(self, *, for_good: bool = False) -> Death | None:
        """Kill a process that does not work. Returns this death; None if its end was asked for.
        With `for_good` no other is started."""
        if (death := self._supervisor.fail(for_good=for_good)) is not None:
            self._end(kill=True)
            self._wait(death)
        return death

    # The life of a process

    def _launch(self) -> None:
        if not self._supervisor.due:
            return
        self._supervisor.begin()
        self._lines, self._complaints = Lines(self._limit), Lines(_LONGEST_COMPLAINT_BYTES)
        self._ignored, self.last_words, self.grace_seconds = False, "", GRACE_SECONDS
        self._process.start(self.command[0], self.command[1:])
        if self._log is not None:
            self._log.note(f"started, process {self._process.processId()}")
        self.began.emit()

    def _end(self, *, kill: bool) -> None:
        self._ignored |= kill
        if kill and self.grace_seconds == GRACE_SECONDS:
            self._process.kill()
        elif self.running:
            self._process.closeWriteChannel()
            self._grace.start(int((WORD_SECONDS if kill else self.grace_seconds) * 1000))

    def _read(self) -> None:
        self._heard.extend(self._lines.feed(bytes(self._process.readAllStandardOutput().data())))
        if not self._soon.isActive():
            self._tell()

    def _tell(self, *, all: bool = False) -> None:
        """Emit the lines that were read: some at a time, so that the window stays responsive."""
        # One queue, as a receiver of a line may cause more to be read before the next is emitted.
        end = time.monotonic() + _AT_ONCE_SECONDS
        while self._heard and (all or time.monotonic() < end):
            self._say(self._heard.popleft())
        if self._heard:
            self._soon.start()

    def _say(self, line: bytes) -> None:
        if not self._ignored:
            self.said.emit(line)

    def _read_complaints(self) -> None:
        for line in self._complaints.feed(bytes(self._process.readAllStandardError().data())):
            self._complain(line)

    def _complain(self, line: bytes) -> None:
        if self._log is not None:
            self._log.complaint(line)
            self.last_words = f" Its last words: {self._log.tail[-1]}"
        self.complained.emit(line)

    def _on_error(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:  # no other signal follows
            reason = f"It could not be started: {self._process.errorString()}."
            QTimer.singleShot(0, self, lambda: self._on_end(reason, None))

    def _finish(self, code: int, status: QProcess.ExitStatus) -> None:
        self._read()
        self._soon.stop()
        self._tell(all=True)
        self._read_complaints()
        for lines, tell in ((self._lines, self._say), (self._complaints, self._complain)):
            if rest := lines.rest():
                tell(rest)
        if status == QProcess.ExitStatus.CrashExit:
            self._on_end(how_it_ended(-code), None)
        else:
            self._on_end(how_it_ended(code), code)

    def _on_end(self, reason: str, status: int | None) -> None:
        self._grace.stop()
        if self._log is not None:
            self._log.note(f"ended: {reason}")
        self.death = self._supervisor.end()
        if self.death is not None:
            self._wait(self.death)
        elif self._supervisor.due:
            self._pause.start(0)
        self.ended.emit(reason, status)

    def _wait(self, death: Death) -> None:
        if death.pause_seconds is not None:
            self._pause.start(int(death.pause_seconds * 1000))

    def _resume(self) -> None:
        self._supervisor.resume()
        self._launch()
