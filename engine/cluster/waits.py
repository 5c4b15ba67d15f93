"""Tells the watcher which call of a pass the reading thread is blocked in.

A wait for a rank that sends nothing never ends, and MLX neither reports nor interrupts it. All that
can be known is that a thread has been in the same call for long. A thread that is held up by a slow
listener is blocked elsewhere, which is no wait.
"""

import sys
from threading import get_ident
from types import FrameType

from engine.cluster import group
from engine.cluster.leader import Leader, LeadingDecoder
from engine.cluster.share import ModelPart
from engine.core.decoder import Decoder
from engine.device import begin, fetch, finish, wait

_CALLS = (begin, fetch, finish, wait, group.add_up, group.agrees, ModelPart.settle)
_WAITS = {call.__code__ for call in _CALLS}


class Waits:
    """The waits of the thread that makes this. Attribute: `leader`, whose messages show that passes
    end."""

    def __init__(self) -> None:
        self.leader: Leader | None = None
        self._thread = get_ident()

    def now(self) -> tuple[FrameType, int] | None:
        """The wait that the thread is in; None for none. Two values are equal for the same wait."""
        frame = sys._current_frames().get(self._thread)
        if frame is None or self.leader is None or not _is_wait(frame):
            return None
        return frame, self.leader.number


def _is_wait(frame: FrameType) -> bool:
    reading: FrameType | None = frame
    while reading is not None and reading.f_code is not Decoder.prefill.__code__:
        reading = reading.f_back
    if reading is not None and not isinstance(reading.f_locals["self"], LeadingDecoder):
        return False  # a drafter, which reads alone, may take long
    return reading is frame or frame.f_code in _WAITS
