"""The whole server as a process: with an engine of its own, and attached to another's."""

import asyncio
import signal
import socket
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from httpx2 import AsyncClient

from engine.events import Text
from engine.process.client import GUEST
from engine.process.protocol import Cancel, Generate, Load, parse_command
from engine.server import running
from engine.server.pool import Offers
from engine.server.running import Place, serve, serve_attached
from engine.server.status import STATUSES, ServerStatus
from models.errors import Problem
from tests.support.engine.asking import run, until
from tests.support.engine.scripted_host import LOADED, script, send

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "Once upon a time"}]}


@dataclass
class Window:
    """The other side of an attached server: takes its commands, and reads its status."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    taken: list[object] = field(default_factory=list)
    statuses: list[ServerStatus] = field(default_factory=list)

    async def take(self):
        """Read what the server writes, until it ends."""
        while line := await self.reader.readline():
            if line.startswith(b'{"status"'):
                self.statuses.append(STATUSES.read(line))
            else:
                self.taken.append(parse_command(line))

    async def until(self, what):
        """The next value of `what` in a status that is not empty."""
        await until(lambda: any(getattr(one, what) for one in self.statuses))
        return [value for one in self.statuses if (value := getattr(one, what))][-1]


@asynccontextmanager
async def attached(monkeypatch, port=0, loads=()):
    """A window, and the server that is attached to it."""
    ours, theirs = socket.socketpair()
    streams = await asyncio.open_connection(sock=theirs)

    async def claimed():
        return streams

    monkeypatch.setattr(running, "_claimed_streams", claimed)
    window = Window(*await asyncio.open_connection(sock=ours))
    taking = asyncio.create_task(window.take())
    try:
        offers = Offers(loads=dict(loads))
        yield window, asyncio.create_task(serve_attached(Place(port=port), offers))
    finally:
        streams[1].close()
        await taking
        window.writer.close()


async def test_attached_it_uses_the_windows_engine_and_tells_what_it_does(monkeypatch, capfd):
    quoting = (sys.executable, "-c", "import sys; sys.exit('Once upon a time')")
    monkeypatch.setattr("engine.server.child.host_command", lambda target: quoting)
    loads = {"other": Load("other", "/other")}
    async with attached(monkeypatch, loads=loads) as (window, serving):
        address = await window.until("address")
        async with AsyncClient(base_url=address) as client:
            assert (await client.get("/health")).status_code == 503
            send(window.writer, Text("the window's own", "not ours"))
            send(window.writer, LOADED)
            while (await client.get("/health")).status_code != 200:
                await asyncio.sleep(0.01)
            headers = {"user-agent": "Zed/1.2 (x)"}
            asked = asyncio.create_task(client.post(CHAT, json=BODY, headers=headers))
            (request,) = await window.until("requests")
            assert (request.endpoint, request.client) == ("/chat/completions", "Zed")
            await until(lambda: window.taken)
            (generate,) = window.taken
            assert isinstance(generate, Generate)
            assert generate.id.startswith(GUEST)
            for step in script("Hel", "lo", id=generate.id):
                send(window.writer, step)
            answer = (await asked).json()
            assert answer["choices"][0]["message"]["content"] == "Hello"
            died = await client.post(CHAT, json=BODY | {"model": "other"})
            assert (died.status_code, capfd.readouterr().err) == (503, "")
        window.writer.write_eof()
        await serving
    assert not any(isinstance(command, Cancel) for command in window.taken)


async def test_attached_it_says_where_it_cannot_listen(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with attached(monkeypatch, port) as (window, serving):
            with pytest.raises(Problem):
                await serving
            window.writer.write_eof()
            assert str(port) in await window.until("problem")
    with pytest.raises(Problem):
        Place(host="192.0.2.1")  # which others can reach, without a key
    assert Place(host="192.0.2.1", key="x" * 20).address == "http://192.0.2.1:8737"
    assert Place(host="::1").address == "http://[::1]:8737"


def test_it_ends_by_itself_where_its_terminal_closes():
    async def serving():
        loads, command = {"tiny": Load("tiny", "/models/tiny")}, ("sh", "-c", "cat >/dev/null")
        work = asyncio.create_task(serve(Place(port=0), Offers(loads=loads), command=command))
        await asyncio.sleep(0)
        signal.raise_signal(signal.SIGHUP)
        assert not unheard
        await work

    unheard = []
    before = signal.signal(signal.SIGHUP, lambda *_: unheard.append(1))
    try:
        run(serving())
    finally:
        signal.signal(signal.SIGHUP, before)
