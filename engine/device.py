"""Where the host and the device meet: the one place that waits."""

from typing import Any

import mlx.core as mx


def fetch(*arrays: mx.array) -> list[Any]:
    """The arrays' values as numbers and nested lists, in one wait."""
    mx.eval(*arrays)
    return [array.tolist() for array in arrays]


def start(*arrays: mx.array) -> None:
    """Let the device begin, where it works beside the host.

    The CPU backend would do nearly all of the work before it returned, and what is ready first
    could not be shown first. There, the work begins when it is fetched.
    """
    if mx.default_device() == mx.gpu:
        mx.async_eval(*arrays)


def raw_bytes(array: mx.array) -> memoryview:
    """The bytes of an array, to be written to a file. Computes it."""
    flat = mx.contiguous(array.reshape(-1)).view(mx.uint8)
    mx.eval(flat)
    return memoryview(flat)
