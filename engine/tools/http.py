"""A server over HTTP: the SDK's transport, with limits on what it reads."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from engine.tools.programs import LONGEST_MESSAGE_BYTES
from engine.tools.protocol import Server
from models.in_words import size

_SECONDS = 30.0
_READ_SECONDS = 3600.0  # calls have a time of their own


class _TooLong(httpx2.ReadError):
    """A response is longer than a message may be."""


class _Limited(httpx2.AsyncByteStream):
    """The body of a response, up to a limit."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for block in self._stream:
            total += len(block)
            if total > LONGEST_MESSAGE_BYTES:
                raise _TooLong(f"it returned more than {size(LONGEST_MESSAGE_BYTES)}")
            yield block

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Transport(httpx2.AsyncHTTPTransport):
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.DecodingError("it packs what it was asked not to", request=request)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Limited(response.stream)
        return response


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
