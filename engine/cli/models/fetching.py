"""How each repository of the queue is fetched, and what is then installed.

Knows the three kinds that can be asked for by name: a repository of the hub, one GGUF file in such
a repository (`organization/model/file.gguf`), and the starter model.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path

from engine.cli.models.pulling import split_file
from models.errors import Problem
from models.folders import inspect
from models.hub.client import Hub
from models.hub.fetch import LOOK_SECONDS, fetch
from models.hub.queue import Report
from models.hub.repository import Repository, is_commit
from models.hub.stopping import Stop, Stopped, apart
from models.installed.resolve import open_target
from models.installed.store import installed
from models.records import Download, Installed
from models.starter import STARTER


def fetch_download(download: Download, report: Report, cancelled: Callable[[], bool]) -> None:
    """Have all of it on this machine, ready to be loaded. For `Queue.run`.

    Raises `Problem`, and `Stopped` soon after `cancelled()`: whatever is being waited for then, an
    address, an answer, the next block, is left to itself.
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


def _fetch(download: Download, report: Report, stop: Stop) -> None:
    if download.repository.lower() == STARTER.name:
        _fetch_starter(download, report, stop)
        return
    name, gguf = split_file(download.repository)
    hub = Hub()
    repository = _describe(hub, name, download.revision)
    fetch(repository, hub=hub, gguf=gguf or None, progress=report, cancelled=stop.asked)


def _describe(hub: Hub, name: str, revision: str) -> Repository:
    """A commit that is still the main branch's head is described as that, so that it becomes
    what other tools find under the name."""
    if is_commit(revision):
        head = hub.describe(name)
        if head.revision == revision:
            return head
    return hub.describe(name, revision or None)


def _fetch_starter(download: Download, report: Report, stop: Stop) -> None:
    def progress(done: int, total: int) -> None:
        stop.check()
        report(replace(download, done_bytes=done, total_bytes=total))

    if download.revision:
        raise Problem(f"{STARTER.name} has no revisions.", f"Leave out @{download.revision}.")
    open_target(STARTER.name, progress=progress)


def installed_by(download: Download) -> Installed:
    """The model that a finished download made. Raises `Problem` where it cannot be found."""
    wanted, file = download.repository.lower(), split_file(download.repository)[1].lower()
    for model in installed():
        place = Path(model.path)
        if download.revision:  # a renamed repository has its new name by now
            found = download.revision in place.parts and place.name.lower().endswith(file)
        else:  # the starter
            found = model.name.lower() == wanted
        if found:
            return model
    raise Problem(f"{download.repository} was fetched, and is gone again.", "Fetch it once more.")


def installed_at(folder: Path) -> Installed:
    """The model in a folder that was just made, wherever that is. Raises `Problem`."""
    found = [one for one in installed() if Path(one.path).resolve() == folder.resolve()]
    return found[0] if found else _elsewhere(folder)


def _elsewhere(folder: Path) -> Installed:
    """In none of the folders that are looked through."""
    described = inspect(folder)
    return Installed(
        name=folder.name,
        path=str(folder.absolute()),
        origin="folder",
        role="chat",
        size_bytes=described.size_bytes,
        last_used=None,
        model_type=described.model_type,
        quantization_bits=described.quantization_bits,
        context_length=described.context_length,
        removable=False,
    )
