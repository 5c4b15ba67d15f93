"""Connections: deadlines, limits, clients that vanish or do not read, also many at once while the
engine dies."""

import asyncio
import json
import random
import socket
from collections import Counter
from contextlib import suppress

import psutil
import pytest

from engine.process.protocol import Cancel
from engine.request import Prompt
from engine.server.exchange import LARGEST_BODY_BYTES
from engine.server.serving import MOST_CONNECTIONS, TimedProtocol
from tests.support.engine.asking import engine, listening, run, serving, until
from tests.support.engine.scripted_host import ScriptedHost, newest_child, saying

HELLO = {"messages": [{"role": "user", "content": "hello you"}]}


class Hurried(TimedProtocol):
    head_seconds = 0.15
    body_seconds = 0.15
    reading_seconds = 0.2


ENDLESS = saying(*["more "] * 100_000, delay=0.001)
FLOOD = saying(*["x" * 100_000] * 100_000)
MUCH = saying(*["x" * 100_000] * 200)
LITTLE = saying("x" * 60_000)  # waits whole in the server's own buffer
PLAN = json.dumps({"say": ["word "] * 40, "delay": 0.005})


def idle(server):
    return not (server.link.open or server.service.board.status.requests)


def head(server, *lines, method="POST", path="/v1/chat/completions"):
    """The head of a request, with lines of a body in JSON where it is a POST."""
    kind = ["Content-Type: application/json"] if method == "POST" else []
    host = f"Host: 127.0.0.1:{server.port}"
    return "\r\n".join([f"{method} {path} HTTP/1.1", host, *kind, *lines, "", ""]).encode("latin-1")


CHUNKED = "Transfer-Encoding: chunked"


def code_in(answer):
    """The code of the error that is the whole body."""
    return json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"]


async def test_a_head_that_does_not_end_is_not_waited_for():
    async with listening(protocol=Hurried) as server:
        async with server.connected() as (reader, writer):

            async def trickle():
                for byte in b"GET /health HTTP/1.1\r\nX-Slow: " + b"y" * 10_000:
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0.02)

            trickling = asyncio.create_task(trickle())
            with suppress(ConnectionError):
                await reader.read()
            trickling.cancel()
        async with server.connected() as (reader, writer):  # nor is a second one
            writer.write(head(server, method="GET", path="/health"))
            assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
            writer.write(b"GET /hea")
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 408")
            assert code_in(answer) == "timeout"


async def test_a_body_that_does_not_come_is_not_waited_for():
    async with listening(protocol=Hurried) as server:
        answer = await server.said(server.request(HELLO, **{"Content-Length": "1000"}))
        assert answer == b"" or answer.startswith(b"HTTP/1.1 408")
        # Nor is one that no endpoint reads.
        begin = head(server, "Content-Length: 1000", method="GET", path="/health")
        answer = await server.said(begin + b"x")
        assert answer.count(b"HTTP/1.1 ") == 1


async def test_a_body_that_is_too_large_is_refused_while_it_comes():
    async with listening() as server, server.connected() as (reader, writer):
        writer.write(head(server, CHUNKED))
        chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        for _ in range(LARGEST_BODY_BYTES >> 20):
            writer.write(chunk)
            await writer.drain()
        writer.write(chunk)
        assert (await reader.readline()).startswith(b"HTTP/1.1 413")


async def test_more_connections_than_there_should_be_are_told_so():
    assert MOST_CONNECTIONS < 70
    async with listening() as server:
        idle = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(70)]
        asked = head(server, "Connection: close", method="GET", path="/health")
        answer = await server.said(asked)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"\r\nretry-after: 1\r\n" in answer
        assert code_in(answer) == "too_many_connections"
        for _, writer in idle:
            writer.transport.abort()
        while not (await server.said(asked)).startswith(b"HTTP/1.1 200"):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_ends_its_generation(stream):
    async with listening(ENDLESS) as server:
        async with server.connected() as (reader, writer):
            writer.write(server.request({**HELLO, "stream": stream, "n": 2}))
            if stream:
                await reader.readuntil(b"more")
            await until(lambda: len(server.host.running) == 2)
        await until(lambda: idle(server))
        assert sum(isinstance(command, Cancel) for command in server.host.taken) == 2


@pytest.mark.quick(2)
@pytest.mark.parametrize(("play", "stream"), [(FLOOD, True), (LITTLE, False), (MUCH, False)])
async def test_a_client_that_does_not_read_is_dropped_and_holds_nobody_up(play, stream):
    async with listening(play, protocol=Hurried) as server:
        narrow = socket.socket()
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        narrow.connect(("127.0.0.1", server.port))
        reader, writer = await asyncio.open_connection(sock=narrow, limit=1024)
        await until(lambda: server.serving.transports)
        (transport,) = server.serving.transports
        theirs = transport.get_extra_info("socket")
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        writer.write(server.request({**HELLO, "stream": stream}))
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()
        assert (await server.link.count(Prompt(text="still here"))).tokens == 2
        await until(lambda: idle(server) and not server.serving.transports)
        writer.transport.abort()


# Many clients at once


@pytest.mark.parametrize("clients", [15, pytest.param(200, marks=pytest.mark.slow)])
def test_clients_that_vanish_leave_nothing_behind(clients):
    chance, some = random.Random(clients), asyncio.Semaphore(40)

    async def vanish(server):
        body = {"messages": [{"role": "user", "content": "hello"}], "n": chance.randint(1, 3)}
        request = server.request(body | {"stream": chance.random() < 0.7})
        async with some, server.connected() as (reader, writer):
            writer.write(request[: chance.choice([10, len(request) - 1, 10**9, 10**9])])
            with suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(chance.random() * 0.2):
                    while await reader.read(1000):
                        pass

    async def ask():
        async with listening(ENDLESS) as server:
            process = psutil.Process()
            tasks, files = len(asyncio.all_tasks()), process.num_fds()
            await asyncio.gather(*(vanish(server) for _ in range(clients)))
            await until(lambda: idle(server) and not server.host.running)
            await until(lambda: len(asyncio.all_tasks()) <= tasks and process.num_fds() <= files)

    run(ask(), seconds=120)


@pytest.mark.parametrize("deaths", [1, pytest.param(50, marks=pytest.mark.slow)])
def test_an_engine_that_dies_under_load_ends_each_stream_and_answers_again(deaths):
    ends, over = Counter(), []

    async def client(server):
        body = {"messages": [{"role": "user", "content": PLAN}], "stream": True}
        request = server.request(body, Connection="close")
        while not over:
            said = await server.said(request)
            if said.startswith(b"HTTP/1.1 503"):
                assert b"retry-after" in said
                await asyncio.sleep(0.02)
                continue
            assert said.startswith(b"HTTP/1.1 200"), said[:100]
            last = [line for line in said.split(b"\n") if line.startswith(b"data: ")][-1].strip()
            ends["done" if last == b"data: [DONE]" else "error"] += 1
            if last != b"data: [DONE]":
                assert json.loads(last[6:])["error"]["code"] == "engine_failed"

    async def ask():
        async with engine() as (link, _), serving(link, ScriptedHost()) as server:
            clients = [asyncio.create_task(client(server)) for _ in range(4)]
            for _ in range(deaths):
                await until(lambda: link.loaded and link.open)
                await asyncio.sleep(0.05)
                newest_child().kill()
                await until(lambda: not link.loaded)
            done = ends["done"]
            await until(lambda: ends["done"] >= done + len(clients))
            over.append(True)
            await asyncio.gather(*clients)
            assert ends["error"] >= deaths
            assert not link.open

    run(ask(), seconds=500)
