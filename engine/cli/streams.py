"""The standard streams of a command, whatever started it: cron and launchd close them, a shell
leads them to a full disk, a locale lacks letters."""

import os
import sys
from io import TextIOWrapper
from typing import TextIO


def mend_streams() -> None:
    """Open the streams that are closed, or the next file that is opened is taken for one of them.

    What an encoding lacks is written as "?". What comes from no terminal is read as UTF-8.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    if isinstance(sys.stdin, TextIOWrapper):
        encoding = None if sys.stdin.isatty() else "utf-8"
        sys.stdin.reconfigure(encoding=encoding, errors="surrogateescape")


def let_go(*streams: TextIO) -> None:
    """Forget what the streams cannot write, or Python fails at it once more when it ends."""
    for stream in streams:
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
