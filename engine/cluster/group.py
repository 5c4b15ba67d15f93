"""The collectives of the ranks that hold a target together.

Knows `mx.distributed`, whose collectives do not notice that ranks are out of step. So each one here
is awaited before anything else is begun, on a CPU stream, and has one fixed shape.
"""

import json
import os
import signal
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

import mlx.core as mx
import numpy as np

from models.errors import Problem

Group = mx.distributed.Group
RANK_VARIABLE = "MLX_RANK"


class NotJoined(Exception):
    """The ranks did not find each other."""


def join(
    rank: int,
    addresses: Sequence[Sequence[str]],
    *,
    backend: str,
    devices: Sequence[Sequence[Sequence[str]]],
    seconds: float,
) -> Group:
    """Connect with all ranks, which do this at the same time. Once in the life of a process.

    `addresses`: "address:port" of each rank; `devices`: of each rank to each other, for RDMA. For
    the main thread: MLX holds Python's lock while it waits for a rank that does not come, and only
    a signal ends that. Raises `NotJoined`, within `seconds` or soon after.
    """
    with tempfile.TemporaryDirectory() as folder, _alarm(seconds):
        hosts, links = Path(folder, "hosts.json"), Path(folder, "devices.json")
        hosts.write_text(json.dumps(addresses))
        links.write_text(json.dumps([[_device(each) for each in row] for row in devices]))
        os.environ[RANK_VARIABLE] = str(rank)
        if backend == "ring":
            os.environ["MLX_HOSTFILE"] = str(hosts)
        else:
            os.environ["MLX_JACCL_COORDINATOR"] = addresses[0][0]
            os.environ["MLX_IBV_DEVICES"] = str(links)
        if backend == "jaccl-ring":
            os.environ["MLX_JACCL_RING"] = "1"
        try:
            return mx.distributed.init(backend=backend.partition("-")[0], strict=True)
        except RuntimeError as error:
            raise NotJoined(" ".join(str(error).split())) from error


def require(backend: str) -> None:
    """Raise `Problem` if this copy of MLX cannot connect Macs with `backend`."""
    if backend.startswith("jaccl") and not mx.distributed.is_available("jaccl"):
        raise Problem(
            "The hostfile asks for RDMA over Thunderbolt (jaccl), which this copy of MLX does not "
            "have: only the one that pip installs on macOS 26.2 and later has it.",
            'Install Slipstream with pip there, or write "backend": "ring" into the hostfile.',
        )


def _device(names: Sequence[str]) -> str | list[str] | None:
    return None if not names else names[0] if len(names) == 1 else list(names)


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Interrupt a wait of the main thread after `seconds`, and every second from then on."""
    before = signal.signal(signal.SIGALRM, lambda number, frame: None)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def broadcast(group: Group, numbers: Sequence[int], *, length: int) -> list[int]:
    """Return rank 0's `numbers`, on every rank. All ranks call this with the same `length`.

    The numbers of other ranks are ignored: a broadcast is a sum in which they give zeros.
    """
    given = list(numbers) if group.rank() == 0 else [0] * length
    return add_up(group, given)


def is_as_told(group: Group, own: int, total: int) -> bool:
    """Whether the secret numbers of all ranks add up to `total`; `own` is the number of this rank.

    Notices another program that has a rank's place by mistake; it does not keep out an attacker.
    """
    halves = [own >> 15, own & 0x7FFF]
    high, low = add_up(group, halves)
    return (high << 15) + low == total


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
