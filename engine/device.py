"""Where the host and the device meet: how this process computes, and the one place that waits."""

import gc
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import mlx.core as mx
from filelock import FileLock, Timeout

from engine.backend import Backend
from engine.cpu.backend import CPU
from engine.exactness import ANY_ROWS, Exactness, Promise

GPU = Backend()
BACKENDS = {mx.cpu: CPU, mx.gpu: GPU}


def backend() -> Backend:
    """Return the backend of this process's default device. No other code asks MLX for it."""
    return BACKENDS[mx.default_device().type]


def has_metal() -> bool:
    """Return whether a kernel in Metal's language can be compiled here. No other code asks MLX."""
    return mx.metal.is_available()


def unproven() -> Promise:
    """What the device alone promises of every model: see `engine.conversation.proof`."""
    alike = Exactness(ANY_ROWS, "this device computes every row alike")
    return Promise(alike if backend().exact_rows else Exactness(0, why="nothing was checked"))


def fetch(*arrays: mx.array) -> list[Any]:
    """Return the values of the arrays as numbers and nested lists. Waits once, for these arrays and
    for nothing that was begun after them.

    Begin them first: an array that was never begun would be computed after all that is under way,
    and the host would wait for a GPU to the end. Empty arrays are not computed.
    """
    mx.eval(*(array for array in arrays if array.size))
    return [array.tolist() if array.size else _nothing(array.shape) for array in arrays]


def _nothing(shape: Sequence[int]) -> list[Any]:
    """An empty array of this shape as nested lists."""
    return [_nothing(shape[1:]) for _ in range(shape[0])]


def wait(*arrays: Any) -> None:
    """Wait until these are computed: arrays, or lists and dicts of such."""
    mx.eval(*arrays)


def finish() -> None:
    """Wait until the device has nothing left to compute."""
    mx.synchronize()


def begin(*arrays: Any) -> None:
    """Let the device begin with these: arrays, or lists and dicts of such. Waits only where too
    much is under way already."""
    mx.async_eval(*arrays)


def start(*arrays: Any) -> None:
    """Let a GPU begin with these. Other devices compute them when they are fetched."""
    if backend().beside_host:
        begin(*arrays)


def raw_bytes(array: mx.array) -> memoryview:
    """The bytes of an array, to be written to a file. Computes it."""
    flat = mx.contiguous(array.reshape(-1)).view(mx.uint8)
    mx.eval(flat)
    return memoryview(flat)


class Wired:
    """Keeps the memory of a large pair from being paged out while it answers, which macOS may do
    once weights are most of what a GPU should use: in one process at a time, as several have hung
    Macs (mlx-lm issue 1252). Untested on a Mac; nothing elsewhere."""

    LARGE = 0.6
    """As a share of what Metal recommends to use. mlx-lm does so for all models, others report no
    gain where there is room to spare."""

    _SPARE = 1.1  # times the memory that is held, so that a growing cache seldom needs more

    def __init__(self, lock: Path) -> None:
        """`lock`: a file that the process holds which has wired memory."""
        info = mx.device_info() if backend().beside_host else {}
        self._recommended = int(info.get("max_recommended_working_set_size", 0))
        self._lock = FileLock(lock, timeout=0, thread_local=False)
        self._busy, self._limit = False, 0

    def keep(self, busy: bool) -> None:
        """Keep the memory from being paged out while `busy`. Costs little if nothing changes."""
        begins, self._busy = busy and not self._busy, busy
        held = mx.get_active_memory() if begins or self._limit else 0
        if not (busy and self._recommended):
            self._wire(0)
        elif held > self._limit and (self._limit or self._may_begin(held)):
            self._wire(min(int(self._SPARE * held), self._recommended))

    def release(self) -> None:
        """Keep nothing from now on. Any thread may ask for it, while others wait: memory
        that a killed process has wired may be lost until the Mac starts again (omlx issue 2184)."""
        self._recommended = 0
        self._wire(0)

    def _may_begin(self, held: int) -> bool:
        if held > self.LARGE * self._recommended:
            with suppress(OSError, Timeout):
                self._lock.acquire()
        return self._lock.is_locked

    def _wire(self, limit: int) -> None:
        if limit == self._limit:
            return
        self._limit = limit
        mx.set_wired_limit(limit)
        if limit and not self._recommended:  # `release` came in between
            mx.set_wired_limit(0)
        if not limit:
            self._lock.release()


def held_bytes() -> int:
    """Return how many bytes MLX holds and can free."""
    return int(mx.get_active_memory() + mx.get_cache_memory())


def free_memory() -> None:
    """Free memory without references, MLX's pool included."""
    gc.collect()
    mx.clear_cache()
