"""Downloads one file, block by block, and resumes broken downloads.

It sends range requests of its own, because the hub's client (2.4) deletes a broken download and
cannot be stopped between blocks. Files that the hub keeps in Xet are fetched by plain HTTP, which
it offers up to 50 GB. Knows neither the cache nor the file's purpose.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import httpx2
from huggingface_hub.errors import OfflineModeIsEnabled

from models.errors import Problem, unwritable
from models.files import file_sha256, publish
from models.hub.problems import pause_seconds, status_of
from models.hub.stopping import Stop
from models.network import connection_trouble, naming_variables, network_variables, require_file

ERRORS = (httpx2.HTTPError, httpx2.InvalidURL, OfflineModeIsEnabled)  # what clients raise
RESUMES = "Try again: the download resumes where it stopped."
_TIMEOUT_SECONDS = 30.0
_NOT_SATISFIABLE = 416  # there is nothing from that byte on
_AS_IT_IS = {"Accept-Encoding": "identity"}  # ranges count the bytes of the file itself


@dataclass(frozen=True, slots=True)
class Source:
    """A file on a server; `size_bytes` is None if only its server knows it, at most `most_bytes`.

    `stream(start, stop)` asks for its bytes from `start` on, and before `stop` if that is given; a
    server that cannot send parts sends all of it. `problem` explains an error of that.
    """

    name: str
    size_bytes: int | None
    stream: Callable[[int, int | None], AbstractContextManager[httpx2.Response]]
    problem: Callable[[Exception], Problem]
    most_bytes: int = 0


def range_header(start: int, stop: int | None) -> dict[str, str]:
    """Return the headers of a request for these bytes of a file."""
    if not start and stop is None:
        return _AS_IT_IS
    return _AS_IT_IS | {"Range": f"bytes={start}-" + ("" if stop is None else str(stop - 1))}


def transfer(
    source: Source,
    partial: Path,
    *,
    stop: Stop,
    came: Callable[[int], None] = lambda size_bytes: None,
    wait_seconds: float = 1.0,
    part: range | None = None,
) -> None:
    """Complete `partial` to the file's full length; its content is not checked.

    With `part` only those bytes of the file are fetched, and `partial` holds nothing else.
    `came(size)` is called with the length as it grows. Broken connections, overload (429) and
    server errors (5xx) are retried after `wait_seconds`, twice that, ..., or when the server says.
    Raises Problem, Stopped, or OSError where `partial` cannot be written; its content is kept.
    """
    if partial.is_symlink():
        partial.unlink()  # never write through a link
    partial.touch()
    length = source.size_bytes if part is None else len(part)
    failures, furthest = 0, partial.stat().st_size
    while length is None or furthest < length:
        try:
            if _request(source, partial, part, stop=stop, came=came):
                return
            error: Exception = httpx2.RemoteProtocolError("the server sends less than it lists")
        except ERRORS as raised:
            error = raised
        if status_of(error) == _NOT_SATISFIABLE:  # it is of another file
            partial.write_bytes(b"")
        after = partial.stat().st_size
        failures = 0 if after > furthest else failures + 1
        furthest = max(after, furthest)
        wait = pause_seconds(error, failures, wait_seconds)
        if wait is None:
            raise source.problem(error) from error
        stop.pause(wait)


def _request(
    source: Source,
    partial: Path,
    part: range | None,
    *,
    stop: Stop,
    came: Callable[[int], None],
) -> bool:
    """Request the rest of `partial`, or all of it if the server does not resume. Returns whether it
    is whole."""
    stop.check()
    there, whole = partial.stat().st_size, source.size_bytes
    start = there + (part.start if part else 0)
    with source.stream(start, part.stop if part and part.stop != whole else None) as response:
        if response.status_code == 206:
            span = re.match(r"bytes (\d+)-\d+/(\d+)$", response.headers.get("Content-Range", ""))
            if span is None or int(span[1]) != start or whole not in (None, int(span[2])):
                if span is not None and whole in (None, int(span[2])):
                    partial.write_bytes(b"")
                raise httpx2.RemoteProtocolError("the server resumed at the wrong place")
            whole = int(span[2])
        elif part is not None and len(part) != whole:
            raise Problem(
                f"The hub does not send parts of {source.name}.",
                "Fetch the whole model, or check HF_ENDPOINT: the public hub sends parts.",
            )
        else:
            there = 0
            if whole is None and "Content-Length" in response.headers:
                whole = int(response.headers["Content-Length"])
        length = whole if part is None else len(part)
        most, done = source.most_bytes or length, there
        with partial.open("r+b", buffering=0) as output:  # a killed process loses nothing
            output.seek(there)
            output.truncate()
            for block in response.iter_raw():
                stop.check()
                done += len(block)
                if most is not None and done > most:
                    raise Problem(
                        f"The server sends more of {source.name} than the {most:,} bytes that "
                        "were asked for.",
                        "Try again. If it happens again, the network alters files.",
                    )
                _write(output, block)
                came(done)
            if length is not None and done < length and "Transfer-Encoding" in response.headers:
                output.truncate(there)  # it ended as its sender meant it to: it was not the file
    return length in (None, done)


def _write(output: FileIO, block: bytes) -> None:
    while block:  # a nearly full disk may take only a part
        block = block[output.write(block) :]


def fetch_file(
    url: str,
    path: Path,
    *,
    sha256: str,
    most_bytes: int,
    came: Callable[[int], None] = lambda size_bytes: None,
    wait_seconds: float = 1.0,
) -> Path:
    """Fetch the file at `url` to `path`, and return that. A file with the right hash is kept.

    Bytes go to a partial file next to `path`, and stay there for the next attempt at the same hash
    unless they are the wrong ones. An exception from `came`, see `transfer`, ends the download.
    Raises Problem.
    """
    partial = path.with_name(f"{path.name}.{sha256[:8]}.partial")

    def problem(error: Exception) -> Problem:
        return Problem(
            f"{path.name} cannot be downloaded: {connection_trouble(error, 'its server')}.",
            f"Check the network connection{network_variables(' and')}, then try again: "
            "the download resumes where it stopped.",
        )

    try:
        if path.is_file() and file_sha256(path) == sha256:
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        if not (partial.is_file() and file_sha256(partial) == sha256):
            source = Source(path.name, None, lambda *span: _asked(url, *span), problem, most_bytes)
            transfer(source, partial, stop=Stop(), came=came, wait_seconds=wait_seconds)
        if file_sha256(partial) != sha256:
            partial.unlink()
            raise Problem(
                f"The download of {path.name} is damaged, and was deleted.",
                "Try again. If it happens again, the server or the network alters the file.",
            )
        publish(partial, path)
    except OSError as error:
        words = f"{path.name} cannot be stored in {path.parent}"
        raise unwritable(words, error, then=RESUMES) from error
    return path


@contextmanager
def _asked(url: str, start: int, stop: int | None) -> Iterator[httpx2.Response]:
    """Yield the answer of the server at `url`."""
    with naming_variables():
        client = httpx2.Client(follow_redirects=True, timeout=_TIMEOUT_SECONDS)
    with client, client.stream("GET", url, headers=range_header(start, stop)) as response:
        response.raise_for_status()
        require_file(response)
        yield response
