"""Requests as plain values for the endpoints, and the responses to them, over ASGI.

Reads bodies, frames the parts of streams, and notices when a client leaves. Knows no path and no
dialect.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive

from engine.server.errors import Refusal

Json = dict[str, Any]

EVENTS = "text/event-stream; charset=utf-8"
LINES = "application/x-ndjson"
COMMENT = b": the answer is not ready yet\n\n"
"""Keeps a connection alive; every client skips it."""
DONE = b"data: [DONE]\n\n"
LARGEST_BODY_BYTES = 32 << 20
_NOT_SENT = re.compile("[\x85\u2028\u2029\ud800-\udfff]")
"""Characters that some readers, such as Python's `str.splitlines`, take for the end of a line, and
that JSON need not escape; and halves of characters, which UTF-8 cannot encode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request. `path` has no leading /v1 and no trailing slash; `headers` have lower-case names;
    `body` is the checked JSON value, or None without one.

    `held` closes the resources of the answer when the call is over: answered, refused, or left by
    the client.
    """

    id: str
    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    client: str = ""
    held: AsyncExitStack = field(default_factory=AsyncExitStack)


def json_reply(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Make a response of one JSON value."""
    return Response(to_json(value), status, headers, "application/json")


def to_json(value: Any) -> bytes:
    """Write a JSON value in one line, for all readers of lines."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _NOT_SENT.sub(_escaped, text).encode()


def _escaped(found: re.Match[str]) -> str:
    return "\ufffd" if found[0] > "\u2029" else json.dumps(found[0])[1:-1]


def event(value: Any, name: str = "") -> bytes:
    """Frame a server-sent event."""
    named = b"event: " + name.encode() + b"\n" if name else b""
    return named + b"data: " + to_json(value) + b"\n\n"


def line(value: Any) -> bytes:
    """Frame a line of JSON."""
    return to_json(value) + b"\n"


def stream_reply(frames: AsyncIterator[bytes], media: str = EVENTS) -> Response:
    """Make a response of a stream of frames."""
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(frames, headers=headers, media_type=media)


def client_of(agent: str) -> str:
    """Return a client's name for the user: the first word of its user agent."""
    name = agent.split("/")[0].split(" ")[0][:32]
    return "".join(letter for letter in name if letter.isprintable())


async def read_whole(receive: Receive) -> bytes:
    """Receive the whole body of a request. Raises Refusal if it is too large or incomplete."""
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(
                400, "incomplete", "The connection closed before the whole body was sent."
            )
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > LARGEST_BODY_BYTES:
            raise Refusal(
                413, "too_large", f"The body is larger than {LARGEST_BODY_BYTES >> 20} MB."
            )
    return bytes(body)


async def while_there(receive: Receive, work: Awaitable[None]) -> None:
    """Do `work`, after the body was received; cancel it if the client leaves first."""
    doing, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait((doing, leaving), return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            doing.result()
    finally:
        for task in (doing, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(task, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
