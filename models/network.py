"""The network: its settings, and why a request got no answer.

Addresses are left out of messages: they may hold secrets.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

from models.errors import Problem

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
    """Raise OtherAnswer for an answer that cannot be a file of that size, or the part of it that
    was asked for."""
    headers, whole = response.headers, response.status_code == 200
    if "Content-Encoding" not in headers and whole:
        whole = int(headers.get("Content-Length", size_bytes)) >= size_bytes
    page = headers.get("Content-Type", "").startswith("text/html")
    part = response.status_code == 206 and "Range" in response.request.headers
    if page or not (whole or part):
        raise OtherAnswer("the answer is not the file")


def connection_trouble(error: Exception, server: str) -> str:
    """Why a request got no answer, as the end of a sentence: "the hub cannot be reached".
    Leaves out the system's own words, and the address, which may hold a password."""
    match error:
        case httpx2.HTTPStatusError():
            return f"{server} answered {error.response.status_code}"
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
