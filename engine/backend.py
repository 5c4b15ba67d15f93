"""What the rest of the engine may know of the device that a process computes on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx
import mlx.nn as nn

from engine.quantized import hold_in
from engine.tree import Tree

StandIn = Callable[[Callable[..., mx.array]], Callable[..., mx.array]]
"""Takes a function and returns its replacement."""

Held = tuple[Any, int]
"""A cache's keys or values, (..., places, dim), and the place where a pass's rows begin."""


class Chunks(Protocol):
    """Chooses the rows of a prompt's next chunk by the time of the last one."""

    rows: int

    def read(self, rows: int, seconds: float, wanted: float) -> None:
        """Adapt `rows` to the last chunk, whose `rows` took `seconds` in place of `wanted`."""


@dataclass(frozen=True, slots=True)
class Backend:
    """A Mac's GPU, which computes everything by MLX's own functions. `engine.cpu.backend` overrides
    what MLX's CPU backend does slowly.

    name: for the user, and to tell measurements and stored files of different devices apart.
    beside_host: whether the device works while the host goes on. The CPU backend does nearly all of
        the work before it returns, so results must be fetched before it gets more work.
    exact_rows: whether a pass gives a row the very bits that the row would have got alone. Kernels
        of a GPU round by the number of rows.
    expands: whether weights are expanded to float32.
    matrices, threads: the library that multiplies matrices on the CPU, and its threads.
    slow_rows: whether a pass over several rows costs as much as that many passes.
    """

    name: str = "GPU"
    beside_host: bool = True
    exact_rows: bool = False
    expands: bool = False
    matrices: str = "Accelerate"
    threads: int = 0
    slow_rows: bool = False

    def softmax(self, scores: mx.array) -> mx.array:
        """Return the probabilities over a whole vocabulary, the last axis of `scores`, float32."""
        return mx.softmax(scores, axis=-1, precise=True)

    def log_mass(self, scores: mx.array) -> mx.array:
        """Return the logarithm of the sum of each row's exponentials: (rows, n) to (rows,)."""
        return mx.logsumexp(scores, axis=-1)

    def stand_ins(self, weights_per_layer: float) -> Mapping[str, StandIn]:
        """Return what replaces functions of mlx-lm in a pass, by their names."""
        return {}

    def attend_tree(
        self,
        tree: Tree,
        attention: Callable[..., mx.array],
        queries: mx.array,
        keys: Held,
        values: Held,
        *,
        own: mx.array,
        as_chain: mx.array | None,
        **options: Any,
    ) -> mx.array:
        """Return the result of `attention` for the rows of `tree`, (1, heads, rows, dim).

        `own` (rows, places): the places that each row sees. `as_chain`: the same for a chain; given
        where rows are exact.
        """
        return attention(queries, keys[0], values[0], mask=own, **options)

    def chunks(self, most: int) -> Chunks | None:
        """Return what chooses the rows of a prompt's chunks, at most `most`. None if each chunk has
        `most`: where kernels round by the number of rows, these must not depend on a clock."""
        return None

    def prepare(self, network: nn.Module, *, bits: int = 16, like: mx.Dtype | None = None) -> None:
        """Hold a network as this device multiplies fastest: matrices that are not packed in `bits`
        bits, all other numbers in the type `like` if there is one."""
        if like is not None:
            network.set_dtype(like)
        hold_in(bits, network)

    def narrow(self, network: nn.Module) -> None:
        """Keep half of the bits of a drafter's expanded matrices, if that is faster."""
