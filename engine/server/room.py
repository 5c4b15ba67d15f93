"""Whether the machine has memory for a pair, by the numbers of `models.memory.fit`.

Knows folders and sizes, but neither which pairs are loaded nor any request.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from engine.process.protocol import Load, Loaded
from models.errors import Problem
from models.installed.resolve import heaviest, resolve_drafters, resolve_target
from models.memory.fit import DEFAULT_CONTEXT, fit, require_fit
from models.memory.machine import Machine, this_machine
from models.memory.model_size import ModelSize, weigh
from models.records import Fit

Sizes = tuple[ModelSize, ModelSize | None]


class Room:
    """The memory of this machine. Weighs each pair once."""

    def __init__(self, machine: Callable[[], Machine] = this_machine) -> None:
        self._machine = machine
        self._sizes: dict[tuple[str, str, int], Sizes | None] = {}

    async def taken(self, pair: Load | Loaded) -> Fit | None:
        """Return the memory that a loaded pair takes; None if its size is not known."""
        if (sizes := await self._weighed(pair)) is None:
            return None
        machine = (await asyncio.to_thread(self._machine)).usual
        asked = _context(pair)
        context = min(asked, sizes[0].shape.context_length or asked)
        return fit(*sizes, context=context, machine=machine, cache_bits=_bits(pair))

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
            context=_context(pair),
            cache_bits=_bits(pair),
        )

    async def _weighed(self, pair: Load | Loaded) -> Sizes | None:
        """The sizes of a target and of its heaviest drafter; None where they are not known, or of
        another Mac too."""
        if pair.macs.hosts:
            return None
        key = pair.target, pair.drafter, pair.memory.drafter_bits
        if key not in self._sizes:
            self._sizes[key] = await asyncio.to_thread(partial(_weigh, *key))
        return self._sizes[key]


def _weigh(target: str, drafter: str, bits: int) -> Sizes | None:
    try:
        folder = resolve_target(target)
        sizes = weigh(folder), heaviest(resolve_drafters(drafter, folder, bits=bits))
        fit(*sizes, context=DEFAULT_CONTEXT, machine=this_machine())
    except (Problem, OSError):
        return None  # loading reports the problem
    return sizes


def _context(pair: Load | Loaded) -> int:
    return pair.memory.context or DEFAULT_CONTEXT


def _bits(pair: Load | Loaded) -> int | None:
    return pair.memory.cache_bits or None
