"""Tries the kernel for few rows on this machine, once for each shape of matrix: bits, then time.

Only kernels that pass here are used. A kernel may hang the GPU or end its process, so it is tried
in a child with a limit. The child writes "off" to disk before it begins with a shape, and its
result afterwards. The matrices are made up; `engine.conversation.proof` compares whole passes.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import mlx.core as mx
import mlx.nn as nn

from engine.device import fetch, has_metal, wait
from engine.draft_length.calibrations import CalibrationStore
from engine.metal import few_rows, header
from engine.metal.few_rows import Shape
from models.limits import FEW_ROWS

LIMIT_SECONDS = 20.0
_GRACE_SECONDS = 2.0
_TIMED_ROWS = (2, 3, 5, 8)
_TURNS = 3
_STOCK = nn.QuantizedLinear.__call__
_MATRICES = 4  # one alone would stay in the GPU's cache
_ENOUGH = 16_384  # outputs
_NOT_SLOWER = 1.02  # times as long: measurements vary
_UNREPORTED = 5  # the first generation of chips without a report: other people's kernels hung there


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a trial saw. `off`: other bits once, or worse; `slow`: right, and slower than MLX."""

    verdict: Literal["on", "slow", "off"] = "off"
    why: str = "the trial did not come back"


def kernels_for(
    model: nn.Module,
    *,
    store: CalibrationStore,
    machine: dict[str, str],
    slow: bool = False,
    again: bool = False,
    command: Sequence[str] = (sys.executable, "-m", __name__),
    limit_seconds: float = LIMIT_SECONDS,
) -> tuple[tuple[Shape, ...], str]:
    """Try the shapes of `model` that were never tried on this `machine`; return the shapes that are
    right, slower ones only if `slow`, and what became of all, in words. `again`: also try those
    whose trial did not come back."""
    chip = re.search(r"Apple M(\d+)", machine["chip"])
    if not has_metal():
        return (), "off: this machine has no Metal"
    if os.environ.get("SLIPSTREAM_FEW_ROWS") == "off":
        return (), "off, as SLIPSTREAM_FEW_ROWS says"
    if chip is not None and int(chip[1]) >= _UNREPORTED:
        return (), f"off on an {machine['chip']} until a report shows that they work"
    try:
        circumstances = {**machine, "header": header.read().digest}
    except header.HeaderChanged as changed:
        return (), f"off: {changed}"

    def seen(shape: Shape) -> Evidence | None:
        found = store.found(asdict(shape) | circumstances).get("seen")
        return found and Evidence(**found)

    shapes = list(few_rows.shapes_of(model))
    if untried := [each for each in shapes if seen(each) in (None, Evidence() if again else None)]:
        orders = [str(store.folder), circumstances, [asdict(shape) for shape in untried]]
        _in_a_child(json.dumps(orders).encode(), command, limit_seconds)
    known = {shape: seen(shape) or Evidence() for shape in shapes}
    used = [shape for shape in shapes if known[shape].verdict in ("on", *["slow"] * slow)]
    others = {f"{each.verdict} ({each.why})" for each in known.values() if each.verdict != "on"}
    return tuple(used), "; ".join([f"on for {len(used)} of {len(shapes)} shapes", *sorted(others)])


def _in_a_child(orders: bytes, command: Sequence[str], limit_seconds: float) -> None:
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        child.communicate(orders, timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        with suppress(subprocess.TimeoutExpired):  # a driver that hangs may hold it
            child.communicate(timeout=_GRACE_SECONDS)


def main() -> None:
    """Try the shapes that standard input names."""
    folder, circumstances, shapes = json.load(sys.stdin)
    mx.random.seed(0)
    try_all(CalibrationStore(Path(folder)), circumstances, [Shape(**each) for each in shapes])


def try_all(
    store: CalibrationStore, circumstances: dict[str, str], shapes: Iterable[Shape]
) -> None:
    """Try shapes, the largest first, and store the results."""
    for shape in sorted(shapes, key=lambda each: -each.inputs * each.outputs):
        key = asdict(shape) | circumstances
        store.once(key, Evidence(), partial(_tried, shape), again=True)


def _tried(shape: Shape) -> Evidence:
    for kind in dict.fromkeys((shape.dtype, "float32")):  # 16 bits hide most roundings
        matrix, x = _made_up(shape, kind), _rows(shape, kind)
        alone = mx.concatenate([matrix(row) for row in mx.split(x, FEW_ROWS)])
        for rows in range(2, FEW_ROWS + 1):
            if not same_bits(few_rows.product(matrix, x[:rows]), alone[:rows]):
                return Evidence(why=f"{rows} rows of {kind} have other bits")
    matrices = [_made_up(shape, shape.dtype) for _ in range(_MATRICES)]

    def seconds(multiply: Callable[[Any, mx.array], mx.array], rows: int) -> float:
        """Of products that wait for each other: others would overlap."""
        wait(x := _rows(shape, shape.dtype)[:rows])
        began = perf_counter()
        for matrix in matrices:
            x = x + 0 * multiply(matrix, x)[:, :1]
        wait(x)
        return perf_counter() - began

    ours = stock = 0.0
    for rows in _TIMED_ROWS:
        turns = [
            (seconds(few_rows.product, rows), seconds(_STOCK, rows)) for _ in range(_TURNS + 1)
        ]
        ours += min(turn[0] for turn in turns[1:])  # the first loads kernels
        stock += min(turn[1] for turn in turns[1:])
    if ours <= _NOT_SLOWER * stock:
        return Evidence("on", "")
    return Evidence("slow", f"{ours / stock:.2f} times as long as MLX")


def same_bits(one: mx.array, other: mx.array) -> bool:
    """Whether two arrays of floats of a kind are equal bit for bit. Waits."""
    kind = mx.uint16 if one.dtype.size == 2 else mx.uint32
    (same,) = fetch(mx.array_equal(one.view(kind), other.view(kind)))
    return bool(same) and one.dtype == other.dtype


def _rows(shape: Shape, kind: str) -> mx.array:
    """Rows with outliers, (FEW_ROWS, inputs)."""
    x = mx.random.normal((FEW_ROWS, shape.inputs), key=mx.random.key(1))
    large = mx.arange(shape.inputs) % 97 == 0
    return mx.where(large, 50 * x, x).astype(getattr(mx, kind))


def _made_up(shape: Shape, kind: str) -> nn.Module:
    """Return a layer of this shape with random weights."""
    outputs = min(shape.outputs, _ENOUGH + shape.outputs % 8)  # each is computed alone
    layer = nn.QuantizedLinear(
        shape.inputs, outputs, bias=False, group_size=shape.group, bits=shape.bits
    )
    layer.set_dtype(getattr(mx, kind))
    wait(layer.parameters())
    return layer


if __name__ == "__main__":
    main()
