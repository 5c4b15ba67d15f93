"""Standard input and output, kept for one language alone: that of a parent process."""

import os
import sys
from typing import BinaryIO


def claim_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Standard input and output for the protocol alone. All other code, C code too, prints to
    standard error from now on, and reads nothing."""
    sys.stdout.flush()
    commands, responses = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return commands, responses
