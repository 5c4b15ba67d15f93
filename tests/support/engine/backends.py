"""Another backend than that of this machine's device: so the CPU runs what a Mac's GPU would."""

from contextlib import ExitStack, contextmanager
from unittest import mock

import mlx.core as mx
import mlx.nn as nn

from engine.device import BACKENDS, GPU

_OFF = 2.0**-14  # how far products of several rows are off, at most: so much that it shows
_PRODUCTS = ((nn.Linear, "__call__"), (nn.QuantizedLinear, "__call__"), (nn.Embedding, "as_linear"))


@contextmanager
def computing_as(other):
    """Meanwhile `engine.device.backend` gives this one."""
    with mock.patch.dict(BACKENDS, {mx.default_device().type: other}):
        yield


@contextmanager
def on_a_mac():
    """Compute as on a Mac's GPU: mlx-lm's own functions and caches, draft and pass under way at
    once, each pass begun in two parts, however small it is, and products that are rounded by the
    number of rows. For models in float32: with fewer digits a tiny one makes a difference of every
    rounding that hides faults."""
    in_two_parts = mock.patch("engine.core.decoder._FIRST_LAYERS", 1)
    with computing_as(GPU), in_two_parts, ExitStack() as patches:
        for owner, name in _PRODUCTS:
            product = rounded(getattr(owner, name))
            patches.enter_context(mock.patch.object(owner, name, product))
        yield


def rounded(product):
    """Round a product by its number of rows; a single row stays as it is."""

    def call(module, x):
        result = product(module, x)
        rows = x.size // x.shape[-1]
        if rows == 1:
            return result
        off = mx.sin(mx.arange(result.shape[-1]) * 78.233 + rows * 12.9898)
        return (result * (1.0 + _OFF * off)).astype(result.dtype)

    return call
