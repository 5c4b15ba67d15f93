"""MLX's CPU backend, as `engine.backend` describes devices."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.utils import dequantize_model

from engine.backend import Backend, Held, StandIn
from engine.cpu import exponentials
from engine.cpu.blas import choose_blas, keep_narrow
from engine.cpu.rotary import with_rotary
from engine.cpu.trees import attend_exactly
from engine.tree import Tree

_FIRST_ROWS, _FEWEST_ROWS = 64, 32


class TimedChunks:
    """Chooses the rows of a chunk so that it takes a wanted time: the user can see the progress of
    a prefill, and stop it.

    Attribute: `rows` of the next chunk, at most `most`.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.rows = _FIRST_ROWS

    def read(self, rows: int, seconds: float, wanted: float) -> None:
        """Adapt `rows` to the last chunk, whose `rows` took `seconds` in place of `wanted`."""
        if seconds > wanted:
            self.rows = max(_FEWEST_ROWS, rows // 2)
        elif seconds < wanted / 2:
            self.rows = min(self._most, max(self.rows, 2 * rows))


@dataclass(frozen=True, slots=True)
class CpuBackend(Backend):
    """Computes what MLX computes slowly on a CPU, and expands weights: there each row of a
    quantized product costs the same."""

    def softmax(self, scores: mx.array) -> mx.array:
        return exponentials.softmax(scores)

    def log_mass(self, scores: mx.array) -> mx.array:
        return exponentials.log_mass(scores)

    def stand_ins(self, weights_per_layer: float) -> Mapping[str, StandIn]:
        return exponentials.stand_ins(weights_per_layer)

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
        if as_chain is None:
            return attention(queries, keys[0], values[0], mask=own, **options)
        return attend_exactly(
            tree, attention, queries, keys, values, own=own, as_chain=as_chain, **options
        )

    def chunks(self, most: int) -> TimedChunks:
        return TimedChunks(most)

    def prepare(self, network: nn.Module, *, bits: int = 16, like: mx.Dtype | None = None) -> None:
        """Convert all weights of a network to float32, in place; its rotary positions are ours."""
        with_rotary(network)
        network.set_dtype(mx.float32)  # scales first, so that weights are expanded exactly
        dequantize_model(network)
        network.set_dtype(mx.float32)  # microscaled weights are expanded to bfloat16

    def narrow(self, network: nn.Module) -> None:
        """Round the matrices to bfloat16, and keep narrow copies of them: the cost of a drafted
        token is the time to read them."""
        for module in network.modules():
            if isinstance(module, nn.Linear):
                module.weight = module.weight.astype(mx.bfloat16).astype(mx.float32)
                mx.eval(module.weight)
                keep_narrow(module.weight)


_LIBRARY = choose_blas()
CPU = CpuBackend(
    "CPU",
    beside_host=False,
    exact_rows=True,
    expands=True,
    matrices=str(_LIBRARY),
    threads=_LIBRARY.threads,
    slow_rows=_LIBRARY.slow,
)
