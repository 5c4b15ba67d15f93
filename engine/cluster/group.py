"""The collectives of the ranks that hold a target together.

Knows `mx.distributed`, whose collectives do not notice that ranks are out of step. So each one here
is awaited before anything else is begun, on a CPU stream, and has one fixed shape.
"""

from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

import mlx.core as mx
import numpy as np

from models.errors import Problem

Group = mx.distributed.Group
_TEXT_BYTES = 1 << 14


def join(backend: str) -> Group:
    """Connect with all ranks, as MLX's launcher has described them in the environment. Once in the
    life of a process.

    MLX holds Python's lock while it waits for a rank that does not come. Raises `Problem` if this
    copy of MLX cannot connect with `backend`, and RuntimeError where the others are not found.
    """
    if backend.startswith("jaccl") and not mx.distributed.is_available("jaccl"):
        raise Problem(
            "The hostfile asks for RDMA over Thunderbolt (jaccl), which this copy of MLX does not "
            "have: only the copy that pip installs on macOS 26.2 and later has it.",
            'Install Slipstream with pip there, or write "backend": "ring" into the hostfile.',
        )
    return mx.distributed.init(backend=backend.partition("-")[0], strict=True)


def exchange(group: Group, text: str) -> list[str]:
    """Return the texts of all ranks, rank 0's first. All ranks call this. Raises ValueError if a
    text is too long to be sent."""
    data = text.encode()
    if len(data) > _TEXT_BYTES:
        raise ValueError(f"a text of {len(data)} bytes is too long")
    own = np.frombuffer(data.ljust(_TEXT_BYTES), dtype=np.uint8)
    with mx.stream(mx.cpu):
        texts = mx.distributed.all_gather(mx.array(own), group=group)
        mx.eval(texts)
    rows = np.array(texts).reshape(group.size(), _TEXT_BYTES)
    return [row.tobytes().decode().rstrip() for row in rows]


def broadcast(group: Group, numbers: Sequence[int], *, length: int) -> list[int]:
    """Return rank 0's `numbers`, on every rank. All ranks call this with the same `length`.

    The numbers of other ranks are ignored: a broadcast is a sum in which they give zeros.
    """
    return add_up(group, list(numbers) if group.rank() == 0 else [0] * length)


def agrees(group: Group, texts: Iterable[Sequence[int]]) -> bool:
    """Whether all ranks hold the same `texts`, lists of token ids."""
    digest = 0
    for text in texts:
        digest = crc32(np.array([len(text), *text], dtype="<i4").tobytes(), digest)
    digest &= 0x7FFFFFFF
    with mx.stream(mx.cpu):
        most = mx.distributed.all_max(mx.array([digest, -digest], dtype=mx.int32), group=group)
        mx.eval(most)
    values: Any = most.tolist()
    highest, lowest = values
    return bool(highest == -lowest)


def add_up(group: Group, numbers: Sequence[int]) -> list[int]:
    """Return the sums of the ranks' `numbers`, place by place."""
    with mx.stream(mx.cpu):
        total = mx.distributed.all_sum(mx.array(list(numbers), dtype=mx.int32), group=group)
        mx.eval(total)
    values: Any = total.tolist()
    return list(values)
