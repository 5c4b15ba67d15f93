"""Standard input and output, kept for the language of a parent process alone; and a pipe's bytes
as lines."""

import os
import sys
from io import BufferedReader
from typing import BinaryIO


def claim_pipes() -> tuple[BufferedReader, BinaryIO]:
    """Standard input and output for the protocol alone. All other code, C code too, prints to
    standard error from now on, and reads nothing."""
    sys.stdout.flush()
    commands, responses = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return commands, responses


class Lines:
    """Splits bytes into lines, which keep their line ends. Holds at most `limit` + 1 bytes.

    A line that is longer than `limit`, its end included, is returned as soon as that is known, cut
    to `limit` + 1 bytes; the rest of it is dropped.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line, self._dropping = bytearray(), False

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes."""
        lines, start = list[bytes](), 0
        while start < len(data):
            end = data.find(b"\n", start) + 1 or len(data)
            ended = data.endswith(b"\n", start, end)
            if not self._dropping:
                room = self._limit + 1 - len(self._line)
                self._line += data[start : min(end, start + room)]
                if ended or len(self._line) > self._limit:
                    lines.append(self.rest())
                    self._dropping = not ended
            elif ended:
                self._dropping = False
            start = end
        return lines

    def rest(self) -> bytes:
        """The beginning of a line that is not complete; forgets it."""
        line, self._line = bytes(self._line), bytearray()
        return line
