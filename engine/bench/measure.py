"""Measures passes by rows, and the memory's speed, apart from any answer.

The cost of a pass over several rows is the pair's calibration (`engine.draft_length.calibrate`),
from which `PassCurve` computes the possible gain of drafting.

A pass over one or a few rows reads every weight and every cached byte once: bytes / bandwidth is
its shortest time. The bandwidth is measured here, not taken from a data sheet.
"""

import resource
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from engine.core.decoder import Decoder
from engine.device import backend
from engine.draft_length.costs import Calibration
from models.speed import RowCurve

# Far more than any cache on the chip holds; for a GPU so much that its launch takes no share.
_PROBE_BYTES = {False: 256 << 20, True: 2 << 30}  # by whether the device works while the host does
_PROBE_TIMES = 7


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The seconds of a pass over `rows` rows."""

    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PassCurve:
    """The seconds of passes after `depth` tokens, by rows, from 1 on.

    `step_seconds`: of drafting one token with `drafter`, if that was measured.
    """

    depth: int
    points: tuple[CurvePoint, ...]
    drafter: str = ""
    step_seconds: float | None = None

    def relative(self, rows: float) -> float:
        """The cost of a pass over `rows` rows / that over one row, interpolated linearly."""
        return self.by_rows.cost(rows)

    def best(self, *, acceptance: float) -> tuple[int, float]:
        """The draft length (0 or more) with the largest speed-up, and that speed-up."""
        step = (self.step_seconds or 0.0) / self.points[0].seconds
        longest = self.points[-1].rows - 1
        return self.by_rows.best(acceptance=acceptance, step=step, longest=longest)

    @property
    def by_rows(self) -> RowCurve:
        """The costs without their seconds."""
        first = self.points[0].seconds
        return RowCurve(tuple((point.rows, point.seconds / first) for point in self.points))


def curve_of(calibration: Calibration, drafters: Sequence[str]) -> PassCurve:
    """A pair's calibration near the beginning of a text, with the most expensive of `drafters`."""
    passes = calibration.passes
    one_token = {
        each.drafter: each.start_seconds + each.step_seconds
        for each in calibration.drafts
        if each.drafter in drafters
    }
    drafter = max(one_token, key=lambda name: one_token[name], default="")
    points = tuple(map(CurvePoint, passes.rows, passes.seconds))
    return PassCurve(passes.context, points, drafter, one_token.get(drafter))


@contextmanager
def at_depth(decoder: Decoder, depth: int) -> Iterator[None]:
    """Run the block with `depth` random tokens in `decoder`, which is empty before and
    afterwards."""
    ids = mx.random.randint(0, decoder.vocabulary, (depth + 1,), key=mx.random.key(0))
    tokens: list[int] = ids.tolist()  # type: ignore[assignment]  # one list, as there is one axis
    for _ in decoder.prefill(tokens):
        pass
    try:
        yield
    finally:
        decoder.rewind(0)


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """The memory's measured bandwidth, and the operation (`probe`) that reached it."""

    bytes_per_second: float
    probe: str


@dataclass(frozen=True, slots=True)
class Roofline:
    """The bytes that a pass of the target reads, and the bandwidth of this machine's memory.

    `weight_bytes`: of the weights as they are held in memory. `cache_bytes`: of the caches after
    `depth` tokens, about the middle of the answers.
    """

    bandwidth: Bandwidth
    weight_bytes: int
    cache_bytes: int
    depth: int

    @property
    def pass_bytes(self) -> int:
        """The bytes that a pass reads."""
        return self.weight_bytes + self.cache_bytes

    @property
    def passes_per_second(self) -> float:
        """The upper limit of passes a second, and of plain tokens a second."""
        return self.bandwidth.bytes_per_second / self.pass_bytes

    def share(self, *, passes: int, seconds: float) -> float | None:
        """The share of the bandwidth that `passes` in `seconds` used; None for 0 seconds."""
        return passes / seconds / self.passes_per_second if seconds > 0 else None


def measure_roofline(decoder: Decoder, *, probe_bytes: int | None = None) -> Roofline:
    """Measure the roofline for the model of `decoder`, after the tokens that it holds."""
    return Roofline(
        measure_bandwidth(probe_bytes),
        weight_bytes(decoder.model),
        cache_bytes(decoder),
        decoder.length,
    )


def reads_all_weights(model: nn.Module) -> bool:
    """Whether a pass reads every weight; a mixture of experts reads only some experts'."""
    return not any("Switch" in type(module).__name__ for module in model.modules())


def weight_bytes(model: nn.Module) -> int:
    """The bytes of weights that a pass reads.

    A pass reads only a few rows of an embedding table, unless it is the output layer too.
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


def cache_bytes(decoder: Decoder) -> int:
    """The bytes of the cached tokens, without reserved room."""
    return sum(map(_used_bytes, decoder.timeline.layers))


def _used_bytes(layer: Any) -> int:
    """The used bytes of one layer's cache, which may have reserved room."""
    keys, used = getattr(layer, "keys", None), getattr(layer, "offset", None)
    if isinstance(keys, mx.array) and used is not None:
        return int(layer.nbytes * min(1.0, used / keys.shape[2]))
    return int(layer.nbytes)


def measure_bandwidth(probe_bytes: int | None = None) -> Bandwidth:
    """Measure this machine's memory: the better median of two operations that stream.

    Decoding multiplies a row and a matrix; a sum reads with other cores or kernels. Neither is
    faster everywhere.
    """
    kind = mx.float32 if backend().expands else mx.float16
    probe_bytes = probe_bytes or _PROBE_BYTES[backend().beside_host]
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


def peak_rss_bytes() -> int:
    """The peak memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
