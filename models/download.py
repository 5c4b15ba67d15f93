"""Downloads one file over HTTP, resuming broken attempts.

Knows nothing about models. Bytes go to `<name>.partial` next to the destination; the file
appears under its own name only when it is whole and has the expected sha256.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from models.errors import Problem
from models.files import publish

TIMEOUT_SECONDS = 30.0
ATTEMPTS = 4  # in a row without a single new byte
_VARIABLES = re.compile("(HTTPS?|ALL)_PROXY|SSL_CERT_(FILE|DIR)|HF_(ENDPOINT|HUB_[A-Z]+_TIMEOUT)")


class OtherAnswer(httpx2.RemoteProtocolError):
    """Something between us and the server answered in its place, such as a page to sign in."""


@contextmanager
def naming_variables() -> Iterator[None]:
    """Raises Problem, with the variables that may be at fault, where no client can be made."""
    try:
        yield
    except (ImportError, OSError, ValueError, httpx2.InvalidURL) as error:
        raise Problem(
            "A setting cannot be used: of the hub, an HTTP proxy, or certificates.",
            f"Correct{network_variables() or ' the settings of the network'}.",
        ) from error


def network_variables(before: str = "") -> str:
    """Return the variables of the network that are set, after the word `before`; mostly none."""
    named = " and ".join(name for name in os.environ if _VARIABLES.fullmatch(name.upper()))
    return named and f"{before} {named}"


def require_file(response: httpx2.Response, size_bytes: int = 0) -> None:
    """Raise OtherAnswer for an answer that cannot be a file of that size."""
    headers, whole = response.headers, response.status_code == 200
    if "Content-Encoding" not in headers and whole:
        whole = int(headers.get("Content-Length", size_bytes)) >= size_bytes
    page = headers.get("Content-Type", "").startswith("text/html")
    if page or not (whole or response.status_code == 206):
        raise OtherAnswer("the answer is not the file")


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(
    url: str,
    destination: Path,
    *,
    sha256: str,
    maximum_bytes: int,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Download `url` to `destination` and return it. A file with the right hash is kept.

    `progress(done, total)` is called with bytes; an exception from it ends the download, which
    can be resumed. Raises Problem if the download fails (received bytes are kept for the next
    attempt), or if it is not the expected file (it is deleted).
    """
    if destination.is_file() and file_sha256(destination) == sha256:
        return destination
    partial = destination.with_name(f"{destination.name}.partial")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        _fetch(url, partial, maximum_bytes=maximum_bytes, progress=progress)
        if file_sha256(partial) != sha256:
            partial.unlink()
            raise Problem(
                f"The download of {destination.name} is damaged, and was deleted.",
                "Try again. If it happens again, the server or the network alters the file.",
            )
        publish(partial, destination)
    except OSError as error:
        raise Problem(
            f"{destination.name} cannot be stored in {destination.parent}: "
            f"{error.strerror or error}.",
            "Make room on the disk and try again: the download resumes where it stopped.",
        ) from error
    return destination


def _fetch(
    url: str,
    partial: Path,
    *,
    maximum_bytes: int,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Bring `partial` to its full length, resuming until no attempt brings anything new."""
    attempts = ATTEMPTS
    with naming_variables():
        made = httpx2.Client(follow_redirects=True, timeout=TIMEOUT_SECONDS)
    with made as client:
        while True:
            before = _size_bytes(partial)
            try:
                _fetch_rest(client, url, partial, maximum_bytes=maximum_bytes, progress=progress)
                return
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                attempts = ATTEMPTS if _size_bytes(partial) > before else attempts - 1
                refused = isinstance(error, httpx2.HTTPStatusError | httpx2.InvalidURL)
                if attempts == 0 or refused:
                    raise Problem(
                        f"{partial.stem} cannot be downloaded: {_reason(error)}.",
                        f"Check the network connection{network_variables(' and')}, then try again: "
                        "the download resumes where it stopped.",
                    ) from error


def connection_trouble(error: Exception, server: str) -> str:
    """Why a request got no answer, as the end of a sentence: "the hub cannot be reached".
    Leaves out the system's own words, and the address, which may hold a password."""
    match error:
        case OtherAnswer():
            return f"the answer did not come from {server}"
        case httpx2.TimeoutException():
            return f"{server} does not answer"
        case httpx2.ProxyError():
            return f"the proxy lets no connection to {server} through"
        case httpx2.InvalidURL() | httpx2.UnsupportedProtocol():
            return f"the address of {server} is not one of the web"
        case httpx2.ConnectError() if "CERTIFICATE" in str(error).upper():
            return f"the certificate of {server} was refused"
        case httpx2.ConnectError():
            return f"{server} cannot be reached"
    return f"the connection to {server} broke off"


def _reason(error: Exception) -> str:
    """The error in words."""
    if isinstance(error, httpx2.HTTPStatusError):
        return f"the server answered {error.response.status_code}"
    return connection_trouble(error, "its server")


def _fetch_rest(
    client: httpx2.Client,
    url: str,
    partial: Path,
    *,
    maximum_bytes: int,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Request the rest of `partial`; start over if the server does not resume."""
    start = _size_bytes(partial)
    headers = {"Accept-Encoding": "identity"}  # ranges count the bytes of the file itself
    if start:
        headers["Range"] = f"bytes={start}-"
    with client.stream("GET", url, headers=headers) as response:
        if start and response.status_code == 416:  # nothing is left, or it is another file
            if response.headers.get("Content-Range") == f"bytes */{start}":
                return
            partial.unlink()
            raise httpx2.RemoteProtocolError("the server has another file now")
        response.raise_for_status()
        require_file(response)
        if response.status_code == 206:
            span = re.match(r"bytes (\d+)-\d+/(\d+)$", response.headers.get("Content-Range", ""))
            if span is None or int(span[1]) != start:
                partial.unlink(missing_ok=True)
                raise httpx2.RemoteProtocolError("the server resumed at the wrong place")
            total = int(span[2])
        else:
            start, total = 0, int(response.headers.get("Content-Length", 0))
        with partial.open("ab" if start else "wb") as file:
            done = start
            for chunk in response.iter_raw():
                done += len(chunk)
                if done > maximum_bytes:
                    raise Problem(
                        f"{partial.stem} is larger than the {maximum_bytes:,} bytes expected.",
                        "The server sends another file: check the package index that is set up.",
                    )
                file.write(chunk)
                if progress is not None:
                    progress(done, max(done, total))


def _size_bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
