"""`slipstream models pull`: what was asked for joins the queue, and the queue is worked through.

Knows the queue, and who works on it: this process, or another one that is at it already, which is
then only watched. How a repository is fetched is handed in; what is drawn is progress.py's.
"""

import time
from collections.abc import Callable, Sequence

from models.errors import Problem
from models.hub.queue import Fetch, Queue, Report
from models.hub.repository import check_name, check_revision
from models.records import Download

REPORT_SECONDS = 0.25  # between two reports of one download while its standing is the same
_LOOK_SECONDS = 0.25  # between two looks at what another process does
_ATTEMPTS = 20  # to begin, while the other process is between two downloads
_GOING = ("queued", "running")


def paced(report: Report, clock: Callable[[], float] = time.monotonic) -> Report:
    """`report`, about four times a second for each download, and at each change of standing."""
    told: dict[str, tuple[str, float]] = {}

    def pace(download: Download) -> None:
        standing, moment = told.get(download.repository, ("", 0.0))
        now = clock()
        if standing != download.standing or now - moment >= REPORT_SECONDS:
            told[download.repository] = (download.standing, now)
            report(download)

    return pace


def pull(
    wanted: Sequence[str],
    queue: Queue,
    fetch: Fetch,
    *,
    report: Report,
    stopped: Callable[[], bool],
    sleep: Callable[[float], None] = time.sleep,
) -> list[Download]:
    """Fetch the `wanted` repositories (`name` or `name@revision`), or all that wait where none is.

    Returns how each of them stands in the end. Where `stopped()`, those that are not done are
    paused. Raises `Problem` for names that cannot be any, and where the queue cannot be used.
    """
    asked = [_split(text) for text in wanted]
    if asked:
        downloads = [queue.enqueue(name, revision) for name, revision in asked]
    else:
        downloads = [one for one in queue.resume_all() if one.standing in _GOING]
    ends = {one.repository.lower(): one for one in downloads}

    def note(download: Download) -> None:
        ends[download.repository.lower()] = download
        report(download)

    ours = set(ends)
    for attempt in range(_ATTEMPTS):
        try:
            queue.run(fetch, report=note, stopped=stopped)
            break
        except Problem:
            if not _others_work(queue) and attempt == _ATTEMPTS - 1:
                raise
        if _watch(queue, ends, note, stopped=stopped, sleep=sleep):
            return [ends[name] for name in ends if name in ours]
    if stopped():
        _pause_rest(queue, ours, note)
    return [ends[name] for name in ends if name in ours]


def split_file(repository: str) -> tuple[str, str]:
    """The repository, and the GGUF file in it that is meant; empty where none is."""
    name, _, file = repository.rpartition("/")
    return (name, file) if "/" in name and file.lower().endswith(".gguf") else (repository, "")


def _split(text: str) -> tuple[str, str]:
    """A download's name, and the revision; empty where none is asked for. Raises `Problem`."""
    name, _, revision = text.strip().partition("@")
    check_name(split_file(name)[0])
    return name, check_revision(revision) if revision else ""


def _others_work(queue: Queue) -> bool:
    """`running` stands in the queue only as long as its runner lives."""
    return any(one.standing == "running" for one in queue.downloads())


def _watch(
    queue: Queue,
    ends: dict[str, Download],
    note: Report,
    *,
    stopped: Callable[[], bool],
    sleep: Callable[[float], None],
) -> bool:
    """Tell what another process does with ours; whether nothing is left to be done for them."""
    while not stopped():
        working = _others_work(queue)
        here = {one.repository.lower(): one for one in queue.downloads()}
        for name, before in list(ends.items()):
            now = here.get(name)
            if now is not None and now != before:
                note(now)
        going = [name for name in ends if name in here and here[name].standing in _GOING]
        if not going:
            return True
        if not working:
            return False
        sleep(_LOOK_SECONDS)
    return True


def _pause_rest(queue: Queue, ours: set[str], note: Report) -> None:
    for waiting in queue.downloads():
        if waiting.repository.lower() in ours and waiting.standing == "queued":
            note(queue.pause(waiting.repository))
