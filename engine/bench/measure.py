"""What is measured apart from any answer: passes by rows, judging, and the memory's speed.

What a pass over several rows costs is the pair's calibration (`engine.draft_length.calibrate`),
from which `PassCurve` computes what drafting can gain.

Judging a draft happens within a pass, where no clock can see it. So the engine's own loop runs on
a model that answers at once, with logits that are there already: what it then calls verifying is
the sampler chain, the rule and the replacement's draw. Subtracted from a real pass this is an
estimate, and reports say so.

A pass over one row, or over a few, reads every weight and everything that is cached once: the
bytes over the bandwidth are the shortest time that it can take. The bandwidth is measured here,
not taken from a data sheet.
"""

import resource
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from engine.accept import AcceptanceRule
from engine.decoder import Decoder
from engine.device import backend
from engine.draft_length.calibrate import calibrate
from engine.draft_length.costs import Calibration
from engine.draft_length.policy import Fixed
from engine.drafters import NoDrafter
from engine.drafters.model import ModelDrafter
from engine.request import Sampling
from engine.speculate import RoundVerdict, Task, speculate

_LENGTHS = (1, 8)  # of the drafts that are judged, for a line through both
_ROUNDS = 12
_WARM_UP = 3
# Far more than any cache on the chip holds, and so much that a GPU takes long beside its launch.
_PROBE_BYTES = {False: 256 << 20, True: 2 << 30}  # by whether the device works beside the host
_PROBE_TIMES = 7


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """What a pass over `rows` rows takes."""

    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PassCurve:
    """What passes cost behind `depth` tokens, by rows, from 1 on. `step_seconds`: what drafting one
    token with `drafter` takes, where that was measured."""

    depth: int
    points: tuple[CurvePoint, ...]
    drafter: str = ""
    step_seconds: float | None = None

    def relative(self, rows: float) -> float:
        """The cost of a pass over `rows` rows, in passes over one row, interpolated linearly."""
        known = [(point.rows, point.seconds / self.points[0].seconds) for point in self.points]
        if len(known) == 1:
            return rows
        place = next((i for i, (r, _) in enumerate(known[1:-1], 1) if rows <= r), len(known) - 1)
        (r0, c0), (r1, c1) = known[place - 1], known[place]
        return c0 + (c1 - c0) * (rows - r0) / (r1 - r0)

    def gain(self, length: int, *, acceptance: float) -> float:
        """The speed-up of drafts of `length` whose tokens are each accepted with this chance."""
        committed = sum(acceptance**i for i in range(length + 1))
        step = (self.step_seconds or 0.0) / self.points[0].seconds
        return committed / (self.relative(length + 1) + length * step)

    def best(self, *, acceptance: float) -> tuple[int, float]:
        """The draft length, possibly 0, with the largest speed-up, and that speed-up."""
        lengths = range(self.points[-1].rows)
        gains = {length: self.gain(length, acceptance=acceptance) for length in lengths}
        length = max(lengths, key=lambda each: gains[each])
        return length, gains[length]


def curve_of(calibration: Calibration, drafters: Sequence[str]) -> PassCurve:
    """A pair's calibration near the beginning of a text, with the most expensive of `drafters`."""
    passes = calibration.passes[0]
    one_token = {
        each.drafter: each.start_seconds + each.step_seconds
        for each in calibration.drafts
        if each.drafter in drafters
    }
    drafter = max(one_token, key=lambda name: one_token[name], default="")
    points = tuple(map(CurvePoint, passes.rows, passes.seconds))
    return PassCurve(passes.context, points, drafter, one_token.get(drafter))


@contextmanager
def at_depth(decoder: Decoder, depth: int) -> Iterator[list[int]]:
    """Have `decoder`, which is empty before and after, hold `depth` tokens meanwhile: random ones,
    which are given with the next one."""
    ids = mx.random.randint(0, decoder.vocabulary, (depth + 1,), key=mx.random.key(0))
    tokens: list[int] = ids.tolist()  # type: ignore[assignment]  # one list, as there is one axis
    for _ in decoder.prefill(tokens):
        pass
    try:
        yield tokens
    finally:
        decoder.rewind(0)


