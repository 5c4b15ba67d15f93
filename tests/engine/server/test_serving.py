"""Connections: deadlines, limits, requests that are two, clients that vanish or do not read."""

import asyncio
import json
import socket
from contextlib import suppress

import pytest

from engine.process.protocol import Cancel
from engine.request import Prompt
from engine.server.exchange import LARGEST_BODY_BYTES
from engine.server.serving import MOST_CONNECTIONS, TimedProtocol, bound
from models.errors import Problem
from tests.support.engine.asking import listening, run
from tests.support.engine.scripted_host import script

HELLO = {"messages": [{"role": "user", "content": "hello you"}]}


class Hurried(TimedProtocol):
    head_seconds = 0.2
    body_seconds = 0.3
    reading_seconds = 0.3


def endless(command):
    return script(*["more "] * 1_000_000, id=command.id, delay=0.001)


def flood(command):
    return script(*["x" * 100_000] * 100_000, id=command.id)


def much(command):
    return script(*["x" * 100_000] * 200, id=command.id)


async def until_idle(server):
    while server.link.open or server.service.board.status.requests:
        await asyncio.sleep(0.01)


async def test_an_answer_comes_over_a_connection_that_stays():
    async with listening() as server, server.connected() as (reader, writer):
        for _ in range(3):
            writer.write(server.request(HELLO))
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert b"server:" not in head.lower()
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            answer = json.loads(await reader.readexactly(length))
            assert answer["choices"][0]["message"]["content"] == "You said: hello you "
        (connection,) = server.serving.transports  # small pieces are sent at once
        accepted = connection.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_body_may_come_in_chunks():
    async with listening() as server:
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
            "Connection: close\r\n\r\n"
        ).encode()
        body = json.dumps(HELLO).encode()
        chunks = b"".join(b"1\r\n" + bytes([byte]) + b"\r\n" for byte in body)
        answer = await server.said(head + chunks + b"0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200")


READ_IN_TWO_WAYS = [
    "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "Content-Length: 5\r\nContent-Length: 6",
    "Content-Length: 5, 5, 6",
    "Content-Length: -1",
    "Content-Length: +5",
    "Content-Length: 0x5",
    "Content-Length: 99999999999999999999999",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: identity",
    " folded: yes",
    "Bad Name: x",
    "Name : x",
    "X: a\rb",
    "X: a\x00b",
    "X: " + "y" * 70_000,
]


def test_what_two_servers_could_read_differently_is_refused():
    async def ask():
        async with listening(protocol=Hurried) as server:
            host = f"Host: 127.0.0.1:{server.port}\r\n"
            return [
                await server.said(
                    f"POST /v1/chat/completions HTTP/1.1\r\n{host}"
                    f"Content-Type: application/json\r\n{lines}\r\n\r\n0\r\n\r\n"
                    f"GET /health HTTP/1.1\r\n{host}\r\n".encode("latin-1")
                )
                for lines in READ_IN_TWO_WAYS
            ]

    assert {
        lines[:40]: answer
        for lines, answer in zip(READ_IN_TWO_WAYS, run(ask()), strict=True)
        if answer[:12] not in (b"HTTP/1.1 400", b"HTTP/1.1 415") or answer.count(b"HTTP/1.1 ") != 1
    } == {}


async def test_a_wrong_chunk_ends_the_connection():
    async with listening(protocol=Hurried) as server:
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        ).encode()
        for end in (b"zz\r\n", b"5\r\nhelloXX0\r\n\r\n", b"-5\r\nhello\r\n"):
            answer = await server.said(head + end)
            assert answer.startswith(b"HTTP/1.1 400"), end
            assert code_in(answer) == "invalid_value"


def code_in(answer):
    """The code of the error that is the whole body."""
    return json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"]


async def test_a_head_that_does_not_end_is_not_waited_for():
    async with listening(protocol=Hurried) as server, server.connected() as (reader, writer):

        async def trickle():
            for byte in b"GET /health HTTP/1.1\r\nX-Slow: " + b"y" * 10_000:
                writer.write(bytes([byte]))
                await asyncio.sleep(0.02)

        trickling = asyncio.create_task(trickle())
        with suppress(ConnectionError):
            await reader.read()
        trickling.cancel()


async def test_a_second_head_that_does_not_end_is_not_waited_for_either():
    async with listening(protocol=Hurried) as server, server.connected() as (reader, writer):
        writer.write(f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
        writer.write(b"GET /hea")
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 408")
        assert code_in(answer) == "timeout"


async def test_a_body_that_does_not_come_is_not_waited_for():
    async with listening(protocol=Hurried) as server:
        request = server.request(HELLO, **{"Content-Length": "1000"})
        answer = await server.said(request)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 408")
        # Nor is one that no endpoint reads.
        head = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        answer = await server.said(f"{head}Content-Length: 1000\r\n\r\nx".encode())
        assert answer.count(b"HTTP/1.1 ") == 1


async def test_a_body_that_is_too_large_is_refused_while_it_comes():
    async with listening() as server, server.connected() as (reader, writer):
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        writer.write(head.encode())
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
        head = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n\r\n"
        answer = await server.said(head.encode())
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"\r\nretry-after: 1\r\n" in answer
        assert code_in(answer) == "too_many_connections"
        for _, writer in idle:
            writer.transport.abort()
        while not (await server.said(head.encode())).startswith(b"HTTP/1.1 200"):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_ends_its_generation(stream):
    async with listening(endless) as server:
        async with server.connected() as (reader, writer):
            writer.write(server.request({**HELLO, "stream": stream, "n": 2}))
            if stream:
                await reader.readuntil(b"more")
            while len(server.host.running) < 2:
                await asyncio.sleep(0.01)
        await until_idle(server)
        assert sum(isinstance(command, Cancel) for command in server.host.taken) == 2


@pytest.mark.quick(1)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_does_not_read_is_dropped_and_holds_nobody_up(stream):
    async with listening(flood if stream else much, protocol=Hurried) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(server.request({**HELLO, "stream": stream}))
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()
        assert (await server.link.count(Prompt(text="still here"))).tokens == 2
        await until_idle(server)
        while server.serving.transports:
            await asyncio.sleep(0.01)
        writer.transport.abort()


def test_a_port_that_is_in_use_is_a_problem_with_a_remedy():
    taken = bound("127.0.0.1", 0)  # both addresses of this machine
    try:
        taken[0].listen()
        (port,) = {one.getsockname()[1] for one in taken}
        assert taken[0].family == socket.AF_INET
        with pytest.raises(Problem) as caught:
            bound("127.0.0.1", port)
        assert str(port) in caught.value.message
        assert "--port" in caught.value.remedy
    finally:
        for one in taken:
            one.close()
