"""Counts how often the host waits for the device."""

from contextlib import ExitStack, contextmanager
from unittest import mock

import mlx.core as mx

import engine.core.loop
from engine import device


class Waits:
    """Counts the times that the host waits for the device: in `fetch`, and elsewhere."""

    def __init__(self):
        self.fetches = 0
        self.elsewhere = []
        self._inside = False

    @contextmanager
    def counted(self):
        fetch = device.fetch

        def counting(*arrays):
            self.fetches += 1
            self._inside = True
            try:
                return fetch(*arrays)
            finally:
                self._inside = False

        waiting = ("item", "tolist", "__array__", "__int__", "__float__", "__bool__")
        found = [(mx.array, name) for name in waiting if hasattr(mx.array, name)]
        with ExitStack() as patched:
            for owner, name in [*found, (mx, "eval"), (mx, "synchronize")]:
                noted = self._noted(name, getattr(owner, name))
                patched.enter_context(mock.patch.object(owner, name, noted))
            patched.enter_context(mock.patch.object(engine.core.loop, "fetch", counting))
            yield self

    def _noted(self, name, original):
        def noted(*arguments, **options):
            if not self._inside:
                self.elsewhere.append(name)
            return original(*arguments, **options)

        return noted
