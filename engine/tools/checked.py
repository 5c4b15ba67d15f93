"""The SDK's dispatcher of messages, with limits on what it hands on.

The SDK checks a message by its types, and notes each mistake: a message of 8 MB with a million
wrong values would take gigabytes and a minute.
"""

from collections.abc import Mapping
from typing import Any

import anyio
import anyio.abc
import mcp_types as types
from mcp import MCPError
from mcp.shared.dispatcher import (
    CallOptions,
    DispatchContext,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext

_MOST_VALUES = 100_000
_MOST_ITEMS = 2_000  # blocks of a result, or tools of a page
_MOST_BRACKETS = 500_000  # of a message, those within its texts too


_Context = DispatchContext[TransportContext]


def brackets(data: bytes) -> int:
    """The number of lists and objects that may be in a piece of JSON."""
    return data.count(b"[") + data.count(b"{")


def too_many_brackets(count: int) -> bool:
    """Whether a message with as many brackets is not even parsed."""
    return count > _MOST_BRACKETS


class CheckedDispatcher(JSONRPCDispatcher[TransportContext]):
    """Refuses results of too many values, and takes the parameters from what a server asks: it gets
    an answer to `ping` alone."""

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        *,
        _related_request_id: types.RequestId | None = None,
    ) -> dict[str, Any]:
        result = await super().send_raw_request(
            method, params, opts, _related_request_id=_related_request_id
        )
        lists = [result.get(name) for name in ("content", "tools")]
        if any(isinstance(each, list) and len(each) > _MOST_ITEMS for each in lists) or _values(
            result
        ):
            message = f"It returned more than {_MOST_VALUES:,} values, or {_MOST_ITEMS:,} pieces."
            raise MCPError(types.PARSE_ERROR, message)
        return result

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        async def asked(
            context: DispatchContext[TransportContext],
            method: str,
            params: Mapping[str, Any] | None,
        ) -> dict[str, Any]:
            return await on_request(context, method, None)

        async def noted(
            context: DispatchContext[TransportContext],
            method: str,
            params: Mapping[str, Any] | None,
        ) -> None:
            await on_notify(context, method, None)

        await super().run(asked, noted, on_notify_intercept, task_status=task_status)


def _values(value: object) -> bool:
    """Whether there are too many values in a JSON value."""
    waiting, count = [value], 0
    while waiting:
        each = waiting.pop()
        inside = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        count += len(inside)
        if count > _MOST_VALUES:
            return True
        waiting.extend(inside)
    return False
