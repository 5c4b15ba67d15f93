"""Server-sent events: how a stream is framed. Knows no dialect."""

import json
from collections.abc import AsyncIterator
from typing import Any

from engine.server.exchange import Reply

COMMENT = b": the answer is not ready yet\n\n"
"""Keeps a connection alive; every client skips it."""

DONE = b"data: [DONE]\n\n"
_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
}


def data(value: Any) -> bytes:
    """An event without a name."""
    return b"data: " + _json(value) + b"\n\n"


def named(name: str, value: Any) -> bytes:
    """An event with a name."""
    return b"event: " + name.encode() + b"\n" + data(value)


def event_reply(frames: AsyncIterator[bytes]) -> Reply:
    """A response that is a stream of events, framed by `data` and `named`."""
    return Reply(200, dict(_HEADERS), frames)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
