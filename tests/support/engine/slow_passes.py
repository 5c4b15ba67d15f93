"""A target whose passes go on while the host does, as on a GPU.

MLX computes on the CPU beside the host, too, as long as passes are of few operations.
"""

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import mlx.core as mx

from tests.support.engine.helpers import Scripted

_SIZE = 700
_PRODUCTS = 3


class SlowPasses(Scripted):
    """Wants a script, and multiplies large matrices before it says so, whatever it has read."""

    def __init__(self, script: Sequence[int]) -> None:
        super().__init__(script)
        self._matrix = mx.full((_SIZE, _SIZE), 1 / _SIZE)
        mx.eval(self._matrix)
        self._least = float("inf")

    def __call__(self, tokens: mx.array, cache: list[Any] | None = None) -> mx.array:
        product = self._matrix
        for _ in range(_PRODUCTS):
            product = product @ self._matrix
        return super().__call__(tokens, cache) + 0 * product[0, 0]

    @property
    def pass_seconds(self) -> float:
        """The least that a pass took so far, the latest included: something else may come or go
        that keeps this machine busy."""
        self._least = min(self._least, *(self._seconds() for _ in range(3)))
        return self._least

    def _seconds(self) -> float:
        began = perf_counter()
        mx.eval(self(mx.array([[1]])))
        return perf_counter() - began


def seconds_left() -> float:
    """Wait for all that is under way; return how long that took."""
    began = perf_counter()
    mx.synchronize()
    return perf_counter() - began
