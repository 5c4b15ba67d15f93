"""The functions that a pass on a CPU calls in place of mlx-lm's."""

from collections.abc import Callable, Mapping
from typing import Any

import mlx.core as mx

from engine.cpu.exponentials import STAND_INS, StandIn
from engine.device import begin

_LARGE_LAYER = 100_000  # weights; for smaller layers an early start costs more than it gains


def stand_ins(weights_per_layer: float) -> Mapping[str, StandIn]:
    """By the name of a function of mlx-lm: the function that makes its replacement."""
    return _BEGUN if weights_per_layer > _LARGE_LAYER else STAND_INS


def _at_once(stand_in: StandIn) -> StandIn:
    """The same replacement, which also starts the computation of its result.

    So a CPU computes a pass while the rest of it is built. A model of 30 layers with 4 million
    weights each takes 0.93 of the time, a model with 50,000 up to 1.2 times as long. A GPU gains
    nothing, as it gets its work in larger parts.
    """

    def begun(stock: Callable[..., mx.array]) -> Callable[..., mx.array]:
        call = stand_in(stock)

        def call_and_begin(*arrays: Any, **options: Any) -> mx.array:
            result = call(*arrays, **options)
            begin(result)
            return result

        return call_and_begin

    return begun


_BEGUN = {name: _at_once(stand_in) for name, stand_in in STAND_INS.items()}
