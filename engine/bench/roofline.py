"""How far decoding is from what this machine's memory allows.

A pass over one row, or over a few, reads every weight and everything that is cached once: the
bytes over the bandwidth are the shortest time that it can take. The bandwidth is measured, not
taken from a data sheet. Knows models as weights in memory; nothing of drafting.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from engine.decoder import Decoder

_PROBE_BYTES = 256 << 20  # far more than any cache on the chip holds
_PROBE_TIMES = 7


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Bytes a second, and the operation that came nearest to what the memory can do."""

    bytes_per_second: float
    probe: str


@dataclass(frozen=True, slots=True)
class Roofline:
    """What one of the target's passes reads, and how fast this machine's memory is.

    `weight_bytes`: weights as they are held in memory. `cache_bytes`: caches once `depth` tokens
    are read, about the middle of the answers.
    """

    bandwidth: Bandwidth
    weight_bytes: int
    cache_bytes: int
    depth: int

    @property
    def pass_bytes(self) -> int:
        """What a pass reads."""
        return self.weight_bytes + self.cache_bytes

    @property
    def passes_per_second(self) -> float:
        """At most, and so the most tokens a second of plain decoding."""
        return self.bandwidth.bytes_per_second / self.pass_bytes

    def share(self, *, passes: int, seconds: float) -> float | None:
        """Of the bandwidth, what `passes` in so many seconds used; None without time."""
        return passes / seconds / self.passes_per_second if seconds > 0 else None


def measure_roofline(decoder: Decoder, depth: int, *, probe_bytes: int = _PROBE_BYTES) -> Roofline:
    """For the model of `decoder`, which must be empty and is empty afterwards."""
    return Roofline(
        measure_bandwidth(probe_bytes),
        weight_bytes(decoder.model),
        cache_bytes(decoder, depth),
        depth,
    )


def reads_all_weights(model: nn.Module) -> bool:
    """Whether a pass reads every weight: a mixture of experts reads those of its experts only."""
    return not any("Switch" in type(module).__name__ for module in model.modules())


def weight_bytes(model: nn.Module) -> int:
    """The weights that a pass reads, in bytes.

    Of an embedding table a pass reads a few rows, unless it is the output layer as well.
    """
    tied = not any("lm_head" in module for module in model.modules())
    tables = [
        module
        for module in model.modules()
        if isinstance(module, nn.Embedding | nn.QuantizedEmbedding)
    ]
    return _own_bytes(model) - (0 if tied else sum(map(_own_bytes, tables)))


def _own_bytes(module: nn.Module) -> int:
    arrays: list[tuple[str, mx.array]] = tree_flatten(module.parameters())  # type: ignore[assignment]
    return sum(array.nbytes for _, array in arrays)


def cache_bytes(decoder: Decoder, depth: int) -> int:
    """What the caches hold of `depth` tokens, room for more not counted."""
    for _ in decoder.prefill([0] * (depth + 1)):
        pass
    held = sum(map(_used_bytes, decoder.timeline.layers))
    decoder.rewind(0)
    return held


def _used_bytes(layer: Any) -> int:
    """Of one layer's cache, which may be longer than what is in it."""
    keys, used = getattr(layer, "keys", None), getattr(layer, "offset", None)
    if isinstance(keys, mx.array) and used is not None:
        return int(layer.nbytes * min(1.0, used / keys.shape[2]))
    return int(layer.nbytes)


def measure_bandwidth(probe_bytes: int = _PROBE_BYTES) -> Bandwidth:
    """What this machine's memory gives: the better median of two operations that stream.

    A product of a row and a matrix is what decoding does; a sum reads with other cores or
    kernels. Neither is the quicker everywhere.
    """
    kind = mx.float32 if mx.default_device() == mx.cpu else mx.float16
    width = max(64, int((probe_bytes / kind.size) ** 0.5) // 64 * 64)
    matrix = mx.full((width, width), 0.5, dtype=kind)
    row = mx.full((1, width), 0.5, dtype=kind)
    mx.eval(matrix, row)
    probes: dict[str, Callable[[], mx.array]] = {
        "row times matrix": lambda: row @ matrix.T,
        "sum": lambda: mx.sum(matrix),
    }
    speeds = [Bandwidth(matrix.nbytes / _median_seconds(run), name) for name, run in probes.items()]
    return max(speeds, key=lambda bandwidth: bandwidth.bytes_per_second)


def _median_seconds(run: Callable[[], mx.array]) -> float:
    mx.eval(run())  # kernels are built, memory is there
    times = []
    for _ in range(_PROBE_TIMES):
        began = perf_counter()
        mx.eval(run())
        times.append(perf_counter() - began)
    return max(statistics.median(times), 1e-9)
