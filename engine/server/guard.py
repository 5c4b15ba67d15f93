"""Checks the headers of every request: host, origin, key, and the kind of body.

A page that the user has open in a browser can send requests here too. So each request must name
this server in its Host (a rebound name does not), and come from no other origin. Knows no bodies,
and two facts about paths: which need no key, and which are Ollama's.
"""

import hmac
from collections.abc import Collection, Iterable, Mapping

from engine.server.errors import Refusal
from engine.server.exchange import Call

_USUAL_HEADERS = "authorization, content-type, x-api-key, anthropic-version, anthropic-beta"
_PREFLIGHT_SECONDS = 600  # for which a browser need not ask again
_OPEN = ("/", "/health")  # without a key
_CURLS = "application/x-www-form-urlencoded"  # the kind that curl names if it is given none


class Guard:
    """Refuses requests that are not meant for this server, or not allowed."""

    def __init__(
        self, hosts: Collection[str], *, key: str | None = None, origins: Collection[str] = ()
    ) -> None:
        """`hosts`: allowed values of Host, in lower case; `key`: that clients must send; None for
        none; `origins`: of web pages that may send requests."""
        self._hosts = frozenset(hosts)
        self._key = key.encode() if key is not None else None
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)

    def check_place(self, headers: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
        """Check Host and Origin; `headers` have lower-case names.

        Returns the CORS headers of the response if an allowed page asks: it may send all headers
        that its browser asks for. Raises Refusal.
        """
        headers = list(headers)
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1:
            raise Refusal(400, "bad_host", f"Exactly one Host header is needed, not {len(hosts)}.")
        if hosts[0].decode("latin-1").lower() not in self._hosts:
            message = "The Host header is not a name of this server. Add it with --allow-host NAME."
            raise Refusal(403, "bad_host", message)
        origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
        if not origins:
            return {}
        if len(origins) > 1 or origins[0] not in self._origins:
            message = "This origin is not allowed. Allow it with --allow-origin."
            raise Refusal(403, "bad_origin", message)
        wanted = [value for name, value in headers if name == b"access-control-request-headers"]
        return {
            "access-control-allow-origin": origins[0],
            "access-control-allow-headers": b", ".join(wanted).decode("latin-1") or _USUAL_HEADERS,
            "access-control-allow-methods": "GET, POST",
            "access-control-max-age": str(_PREFLIGHT_SECONDS),
            "vary": "origin",
        }

    def check_key(self, call: Call) -> None:
        """Raise Refusal if the server has a key and the request does not send it."""
        if self._key is None or call.path in _OPEN:
            return
        headers = call.headers
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        shown = headers.get("x-api-key", ""), bearer if scheme.lower() == "bearer" else ""
        keys = [key.strip().encode("latin-1") for key in shown]  # clients may send another's, too
        if not any(hmac.compare_digest(key, self._key) for key in keys):
            raise Refusal(401, "invalid_api_key", "The API key is missing or wrong.")


def hosts_of(host: str, port: int, more: Iterable[str] = ()) -> frozenset[str]:
    """Return the allowed values of Host for a server at this address, with `more` names."""
    names = {"127.0.0.1", "localhost", "[::1]", f"[{host}]" if ":" in host else host.lower()}
    names.update(name.lower() for name in more)
    return frozenset((*names, *(f"{name}:{port}" for name in names)))


def check_body(call: Call) -> None:
    """Raise Refusal if the headers announce a body that cannot be read.

    Ollama's documentation asks with curl and names no kind of body, so its paths take curl's own.
    A form of a web page has that kind too, but is sent by a browser, which says so in headers that
    no page can change.
    """
    headers = call.headers
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise Refusal(
            415,
            "unsupported_encoding",
            "Compressed bodies are not supported. Send the body uncompressed.",
        )
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == _CURLS and call.path.startswith("/api/") and not _by_browser(headers):
        return
    if kind != "application/json":  # other types any web page may send without a preflight
        sent = f"The body's Content-Type is {kind!r}" if kind else "The body has no Content-Type"
        message = f"{sent}. Send Content-Type: application/json."
        raise Refusal(415, "unsupported_type", message)


def _by_browser(headers: Mapping[str, str]) -> bool:
    """Return whether a browser sends this: each sends Origin with a POST ("null" if it hides the
    page), and today's send Sec-Fetch-Site with every request."""
    return any(name == "origin" or name.startswith("sec-") for name in headers)
