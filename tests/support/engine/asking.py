"""Clients of the server, all in the test's own event loop, with a scripted engine behind it.

`asking` leaves the sockets out; `listening` has them, for what is about connections. `engine` is a
link to an engine in a process.
"""

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from httpx2 import ASGITransport, AsyncClient

from engine.process.protocol import Load, Macs
from engine.server.app import App
from engine.server.child import EngineChild
from engine.server.guard import Guard, hosts_of
from engine.server.link import EngineLink
from engine.server.pool import Pair, Pool
from engine.server.service import MOST_WAITING, Service
from engine.server.serving import Serving, TimedProtocol, bound
from tests.support.engine.scripted_host import LOADED, ScriptedHost, command, scripted, told

PORT = 8737
SCRIPTED = command()


def run[T](work, *, seconds=60):
    """The result of a coroutine that ends in time."""

    async def limited():
        async with asyncio.timeout(seconds):
            return await work

    return asyncio.run(limited())


async def until(holds):
    """Wait until this holds; `run` limits for how long."""
    while not holds():
        await asyncio.sleep(0.002)


@asynccontextmanager
async def client_of(service, *, key=None, origins=()):
    """A client of a server without sockets; streams come to it whole."""
    app = App(service, Guard(hosts_of("127.0.0.1", PORT), key=key, origins=origins))
    address = f"http://127.0.0.1:{PORT}"
    async with AsyncClient(transport=ASGITransport(app), base_url=address) as client:
        yield client


@asynccontextmanager
async def asking(
    play=told, *, target=LOADED.target, sees=False, most_waiting=MOST_WAITING, **guarded
):
    """A client of a server whose engine plays `play`. Without a `target` nothing is loaded."""
    async with scripted(play, target=target, sees=sees) as (link, host):
        service = Service(Pool([Pair(link)]), most_waiting=most_waiting)
        async with client_of(service, **guarded) as client:
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
async def serving(link, host, *, protocol=TimedProtocol, origins=()):
    """A server on loopback, with this engine."""
    sockets = bound("127.0.0.1", 0)
    port = sockets[0].getsockname()[1]
    service = Service(Pool([Pair(link)]))
    http = Serving(App(service, Guard(hosts_of("127.0.0.1", port), origins=origins)), protocol)
    task = asyncio.create_task(http.run(sockets))
    try:
        yield Listening(port, link, host, service, http)
    finally:
        http.stop()
        await task


@asynccontextmanager
async def listening(play=told, **options):
    """A server on loopback whose engine plays `play`."""
    async with scripted(play) as (link, host), serving(link, host, **options) as server:
        yield server


@asynccontextmanager
async def engine(target="/models/tiny", *, macs=None, command=SCRIPTED, hangs_seconds=60.0):
    """A link to an engine in a process of its own that starts again, and why it ended so far."""
    deaths = []
    link = EngineLink()
    child = EngineChild(
        link,
        Load("l", target, macs=macs or Macs()),
        command=command,
        waits_seconds=(0.01,),
        hangs_seconds=hangs_seconds,
        report=deaths.append,
    )
    loaded = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(child.run(loaded))
    try:
        await asyncio.wait((running, loaded), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        yield link, deaths
    finally:
        loaded.cancel()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


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
