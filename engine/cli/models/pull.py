"""`slipstream models pull`: adds downloads to the queue, and runs it.

Knows the queue, whether this process runs it or watches another process do so, and how each entry
is downloaded: a repository of the hub, a GGUF file in it (`organization/model/file.gguf`), its MTP
module (`organization/model/mtp.safetensors`), or the starter model. progress.py draws it.
"""

import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path

from models.errors import Problem
from models.hub.client import Hub
from models.hub.fetch import fetch
from models.hub.fetch_module import fetch_module
from models.hub.queue import Fetch, Queue, QueueBusy, ReportProgress
from models.hub.repository import Repository, check_name, check_revision, is_commit
from models.hub.stopping import Stop, Stopped, apart
from models.hub.watching import LOOK_SECONDS
from models.installed.resolve import open_target, published_name
from models.installed.store import inventory
from models.records import MODULE_NAME, Download, Installed
from models.starter import STARTER

REPORT_SECONDS = 0.25  # between two reports of one download while its status is the same
_LOOK_SECONDS = 0.25  # between two reads of the queue while another process runs it
_GOING = ("queued", "running")
_ADDRESS = re.compile(
    r"https?://[^/]+/([\w.-]+/[\w.-]+)(?:/(?:tree|blob|resolve)/([\w.-]+)(?:/([^/?]+\.gguf))?)?"
    r"(?:[/?#].*)?"
)


def paced(report: ReportProgress, clock: Callable[[], float] = time.monotonic) -> ReportProgress:
    """Return `report`, limited to four calls a second for each download and to each change of its
    status."""
    reported: dict[str, tuple[str, float]] = {}

    def pace(download: Download) -> None:
        status, moment = reported.get(download.repository, ("", 0.0))
        now = clock()
        if status != download.status or now - moment >= REPORT_SECONDS:
            reported[download.repository] = (download.status, now)
            report(download)

    return pace


def pull(
    wanted: Sequence[str],
    queue: Queue,
    fetch: Fetch,
    *,
    report: ReportProgress,
    stopped: Callable[[], bool],
    sleep: Callable[[float], None] = time.sleep,
) -> list[Download]:
    """Download the `wanted` repositories (`name` or `name@revision`), by default the whole queue.

    Returns the final state of each. As soon as `stopped()`, the unfinished ones are paused. Raises
    `Problem` for invalid names, and if the queue cannot be used.
    """
    asked = [_split(text) for text in wanted]
    if asked:
        downloads = [queue.enqueue(name, revision) for name, revision in asked]
    else:
        downloads = [download for download in queue.resume_all() if download.status in _GOING]
    ends = {download.repository.lower(): download for download in downloads}

    def note(download: Download) -> None:
        ends[download.repository.lower()] = download
        report(download)

    for download in ends.values():
        report(download)
    ours = set(ends)
    while True:
        try:
            queue.run(fetch, report=note, stopped=stopped)
            break
        except QueueBusy:
            if _watch(queue, ends, note, stopped=stopped, sleep=sleep):
                return [ends[name] for name in ends if name in ours]
    if stopped():
        _pause_rest(queue, ours, note)
    return [ends[name] for name in ends if name in ours]


def split_file(repository: str) -> tuple[str, str]:
    """Split a download's name into the repository and a file in it, or ""."""
    name, _, file = repository.rpartition("/")
    is_part = file.lower().endswith(".gguf") or file.lower() == MODULE_NAME
    return (name, file) if "/" in name and is_part else (repository, "")


def _split(text: str) -> tuple[str, str]:
    """Split a word of the command line into a download's name and its revision, or "". Raises
    `Problem`."""
    if address := _ADDRESS.fullmatch(text.strip()):  # as a browser shows it
        text = f"{address[1]}/{address[3]}" if address[3] else address[1]
        text += f"@{address[2]}" if address[2] not in (None, "main") else ""
    name, _, revision = text.strip().partition("@")
    check_name(split_file(name)[0])
    return name, check_revision(revision) if revision else ""


def _watch(
    queue: Queue,
    ends: dict[str, Download],
    note: ReportProgress,
    *,
    stopped: Callable[[], bool],
    sleep: Callable[[float], None],
) -> bool:
    """Report our downloads while another process runs them. Returns whether all have ended."""
    while not stopped():
        busy = queue.is_run()
        queued = {download.repository.lower(): download for download in queue.downloads()}
        for name, before in list(ends.items()):
            gone = replace(before, status="cancelled") if before.status in _GOING else before
            now = queued.get(name, gone)
            if now != before:
                note(now)
        going = [name for name in ends if name in queued and queued[name].status in _GOING]
        if not going:
            return True
        if not busy:
            return False
        sleep(_LOOK_SECONDS)
    return True


def _pause_rest(queue: Queue, ours: set[str], note: ReportProgress) -> None:
    for waiting in queue.downloads():
        if waiting.repository.lower() in ours and waiting.status == "queued":
            note(queue.pause(waiting.repository))


def fetch_download(
    download: Download, report: ReportProgress, cancelled: Callable[[], bool]
) -> None:
    """Complete one download, for `Queue.run`.

    Raises `Problem`, and `Stopped` soon after `cancelled()`, without waiting for requests that are
    still under way.
    """
    stop, latest = Stop(), deque[Download](maxlen=1)
    work = apart(lambda: _fetch(download, latest.append, stop), name="download")
    ended = False
    while not ended:
        ended = bool(wait([work], LOOK_SECONDS).done)
        if latest:
            report(latest.pop())
        if not ended and cancelled():
            stop.ask()
            raise Stopped
    work.result()


def _fetch(download: Download, report: ReportProgress, stop: Stop) -> None:
    if download.repository.lower() == STARTER.name:
        _fetch_starter(download, report, stop)
        return
    name, gguf = split_file(download.repository)
    hub = Hub()
    repository = _describe(hub, name, download.revision)
    report(replace(download, revision=repository.revision))  # a branch's commit is known only now
    if gguf.lower() == MODULE_NAME:
        fetch_module(repository, hub=hub, progress=report, cancelled=stop.asked)
        return
    fetch(repository, hub=hub, gguf=gguf or None, progress=report, cancelled=stop.asked)


def _describe(hub: Hub, name: str, revision: str) -> Repository:
    """Describe a repository at a revision. If that is the head of the main branch, describe the
    branch, so that other programs find the download under its name."""
    if is_commit(revision):
        head = hub.describe(name)
        if head.revision == revision:
            return head
    return hub.describe(name, revision or None)


def _fetch_starter(download: Download, report: ReportProgress, stop: Stop) -> None:
    def progress(done: int, total: int) -> None:
        stop.check()
        report(replace(download, done_bytes=done, total_bytes=total))

    if download.revision:
        raise Problem(f"{STARTER.name} has no revisions.", f"Leave out @{download.revision}.")
    open_target(STARTER.name, progress=progress)


def installed_by(download: Download) -> Installed:
    """Return the model of a finished download. Raises `Problem` if it cannot be found."""
    wanted, file = download.repository.lower(), split_file(download.repository)[1].lower()
    for entry in inventory():
        model, place = entry.record, Path(entry.record.path)
        if file == MODULE_NAME:
            found = published_name(entry).lower() == wanted
        elif download.revision:  # a renamed repository has its new name by now
            found = download.revision in place.parts and place.name.lower().endswith(file)
        else:  # the starter
            found = model.name.lower() == wanted
        if found:
            return model
    raise Problem(f"{download.repository} was deleted after its download.", "Download it again.")
