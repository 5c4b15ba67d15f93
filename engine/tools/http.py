"""A server over HTTP: the SDK's transport, with limits on its input."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
from mcp.client.streamable_http import streamable_http_client

from engine.tools.limits import LONGEST_MESSAGE_BYTES, Allowance
from engine.tools.protocol import Server
from engine.tools.results import short

_SECONDS = 30.0
_READ_SECONDS = 3600.0  # calls have a time of their own


class LimitedBody(httpx2.AsyncByteStream):
    """The body of a response up to a limit; each event of `events` up to the same limit."""

    def __init__(self, stream: Any, *, events: bool) -> None:
        self._stream, self._events = stream, events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        allowance, end = Allowance(), b""
        async for block in self._stream:
            joined = end + block  # the two line ends after an event may come in two blocks
            if self._events and b"\n\n" in joined.replace(b"\r\n", b"\n").replace(b"\r", b"\n"):
                allowance = Allowance()
            end = joined[-3:]
            if why := allowance.refusal(block):
                raise httpx2.StreamError(why)
            yield block

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Transport(httpx2.AsyncHTTPTransport):
    """Turns a failed request into an error response, so that only this request fails."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await super().handle_async_request(request)
            status = response.status_code
            kind = response.headers.get("content-type", "").lower()
            is_stream = kind.startswith("text/event-stream")
            response.stream = LimitedBody(response.stream, events=is_stream)
            if response.headers.get("content-encoding", "identity") != "identity":
                why = "The server sent a compressed response, which is not accepted."
            elif kind.startswith("application/json"):
                await response.aread()
                return response
            elif status >= 400 and status not in (404, 405):
                why = f"The server answered {status} {response.reason_phrase}".rstrip() + "."
            else:
                return response
            await response.aclose()
            return _error(max(status, 400), why)
        except httpx2.TransportError as error:
            why = short(str(error)) or type(error).__name__
            return _error(503, f"The server cannot be reached: {why}.")
        except httpx2.StreamError as error:  # of `LimitedBody`
            await response.aclose()
            return _error(400, str(error))


def _error(status: int, message: str) -> httpx2.Response:
    """Return a response that the SDK reads as the error of its request."""
    error = {"code": types.INTERNAL_ERROR, "message": message}
    return httpx2.Response(status, json={"jsonrpc": "2.0", "id": None, "error": error})


@asynccontextmanager
async def http_streams(server: Server) -> AsyncIterator[Any]:
    """Open the SDK's transport to a server; yield its streams."""
    headers = {"Accept-Encoding": "identity", **server.headers}
    async with (
        httpx2.AsyncClient(
            headers=headers,
            timeout=httpx2.Timeout(_SECONDS, read=_READ_SECONDS),
            transport=_Transport(),
        ) as client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=LONGEST_MESSAGE_BYTES
        ) as streams,
    ):
        yield streams
