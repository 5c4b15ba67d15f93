"""Many clients at once: they vanish, and the engine dies under them."""

import asyncio
import json
import random
from contextlib import suppress

import psutil
import pytest

from engine.process.protocol import Load
from engine.server.app import App
from engine.server.child import EngineChild
from engine.server.guard import Guard, hosts_of
from engine.server.link import EngineLink
from engine.server.pool import Pair, Pool
from engine.server.service import Service
from engine.server.serving import Serving, bound
from tests.support.engine.asking import Listening, listening, run
from tests.support.engine.scripted_host import ScriptedHost, command, newest_child, script

PLAN = json.dumps({"say": ["word "] * 40, "delay": 0.005})


def slowly(command):
    return script(*["more "] * 100_000, id=command.id, delay=0.002)


@pytest.mark.parametrize("clients", [15, pytest.param(200, marks=pytest.mark.slow)])
def test_clients_that_vanish_leave_nothing_behind(clients):
    chance = random.Random(clients)

    async def vanish(server):
        request = server.request(
            {
                "messages": [{"role": "user", "content": "hello"}],
                "stream": chance.random() < 0.7,
                "n": chance.randint(1, 3),
            }
        )
        async with server.connected() as (reader, writer):
            writer.write(request[: chance.choice([10, len(request) - 1, 10**9, 10**9])])
            with suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(chance.random() * 0.2):
                    while await reader.read(1000):
                        pass

    async def ask():
        async with listening(slowly) as server:
            process = psutil.Process()
            tasks, files = len(asyncio.all_tasks()), process.num_fds()
            some = asyncio.Semaphore(40)

            async def one():
                async with some:
                    await vanish(server)

            await asyncio.gather(*(one() for _ in range(clients)))
            while (
                server.link.open
                or server.host.running
                or server.service.board.status.requests
                or len(asyncio.all_tasks()) > tasks
                or process.num_fds() > files
            ):
                await asyncio.sleep(0.01)

    run(ask(), seconds=120)


@pytest.mark.parametrize("deaths", [1, pytest.param(50, marks=pytest.mark.slow)])
def test_an_engine_that_dies_under_load_ends_each_stream_and_answers_again(deaths):
    async def ask():
        link = EngineLink()
        child = EngineChild(
            link, Load("l", "/models/tiny"), command=command(), waits_seconds=(0.01,)
        )
        loaded = asyncio.get_running_loop().create_future()
        running = asyncio.create_task(child.run(loaded))
        await loaded
        sockets = bound("127.0.0.1", 0)
        port = sockets[0].getsockname()[1]
        service = Service(Pool([Pair(link)]))
        serving = Serving(App(service, Guard(hosts_of("127.0.0.1", port))))
        http = asyncio.create_task(serving.run(sockets))
        server = Listening(port, link, ScriptedHost(), service, serving)
        over = False
        ends = {"done": 0, "error": 0, "refused": 0}

        async def client():
            body = {"messages": [{"role": "user", "content": PLAN}], "stream": True}
            request = server.request(body, Connection="close")
            while not over:
                said = await server.said(request)
                if said.startswith(b"HTTP/1.1 503"):
                    ends["refused"] += 1
                    assert b"retry-after" in said
                    await asyncio.sleep(0.02)
                    continue
                assert said.startswith(b"HTTP/1.1 200"), said[:100]
                last = [line for line in said.split(b"\n") if line.startswith(b"data: ")][-1]
                ends["done" if last.strip() == b"data: [DONE]" else "error"] += 1
                if last.strip() != b"data: [DONE]":
                    assert json.loads(last[6:])["error"]["code"] == "engine_failed"

        clients = [asyncio.create_task(client()) for _ in range(4)]
        try:
            for _ in range(deaths):
                while not (link.loaded and link.open):
                    await asyncio.sleep(0.005)
                await asyncio.sleep(0.05)
                newest_child().kill()
                while link.loaded:
                    await asyncio.sleep(0.005)
            done = ends["done"]
            while ends["done"] < done + len(clients):
                await asyncio.sleep(0.01)
            over = True
            await asyncio.gather(*clients)
            assert ends["error"] >= deaths
            assert not link.open
        finally:
            for task in (*clients, running):
                task.cancel()
            await asyncio.gather(*clients, running, return_exceptions=True)
            serving.stop()
            await http

    run(ask(), seconds=500)
