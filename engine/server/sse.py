"""Frames the parts of streams: server-sent events, and lines of JSON. Knows no dialect."""

from collections.abc import AsyncIterator
from typing import Any

from engine.server.exchange import Reply, to_json

COMMENT = b": the answer is not ready yet\n\n"
"""Keeps a connection alive; every client skips it."""

DONE = b"data: [DONE]\n\n"
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


def data(value: Any) -> bytes:
    """Frame an event without a name."""
    return b"data: " + to_json(value) + b"\n\n"


def named(name: str, value: Any) -> bytes:
    """Frame an event with a name."""
    return b"event: " + name.encode() + b"\n" + data(value)


def line(value: Any) -> bytes:
    """Frame a line of JSON."""
    return to_json(value) + b"\n"


def event_reply(frames: AsyncIterator[bytes]) -> Reply:
    """Make a response of a stream of events, framed by `data` and `named`."""
    return Reply(200, {"content-type": "text/event-stream; charset=utf-8", **_HEADERS}, frames)


def line_reply(lines: AsyncIterator[bytes]) -> Reply:
    """Make a response of a stream of lines, framed by `line`."""
    return Reply(200, {"content-type": "application/x-ndjson", **_HEADERS}, lines)
