"""A target whose passes go on while the host does, as on a GPU.

MLX computes on the CPU beside the host, too, as long as passes are of few operations.
"""

from collections.abc import Sequence
from statistics import median
from time import perf_counter
from typing import Any

import mlx.core as mx

from tests.support.engine.helpers import Scripted

_SIZE = 700
_PRODUCTS = 3


class SlowPasses(Scripted):
    """Wants a script, and multiplies large matrices before it says so, whatever it has read.

    Attribute: `pass_seconds`, what a pass takes here.
    """

    def __init__(self, script: Sequence[int]) -> None:
        super().__init__(script)
        self._matrix = mx.full((_SIZE, _SIZE), 1 / _SIZE)
        mx.eval(self._matrix)
        self.pass_seconds = median(self._seconds() for _ in range(3))

    def __call__(self, tokens: mx.array, cache: list[Any] | None = None) -> mx.array:
        product = self._matrix
        for _ in range(_PRODUCTS):
            product = product @ self._matrix
        return super().__call__(tokens, cache) + 0 * product[0, 0]

    def _seconds(self) -> float:
        began = perf_counter()
        mx.eval(self(mx.array([[1]])))
        return perf_counter() - began


def seconds_left() -> float:
    """How long what is under way still takes. Waits for it."""
    began = perf_counter()
    mx.synchronize()
    return perf_counter() - began
