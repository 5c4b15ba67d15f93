"""Targets whose passes go on while the host does, as on a GPU, and a drafter.

MLX computes on the CPU beside the host, too, as long as no more than some forty operations are
under way. On a GPU it lets ten command buffers be under way, of some forty operations each.
"""

from dataclasses import replace
from time import perf_counter

import mlx.core as mx
import mlx.nn as nn

from tests.support.engine.helpers import Known, Scripted

_SIZE = 700
_PRODUCTS = 3
_SMALL = mx.full((200, 200), 1 / 200)


def multiplied(x, products):
    """`x`, so many products later."""
    for _ in range(products):
        x = x @ _SMALL
    return x


class SlowPasses(Scripted):
    """Wants a script, and multiplies large matrices before it says so, whatever it has read."""

    def __init__(self, script):
        super().__init__(script)
        self._matrix = mx.full((_SIZE, _SIZE), 1 / _SIZE)
        mx.eval(self._matrix)
        self._least = float("inf")

    def __call__(self, tokens, cache=None):
        product = self._matrix
        for _ in range(_PRODUCTS):
            product = product @ self._matrix
        return super().__call__(tokens, cache) + 0 * product[0, 0]

    @property
    def pass_seconds(self):
        """The least that a pass took so far, the latest included: something else may come or go
        that keeps this machine busy."""
        self._least = min(self._least, *(self._seconds() for _ in range(3)))
        return self._least

    def _seconds(self):
        began = perf_counter()
        mx.eval(self(mx.array([[1]])))
        return perf_counter() - began


class _Layer(nn.Module):
    """Multiplies `products` times. Claims to hold so many `elements` of weights, in no memory."""

    def __init__(self, products, elements):
        super().__init__()
        self.weight = mx.broadcast_to(mx.zeros((1,)), (elements,))
        self._products = products

    def __call__(self, x, cache):
        if cache is not None:
            cache.update_and_fetch(x, x)
        return multiplied(x, self._products)


class ManyProducts(SlowPasses):
    """A target of `layers`, each of so many small `products`: a pass is far more than MLX lets be
    under way. `elements`: of the weights of a layer, as MLX counts them."""

    def __init__(self, script, *, layers, products, elements):
        super().__init__(script)
        self.layers = [nn.Identity(), *(_Layer(products, elements) for _ in range(layers))]

    def __call__(self, tokens, cache=None):
        x = mx.ones((1, 1, tokens.shape[1], _SMALL.shape[0])) * tokens[0, 0]
        for i, layer in enumerate(self.layers[1:], start=1):
            x = layer(x, cache[i] if cache else None)
        return Scripted.__call__(self, tokens, cache) + 0 * x[0, 0, 0, 0]


class SlowDrafts(Known):
    """Knows a script, and is slow to tell: by a few products that take about as long as many small
    ones."""

    def propose(self, *asked):
        draft = super().propose(*asked)
        assert draft is not None
        late = 0 * multiplied(_SMALL, 30)[0, 0]
        return replace(draft, tokens=draft.tokens + late.astype(mx.int32))


def seconds_left():
    """Wait for all that is under way; return how long that took."""
    began = perf_counter()
    mx.synchronize()
    return perf_counter() - began
