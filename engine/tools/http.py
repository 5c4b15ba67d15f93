"""A server over HTTP: the SDK's transport, with limits on what it reads."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
from mcp.client.streamable_http import streamable_http_client

from engine.tools.programs import LONGEST_MESSAGE_BYTES
from engine.tools.protocol import Server
from engine.tools.results import short
from models.in_words import size

_SECONDS = 30.0
_READ_SECONDS = 3600.0  # calls have a time of their own


class _Limited(httpx2.AsyncByteStream):
    """The body of a response, up to a limit."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for block in self._stream:
            total += len(block)
            if total > LONGEST_MESSAGE_BYTES:  # the SDK fails the request alone, on this error
                raise httpx2.StreamError(f"more than {size(LONGEST_MESSAGE_BYTES)}")
            yield block

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Transport(httpx2.AsyncHTTPTransport):
    """Answers in the place of a server that does not, so that one request fails and no more."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await super().handle_async_request(request)
        except httpx2.TransportError as error:
            why = short(str(error)) or type(error).__name__
            return _error(503, f"The server cannot be reached: {why}.")
        kind = response.headers.get("content-type", "").lower()
        packed = response.headers.get("content-encoding", "identity") != "identity"
        bad = response.status_code >= 400 and not kind.startswith("application/json")
        if packed or (bad and response.status_code not in (404, 405)):
            await response.aclose()
            status = f"{response.status_code} {response.reason_phrase}".strip()
            return _error(
                max(response.status_code, 400),
                "The server packs what it was asked not to."
                if packed
                else f"The server said {status}.",
            )
        if not kind.startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Limited(response.stream)
        return response


def _error(status: int, message: str) -> httpx2.Response:
    """A response that the SDK takes for the error of its request."""
    error = {"code": types.INTERNAL_ERROR, "message": message}
    return httpx2.Response(status, json={"jsonrpc": "2.0", "id": None, "error": error})


@asynccontextmanager
async def http_streams(server: Server) -> AsyncIterator[Any]:
    """The streams of the SDK's transport to a server."""
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
