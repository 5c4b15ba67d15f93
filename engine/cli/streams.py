"""Repairs the standard streams of a command: cron and launchd close them, a shell may redirect them
to a full disk, an encoding may lack characters."""

import os
import sys
from contextlib import suppress
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any, Literal, TextIO

from rich.console import Console

_WIDE = 1000  # columns


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
        encoding = None if sys.stdin.isatty() else "utf-8-sig"
        sys.stdin.reconfigure(encoding=encoding, errors="surrogateescape")


def new_console(*, errors: bool = False) -> Console:
    """A console on standard output, or on `errors`. If no terminal shows it, no name is folded and
    the cursor is not moved, even if FORCE_COLOR asks for colours."""
    file, size = sys.stderr if errors else sys.stdout, os.environ.get("COLUMNS", "")
    shown = file.isatty()  # whose columns change with its window
    width = _WIDE if not shown and size in ("", "0") else 80 if size == "0" else None
    system: Literal["auto", "256"] = "auto" if shown or not os.environ.get("FORCE_COLOR") else "256"
    console = Console(stderr=errors, width=width, force_terminal=shown, color_system=system)
    # Never hidden: a process may be ended, or stopped, while it shows progress.
    console.show_cursor = lambda show=True: False  # type: ignore[method-assign]
    return console


def let_go(*streams: TextIO) -> None:
    """Discard text that the streams cannot write, or Python would fail on it again at exit."""
    for stream in streams:
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
