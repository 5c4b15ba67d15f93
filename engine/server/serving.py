"""Sockets, connections and their deadlines: uvicorn, with h11. Knows no endpoint.

uvicorn waits without an end for the head of a request, for the rest of its body, and for a client
to read. Here each of them has a time.
"""

import asyncio
import errno
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import h11
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from engine.server.errors import Refusal, invalid, openai_error
from engine.server.exchange import json_reply
from models.errors import Problem

MOST_CONNECTIONS = 64
LARGEST_HEAD_BYTES = 32 << 10
_KEEP_ALIVE_SECONDS = 15
_ENDING_SECONDS = 5  # for answers to end when the server does


class TimedProtocol(H11Protocol):
    """One connection."""

    head_seconds = 10.0
    body_seconds = 30.0
    reading_seconds = 60.0  # for the client to read what waits for it

    _timer: asyncio.TimerHandle | None = None
    _timed: object = None  # what the timer is for
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._watch()

    def data_received(self, data: bytes) -> None:
        if not self.flow.write_paused:  # who sends the next request has read the last answer
            self._has_read()
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()
        if self.transport.get_write_buffer_size():
            self._let_read()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._timer, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._let_read()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._has_read()

    def send_400_response(self, msg: str, *, late: bool = False) -> None:
        """Refuse bytes that are not a request, or a request that is `late`, and close."""
        refusal = Refusal(408, "timeout", msg, again=True) if late else invalid(msg)
        reply = json_reply(openai_error(refusal), refusal.status, refusal.headers)
        headers = [*reply.raw_headers, (b"connection", b"close")]
        answer = (
            h11.Response(status_code=reply.status_code, headers=headers),
            h11.Data(data=bytes(reply.body)),
            h11.EndOfMessage(),
        )
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
        with suppress(h11.LocalProtocolError):
            for part in answer:
                self.transport.write(self.conn.send(part) or b"")
        self.transport.close()

    def _let_read(self) -> None:
        """Give the client its time to read."""
        if self._unread is None:
            self._unread = self.loop.call_later(self.reading_seconds, self._drop)

    def _has_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _drop(self) -> None:
        self._unread = None
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _watch(self) -> None:
        """Set the timer for what the client is to send now; keep it while that is the same."""
        state = self.conn.their_state
        waiting = {h11.IDLE: self.head_seconds, h11.SEND_BODY: self.body_seconds}.get(state)
        if self.timeout_keep_alive_task is not None and state is not h11.SEND_BODY:
            waiting = None  # uvicorn has a timer for a connection without a request
        timed = (state, self.cycle) if waiting is not None else None
        if timed == self._timed:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timed, self._timer = timed, None
        if waiting is not None:
            self._timer = self.loop.call_later(waiting, self._too_slow)

    def _too_slow(self) -> None:
        self.send_400_response("The request did not arrive in time.", late=True)
        self.loop.call_soon(self.transport.abort)


class _Server(uvicorn.Server):
    """Leaves signals to others."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Serving:
    """Serves an application on sockets, until `stop`."""

    def __init__(
        self,
        app: Any,
        protocol: type[TimedProtocol] = TimedProtocol,
        *,
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            connections = self._server.server_state.connections
            scope["crowded"] = len(connections) >= most_connections
            await app(scope, receive, send)

        config = uvicorn.Config(
            counted,
            http=protocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            proxy_headers=False,
            server_header=False,
            date_header=True,
            access_log=False,
            log_config=None,
            log_level="critical",
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_ENDING_SECONDS,
            h11_max_incomplete_event_size=LARGEST_HEAD_BYTES,
        )
        self._server = _Server(config)

    @property
    def transports(self) -> list[asyncio.Transport]:
        """The transports of all connections."""
        return [connection.transport for connection in self._server.server_state.connections]

    async def run(self, sockets: Sequence[socket.socket]) -> None:
        """Serve; closes the sockets at the end."""
        try:
            await self._server.serve(sockets=list(sockets))
        finally:
            for listening in sockets:
                listening.close()

    def stop(self) -> None:
        """Take no more requests, and end after the last answer."""
        self._server.should_exit = True


def bound(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen at `host`, or at both addresses of loopback.

    Raises Problem.
    """
    hosts = ["127.0.0.1", "::1"] if is_loopback(host) else [host]
    sockets: list[socket.socket] = []
    for address in hosts:
        try:
            sockets.append(_bound(address, port))
        except OSError as error:
            if address == "::1" and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                continue  # a machine without IPv6
            for listening in sockets:
                listening.close()
            raise _problem(error, address, port) from None
        port = sockets[0].getsockname()[1]
    return sockets


def is_loopback(host: str) -> bool:
    """Return whether only programs on this computer can reach `host`."""
    return host in ("127.0.0.1", "localhost", "::1")


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's wait of 40 ms off where a socket says that it is TCP.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind((host, port))
        listening.listen(MOST_CONNECTIONS)  # early clients wait until the server is ready
    except BaseException:
        listening.close()
        raise
    return listening


def _problem(error: OSError, host: str, port: int) -> Problem:
    if error.errno == errno.EADDRINUSE:
        return Problem(
            f"Port {port} is in use by another program.",
            f"Choose another port, for example --port {port + 1 if port < 65535 else 8737}.",
        )
    reason = (error.strerror or str(error)).rstrip(".")
    return Problem(f"The server cannot listen on {host}: {reason}.", "Use --host 127.0.0.1.")
