"""Limits on the messages of a server, for all transports.

The SDK checks a message by its types, and notes each mistake: a message of 8 MB with a million
wrong values would take gigabytes and a minute. So each is checked before: as bytes, by its
transport, with an `Allowance`; and as values, in `LimitedStreams`.
"""

import time
from collections import deque
from collections.abc import Collection
from typing import Any

import mcp_types as types
import mcp_types.methods as methods
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage

from models.in_words import size

LONGEST_MESSAGE_BYTES = 8 << 20
_MOST_BRACKETS = 500_000  # those within texts, too
_MOST_VALUES = 100_000
_MOST_ITEMS = 2_000  # blocks of a result, or tools of a page
_MOST_ASKED = 100
_CHECKED_AS = "2025-11-25"  # the version whose tools are checked alone
_PROGRESS_APART_SECONDS = 0.1
_PROGRESS = ("progressToken", "progress", "total", "message")

Item = SessionMessage | Exception


class Ended(Exception):
    """The connection to a server is over. The text says why."""


class Unreadable(Exception):
    """A message that was not parsed. The text says why; `ids`: the requests that it may answer, if
    that is known."""

    def __init__(self, why: str, ids: Collection[int]) -> None:
        super().__init__(why)
        self.ids = ids


class Allowance:
    """Adds up a message that is not parsed yet."""

    def __init__(self) -> None:
        self._bytes = self._brackets = 0

    def refusal(self, data: bytes) -> str:
        """Why a message that goes on with `data` is not even parsed; empty if it may be."""
        self._bytes += len(data)
        self._brackets += data.count(b"[") + data.count(b"{")
        if self._bytes > LONGEST_MESSAGE_BYTES:
            return f"It returned more than {size(LONGEST_MESSAGE_BYTES)}."
        many = self._brackets > _MOST_BRACKETS
        return "It returned too many lists and objects." if many else ""


class LimitedStreams(ObjectReceiveStream[Item], ObjectSendStream[SessionMessage]):
    """The streams of a transport, both in one, as a session gets them. Attribute: `odd_tools`, the
    names of tools that were left out of lists, because the SDK would refuse the whole list.

    A result that is `Unreadable`, or of too many values, is an error instead. Of what a server asks
    or tells unasked, little is let through: only the parameters of progress. `receive` raises
    `Ended` if the server asks more than it reads answers.
    """

    def __init__(self, reading: Any, writing: Any) -> None:
        self._reading, self._writing = reading, writing
        self.odd_tools: list[str] = []
        self._ready: deque[Item] = deque()
        self._pending: set[Any] = set()  # our requests without a response
        self._asked = 0  # requests of the server without an answer
        self._progress_at = 0.0

    async def receive(self) -> Item:
        while not self._ready:
            self._ready += self._limited(await self._reading.receive())
        return self._ready.popleft()

    async def send(self, item: SessionMessage) -> None:
        if isinstance(item.message, types.JSONRPCRequest):
            self._pending.add(item.message.id)
        await self._writing.send(item)
        if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
            self._asked -= 1

    async def aclose(self) -> None:
        """Do nothing: the transport closes its streams."""

    def _limited(self, item: Item) -> list[Item]:
        """The messages that take the place of one."""
        if isinstance(item, Unreadable):
            ids = [id for id in item.ids if id in self._pending]
            return self._errors(ids or [*self._pending], str(item))
        if isinstance(item, Exception):
            return [item]
        match message := item.message:
            case types.JSONRPCResponse() if _too_many(message.result):
                why = f"It returned more than {_MOST_VALUES:,} values, or {_MOST_ITEMS:,} pieces."
                return self._errors([message.id], why)
            case types.JSONRPCResponse(result={"tools": list(tools)}):
                self._pending.discard(message.id)
                message.result["tools"] = list(filter(self._is_a_tool, tools))
            case types.JSONRPCResponse() | types.JSONRPCError():
                self._pending.discard(message.id)
            case types.JSONRPCRequest():
                self._asked += 1
                if self._asked > _MOST_ASKED:
                    raise Ended("It sent too many requests.")
                message.params = None
            case types.JSONRPCNotification(method="notifications/progress", params=dict(params)):
                if time.monotonic() - self._progress_at < _PROGRESS_APART_SECONDS:
                    return []
                self._progress_at = time.monotonic()
                message.params = {name: params[name] for name in _PROGRESS if name in params}
            case types.JSONRPCNotification():
                message.params = None
        return [item]

    def _is_a_tool(self, tool: Any) -> bool:
        """Whether the SDK reads this tool of a list."""
        schema = tool.get("inputSchema") if isinstance(tool, dict) else None
        if isinstance(schema, dict):
            schema.setdefault("type", "object")  # as tools without arguments often forget
        try:
            methods.validate_server_result("tools/list", _CHECKED_AS, {"tools": [tool]})
            return True
        except (ValueError, RecursionError):
            name = tool.get("name") if isinstance(tool, dict) else tool
            self.odd_tools.append(str(name))
            return False

    def _errors(self, ids: Collection[types.RequestId], why: str) -> list[Item]:
        """Responses that fail these requests."""
        self._pending.difference_update(ids)
        error = types.ErrorData(code=types.PARSE_ERROR, message=why)
        return [SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=id, error=error)) for id in ids]


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
