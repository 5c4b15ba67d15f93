"""Another backend than that of this machine's device: so the CPU runs what a Mac's GPU would."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import mlx.core as mx

from engine.device import BACKENDS, Backend


@contextmanager
def computing_as(other: Backend) -> Iterator[None]:
    """Meanwhile `engine.device.backend` gives this one."""
    with mock.patch.dict(BACKENDS, {mx.default_device().type: other}):
        yield
