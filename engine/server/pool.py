"""The pairs that a server answers with: links to their engines, by the names that clients use.

Knows which pair a client means, and when it is loaded and unloaded. Knows no HTTP, and nothing of
an answer.

- A pair is loaded when it is asked for, one at a time. The others answer meanwhile.
- To make room, pairs that no one uses are unloaded, the least recently used first; none for a pair
  that would not fit even then, which is refused with the numbers.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from math import inf

from engine.process.protocol import Load
from engine.request import Thinking
from engine.server.errors import Refusal, not_loaded
from engine.server.link import EngineLink
from engine.server.pair import Pair as Pair
from engine.server.pair import Room, retrieve
from engine.server.status import ModelStatus
from models.errors import Problem

_TICK_SECONDS = 1.0
_AGAIN_SECONDS = 10
_ANY = {"*": ""}  # the first pair answers requests for unknown names
_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """The pairs that clients may ask for in addition to the first: their loads, by name.

    `aliases`: names by patterns of other names, as `claude-*`; "" is the first pair's.
    `keep_seconds`: how long a pair stays loaded without a request. `thinking` and
    `thinking_budget`: of requests that have none.
    """

    loads: Mapping[str, Load] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=lambda: _ANY)
    keep_seconds: float = inf
    thinking: Thinking = ""
    thinking_budget: int | None = None


class NoRoom(Problem):
    """A pair does not fit in memory: never, or, with `again`, while other pairs are in use."""

    def __init__(self, problem: Problem, *, again: bool) -> None:
        in_use = " Other models are in use." if again else ""
        super().__init__(problem.message + in_use, problem.remedy)
        self.again = again

    @property
    def refusal(self) -> Refusal:
        """For the client."""
        refusal = Refusal(503, "insufficient_memory", str(self), "model", again=self.again)
        return replace(refusal, retry_after_seconds=_AGAIN_SECONDS) if self.again else refusal


class Pool:
    """Attribute: `pairs`. The first answers requests that name no model."""

    def __init__(
        self,
        pairs: Sequence[Pair],
        *,
        aliases: Mapping[str, str] = _ANY,
        room: Room | None = None,
        report: Callable[[str], None] = lambda line: None,
        tick_seconds: float = _TICK_SECONDS,
    ) -> None:
        """`report` is called with a line whenever a pair is loaded or unloaded."""
        self._pairs, self._aliases = tuple(pairs), aliases
        self._room, self._report = room or Room(), report
        self._tick_seconds = tick_seconds
        self._changing = asyncio.Lock()  # held while a pair is loaded or unloaded
        self._closed = False

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs, without a second one of the target that another program has loaded."""
        first, *rest = self._pairs
        return (first, *(pair for pair in rest if pair.target != first.target))

    @property
    def statuses(self) -> tuple[ModelStatus, ...]:
        """The pairs, for the user."""
        return tuple(
            ModelStatus(
                *(pair.name, pair.state, pair.fit.needed_bytes if pair.fit else 0),
                pair.link.remark if pair.state == "loaded" else "",
            )
            for pair in self.pairs
            if pair.name
        )

    def named(self, model: str) -> Pair:
        """The pair that a client calls `model`, in full, without the organization, or by an alias.
        Raises Refusal."""
        wanted = model.lower().removesuffix(":latest")
        meant = [wanted]
        meant += [
            name for alias, name in self._aliases.items() if fnmatchcase(wanted, alias.lower())
        ]
        for name in meant:
            if (pair := self._called(name.lower())) is not None:
                return pair
        known = ", ".join(filter(None, (pair.name for pair in self.pairs)))
        message = f"The model {model[:80]!r} was not found. Available: {known or 'none'}."
        raise Refusal(404, "model_not_found", message, "model")

    @asynccontextmanager
    async def using(
        self, pair: Pair, *, keep_seconds: float | None = None
    ) -> AsyncIterator[EngineLink]:
        """The link to a pair's engine, which is loaded if need be, and stays so until the end.

        `keep_seconds`: how long it stays loaded after that; None leaves it as it is. Raises
        Refusal.
        """
        pair.users += 1
        try:
            await self._get(pair)
            if keep_seconds is not None:
                pair.keep_seconds = keep_seconds
            yield pair.link
        finally:
            pair.users -= 1
            pair.used = asyncio.get_running_loop().time()

    async def load(self, pair: Pair) -> None:
        """Load a pair where it is not loaded; nothing where another decides that. Raises
        Problem."""
        if pair.child is None:
            return
        if self._closed:
            raise _closed()
        if pair.loading is None or (pair.loading.done() and not pair.alive):
            pair.loading = asyncio.create_task(self._start(pair))
            pair.loading.add_done_callback(retrieve)
        loading = pair.loading
        await asyncio.wait((loading,))  # it goes on where a client leaves
        if loading.cancelled():
            raise _closed()
        loading.result()

    async def tend(self) -> None:
        """Unload pairs whose time is over, or that no longer fit after another program has loaded a
        pair, until cancelled."""
        loop, first = asyncio.get_running_loop(), self._pairs[0]
        while True:
            await asyncio.sleep(self._tick_seconds)
            if first.child is None and await self._measure(first):
                while first.content and (idle := self._idle()):
                    if not await self._lacks(first, self._there, [first]):
                        break
                    await self._unload(idle[0], "to make room")
            for pair in self._idle():
                if loop.time() >= pair.expires or pair not in self.pairs:
                    await self._unload(pair, "as it was idle")

    async def close(self) -> None:
        """End all engines, and start none any more."""
        self._closed = True
        loads = [pair.loading for pair in self._pairs if pair.loading is not None]
        for load in loads:
            load.cancel()
        await asyncio.gather(*loads, return_exceptions=True)
        await asyncio.gather(*(pair.stop() for pair in self._pairs))

    def _called(self, name: str) -> Pair | None:
        """The pair of this name in lower case, whole or short; the first for ""."""
        names = {pair.name.lower(): pair for pair in self.pairs}
        short = [pair for whole, pair in names.items() if whole.rpartition("/")[2] == name]
        if not name:
            return self.pairs[0]
        return names.get(name) or (short[0] if len(short) == 1 else None)

    async def _get(self, pair: Pair) -> None:
        """Load a pair where it is not loaded. Raises Refusal."""
        try:
            await self.load(pair)
        except NoRoom as problem:
            raise problem.refusal from None
        except Problem as problem:
            raise Refusal(503, "model_not_loaded", str(problem), "model") from None
        if pair.link.loaded is None:
            raise not_loaded()
        await self._measure(pair)

    async def _measure(self, pair: Pair) -> bool:
        """Find out what a pair takes that is loaded. Returns whether it is a new one."""
        loaded = pair.link.loaded
        if loaded is None or pair.measured is loaded:
            return False
        pair.fit, pair.measured = await self._room.taken(loaded), loaded
        return True

    @property
    def _there(self) -> list[Pair]:
        """The pairs that take memory, as far as that is known."""
        return [pair for pair in self._pairs if pair.fit and (pair.alive or pair.link.loaded)]

    async def _start(self, pair: Pair) -> None:
        async with self._changing:
            await self._make_room(pair)
            self._report(f"Loading {pair.name}")
            await pair.start()
            pair.used = asyncio.get_running_loop().time()

    async def _make_room(self, pair: Pair) -> None:
        """Unload pairs until this one fits. Raises NoRoom if it would not. An engine that has the
        machine for itself finds that out alone."""
        for other in self._pairs:
            await self._measure(other)
        if not (there := self._there):
            return
        idle = [other for other in self._idle() if other in there]
        for count in range(len(idle) + 1):
            problem = await self._lacks(pair, there, idle[:count])
            if problem is None:
                for other in idle[:count]:
                    if other.users:  # it was asked meanwhile
                        return await self._make_room(pair)
                    self._report(f"Unloading {other.name}, to make room")
                    await other.stop()
                return
        never = await self._lacks(pair, there, there)
        assert problem is not None
        raise NoRoom(never or problem, again=never is None)

    async def _lacks(
        self, pair: Pair, there: Sequence[Pair], going: Sequence[Pair]
    ) -> Problem | None:
        """Return why a pair does not fit with the pairs in memory, after some are unloaded."""
        assert pair.content is not None
        staying = [other.fit for other in there if other.fit and other not in going]
        gone = [other.fit for other in going if other.fit]
        try:
            await self._room.require(pair.content, staying=staying, leaving=gone)
        except Problem as problem:
            return problem
        return None

    def _idle(self) -> list[Pair]:
        """The pairs that can be unloaded, the least recently used first."""
        alive = (pair for pair in self._pairs if pair.alive)
        idle = (pair for pair in alive if not pair.users and not pair.begins)
        return sorted(idle, key=lambda pair: pair.used)

    async def _unload(self, pair: Pair, why: str) -> None:
        async with self._changing:
            if pair.alive and not pair.users:  # it may have been asked meanwhile
                self._report(f"Unloading {pair.name}, {why}")
                await pair.stop()


def _closed() -> Problem:
    return Problem("The server is ending.", "Ask again once it is started again.")


def keep_seconds(text: str) -> float:
    """The seconds that the user or a client wrote, as Ollama has it: "10m", "1h30m", or a number
    of seconds; below 0 is without an end. Raises Problem."""
    unsigned = text.strip().removeprefix("-")
    parts = _PART.findall(unsigned)
    if not parts or _PART.sub("", unsigned):
        message = f"{text[:20]!r} is not a duration."
        raise Problem(message, "Write 30s, 10m or 2h; 0 unloads at once, -1 never.")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    return inf if text.strip().startswith("-") else seconds
