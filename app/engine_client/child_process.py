"""One run of a child process that writes lines, over QProcess.

Knows bytes, lines and how a process ends; not what the lines mean. It starts nothing twice.
"""

import signal
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, QTimer, Signal

_LONGEST_COMPLAINT_BYTES = 4096
_GRACE_SECONDS = 1.5  # from the end of its input until it is killed
_AT_ONCE_SECONDS = 0.006  # of emitting lines
_APART_MILLISECONDS = 10  # so that in a flood of lines the window has more time than the engine
_KILL_SECONDS = 2.0  # to wait for the end of a killed process


class Lines:
    """Splits bytes into lines, with their ends. Holds no more than `limit` bytes and one.

    A line that is longer, its end included, is returned as soon as that is known, cut to `limit`
    bytes and one; the rest of it is dropped.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()
        self._dropping = False

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes."""
        lines: list[bytes] = []
        start = 0
        while start < len(data):
            end = data.find(b"\n", start) + 1 or len(data)
            ended = data.endswith(b"\n", start, end)
            if not self._dropping:
                room = self._limit + 1 - len(self._line)
                self._line += data[start : min(end, start + room)]
                if ended or len(self._line) > self._limit:
                    lines.append(self.rest())
                    self._dropping = not ended
            elif ended:
                self._dropping = False
            start = end
        return lines

    def rest(self) -> bytes:
        """The beginning of a line that is not complete; forgets it."""
        line = bytes(self._line)
        self._line.clear()
        return line


class ChildProcess(QObject):
    """Starts a program once, and emits what it writes until it ends.

    Signals:
        said(bytes): a line of its standard output, with its end; the last one may lack it.
        complained(bytes): the same of standard error, where lines over 4 KB are cut off.
        ended(str, int | None): it no longer runs, or never did: how it ended, as a sentence, and
            its exit status, None if it was killed or could not be started. Emitted once, after
            every line, and never from within `start`.
    """

    said = Signal(object)
    complained = Signal(object)
    ended = Signal(str, object)

    def __init__(
        self, command: Sequence[str], *, folder: Path, limit: int, parent: QObject | None = None
    ) -> None:
        """`command` will run in `folder`; `limit` is the longest line in bytes."""
        super().__init__(parent)
        self._lines, self._complaints = Lines(limit), Lines(_LONGEST_COMPLAINT_BYTES)
        self._heard: deque[bytes] = deque()
        self._soon = QTimer(self, singleShot=True, interval=_APART_MILLISECONDS)
        self._soon.timeout.connect(self._tell)
        self._over = False
        self._process = process = QProcess(self)
        process.setProgram(command[0])
        process.setArguments(list(command[1:]))
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
        """Its id; 0 while it does not run."""
        return int(self._process.processId())

    @property
    def running(self) -> bool:
        return self._process.state() != QProcess.ProcessState.NotRunning

    def start(self) -> None:
        self._process.start()

    def write(self, line: bytes) -> None:
        """Send a line, with its end. Does not wait; what the process no longer reads is lost."""
        if self.running:
            self._process.write(line)

    def kill(self) -> None:
        """End it at once, whatever it is doing; `ended` is emitted when it has ended."""
        self._process.kill()

    def end(self) -> None:
        """Close its input, and kill it if it has not ended soon after. Does not wait."""
        self._process.closeWriteChannel()
        QTimer.singleShot(int(_GRACE_SECONDS * 1000), self, self._process.kill)

    def close(self) -> None:
        """Close its input, and wait until it has ended; kill it if that takes too long.

        Takes 3.5 seconds at most. What it still writes is emitted meanwhile.
        """
        if not self.running:
            return
        self._process.closeWriteChannel()
        if not self._process.waitForFinished(int(_GRACE_SECONDS * 1000)):
            self._process.kill()
            self._process.waitForFinished(int(_KILL_SECONDS * 1000))

    def _read(self) -> None:
        self._heard.extend(self._lines.feed(bytes(self._process.readAllStandardOutput().data())))
        if not self._soon.isActive():
            self._tell()

    def _tell(self, *, all: bool = False) -> None:
        """Emit the lines that were read: some at a time, so that the window stays responsive."""
        # One queue, as a receiver of a line may cause more to be read before the next is emitted.
        end = time.monotonic() + _AT_ONCE_SECONDS
        while self._heard and (all or time.monotonic() < end):
            self.said.emit(self._heard.popleft())
        if self._heard:
            self._soon.start()

    def _read_complaints(self) -> None:
        for line in self._complaints.feed(bytes(self._process.readAllStandardError().data())):
            self.complained.emit(line)

    def _on_error(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:  # no other signal follows
            reason = f"It could not be started: {self._process.errorString()}."
            QTimer.singleShot(0, self, lambda: self._end(reason, None))

    def _finish(self, code: int, status: QProcess.ExitStatus) -> None:
        self._read()
        self._soon.stop()
        self._tell(all=True)
        self._read_complaints()
        for lines, told in ((self._lines, self.said), (self._complaints, self.complained)):
            if rest := lines.rest():
                told.emit(rest)
        crashed = status == QProcess.ExitStatus.CrashExit
        if crashed:
            self._end(f"It was ended by {_name(code)}.", None)
        else:
            self._end(f"It ended with status {code}.", code)

    def _end(self, reason: str, status: int | None) -> None:
        if not self._over:
            self._over = True
            self.ended.emit(reason, status)


def _name(number: int) -> str:
    """The name of a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
