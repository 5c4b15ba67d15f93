"""Finds out on this machine whether a loaded pair's passes are exact: whether each row of a pass
has the very bits that it has alone.

On the CPU backend it has. On a GPU that depends on the chip, on MLX and on the layers, so rows of
made-up text are read one by one and in passes, and all bits are compared, of every layer's states
and of the logits. The result is stored with the calibrations.
"""

import hashlib
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from time import perf_counter
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from engine.conversation.loading import LoadedModel
from engine.core import cache_arrays
from engine.core.cache import QuantizedCaches
from engine.core.decoder import Decoder
from engine.device import backend, fetch, free_memory, unproven, wait
from engine.draft_length.calibrations import CalibrationStore, calibration_folder
from engine.exactness import COSTS, Exactness, Promise, Wish
from engine.metal import alone, few_rows
from engine.metal.trial import kernels_for, same_bits
from models.limits import FEW_ROWS

_DEPTHS = (40, 1_100, 4_200)  # MLX attends in another way from 1,024 keys on, some chips from 4,096
_TIMED_ROWS = (5, FEW_ROWS)
_TIMES = 3
_NEVER = 1e9  # seconds
_STALLED = 3.0  # times as long as before


@dataclass(frozen=True, slots=True)
class Seen:
    """What one way of making passes showed. `rows`: the most in a pass that are exact; `why` no
    more are. `seconds` of passes over drafts, in parts of `rows`; `whole`: in one
    part each."""

    rows: int = 1
    why: str = "the check did not come back"
    seconds: float = _NEVER
    whole: float = _NEVER


@dataclass(frozen=True, slots=True)
class Way:
    """A way of making passes: its name, and the shapes that our kernel multiplies. `by_rows`:
    whether what else rounds by the number of rows is computed row by row."""

    name: str
    shapes: tuple[few_rows.Shape, ...] = ()
    by_rows: bool = True

    def install(self, model: nn.Module) -> None:
        """Make passes of `model` in this way, and in no other."""
        few_rows.remove(model)
        if self.shapes:
            few_rows.install(model, self.shapes)
        if self.by_rows:
            alone.install(model)


_STOCK = Way("MLX's own kernels", by_rows=False)


def settle(
    target: LoadedModel,
    wish: Wish,
    *,
    store: CalibrationStore | None = None,
    quantized: QuantizedCaches | None = None,
    again: bool = False,
) -> Exactness:
    """Find out how exact passes can be, or read it from `store`, by default the calibrations'; make
    them so at no cost for "auto", at the least for "on". `again`: try again what did not come back.
    Takes seconds the first time. Nothing else may read with the model meanwhile."""
    promise = target.promise
    promise.now, promise.wish, promise.ours = unproven().now, wish, False
    if wish == "off" or backend().exact_rows:
        pass
    elif quantized is not None or not target.alone:
        _promise_nothing(target, "the caches are quantized" if target.alone else "several Macs")
    else:
        _check(target, store or CalibrationStore(calibration_folder()), again)
    return promise.now


def _promise_nothing(target: LoadedModel, why: str, *, kernel: str = "") -> None:
    """Make passes as MLX does: over single rows, where they must be exact."""
    promise = target.promise
    strict = Exactness(1, "one row at a time", kernel=kernel)
    promise.now = strict if promise.wish == "on" else Exactness(0, why=why, kernel=kernel)
    promise.ours = False
    _STOCK.install(target.model)


def _check(target: LoadedModel, store: CalibrationStore, again: bool) -> None:
    model, strict = target.model, target.promise.wish == "on"
    machine = {
        "chip": str(mx.device_info()["device_name"]),
        "system": platform.mac_ver()[0] or platform.release(),
        "mlx": mx.__version__,  # type: ignore[attr-defined] # its stubs lack it
    }
    shapes, words = kernels_for(model, store=store, machine=machine, slow=strict, again=again)
    ways = [_STOCK, *[Way("our kernel for few rows", shapes)] * bool(shapes)]
    if strict:
        ways.append(Way("MLX's kernels, some row by row"))
    seen = {way: _seen(target, way, store, machine, again) for way in ways}
    best = min(ways, key=lambda way: seen[way].seconds)
    rows, whole = seen[best].rows, seen[_STOCK].whole
    free = seen[best].seconds <= COSTS * whole < _NEVER
    failed = {seen[way].why for way in ways if way.shapes} - {""}
    words = f"our kernel: {'; '.join([words, *failed])}"
    if seen[best].whole == _NEVER or not (strict or free):
        reasons = seen[_STOCK].why, alone.cannot_be_exact(model)
        _promise_nothing(target, "; ".join(filter(None, reasons)), kernel=words)
        return
    best.install(model)
    how = f"passes over up to {rows} rows, by {best.name}" if rows > 1 else "one row at a time"
    target.promise.now = Exactness(rows, how, cost=seen[best].seconds / whole, kernel=words)
    target.promise.ours = bool(best.shapes)


