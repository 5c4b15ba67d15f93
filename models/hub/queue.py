"""The queue of downloads: what is to be fetched, in which order, and how far each is.

A JSON file in the data folder, so that every process sees the same queue and a restart loses
nothing. One process at a time runs the queue; it notices what others write (pause, cancel) between
two blocks of a download. Knows the names of repositories only: the caller of `run` fetches them.
"""

import dataclasses
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from models.errors import Problem
from models.files import data_folder, write_json
from models.records import Download, DownloadStatus
from models.typed_json import decode

FILE_NAME = "downloads.json"
SAVE_SECONDS = 2.0  # between two saves of how far a download is
UNFINISHED: tuple[DownloadStatus, ...] = ("queued", "running", "paused", "failed")

ReportProgress = Callable[[Download], None]
Cancelled = Callable[[], bool]
Fetch = Callable[[Download, ReportProgress, Cancelled], object]


class QueueBusy(Problem):
    """Another process works through the queue already."""

    def __init__(self) -> None:
        super().__init__(
            "Another window or terminal is downloading already.",
            "It will fetch what is in the queue; see: slipstream models list",
        )


class Queue:
    """The one queue of a data folder; any number of objects and processes may look at it.

    notice: a line about the file that a person must see; mostly empty.
    """

    def __init__(self, *, home: Path | None = None) -> None:
        self.notice = ""
        self._path = data_folder(home) / FILE_NAME
        self._runner = self._path.with_name(f".{FILE_NAME}.runner")
        self._seen: tuple[int, ...] = ()
        self._read: list[Download] = []

    def downloads(self) -> list[Download]:
        """All of them, in order. One whose runner was killed is `paused`.

        A damaged file is kept aside under another name, and the queue begins empty: see `notice`.
        Raises Problem where the file cannot be read.
        """
        if not self._path.exists():
            return []
        with self._changing() as downloads:
            return list(downloads)

    def enqueue(self, repository: str, revision: str = "") -> Download:
        """Add `repository` at the end of the queue.

        One that is in the queue keeps its place; if it was paused or failed it is queued again. One
        that is done is queued once more, at the end. Raises Problem where the queue cannot be
        written.
        """
        with self._changing() as downloads:
            fresh = Download(repository, revision, "queued", 0, 0)
            found = _index(downloads, repository)
            if found is not None and downloads[found].status != "done":
                other = revision not in ("", downloads[found].revision)
                downloads[found] = fresh if other else _waiting(downloads[found])
                return downloads[found]
            if found is not None:
                del downloads[found]
            downloads.append(fresh)
            return fresh

    def pause(self, repository: str) -> Download:
        """Stop or hold back `repository`. Raises Problem if it is not in the queue."""
        return self._change(
            repository,
            lambda old: _still(old, "paused") if old.status in ("queued", "running") else old,
        )

    def resume(self, repository: str) -> Download:
        """Queue a paused or failed download again, in its old place. Raises Problem as `pause`."""
        return self._change(repository, _waiting)

    def resume_all(self) -> list[Download]:
        """Queue all paused and failed downloads again. Returns the whole queue."""
        with self._changing() as downloads:
            downloads[:] = map(_waiting, downloads)
            return list(downloads)

    def cancel(self, repository: str) -> None:
        """Remove `repository` from the queue. What was received stays, as an incomplete download.

        Raises Problem if it is not in the queue.
        """
        with self._changing() as downloads:
            del downloads[_require(downloads, repository)]

    def run(
        self,
        fetch: Fetch,
        *,
        report: ReportProgress = lambda download: None,
        stopped: Cancelled = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Fetch one after another until none is queued, or until `stopped()`, which pauses one.

        `fetch(download, report, cancelled)` fetches one, reports how far it is, and raises soon
        after `cancelled()`. A Problem is kept with the failed download, and the next one begins;
        any other exception pauses the download and is raised to the caller.
        `report` receives each change. Raises QueueBusy where another process runs it, and other
        Problems where the queue cannot be used.
        """
        with self._changing() as downloads:
            lock = FileLock(self._runner)
            try:
                lock.acquire(timeout=0)  # nobody only looks at it while the queue is locked
            except Timeout as error:
                raise QueueBusy from error
            downloads[:] = [each for each in downloads if each.status != "done"]
        try:
            while not stopped() and (begun := self._begin()) is not None:
                self._fetch(begun, fetch, report=report, stopped=stopped, clock=clock)
        finally:
            lock.release()

    def is_run(self) -> bool:
        """Whether a process, this one or another, works through the queue now."""
        with self._changing():
            return self._has_runner()

    def _begin(self) -> Download | None:
        """Mark the first queued download as running."""
        with self._changing() as downloads:
            for index, download in enumerate(downloads):
                if download.status == "queued":
                    downloads[index] = dataclasses.replace(download, status="running")
                    return downloads[index]
            return None

    def _fetch(
        self,
        latest: Download,
        fetch: Fetch,
        *,
        report: ReportProgress,
        stopped: Cancelled,
        clock: Callable[[], float],
    ) -> None:
        name = latest.repository
        saved_at = clock()
        report(latest)

        def progress(told: Download) -> None:
            nonlocal latest, saved_at
            revision = told.revision or latest.revision
            latest = dataclasses.replace(told, repository=name, revision=revision, status="running")
            report(latest)
            if clock() - saved_at >= SAVE_SECONDS:
                saved_at = clock()
                self._note(latest)

        def cancelled() -> bool:
            return stopped() or not self._wanted(name)

        end: Download | None = None
        try:
            fetch(latest, progress, cancelled)
            end = _still(dataclasses.replace(latest, done_bytes=latest.total_bytes), "done")
        except Problem as problem:
            if not cancelled():
                end = dataclasses.replace(
                    _still(latest, "failed"), problem=problem.message, remedy=problem.remedy
                )
        except Exception:
            if not cancelled():
                raise
        finally:
            noted = self._note(end or _still(latest, "paused"))
            if noted is not None:
                report(noted)

    def _note(self, now: Download) -> Download | None:
        """Save how far a download is. Returns the queue's entry; None if it was cancelled.

        Where another process paused it, or queued it again, meanwhile, that is kept.
        """
        with self._changing() as downloads:
            found = _index(downloads, now.repository)
            if found is None:
                return None
            if downloads[found].status == "running" or now.status == "done":
                downloads[found] = now
            elif downloads[found].status == "paused":
                downloads[found] = dataclasses.replace(
                    downloads[found], done_bytes=now.done_bytes, total_bytes=now.total_bytes
                )
            return downloads[found]

    def _wanted(self, repository: str) -> bool:
        """Whether it is still wanted. Cheap: the file is read only when it changes."""
        if self._signature() != self._seen:
            with self._changing() as downloads:
                self._read = list(downloads)
                self._seen = self._signature()
        found = _index(self._read, repository)
        return found is not None and self._read[found].status == "running"

    def _signature(self) -> tuple[int, ...]:
        try:
            state = self._path.stat()
        except OSError:
            return ()
        return state.st_ino, state.st_mtime_ns, state.st_size

    def _change(self, repository: str, change: Callable[[Download], Download]) -> Download:
        with self._changing() as downloads:
            found = _require(downloads, repository)
            downloads[found] = change(downloads[found])
            return downloads[found]

    @contextmanager
    def _changing(self) -> Iterator[list[Download]]:
        """The queue, locked against other processes; changes to the list are saved."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Problem(
                f"{self._path.parent} cannot be made: {error.strerror or error}.",
                "Make room on the disk, and check that you may write there.",
            ) from error
        with FileLock(self._path.with_name(f".{FILE_NAME}.lock")):
            before = self._load()
            downloads = list(before)
            if any(each.status == "running" for each in downloads) and not self._has_runner():
                downloads = [
                    _still(each, "paused") if each.status == "running" else each
                    for each in downloads
                ]
            yield downloads
            if downloads != before:
                write_json(self._path, {"downloads": list(map(dataclasses.asdict, downloads))})

    def _has_runner(self) -> bool:
        lock = FileLock(self._runner)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return True
        lock.release()
        return False

    def _load(self) -> list[Download]:
        if not self._path.exists():
            return []
        try:
            return _parse(self._path)
        except ValueError:
            pass
        aside = self._path.with_suffix(".damaged.json")
        os.replace(self._path, aside)
        self.notice = (
            f"The list of downloads was damaged: it begins empty, and what there was is in {aside}."
        )
        return []


