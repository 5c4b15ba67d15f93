"""Repairs the standard streams of a command: cron and launchd close them, a shell may redirect them
to a full disk, an encoding may lack characters."""

import os
import sys
from contextlib import suppress
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any, TextIO


class _Heedless(FileIO):
    """A file that drops the text that it has no room for."""

    def write(self, data: Any, /) -> int:
        with suppress(OSError):
            return super().write(data) or 0
        return len(data)


def mend_streams() -> None:
    """Open streams that are closed, or the next file that is opened would become one of them.

    A character that the output's encoding lacks is written as "?". Input from a pipe or a file is
    read as UTF-8. Progress that standard error cannot take is dropped: the answer is elsewhere.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    if isinstance(sys.stderr, TextIOWrapper) and sys.stderr is sys.__stderr__:
        file = BufferedWriter(_Heedless(sys.stderr.fileno(), "w", closefd=False))
        sys.stderr = TextIOWrapper(
            file, sys.stderr.encoding, sys.stderr.errors, line_buffering=True
        )
    if isinstance(sys.stdin, TextIOWrapper):
        encoding = None if sys.stdin.isatty() else "utf-8"
        sys.stdin.reconfigure(encoding=encoding, errors="surrogateescape")


def let_go(*streams: TextIO) -> None:
    """Discard text that the streams cannot write, or Python would fail on it again at exit."""
    for stream in streams:
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