def _seen(
    target: LoadedModel, way: Way, store: CalibrationStore, machine: dict[str, str], again: bool
) -> Seen:
    """Return the result for one way of making passes, from disk or from a new check."""
    weights: Any = tree_flatten(target.model.parameters())
    facts = [f"{name} {array.shape} {array.dtype}" for name, array in weights]
    facts += [type(target.model).__module__, way.name, *sorted(map(repr, way.shapes))]
    passes = hashlib.sha256("\n".join(facts).encode()).hexdigest()

    def looked() -> Seen:
        try:
            way.install(target.model)
            return look(target.decoder(target.model))
        finally:
            _STOCK.install(target.model)
            free_memory()

    return store.once({"passes": passes, **machine}, Seen(), looked, again=again)


def look(decoder: Decoder) -> Seen:
    """Read made-up text after each depth, in passes over 1 to `FEW_ROWS` rows, and compare."""
    first, *deeper = _DEPTHS
    ids = mx.random.randint(0, decoder.vocabulary, (first + FEW_ROWS + 1,), key=mx.random.key(0))
    (tokens,) = fetch(ids)
    for _ in decoder.prefill(tokens[: first + 1]):
        pass
    decoder.bookmark()
    seen = _look(decoder, ids[first:], range(2, FEW_ROWS + 1), Seen(1, "", 0.0, 0.0))
    for depth in deeper:
        _deepen(decoder, depth)
        widths = {2, 3, 5, seen.rows} & set(range(2, seen.rows + 1))
        seen = _look(decoder, ids[first:], sorted(widths), seen)
    return seen


def _deepen(decoder: Decoder, depth: int) -> None:
    """Let the caches hold `depth` tokens: their own tokens, repeated."""
    timeline, length = decoder.timeline, decoder.length
    held, states = cache_arrays.held(timeline, 0, length), cache_arrays.states(timeline, length)
    if states is None:
        raise ValueError("its caches are of a kind that is not known")

    def repeated(array: mx.array, places: int | None) -> mx.array:
        return array if places is None else array[..., mx.arange(places) % array.shape[-2], :]

    places = zip(states, cache_arrays.seen(timeline, depth), strict=True)
    held, states = (
        [repeated(array, depth) for array in held],
        [repeated(*array) for array in places],
    )
    decoder.fill(depth, held, states, quantized=False)


def _look(decoder: Decoder, ids: mx.array, widths: Sequence[int], before: Seen) -> Seen:
    """Compare passes of these widths and time them; add the result to `before`."""
    length, most, why = decoder.length, 1, before.why
    states = decoder.record(range(1, decoder.depth + 1))

    def read(*parts: int) -> list[mx.array]:
        """The logits, (rows, vocabulary), and each layer's states, (rows, width)."""
        _begin(decoder, length)
        ends = list(accumulate(parts))
        logits = [decoder.read(part) for part in mx.split(ids[: ends[-1]], ends[:-1])]
        seen = states.between(length, length + ends[-1])
        return [mx.concatenate(logits), *(seen[:, layer] for layer in range(decoder.depth))]

    single = read(*[1] * (max(widths, default=1) + 1))
    for rows in widths:
        passes = read(rows, 1)  # the row after them sees what they left in the caches
        pairs = zip(passes, single, strict=True)
        head, *layers = [
            same_bits(rows_at_once, other[: rows + 1]) for rows_at_once, other in pairs
        ]
        if not (head and all(layers)):
            first = next((i for i, same in enumerate(layers, 1) if not same), None)
            place = f"layer {first} of {len(layers)}" if first else "the output layer"
            why = f"{place} gives {rows} rows other bits after {length:,} tokens"
            break
        most = rows
    decoder.promise = Promise(Exactness(most))
    times = [_seconds(decoder, ids, length, read) for read in (decoder.read_draft, decoder.read)]
    decoder.rewind(length)
    return Seen(most, why, before.seconds + times[0], before.whole + times[1])


def _begin(decoder: Decoder, length: int) -> None:
    """Begin a round after `length` tokens."""
    decoder.rewind(length)
    decoder.timeline.mark()


def _seconds(
    decoder: Decoder, ids: mx.array, length: int, read: Callable[[mx.array], mx.array]
) -> float:
    """The least time of passes over drafts. The first loads kernels."""
    total = 0.0
    for rows in _TIMED_ROWS:
        times = []
        for _ in range(_TIMES + 1):
            _begin(decoder, length)
            began = perf_counter()
            wait(read(ids[:rows]))
            times.append(perf_counter() - began)
        total += min(times[1:])
    return total


class Stalls:
    """Gives our kernel up for good once passes stall: two in a row that take three times as long as
    those over as many rows before. Says so."""

    def __init__(self, target: LoadedModel) -> None:
        self._target = target
        self._usual: dict[int, float] = {}  # by rows
        self._slow = 0

    def push(self, rows: int, seconds: float) -> None:
        """Take the time of a pass."""
        usual, promise = self._usual.get(rows, seconds), self._target.promise
        self._slow = self._slow + 1 if seconds > _STALLED * usual else 0
        if not self._slow:
            self._usual[rows] = 0.8 * usual + 0.2 * seconds
        if self._slow == 2 and promise.ours:
            _promise_nothing(self._target, "our kernel stalled")
            print(f"Our own kernel is off: {promise.now.in_words()}", file=sys.stderr)
