"""`python -m app` opens the window, or without a display, a chat in the terminal.

Does not import Qt before a display is known to exist: without one, Qt may not even load.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from app.display import QtCannotStart, has_display


def main() -> int:
    """Run until the window is closed. Returns the exit status."""
    if arguments := sys.argv[1:]:  # the Finder passes no arguments: do not wait for a parser
        return _do(arguments)
    try:
        display = has_display()
    except QtCannotStart as problem:
        print(problem.report, file=sys.stderr)
        return 1
    if not display:
        print("No display was found. Chatting in the terminal instead.", flush=True)
        os.execv(sys.executable, [sys.executable, "-m", "engine", "chat"])
    from app.start import run_window

    return run_window(sys.argv)


def _do(arguments: Sequence[str]) -> int:
    import argparse

    parser = argparse.ArgumentParser(
        prog="Slipstream",
        description="Open Slipstream's window. For commands, see `python -m engine`.",
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    parser.add_argument(
        "--self-test", action="store_true", help="test this copy on this machine; prints JSON"
    )
    parser.add_argument(
        "--self-test-picture",
        type=Path,
        metavar="PNG",
        help="test, and save a picture",
    )
    parser.add_argument("--self-test-window", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    picture: Path | None = options.self_test_picture
    if options.version:
        from importlib import metadata

        print(f"Slipstream {metadata.version('slipstream')}")
        return 0
    if options.self_test_window is not None:
        from app.self_test import window as self_test_window

        return self_test_window.main(options.self_test_window, picture)
    from app.self_test import checks as self_test

    return self_test.main(picture)


if __name__ == "__main__":
    sys.exit(main())
