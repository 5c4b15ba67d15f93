"""Says which call of a pass the reading thread is blocked in.

A wait for a rank that sends nothing never ends, and MLX neither reports nor interrupts it. All that
can be known is that a thread has been in the same call for long. A thread that is held up by a slow
listener is blocked elsewhere, which is not a wait.
"""

import sys
from threading import get_ident
from time import monotonic
from types import FrameType

from engine.cluster import group
from engine.cluster.leader import LeadingDecoder
from engine.cluster.share import ModelPart
from engine.core.decoder import Decoder
from engine.device import begin, fetch, finish, wait
from engine.process.launch import Beat
from engine.process.macs import Cluster

_CALLS = (begin, fetch, finish, wait, group.add_up, group.agrees, ModelPart.settle)
_WAITS = {call.__code__ for call in _CALLS}


class Waits:
    """The waits of the thread that makes this, in which rank 0 of a cluster reads."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._thread = get_ident()
        self._before: tuple[FrameType, int] | None = None
        self._since = 0.0

    def now(self) -> tuple[FrameType, int] | None:
        """The wait that the thread is in; None for none. Two values are equal for the same wait."""
        frame, leader = sys._current_frames().get(self._thread), self._cluster.leader
        if frame is None or leader is None or not _is_wait(frame):
            return None
        return frame, leader.number

    def beat(self) -> Beat:
        """The state of rank 0, with how long it has been in the same wait as at each beat since."""
        now, leader = self.now(), self._cluster.leader
        if now is None or now != self._before:
            self._before, self._since = now, monotonic()
        return Beat(
            rank=0,
            number=leader.number if leader else 0,
            works=self._cluster.loading or (leader is not None and not leader.resting),
            stood=monotonic() - self._since,
        )


def _is_wait(frame: FrameType) -> bool:
    reading: FrameType | None = frame
    while reading is not None and reading.f_code is not Decoder.prefill.__code__:
        reading = reading.f_back
    if reading is not None and not isinstance(reading.f_locals["self"], LeadingDecoder):
        return False  # a drafter, which reads alone, may take long
    return reading is frame or frame.f_code in _WAITS
