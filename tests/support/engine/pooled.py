"""Pools of pairs whose engines are scripted, in the test's own event loop, and whose sizes are made
up."""

import asyncio
from contextlib import asynccontextmanager

from engine.process.protocol import Load
from engine.server.child import EngineChild
from engine.server.link import EngineLink
from engine.server.pair import Room
from engine.server.pool import Pair, Pool
from engine.server.service import Service
from models.errors import Problem
from models.records import Fit
from tests.support.engine.asking import client_of
from tests.support.engine.scripted_host import ScriptedHost, joined, told

MB = 1_000_000


class ScriptedChild(EngineChild):
    """An engine in this event loop. Attributes: `lives`, how often it was started; `host`, the
    newest; `gate`: it is loaded once this is set; `problem`: why it cannot be loaded."""

    def __init__(self, link, load, *, play=told):
        super().__init__(link, load)
        self._play = play
        self.link = link
        self.host = ScriptedHost(play)
        self.lives = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.problem = None

    async def run(self, loaded):
        self.lives += 1
        await self.gate.wait()
        if self.problem is not None:
            raise self.problem
        self.host = ScriptedHost(self._play)
        async with joined(self.link, self.host):
            await self.link.load(self.load)
            loaded.set_result(None)
            await asyncio.Event().wait()


class MadeUpRoom(Room):
    """A machine with `total` MB. A pair takes what `sizes` say of its target, in MB, and 100 kB for
    its answers."""

    def __init__(self, total, sizes):
        super().__init__()
        self.total, self.sizes = total, sizes

    async def taken(self, pair):
        weights = self.sizes.get(pair.target)
        return None if weights is None else _fit(weights * MB)

    async def require(self, pair, *, staying, leaving=()):
        free = self.total * MB - sum(fit.needed_bytes for fit in staying)
        needed = _fit(self.sizes[pair.target] * MB).needed_bytes
        if needed > free:
            raise Problem(f"It needs {needed}, and {free} are available.", "Choose a smaller one.")


def _fit(weights):
    """The memory of a pair with 100 tokens of 1 kB each."""
    return Fit("", "", 100, weights, 100_000, 0, 0, 0, 0, 0, True, "")


class Pooled:
    """A pool, a client of its server, and its children by name."""

    def __init__(self, pool, client, children):
        self.pool, self.client, self.children = pool, client, children

    async def asked(self, model, said="hello", **more):
        """The response to a chat with a model."""
        body = {"messages": [{"role": "user", "content": said}], **more}
        named = {} if model is None else {"model": model}
        return await self.client.post("/v1/chat/completions", json={**named, **body})

    @property
    def loaded(self):
        """The models that are loaded now."""
        return [each.name for each in self.pool.statuses if each.state == "loaded"]


@asynccontextmanager
async def pooled(
    *names, room=None, play=told, window=None, aliases=None, keep_seconds=float("inf")
):
    """A server of these models, none of which is loaded; `window`: with its engine as the first."""
    children = {}
    pairs = [] if window is None else [Pair(window)]
    for name in names:
        link = EngineLink()
        children[name] = ScriptedChild(link, Load(name, f"/models/{name}"), play=play)
        pairs.append(Pair(link, children[name], name=name, keep_seconds=keep_seconds))
    pool = Pool(
        pairs,
        aliases={} if aliases is None else aliases,
        room=room or MadeUpRoom(0, {}),
        tick_seconds=0.01,
    )
    tending = asyncio.create_task(pool.tend())
    try:
        async with client_of(Service(pool)) as client:
            yield Pooled(pool, client, children)
    finally:
        tending.cancel()
        await asyncio.gather(tending, return_exceptions=True)
        await pool.close()


def sized(total, **sizes):
    """A machine with `total` MB for models of these sizes in MB."""
    return MadeUpRoom(total, {f"/models/{name}": size for name, size in sizes.items()})