def repository_of(download: Download) -> str:
    """The repository of a download, in small letters, without the name of a single file."""
    return "/".join(download.repository.lower().split("/")[:2])


def _parse(path: Path) -> list[Download]:
    """The downloads in the file. Raises ValueError unless it is as we write it."""
    try:
        entries = json.loads(path.read_bytes())["downloads"]
        if not isinstance(entries, list):
            raise ValueError("it holds no list")
        downloads = [_download(entry) for entry in entries]
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    except OSError as error:
        raise Problem(
            f"{path} cannot be read: {error.strerror or error}.",
            "Check that the disk is there and that you may read the file.",
        ) from error
    if len({each.repository.lower() for each in downloads}) < len(downloads):
        raise ValueError("a repository stands there twice")
    return downloads


def _download(entry: object) -> Download:
    if isinstance(entry, dict) and "standing" in entry:  # the older word for it
        entry = {"status": entry["standing"], **entry}
    download = decode(Download, entry, place="download", ignore_unknown=True)
    sound = (
        download.repository
        and min(download.done_bytes, download.total_bytes) >= 0
        and math.isfinite(download.bytes_per_second)
        and math.isfinite(download.seconds_left or 0.0)
    )
    if not sound:
        raise ValueError(f"{entry} is no download")
    return download


def _index(downloads: list[Download], repository: str) -> int | None:
    names = [each.repository.lower() for each in downloads]  # the hub's names ignore case
    return names.index(repository.lower()) if repository.lower() in names else None


def _require(downloads: list[Download], repository: str) -> int:
    found = _index(downloads, repository)
    if found is None:
        raise Problem(
            f"{repository} is not among the downloads.", "See them: slipstream models list"
        )
    return found


def _still(download: Download, status: DownloadStatus) -> Download:
    """The same download, not moving any more."""
    return dataclasses.replace(download, status=status, bytes_per_second=0.0, seconds_left=None)


def _waiting(download: Download) -> Download:
    if download.status not in ("paused", "failed"):
        return download
    return dataclasses.replace(_still(download, "queued"), problem="", remedy="")
