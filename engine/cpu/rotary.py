"""Rotary positions on a CPU: the same numbers as MLX's, with the angles computed once a pass.

There `mx.fast.rope` computes the sines and cosines of all positions in every call, in some thirty
operations. A small target's pass calls it twice a layer, and spent a tenth of its time so. All
layers use the same angles, and with these at hand six operations are left.
"""

from functools import lru_cache
from typing import Any

import mlx.core as mx
import mlx.nn as nn


class Rotary(nn.RoPE):
    """Gives the bits of `mlx.nn.RoPE`.

    Computes the usual case itself: float32, pairs from the two halves of a row. Calls MLX for
    anything else.
    """

    def __call__(self, x: mx.array, offset: Any = 0) -> mx.array:
        if self.traditional or x.dtype != mx.float32 or x.ndim != 4:
            turned: mx.array = super().__call__(x, offset)
            return turned
        half = self.dims // 2
        # If each row has its own position, the array came from the host, so this does not wait.
        starts: Any = offset.tolist() if isinstance(offset, mx.array) else offset
        starts = tuple(starts) if isinstance(starts, list) else (starts,)
        cosines, sines = _angles(half, self.base, self.scale, starts, x.shape[-2])
        part = x if x.shape[-1] == self.dims else x[..., : self.dims]
        other = mx.concatenate([part[..., half:], part[..., :half]], axis=-1)
        turned = part * cosines + other * sines
        return turned if part is x else mx.concatenate([turned, x[..., self.dims :]], axis=-1)


@lru_cache(maxsize=4)  # of the target, of a drafter, and of windows that turn in another way
def _angles(
    half: int, base: float, scale: float, starts: tuple[int, ...], rows: int
) -> tuple[mx.array, mx.array]:
    """Cosines, and signed sines, of `rows` positions from each of `starts` on.

    (starts, 1, rows, 2 * half) each, in MLX's order of operations.
    """
    positions = (mx.arange(rows, dtype=mx.float32) + mx.array(starts)[:, None, None]) * scale
    steps = mx.arange(0, -half, -1, dtype=mx.float32)
    steps = mx.exp(steps * (mx.log(mx.array(base, dtype=mx.float32)) / half))
    angles = positions[..., None] * steps
    cosines, sines = mx.cos(angles), mx.sin(angles)
    return mx.concatenate([cosines] * 2, axis=-1), mx.concatenate([-sines, sines], axis=-1)


def with_rotary(network: nn.Module) -> None:
    """Replace each `mlx.nn.RoPE` of `network` by a `Rotary`."""
    for module in network.modules():
        for name, part in module.items():
            if type(part) is nn.RoPE:
                module[name] = Rotary(part.dims, part.traditional, part.base, part.scale)
