"""The queue of downloads: their order, and how far each is.

A JSON file in the data folder, so that every process sees the same queue and a restart loses
nothing. It alone knows the state of each download: why it failed, and whether a running one is to
pause or to be cancelled. One process at a time runs the queue; it notices what others ask
between two blocks of a download, and only then the request is carried out. Knows the names of
repositories only: the caller of `run` fetches them.

    queued -> running            the runner begins it
    running -> done | failed     its fetch ended; failed too where the runner itself was killed
    running -> paused            asked to pause, once the runner noticed; or the runner was stopped
    queued -> paused             asked to pause
    paused, failed -> queued     resumed
    any -> gone                  cancelled; a running one once the runner noticed
"""

import dataclasses
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from models.errors import Problem, unreadable
from models.files import data_folder, holding, write_json
from models.records import Download, DownloadRequest, DownloadStatus
from models.this_process import Awake
from models.typed_json import decode

FILE_NAME = "downloads.json"
SAVE_SECONDS = 2.0  # between two saves of how far a download is
INTERRUPTED = Problem(
    "The download was interrupted: the process that ran it ended.",
    "Try again: it resumes where it stopped.",
)

ReportProgress = Callable[[Download], None]
Cancelled = Callable[[], bool]
Fetch = Callable[[Download, ReportProgress, Cancelled], object]


class QueueBusy(Problem):
    """Another process works through the queue already."""

    def __init__(self) -> None:
        super().__init__(
            "Another window or terminal is downloading already.",
            "It downloads the whole queue. See it with: slipstream models list",
        )


class Queue:
    """The one queue of a data folder; any number of objects and processes may look at it.

    notice: a line about the file that the user must see; mostly empty.
    """

    def __init__(self, *, home: Path | None = None) -> None:
        self.notice = ""
        self._path = data_folder(home) / FILE_NAME
        self._runner = self._path.with_name(f".{FILE_NAME}.runner")
        self._seen: tuple[int, ...] = ()
        self._read: list[Download] = []

    def downloads(self) -> list[Download]:
        """Return all downloads, in order. One whose runner was killed has failed.

        A damaged file is kept aside under another name, and the queue begins empty: see `notice`.
        Raises Problem if the file cannot be read.
        """
        if not self._path.exists():
            return []
        try:
            with self._changing() as downloads:
                return list(downloads)
        except Problem:  # where nothing can be written, it is read as it is
            with suppress(ValueError):
                return _parse(self._path)
            return []

    def enqueue(self, repository: str, revision: str = "") -> Download:
        """Add `repository` at the end of the queue.

        A repository that is in the queue keeps its place. If it was paused or failed it is queued
        again; if it is running, a request to pause or cancel it is taken back; if it is done, it is
        queued once more, at the end. Raises Problem if the queue cannot be written.
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
        """Hold back `repository`, or ask its runner to. Raises Problem if it is not queued."""
        return self._change(repository, _pausing)

    def resume(self, repository: str) -> Download:
        """Queue a paused or failed download again, in its old place; a running one goes on.

        Raises Problem as `pause`.
        """
        return self._change(repository, _waiting)

    def resume_all(self) -> list[Download]:
        """Queue all paused and failed downloads again. Returns the whole queue."""
        with self._changing() as downloads:
            downloads[:] = map(_waiting, downloads)
            return list(downloads)

    def cancel(self, repository: str) -> Download:
        """Remove `repository` from the queue, or ask its runner to.

        Received bytes stay, as an incomplete download. Returns its state now: `cancelled`, or
        running with the request. Raises Problem if it is not in the queue.
        """
        with self._changing() as downloads:
            found = _require(downloads, repository)
            if downloads[found].status == "running":
                downloads[found] = dataclasses.replace(downloads[found], request="cancel")
                return downloads[found]
            return _still(downloads.pop(found), "cancelled")

    def run(
        self,
        fetch: Fetch,
        *,
        report: ReportProgress = lambda download: None,
        stopped: Cancelled = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Fetch one download after another until none is queued, or until `stopped()`, which pauses
        the current one.

        `fetch(download, report, cancelled)` fetches one, reports how far it is, and raises soon
        after `cancelled()`. A Problem is kept with the failed download, and the next one begins;
        any other exception is kept as well, and raised to the caller. `report` receives each
        change, `cancelled` as the last one of a download that is gone. Raises QueueBusy if another
        process runs it, and other Problems if the queue cannot be used.
        """
        with self._changing() as downloads:
            lock = FileLock(self._runner)
            try:
                lock.acquire(timeout=0)  # no one only looks at it while the queue is locked
            except Timeout as error:
                raise QueueBusy from error
            downloads[:] = [each for each in downloads if each.status != "done"]
        try:
            with Awake():
                while not stopped() and (begun := self._begin()) is not None:
                    self._fetch(begun, fetch, report=report, stopped=stopped, clock=clock)
        finally:
            lock.release()

    @contextmanager
    def holding_back(self, name: str) -> Iterator[None]:
        """Inside the block no download from the repository of `name` begins. Raises Problem if one
        is running, or the queue cannot be used."""
        with self._changing() as downloads:
            for one in (each.repository for each in downloads if each.status == "running"):
                if repository_of(one) == repository_of(name):
                    pause = f"Pause that first: slipstream models pull --pause {one}"
                    raise Problem(f"{one} is being downloaded.", pause)
            yield

    def is_run(self) -> bool:
        """Whether a process, this one or another, works through the queue now."""
        with suppress(Problem), self._changing():
            return self._has_runner()
        return False  # no one can, where nothing can be written

    def _begin(self) -> Download | None:
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
        saved_at, asked = clock(), False
        report(latest)

        def progress(update: Download) -> None:
            nonlocal latest, saved_at
            revision = update.revision or latest.revision
            latest = dataclasses.replace(
                update,
                repository=name,
                revision=revision,
                status="running",
                request=self._request(name),
            )
            report(latest)
            if clock() - saved_at >= SAVE_SECONDS:
                saved_at = clock()
                self._note(latest)

        def cancelled() -> bool:
            nonlocal asked
            asked = asked or not self._wanted(name)
            return asked or stopped()

        end = _still(latest, "paused")
        try:
            fetch(latest, progress, cancelled)
            end = _still(dataclasses.replace(latest, done_bytes=latest.total_bytes), "done")
        except Problem as problem:
            end = _ended(latest, problem, asked=cancelled())
        except Exception as error:
            unexpected = Problem(
                f"{name} failed unexpectedly: {str(error) or type(error).__name__}.", "Try again."
            )
            end = _ended(latest, unexpected, asked=cancelled())
            if end.status == "failed":
                raise
        except BaseException:
            end = _still(latest, "paused")
            raise
        finally:
            report(self._note(end, asked=asked))

    def _note(self, now: Download, *, asked: bool = False) -> Download:
        """Save how far a download is, or how it ended. Returns it as the queue has it then.

        A change that another process has made meanwhile is kept, such as another revision. `asked`:
        the download ended because it was asked to.
        """
        with self._changing() as downloads:
            found = _index(downloads, now.repository)
            if found is None:
                return _still(now, "cancelled")
            there = downloads[found]
            if there.status != "running":
                pass  # another revision waits in its place
            elif now.status == "done":
                downloads[found] = now
            elif now.status == "running":
                downloads[found] = dataclasses.replace(now, request=there.request)
            elif there.request == "cancel":
                del downloads[found]
                return _still(now, "cancelled")
            elif asked and not there.request:
                downloads[found] = _still(now, "queued")  # as the request was taken back since
            else:
                downloads[found] = now
            return downloads[found]

    def _wanted(self, repository: str) -> bool:
        """Whether the running `repository` is to go on."""
        there = self._look(repository)
        return there is not None and there.status == "running" and not there.request

    def _request(self, repository: str) -> DownloadRequest:
        there = self._look(repository)
        return there.request if there is not None else "cancel"

    def _look(self, repository: str) -> Download | None:
        """Return the entry as others left it. Cheap: the file is read only when it changes."""
        if self._signature() != self._seen:
            with self._changing() as downloads:
                self._read = list(downloads)
                self._seen = self._signature()
        found = _index(self._read, repository)
        return None if found is None else self._read[found]

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
        """Yield the queue, locked against other processes; changes to the list are saved."""
        with holding(self._path):
            before = self._load()
            downloads = list(before)
            if any(each.status == "running" for each in downloads) and not self._has_runner():
                downloads = [left for each in downloads if (left := _left(each)) is not None]
            yield downloads
            if downloads != before:
                write_json(self._path, {"downloads": list(map(dataclasses.asdict, downloads))})

    def _has_runner(self) -> bool:
        lock = FileLock(self._runner)
        try:
            lock.acquire(timeout=0)
        except OSError:  # held, or another user's
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


