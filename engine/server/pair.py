"""A pair that a server answers with: the link to its engine, and the engine's life.

Knows the state of one pair; nothing of others, of memory, or of requests but their number.
"""

import asyncio
from math import inf
from typing import Any

from engine.process.protocol import Load, Loaded
from engine.server.child import EngineChild
from engine.server.link import EngineLink
from engine.server.status import ModelState
from engine.server.target import name_of
from models.records import Fit


class Pair:
    """A pair, and the link to its engine.

    Attributes: `users`, the requests that need it now; `used`, when the last request ended, by the
    loop's clock; `keep_seconds`, how long it then stays loaded; `fit`, the memory that it takes
    while it is loaded, None where that is not known; `measured`, the loaded pair that `fit` is of;
    `loading`, its newest load.
    """

    def __init__(
        self,
        link: EngineLink,
        child: EngineChild | None = None,
        *,
        name: str = "",
        keep_seconds: float = inf,
    ) -> None:
        """Without a `child` the engine belongs to another program, which chooses the pair.
        Without a `name` the target's is used."""
        self.link, self.child = link, child
        self.keep_seconds = keep_seconds
        self.users, self.used = 0, 0.0
        self.fit: Fit | None = None
        self.measured: Loaded | None = None
        self.loading: asyncio.Task[None] | None = None
        self._name = name
        self._life: asyncio.Task[None] | None = None  # of the child

    @property
    def content(self) -> Load | Loaded | None:
        """The pair that is loaded or will be; None if another program decides that later."""
        return self.child.load if self.child else self.link.loaded

    @property
    def target(self) -> str:
        """The target's folder; "" without a pair."""
        return self.content.target if self.content else ""

    @property
    def name(self) -> str:
        """The name that clients use; "" without a pair."""
        return self._name or (name_of(self.target) if self.target else "")

    @property
    def state(self) -> ModelState:
        """Whether it can answer."""
        if self.link.loaded is not None:
            return "loaded"
        return "loading" if self.begins or self.alive else "not loaded"

    @property
    def begins(self) -> bool:
        """Whether it is being loaded."""
        return self.loading is not None and not self.loading.done()

    @property
    def expires(self) -> float:
        """When it is unloaded if no request comes before, by the loop's clock."""
        return inf if self.users else self.used + self.keep_seconds

    @property
    def alive(self) -> bool:
        """Whether it has an engine of its own, which may be about to start again."""
        return self._life is not None and not self._life.done()

    async def start(self) -> None:
        """Start its engine; returns once that can answer. Raises Problem."""
        assert self.child is not None
        loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self.child.run(loaded))
        self._life.add_done_callback(retrieve)
        try:
            await asyncio.wait((self._life, loaded), return_when=asyncio.FIRST_COMPLETED)
            if self._life.done():
                self._life.result()
        except BaseException:
            loaded.cancel()
            await self.stop()
            raise

    async def stop(self) -> None:
        """End its engine. The next request loads the pair again."""
        life, self._life, self.loading = self._life, None, None
        self.fit, self.measured = None, None
        if life is not None:
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)


def retrieve(task: asyncio.Task[Any]) -> None:
    """Mark a task's exception as seen, as nothing awaits the task any more."""
    if not task.cancelled():
        task.exception()
