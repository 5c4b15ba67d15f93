"""The downloads: started, paused, resumed and cancelled, with the latest report of each.

Knows `models pull` and its lines. The queue itself is on the disk, and outlives this.
"""

from dataclasses import replace
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.commands import CommandRunner, JsonObject, RunningCommand, read_answer
from models.errors import Problem
from models.records import Download

PendingRequest = Literal["pause", "cancel"]
_ACTIVE: tuple[str, ...] = ("queued", "running")


class Downloads(QObject):
    """Attributes: `pending`, by repository, what was asked for and is not applied yet.

    Signals:
        changed(): a download, or what is pending.
        completed(str): this repository is downloaded.
        failed(Problem): a request could not be carried out.
        disk_changed(): the disk may hold other things now.
    """

    changed = Signal()
    completed = Signal(str)
    failed = Signal(object)
    disk_changed = Signal()

    def __init__(self, commands: CommandRunner, *, parent: QObject) -> None:
        super().__init__(parent)
        self._commands = commands
        self._known: dict[str, Download] = {}
        self._failures: dict[str, Download] = {}  # that the queue on the disk does not know
        self._pulls: dict[RunningCommand, tuple[str, ...]] = {}
        self.pending: dict[str, PendingRequest] = {}

    @property
    def all(self) -> tuple[Download, ...]:
        """Those that are not done, in the order of the queue."""
        return tuple(one for one in self._known.values() if one.status != "done")

    @property
    def running(self) -> tuple[RunningCommand, ...]:
        """This window's commands that are downloading."""
        return tuple(self._pulls)

    @property
    def elsewhere(self) -> bool:
        """Whether another process is downloading, which only the disk reports."""
        ours = self._active()
        return any(one.status == "running" for one in self.all if one.repository not in ours)

    def find(self, repository: str) -> Download | None:
        """The download of a repository; None where it is done or not asked for."""
        found = self._known.get(repository)
        return found if found is not None and found.status != "done" else None

    def pull(self, *repositories: str) -> None:
        """Start these, or resume them where they stopped."""
        active = self._active()
        wanted = tuple(name for name in dict.fromkeys(repositories) if name not in active)
        if not wanted:
            return
        for repository in wanted:
            before = self._known.get(repository) or Download(repository, "", "queued", 0, 0)
            self._failures.pop(repository, None)
            self.pending.pop(repository, None)
            self._known[repository] = replace(before, status="queued", problem="", remedy="")
        running = self._commands.start("pull", "--json", "--with-parent", *wanted)
        self._pulls[running] = wanted
        running.line_received.connect(self._on_line)
        running.done.connect(lambda answer: self._on_end(running, None))
        running.failed.connect(lambda problem: self._on_end(running, problem))
        self.changed.emit()

    def pause(self, repository: str) -> None:
        """Stop it for now, keeping what is downloaded."""
        self._request(repository, "pause")

    def cancel(self, repository: str) -> None:
        """Take it off the queue."""
        if self._failures.pop(repository, None) is None:
            self._request(repository, "cancel")
            return
        del self._known[repository]
        self._commands.start("pull", "--json", "--cancel", repository)  # it may be in the queue
        self.changed.emit()

    def replace_all(self, downloads: tuple[Download, ...]) -> None:
        """Take over the queue on the disk as it was a moment ago.

        What this window is downloading is known better here, and what failed here stays until the
        disk reports a failure or success of its own.
        """
        ours = {name: self._known[name] for name in self._active() if name not in self.pending}
        self._known = {download.repository: download for download in downloads} | ours
        for repository, failure in self._failures.items():
            reported = self._known.get(repository)
            if reported is None or reported.status not in ("failed", "done"):
                self._known[repository] = failure
        self.pending = {
            name: request
            for name, request in self.pending.items()
            if name in self._known and not _applied(request, self._known[name])
        }
        self.changed.emit()

    def _active(self) -> set[str]:
        """The repositories that commands of this window download or will download."""
        ours = {name for pulled in self._pulls.values() for name in pulled}
        return {name for name in ours & set(self._known) if self._known[name].status in _ACTIVE}

    def _request(self, repository: str, request: PendingRequest) -> None:
        self.pending[repository] = request
        running = self._commands.start("pull", "--json", f"--{request}", repository)
        running.done.connect(lambda answer: self.disk_changed.emit())
        running.failed.connect(lambda problem: self._on_request_failed(repository, problem))
        self.changed.emit()

    def _on_request_failed(self, repository: str, problem: Problem) -> None:
        self.pending.pop(repository, None)
        self.changed.emit()
        self.failed.emit(problem)

    def _on_line(self, line: JsonObject) -> None:
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
        if download.status == "done" and (before is None or before.status != "done"):
            self.completed.emit(repository)  # long before the command ends, if others wait
            self.disk_changed.emit()

    def _on_end(self, running: RunningCommand, problem: Problem | None) -> None:
        unfinished = [
            name
            for name in self._pulls.pop(running, ())
            if name in self._known and self._known[name].status in _ACTIVE
        ]
        if problem is not None:
            for repository in unfinished:
                self._known[repository] = self._failures[repository] = replace(
                    self._known[repository],
                    status="failed",
                    bytes_per_second=0.0,
                    seconds_left=None,
                    problem=problem.message,
                    remedy=problem.remedy,
                )
            if not unfinished:
                self.failed.emit(problem)
        self.changed.emit()
        self.disk_changed.emit()


def read_download(answer: JsonObject) -> Download | None:
    """The download on a line of `pull`; None where it is about something else. Raises Problem."""
    return read_answer(Download, answer, "download") if "download" in answer else None


def _applied(request: PendingRequest, download: Download) -> bool:
    return request == "pause" and download.status not in _ACTIVE
