"""The messages of a server within limits, whatever brings them.

The SDK checks a message by its types, and notes each mistake: a message of 8 MB with a million
wrong values would take gigabytes and a minute. So each is checked before: as bytes, by its
transport, with `refusal`; and as values, in `LimitedStreams`.
"""

import time
from typing import Any

import mcp_types as types
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage

from models.in_words import size

LONGEST_MESSAGE_BYTES = 8 << 20
_MOST_BRACKETS = 500_000  # those within texts, too
_MOST_VALUES = 100_000
_MOST_ITEMS = 2_000  # blocks of a result, or tools of a page
_MOST_ASKED = 100  # requests of the server without an answer
_PROGRESS_APART_SECONDS = 0.1
_PROGRESS = ("progressToken", "progress", "total", "message")


class Ended(Exception):
    """The connection to a server is over. The text says why."""


class Unreadable(Exception):
    """A message that was not parsed, and whose request is not known. The text says why."""


def refusal(data: bytes) -> str:
    """Why a message is not even parsed; empty if it may be."""
    if len(data) > LONGEST_MESSAGE_BYTES:
        return f"It returned more than {size(LONGEST_MESSAGE_BYTES)}."
    if data.count(b"[") + data.count(b"{") > _MOST_BRACKETS:
        return "It returned too many lists and objects."
    return ""


def error_for(id: int | str, message: str) -> SessionMessage:
    """A response that fails the request `id`."""
    error = types.ErrorData(code=types.PARSE_ERROR, message=message)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=id, error=error))


class LimitedStreams(
    ObjectReceiveStream[SessionMessage | Exception], ObjectSendStream[SessionMessage]
):
    """The streams of a transport, both in one, as a session gets them.

    A result of too many values is an error instead. Of what a server asks, and tells without being
    asked, little is let through: no parameters but those of progress. `receive` raises `Ended` if
    the server asks more than it reads answers.
    """

    def __init__(self, reading: Any, writing: Any) -> None:
        self._reading, self._writing = reading, writing
        self._asked = 0
        self._progress_at = 0.0

    async def receive(self) -> SessionMessage | Exception:
        while (item := self._limited(await self._reading.receive())) is None:
            pass
        return item

    async def send(self, item: SessionMessage) -> None:
        await self._writing.send(item)
        if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
            self._asked -= 1

    async def aclose(self) -> None:
        """Do nothing: the transport closes its streams."""

    def _limited(self, item: SessionMessage | Exception) -> SessionMessage | Exception | None:
        """What takes the place of a message."""
        if isinstance(item, Exception):
            return item
        match message := item.message:
            case types.JSONRPCResponse() if _too_many(message.result):
                why = f"It returned more than {_MOST_VALUES:,} values, or {_MOST_ITEMS:,} pieces."
                return error_for(message.id, why)
            case types.JSONRPCRequest():
                self._asked += 1
                if self._asked > _MOST_ASKED:
                    raise Ended("It floods this end with requests.")
                message.params = None
            case types.JSONRPCNotification(method="notifications/tools/list_changed"):
                message.params = None
            case types.JSONRPCNotification(method="notifications/progress", params=dict(params)):
                if time.monotonic() - self._progress_at < _PROGRESS_APART_SECONDS:
                    return None
                self._progress_at = time.monotonic()
                message.params = {name: params[name] for name in _PROGRESS if name in params}
            case types.JSONRPCNotification():
                return None
        return item


def _too_many(result: dict[str, Any]) -> bool:
    """Whether there are too many values in a result."""
    lists = (result.get(name) for name in ("content", "tools"))
    if any(isinstance(each, list) and len(each) > _MOST_ITEMS for each in lists):
        return True
    waiting: list[Any] = [result]
    count = 0
    while waiting:
        each = waiting.pop()
        inside = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        count += len(inside)
        if count > _MOST_VALUES:
            return True
        waiting.extend(inside)
    return False
