"""A pair that a server answers with: the link to its engine, the engine's life, and the memory that
it takes, by the numbers of `models.memory.fit`.

Knows the state of one pair; neither which others are loaded nor any request but their number.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import Any

from engine.process.protocol import Load, Loaded
from engine.server.child import EngineChild
from engine.server.link import EngineLink
from engine.server.status import ModelState
from engine.server.target import name_of
from models.errors import Problem
from models.installed.resolve import heaviest, resolve_drafters, resolve_target
from models.memory.fit import DEFAULT_CONTEXT, fit, require_fit
from models.memory.machine import Machine, this_machine
from models.memory.model_size import ModelSize, weigh
from models.records import Fit

Sizes = tuple[ModelSize, ModelSize | None]


class Pair:
    """A pair, and the link to its engine.

    Attributes: `users`, the requests that need it now; `asked`, how many may ask its engine;
    `used`, when the last request ended, by the loop's clock; `keep_seconds`, how long it then stays
    loaded, until it is stopped; `fit`, the memory that it takes while it is loaded, None where that
    is not known; `measured`, the loaded pair that `fit` is of; `loading`, its newest load.
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
        self.keep_seconds = self._usual_seconds = keep_seconds
        self.users, self.asked, self.used = 0, 0, 0.0
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
        life = self._life
        return life is not None and not (life.done() or life.cancelling())

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Count a request that may ask its engine."""
        self.asked += 1
        try:
            yield
        finally:
            self.asked -= 1

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
        self.fit = self.measured = self.loading = None
        self.keep_seconds = self._usual_seconds
        if (life := self._life) is not None:
            if not life.cancelling():  # a second time would leave the process as it is
                life.cancel()
            await asyncio.wait((life,))


def retrieve(task: asyncio.Task[Any]) -> None:
    """Mark a task's exception as seen, as nothing awaits the task any more."""
    if not task.cancelled():
        task.exception()


class Room:
    """The memory of this machine. Weighs each pair until that succeeds."""

    def __init__(self, machine: Callable[[], Machine] = this_machine) -> None:
        self._machine = machine
        self._sizes: dict[tuple[str, str, int], Sizes | None] = {}

    async def taken(self, pair: Load | Loaded) -> Fit | None:
        """Return the memory that a loaded pair takes; None if its size is not known."""
        if (sizes := await self._weighed(pair)) is None:
            return None
        machine = (await asyncio.to_thread(self._machine)).usual
        asked = pair.memory.context or DEFAULT_CONTEXT
        context = min(asked, sizes[0].shape.context_length or asked)
        return fit(
            *sizes, context=context, machine=machine, cache_bits=pair.memory.cache_bits or None
        )

    async def require(
        self, pair: Load | Loaded, *, staying: Iterable[Fit], leaving: Iterable[Fit] = ()
    ) -> None:
        """Raise `Problem`, with the numbers, if a pair does not fit together with loaded pairs
        (`staying`), after others (`leaving`) are unloaded."""
        if (sizes := await self._weighed(pair)) is None:
            return
        machine = await asyncio.to_thread(self._machine)
        freed = sum(fit.held_bytes for fit in leaving)
        require_fit(
            *sizes,
            machine=machine.once_freed(freed).beside(staying),
            context=pair.memory.context or DEFAULT_CONTEXT,
            cache_bits=pair.memory.cache_bits or None,
        )

    async def _weighed(self, pair: Load | Loaded) -> Sizes | None:
        """The sizes of a target and of its heaviest drafter; None where they are not known, or of
        another Mac too."""
        if pair.macs.hosts:
            return None
        key = pair.target, pair.drafter, pair.memory.drafter_bits
        if (sizes := self._sizes.get(key)) is None:
            sizes = self._sizes[key] = await asyncio.to_thread(partial(_weigh, *key))
        return sizes


def _weigh(target: str, drafter: str, bits: int) -> Sizes | None:
    try:
        folder = resolve_target(target)
        sizes = weigh(folder), heaviest(resolve_drafters(drafter, folder, bits=bits))
        fit(*sizes, context=DEFAULT_CONTEXT, machine=this_machine())
    except (Problem, OSError):
        return None  # loading reports the problem
    return sizes
