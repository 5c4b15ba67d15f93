"""The downloads in the queue on the disk, and the commands that change it.

The queue decides: it knows which downloads wait, which failed and why, and the requests to a
running one. This module keeps its last report, and what commands of this window ask for until they
are answered. Knows `models pull` and its lines.
"""

from dataclasses import dataclass, replace
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.commands import CommandRunner, RunningCommand
from models.answers import Changed
from models.errors import Problem
from models.records import Download, DownloadStatus

Verb = Literal["pull", "pause", "cancel"]


@dataclass(slots=True)
class _Asked:
    """A command that still runs, with its downloads that the queue has not reported yet."""

    verb: Verb
    names: tuple[str, ...]
    unreported: set[str]


class Downloads(QObject):
    """Signals:
    changed(): a download, or a request for it, changed.
    completed(str): this repository is downloaded.
    broke(Download): a download failed.
    failed(Problem): a request could not be carried out.
    disk_changed(): models on the disk may have changed.
    """

    changed = Signal()
    completed = Signal(str)
    broke = Signal(Download)
    failed = Signal(object)
    disk_changed = Signal()

    def __init__(self, commands: CommandRunner, *, parent: QObject) -> None:
        super().__init__(parent)
        self._commands = commands
        self._queue: dict[str, Download] = {}  # by the name in small letters, as on the hub
        self._told_since: set[str] = set()  # reported since the whole queue was requested
        self._asked: dict[RunningCommand, _Asked] = {}
        self._runs = False  # whether a process was downloading at that time

    @property
    def all(self) -> tuple[Download, ...]:
        """The downloads that are not over, in the order of the queue, with their requests.

        A queued download is shown as paused if no process works on the queue, because that process
        was killed: it can be resumed.
        """
        shown = dict(self._queue)
        for asked in self._asked.values():
            for name in asked.unreported:
                there = shown.get(name.lower())
                if asked.verb == "pull":
                    shown[name.lower()] = _pulled(there, name)
                elif there is not None:
                    shown[name.lower()] = replace(there, request=asked.verb)
        stopped = not self._runs and not self.running
        return tuple(
            replace(one, status="paused") if stopped and one.status == "queued" else one
            for one in shown.values()
            if not one.over
        )

    @property
    def running(self) -> tuple[RunningCommand, ...]:
        """This window's commands that are downloading."""
        return tuple(command for command, asked in self._asked.items() if asked.verb == "pull")

    @property
    def elsewhere(self) -> bool:
        """Whether only another process is downloading; its progress is read from the disk."""
        return self._runs and not self.running

    def find(self, repository: str) -> Download | None:
        """Return the download of a repository; None if it is over or not requested."""
        wanted = repository.lower()
        return next((one for one in self.all if one.repository.lower() == wanted), None)

    def pull(self, *repositories: str) -> None:
        """Start these downloads, or resume them."""
        wanted = [name for name in dict.fromkeys(repositories) if not self._goes_on(name)]
        if wanted:
            self._ask("pull", "--with-parent", names=wanted)

    def pause(self, repository: str) -> None:
        """Pause a download. Its downloaded part is kept."""
        self._ask("pause", "--pause", names=[repository])

    def cancel(self, repository: str) -> None:
        """Remove a download from the queue."""
        self._ask("cancel", "--cancel", names=[repository])

    def begin_look(self) -> None:
        """Mark the start of a refresh: reports from now on are newer than its result."""
        self._told_since.clear()

    def take_queue(self, downloads: tuple[Download, ...], *, downloading: bool) -> None:
        """Replace the downloads by the queue on the disk, as read a moment ago."""
        before = self._queue
        newer = {name: before[name] for name in self._told_since & set(before)}
        self._queue = {one.repository.lower(): one for one in downloads} | newer
        self._runs = downloading
        self.changed.emit()
        for name, download in self._queue.items():
            if download.status == "failed" and name in before and before[name].status == "running":
                self.broke.emit(download)

    def _goes_on(self, repository: str) -> bool:
        found = self.find(repository)
        going = found is not None and found.status in ("queued", "running")
        return found is not None and going and not found.request

    def _ask(self, verb: Verb, option: str, *, names: list[str]) -> None:
        running = self._commands.start("pull", "--json", option, *names)
        self._asked[running] = _Asked(verb, tuple(names), set(names))
        running.line_received.connect(lambda line: self._on_line(running, line))
        running.done.connect(lambda answer: self._on_end(running))
        running.failed.connect(lambda problem: self._on_failed(running, problem))
        self.changed.emit()

    def _on_line(self, running: RunningCommand, line: object) -> None:
        if not isinstance(line, Changed):
            return
        download = line.download
        name = download.repository.lower()
        before = self._queue.get(name)
        changed = before is None or before.status != download.status
        self._queue[name] = download
        self._told_since.add(name)
        asked = self._asked[running]
        asked.unreported = {one for one in asked.unreported if one.lower() != name}
        self.changed.emit()
        if changed and download.status == "done":
            self.completed.emit(download.repository)  # long before the command ends, if others wait
        if changed and download.status == "failed":
            self.broke.emit(download)
        if changed and download.over:
            self.disk_changed.emit()

    def _on_failed(self, running: RunningCommand, problem: Problem) -> None:
        """Report a problem that is not in the queue. The queue records failed downloads, also when
        the process was killed."""
        asked = self._asked[running]
        told = (self._queue.get(one.lower()) for one in asked.names if one not in asked.unreported)
        if not any(one is not None and one.status in ("running", "failed") for one in told):
            self.failed.emit(problem)
        self._on_end(running)

    def _on_end(self, running: RunningCommand) -> None:
        self._asked.pop(running, None)
        self.changed.emit()
        self.disk_changed.emit()


def _pulled(there: Download | None, name: str) -> Download:
    """A download as it will be once the queue has taken the request to fetch it."""
    if there is None or there.over:
        return Download(name, "", "queued", 0, 0)
    status: DownloadStatus = "running" if there.status == "running" else "queued"
    return replace(there, status=status, request="", problem="", remedy="")
