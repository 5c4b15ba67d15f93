"""Clients of the server, all in the test's own event loop, with a scripted engine behind it.

`asking` leaves the sockets out; `listening` has them, for what is about connections.
"""

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from httpx2 import ASGITransport, AsyncClient

from engine.server.app import App
from engine.server.guard import Guard, hosts_of
from engine.server.link import EngineLink
from engine.server.pool import Pair, Pool
from engine.server.service import MOST_WAITING, Service
from engine.server.serving import Serving, TimedProtocol, bound
from tests.support.engine.scripted_host import LOADED, ScriptedHost, scripted, told

PORT = 8737


def run[T](work, *, seconds=60):
    """The result of a coroutine that ends in time."""

    async def limited():
        async with asyncio.timeout(seconds):
            return await work

    return asyncio.run(limited())


@asynccontextmanager
async def asking(
    play=told, *, key=None, origins=(), target=LOADED.target, most_waiting=MOST_WAITING, sees=False
):
    """A client of a server whose engine plays `play`; streams come to it whole. Without a
    `target` nothing is loaded."""
    async with scripted(play, target=target, sees=sees) as (link, host):
        app = App(
            Service(Pool([Pair(link)]), most_waiting=most_waiting),
            Guard(hosts_of("127.0.0.1", PORT), key=key, origins=origins),
        )
        address = f"http://127.0.0.1:{PORT}"
        async with AsyncClient(transport=ASGITransport(app), base_url=address) as client:
            yield client, host


@dataclass(frozen=True)
class Listening:
    """A server at a port of this machine."""

    port: int
    link: EngineLink
    host: ScriptedHost
    service: Service
    serving: Serving

    @asynccontextmanager
    async def connected(self):
        """A connection to it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def said(self, request):
        """All that it answers to these bytes until it closes the connection."""
        async with self.connected() as (reader, writer):
            writer.write(request)
            with suppress(ConnectionError):
                return await reader.read()
            return b""

    def request(self, body, path="/v1/chat/completions", **headers):
        """The bytes of a POST."""
        data = json.dumps(body).encode()
        given = {
            "Host": f"127.0.0.1:{self.port}",
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            **headers,
        }
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
        return "\r\n".join((*lines, "", "")).encode("latin-1") + data


@asynccontextmanager
async def listening(play=told, *, protocol=TimedProtocol, origins=()):
    """A server on loopback."""
    async with scripted(play) as (link, host):
        sockets = bound("127.0.0.1", 0)
        port = sockets[0].getsockname()[1]
        service = Service(Pool([Pair(link)]))
        app = App(service, Guard(hosts_of("127.0.0.1", port), origins=origins))
        serving = Serving(app, protocol)
        task = asyncio.create_task(serving.run(sockets))
        try:
            yield Listening(port, link, host, service, serving)
        finally:
            serving.stop()
            await task


def events(response):
    """The events of a stream: their names, empty where they have none, and their values. Comments
    are left out."""
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    found = []
    for block in response.text.split("\n\n")[:-1]:
        fields = [line.partition(": ")[::2] for line in block.split("\n")]
        if all(name == "" for name, _ in fields):
            continue
        name = next((value for name, value in fields if name == "event"), "")
        (data,) = [value for name, value in fields if name == "data"]
        found.append((name, data if data == "[DONE]" else json.loads(data)))
    return found