def repository_of(name: str) -> str:
    """Return the repository of a download called `name`, in small letters, without a file."""
    return "/".join(name.lower().split("/")[:2])


def _parse(path: Path) -> list[Download]:
    """Read the downloads in the file. Raises ValueError unless it is as we write it."""
    try:
        entries = json.loads(path.read_bytes())["downloads"]
        if not isinstance(entries, list):
            raise ValueError("it holds no list")
        downloads = [_download(entry) for entry in entries]
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    except OSError as error:
        raise unreadable(path, error) from error
    if len({each.repository.lower() for each in downloads}) < len(downloads):
        raise ValueError("a repository is listed twice")
    return downloads


def _download(entry: object) -> Download:
    download = decode(Download, entry, place="download", ignore_unknown=True)
    sound = (
        download.repository
        and download.status != "cancelled"
        and min(download.done_bytes, download.total_bytes) >= 0
        and math.isfinite(download.bytes_per_second)
        and math.isfinite(download.seconds_left or 0.0)
    )
    if not sound:
        raise ValueError(f"{entry} is not a download")
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
    """Return the same download, at rest, and without a request."""
    return dataclasses.replace(
        download, status=status, bytes_per_second=0.0, seconds_left=None, request=""
    )


def _failed(download: Download, problem: Problem) -> Download:
    return dataclasses.replace(
        _still(download, "failed"), problem=problem.message, remedy=problem.remedy
    )


def _ended(latest: Download, problem: Problem, *, asked: bool) -> Download:
    """Return the download after a fetch raised `problem`: paused, if it was `asked` to end."""
    return _still(latest, "paused") if asked else _failed(latest, problem)


def _left(download: Download) -> Download | None:
    """Return the download after its runner was killed; None if it was to be cancelled.

    Carries out the request that the runner had not carried out.
    """
    if download.status != "running":
        return download
    match download.request:
        case "pause":
            return _still(download, "paused")
        case "cancel":
            return None
    return _failed(download, INTERRUPTED)


def _pausing(download: Download) -> Download:
    """Return the same download, paused or asked to pause."""
    if download.status == "running":
        return dataclasses.replace(download, request="pause")
    return _still(download, "paused") if download.status == "queued" else download


def _waiting(download: Download) -> Download:
    """Return the same download, to be fetched again, or continued."""
    if download.status == "running":
        return dataclasses.replace(download, request="")
    if download.status not in ("paused", "failed"):
        return download
    return dataclasses.replace(_still(download, "queued"), problem="", remedy="")
