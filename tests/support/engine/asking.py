"""A client of the server, both in the test's own event loop, with a scripted engine behind it."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from httpx2 import ASGITransport, AsyncClient, Response

from engine.server.app import App
from engine.server.guard import Guard, loopback_hosts
from engine.server.routes import ROUTES
from engine.server.service import Service
from tests.support.engine.scripted_host import Script, ScriptedHost, scripted, told

PORT = 8737


def run[T](work: Coroutine[None, None, T], *, seconds: float = 60) -> T:
    """The result of a coroutine that ends in time."""

    async def limited() -> T:
        async with asyncio.timeout(seconds):
            return await work

    return asyncio.run(limited())


@asynccontextmanager
async def asking(
    play: Script = told, *, key: str | None = None, origins: tuple[str, ...] = (), load: bool = True
) -> AsyncIterator[tuple[AsyncClient, ScriptedHost]]:
    """A client of a server whose engine plays `play`; streams come to it whole."""
    async with scripted(play, load=load) as (link, host):
        app = App(Service(link), Guard(loopback_hosts(PORT), key=key, origins=origins), ROUTES)
        address = f"http://127.0.0.1:{PORT}"
        async with AsyncClient(transport=ASGITransport(app), base_url=address) as client:
            yield client, host


def events(response: Response) -> list[tuple[str, Any]]:
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
