"""Downloads one file of a repository, block by block, and resumes broken downloads.

It sends range requests of its own, because the hub's client (2.4) deletes a broken download and
cannot be stopped between blocks. Files that the hub keeps in Xet are fetched by plain HTTP, which
it offers up to 50 GB. Knows neither the cache nor the file's purpose.
"""

import re
from collections.abc import Callable
from io import FileIO
from pathlib import Path

import httpx2
from huggingface_hub.constants import MAX_HTTP_DOWNLOAD_SIZE

from models.errors import Problem
from models.hub.client import ERRORS, Hub
from models.hub.problems import pause_seconds
from models.hub.repository import Repository, RepositoryFile
from models.hub.stopping import Stop


def transfer(
    hub: Hub,
    repository: Repository,
    file: RepositoryFile,
    partial: Path,
    *,
    stop: Stop,
    came: Callable[[int], None],
    wait_seconds: float = 1.0,
    part: range | None = None,
) -> None:
    """Complete `partial` to the file's full length; its content is not checked.

    With `part` only those bytes of the file are fetched, and `partial` holds nothing else.
    `came(size)` is called with the length as it grows. Broken connections, overload (429) and
    server errors (5xx) are retried after `wait_seconds`, twice that, ..., or when the hub says.
    Raises Problem, Stopped, or OSError where `partial` cannot be written; its content is kept.
    """
    wanted = range(file.size_bytes) if part is None else part
    if file.size_bytes > MAX_HTTP_DOWNLOAD_SIZE:
        raise Problem(
            f"{file.name} is too large to be fetched without Xet: {file.size_bytes:,} bytes.",
            f"Fetch it, then start again: hf download {repository.name} {file.name} "
            f"--revision {repository.revision}",
        )
    if partial.is_symlink():
        partial.unlink()  # never write through a link
    partial.touch()
    failures, furthest = 0, partial.stat().st_size
    while furthest < len(wanted):
        try:
            _request(hub, repository, file, partial, wanted, stop=stop, came=came)
            error: Exception = httpx2.RemoteProtocolError("the hub sends less than it lists")
        except ERRORS as raised:
            error = raised
        after = partial.stat().st_size
        if after == len(wanted):
            return
        failures = 0 if after > furthest else failures + 1
        furthest = max(after, furthest)
        wait = pause_seconds(error, failures, wait_seconds)
        if wait is None:
            raise hub.problem(error, repository.name) from error
        stop.pause(wait)


def _request(
    hub: Hub,
    repository: Repository,
    file: RepositoryFile,
    partial: Path,
    wanted: range,
    *,
    stop: Stop,
    came: Callable[[int], None],
) -> None:
    """Request the rest of `partial`, or all of it if the hub does not resume."""
    stop.check()
    there = partial.stat().st_size
    start, end = wanted.start + there, wanted.stop if wanted.stop < file.size_bytes else None
    with hub.stream(repository, file.name, start=start, stop=end) as response:
        if response.status_code == 206:
            span = re.match(r"bytes (\d+)-\d+/(\d+)$", response.headers.get("Content-Range", ""))
            if span is None or (int(span[1]), int(span[2])) != (start, file.size_bytes):
                if span is not None and int(span[2]) == file.size_bytes:
                    partial.write_bytes(b"")
                raise httpx2.RemoteProtocolError("the hub resumed at the wrong place")
        elif len(wanted) < file.size_bytes:
            raise Problem(
                f"The hub does not send parts of {file.name}.",
                "Fetch the whole model, or check HF_ENDPOINT: the public hub sends parts.",
            )
        else:
            there = 0
        done = there
        with partial.open("r+b", buffering=0) as output:  # a killed process loses nothing
            output.seek(there)
            output.truncate()
            for block in response.iter_raw():
                stop.check()
                done += len(block)
                if done > len(wanted):
                    raise Problem(
                        f"The hub sends more of {file.name} than the {len(wanted):,} bytes that "
                        "were asked for.",
                        "Try again. If it happens again, the network alters files.",
                    )
                _write(output, block)
                came(done)
            if done < len(wanted) and "Transfer-Encoding" in response.headers:
                output.truncate(there)  # it ended as its sender meant it to: it was not the file


def _write(output: FileIO, block: bytes) -> None:
    while block:  # a nearly full disk may take only a part
        block = block[output.write(block) :]
