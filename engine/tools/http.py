"""A server over HTTP: the SDK's transport, with limits on what it reads."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
from mcp.client.streamable_http import streamable_http_client

from engine.tools.limits import LONGEST_MESSAGE_BYTES, refusal
from engine.tools.protocol import Server
from engine.tools.results import short

_SECONDS = 30.0
_READ_SECONDS = 3600.0  # calls have a time of their own


class _Transport(httpx2.AsyncHTTPTransport):
    """Answers in the place of a server that does not, so that one request fails and no more."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await super().handle_async_request(request)
            status, headers = response.status_code, response.headers
            data, why = b"", ""
            if headers.get("content-encoding", "identity") != "identity":
                why = "The server packs what it was asked not to."
            elif headers.get("content-type", "").lower().startswith("application/json"):
                data = await _body(response)
                why = refusal(data)
            elif status >= 400 and status not in (404, 405):
                why = f"The server said {status} {response.reason_phrase}".rstrip() + "."
            else:
                return response
            await response.aclose()
        except httpx2.TransportError as error:
            why = short(str(error)) or type(error).__name__
            return _error(503, f"The server cannot be reached: {why}.")
        if why:
            return _error(max(status, 400), why)
        return httpx2.Response(status, headers=headers, content=data)


async def _body(response: httpx2.Response) -> bytes:
    """The body of a response, or of one that is too long, its beginning."""
    data = bytearray()
    async for block in response.aiter_raw():
        data += block
        if len(data) > LONGEST_MESSAGE_BYTES:
            break
    return bytes(data)


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
