"""The downloads: begun, paused, gone on with, cancelled; what each of them last said.

Knows `models pull` and its lines. The queue itself is on the disk and outlives this.
"""

from dataclasses import replace
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.commands import CommandRunner, JsonObject, RunningCommand, read_answer
from models.errors import Problem
from models.records import Download

PendingRequest = Literal["pause", "cancel"]
_GOING: tuple[str, ...] = ("queued", "running")


class Downloads(QObject):
    """Signals:
    changed(): what is told of any of them.
    arrived(str): this repository is whole.
    failed(Problem): something that was asked could not be done.
    ended(): the disk may be otherwise now.
    """

    changed = Signal()
    arrived = Signal(str)
    failed = Signal(object)
    ended = Signal()

    def __init__(self, commands: CommandRunner, *, parent: QObject) -> None:
        super().__init__(parent)
        self._commands = commands
        self._known: dict[str, Download] = {}
        self._failures: dict[str, Download] = {}  # which the disk does not know of
        self._pulls: dict[RunningCommand, tuple[str, ...]] = {}
        self.pending: dict[str, PendingRequest] = {}  # asked for, not heeded yet

    @property
    def all(self) -> tuple[Download, ...]:
        """Those that are not done, in the order of the queue."""
        return tuple(one for one in self._known.values() if one.standing != "done")

    @property
    def going(self) -> bool:
        """Whether any of ours is on its way."""
        return bool(self._pulls)

    @property
    def running(self) -> tuple[RunningCommand, ...]:
        """The commands that download now."""
        return tuple(self._pulls)

    @property
    def elsewhere(self) -> bool:
        """Whether another process downloads, of which only the disk tells."""
        ours = self._going()
        return any(one.standing == "running" for one in self.all if one.repository not in ours)

    def find(self, repository: str) -> Download | None:
        """How far it is; None where it is not being downloaded."""
        found = self._known.get(repository)
        return found if found is not None and found.standing != "done" else None

    def pull(self, *repositories: str) -> None:
        """Begin, or go on where it stopped."""
        going = self._going()
        wanted = tuple(one for one in dict.fromkeys(repositories) if one not in going)
        if not wanted:
            return
        for repository in wanted:
            before = self._known.get(repository) or Download(repository, "", "queued", 0, 0)
            self._failures.pop(repository, None)
            self.pending.pop(repository, None)
            self._known[repository] = replace(before, standing="queued", problem="", remedy="")
        running = self._commands.start("pull", "--json", "--with-parent", *wanted)
        self._pulls[running] = wanted
        running.line_received.connect(self._hear)
        running.done.connect(lambda answer: self._on_end(running, None))
        running.failed.connect(lambda problem: self._on_end(running, problem))
        self.changed.emit()

    def pause(self, repository: str) -> None:
        """Stop it for now; what has come is kept."""
        self._request(repository, "pause")

    def cancel(self, repository: str) -> None:
        """Take it off the queue."""
        if self._failures.pop(repository, None) is None:
            self._request(repository, "cancel")
            return
        del self._known[repository]
        self._commands.start("pull", "--json", "--cancel", repository)  # if it ever was there
        self.changed.emit()

    def replace_all(self, downloads: tuple[Download, ...]) -> None:
        """As the queue on the disk had them a moment ago. What is ours and on its way is known
        better here; what failed here and is not told there stays."""
        ours = {name: self._known[name] for name in self._going() if name not in self.pending}
        self._known = {one.repository: one for one in downloads} | ours
        for repository, failure in self._failures.items():
            told = self._known.get(repository)
            if told is None or told.standing not in ("failed", "done"):
                self._known[repository] = failure
        self.pending = {
            name: request
            for name, request in self.pending.items()
            if name in self._known and not _applied(request, self._known[name])
        }
        self.changed.emit()

    def _going(self) -> set[str]:
        """Those that commands of ours fetch or will fetch."""
        ours = {one for pulled in self._pulls.values() for one in pulled}
        return {name for name in ours & set(self._known) if self._known[name].standing in _GOING}

    def _request(self, repository: str, request: PendingRequest) -> None:
        self.pending[repository] = request
        running = self._commands.start("pull", "--json", f"--{request}", repository)
        running.done.connect(lambda answer: self.ended.emit())
        running.failed.connect(lambda problem: self._on_request_failed(repository, problem))
        self.changed.emit()

    def _on_request_failed(self, repository: str, problem: Problem) -> None:
        self.pending.pop(repository, None)
        self.changed.emit()
        self.failed.emit(problem)

    def _hear(self, line: JsonObject) -> None:
        try:
            download = read_download(line)
        except Problem as problem:
            self.failed.emit(problem)
            return
        if download is None:
            return
        repository = download.repository
        before = self._known.get(repository)
        self._known[repository] = download
        request = self.pending.get(repository)
        if request is not None and _applied(request, download):
            del self.pending[repository]
        self.changed.emit()
        if download.standing == "done" and (before is None or before.standing != "done"):
            self.arrived.emit(repository)  # long before the command ends, if others wait
            self.ended.emit()

    def _on_end(self, running: RunningCommand, problem: Problem | None) -> None:
        lost = [
            one
            for one in self._pulls.pop(running, ())
            if one in self._known and self._known[one].standing in _GOING
        ]
        if problem is not None:
            for repository in lost:
                self._known[repository] = self._failures[repository] = replace(
                    self._known[repository],
                    standing="failed",
                    bytes_per_second=0.0,
                    seconds_left=None,
                    problem=problem.message,
                    remedy=problem.remedy,
                )
            if not lost:
                self.failed.emit(problem)
        self.changed.emit()
        self.ended.emit()


def _applied(request: PendingRequest, download: Download) -> bool:
    return request == "pause" and download.standing not in _GOING


def read_download(answer: JsonObject) -> Download | None:
    """The download on a line of `pull`; None where it is about something else. Raises Problem."""
    return read_answer(Download, answer, "download") if "download" in answer else None