def measure_curve(decoder: Decoder, tokens: Sequence[int]) -> PassCurve | None:
    """Behind these tokens, of which `decoder` holds all but the last. Takes a few seconds; None
    where timings varied too much."""
    calibration = calibrate(decoder, NoDrafter(), tokens)
    return None if calibration is None else curve_of(calibration, ())


@dataclass(frozen=True, slots=True)
class AcceptCost:
    """What judging costs at this temperature: seconds for each round, and for each of its rows."""

    temperature: float
    round_seconds: float
    row_seconds: float

    def seconds(self, *, rounds: int, rows: int) -> float:
        """What judging so many rounds costs that have so many rows in all."""
        return rounds * self.round_seconds + rows * self.row_seconds


class _AnswersAtOnce:
    """A model without layers: row i of any pass is row i of the given logits."""

    def __init__(self, logits: mx.array) -> None:
        self._logits = logits
        self.layers: list[Any] = []

    def __call__(self, tokens: mx.array, cache: object = None) -> mx.array:
        return self._logits[None, : tokens.shape[1]]

    def modules(self) -> list[nn.Module]:
        return []

    def parameters(self) -> dict[str, mx.array]:
        return {}


def accept_cost(
    *, vocabulary: int, temperature: float, rule: AcceptanceRule, dtype: mx.Dtype
) -> AcceptCost:
    """Measured on random logits of this `dtype` and width."""
    logits = mx.random.normal((max(_LENGTHS) + 2, vocabulary), key=mx.random.key(0)).astype(dtype)
    mx.eval(logits)
    sampling = Sampling(temperature=temperature, seed=0)
    times = [_round_seconds(logits, length, sampling, rule) for length in _LENGTHS]
    row = max(0.0, times[1] - times[0]) / (_LENGTHS[1] - _LENGTHS[0])
    return AcceptCost(temperature, max(0.0, times[0] - (_LENGTHS[0] + 1) * row), row)


def _round_seconds(
    logits: mx.array, length: int, sampling: Sampling, rule: AcceptanceRule
) -> float:
    model = cast(nn.Module, _AnswersAtOnce(logits))
    target = Decoder(model)
    drafter = ModelDrafter(Decoder(model), vocabulary=target.vocabulary)
    task = Task(
        sampling=sampling,
        seed=0,
        max_tokens=_ROUNDS * (length + 1),
        ends=frozenset(),
        accept=rule,
    )
    seconds = [
        item.verify_seconds
        for item in speculate(target, drafter, Fixed(length), [0, 0], task)
        if isinstance(item, RoundVerdict) and len(item.p) == length
    ]
    return statistics.median(seconds[_WARM_UP:] or seconds)


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """What the memory gives, and the operation that read it fastest."""

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


def measure_roofline(decoder: Decoder, *, probe_bytes: int | None = None) -> Roofline:
    """For the model of `decoder`, behind what it holds."""
    return Roofline(
        measure_bandwidth(probe_bytes),
        weight_bytes(decoder.model),
        cache_bytes(decoder),
        decoder.length,
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


def cache_bytes(decoder: Decoder) -> int:
    """What the caches hold, room for more not counted."""
    return sum(map(_used_bytes, decoder.timeline.layers))


def _used_bytes(layer: Any) -> int:
    """Of one layer's cache, which may be longer than what is in it."""
    keys, used = getattr(layer, "keys", None), getattr(layer, "offset", None)
    if isinstance(keys, mx.array) and used is not None:
        return int(layer.nbytes * min(1.0, used / keys.shape[2]))
    return int(layer.nbytes)


def measure_bandwidth(probe_bytes: int | None = None) -> Bandwidth:
    """What this machine's memory gives: the better median of two operations that stream.

    A product of a row and a matrix is what decoding does; a sum reads with other cores or
    kernels. Neither is the quicker everywhere.
    """
    kind = mx.float32 if backend().own_functions else mx.float16
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
    """The most memory that this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
