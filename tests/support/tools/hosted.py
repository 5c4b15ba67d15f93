"""A host of tools in this process, with its commands and responses as values."""

import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from engine.tools.host import Host
from engine.tools.programs import Guardian
from engine.tools.protocol import Call, Command, Result, Server, Start, State

SCRIPT = Path(__file__).with_name("scripted_server.py")
TIMEOUT_SECONDS = 120.0  # for hangs only


def scripted(mode="well", *, name="s", env=None, script=(str(SCRIPT),)):
    """A server that runs `scripted_server`, or another script."""
    return Server(name, sys.executable, ("-S", "-E", *script, mode), env or {})


class Hosted:
    """Attribute: `heard`, all responses so far."""

    def __init__(self):
        self.heard = []
        self._more = anyio.Event()
        self._sending, self.receiving = anyio.create_memory_object_stream[Command](1000)
        self._calls = 0

    def hear(self, response):
        self.heard.append(response)
        self._more.set()
        self._more = anyio.Event()

    async def send(self, *commands):
        for command in commands:
            await self._sending.send(command)

    def end(self):
        self._sending.close()

    async def until[Kind](self, kind, holds):
        """The first response of this kind that holds, now or later."""
        with anyio.fail_after(TIMEOUT_SECONDS):
            while True:
                for response in self.heard:
                    if isinstance(response, kind) and holds(response):
                        return response
                await self._more.wait()

    async def start(self, *servers, folders=()):
        """Start these servers, and wait until each runs or has failed."""
        self.heard.clear()
        await self.send(Start(servers, folders))
        return [await self.settled(server.name) for server in servers]

    async def settled(self, name):
        return await self.until(
            State, lambda each: each.server == name and each.state != "starting"
        )

    async def call(self, tool, text="", *, server="s", seconds=60.0):
        self._calls += 1
        id, arguments = str(self._calls), f'{{"text": "{text}"}}'
        await self.send(Call(id, server, tool, arguments, seconds))
        return await self.result(id)

    async def result(self, id):
        return await self.until(Result, lambda each: each.id == id)


@asynccontextmanager
async def hosted(logs, *, start_seconds=60.0):
    """A host while the block runs. Afterwards all servers have ended."""
    hosted, guardian = Hosted(), Guardian()
    host = Host(hosted.hear, guardian=guardian, logs=logs, start_seconds=start_seconds)
    try:
        async with hosted.receiving, anyio.create_task_group() as tasks:
            tasks.start_soon(host.run, hosted.receiving)
            try:
                yield hosted
            finally:  # in a test that fails, too
                hosted.end()
    finally:
        guardian.close()
