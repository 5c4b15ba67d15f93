"""`python -m app` opens the window; without a display it chats in the terminal instead.

Imports no Qt before it is known that there is a display: without one it may not even load.
"""

import importlib.util
import os
import sys

from app.display import has_display


def main() -> int:
    """Run until the window is closed; the process's exit status."""
    if "--benchmark" in sys.argv[1:]:
        return _benchmark()
    if not has_display():
        print("There is no display here, so Slipstream chats in the terminal.", flush=True)
        os.execv(sys.executable, [sys.executable, "-m", "engine", "chat"])
    from app.start import run_window

    return run_window(sys.argv)


def _benchmark() -> int:
    if importlib.util.find_spec("app.benchmark") is None:
        print("This copy of Slipstream has no benchmark of its window.", file=sys.stderr)
        return 2
    benchmark = importlib.import_module("app.benchmark.run")
    status: int = benchmark.main()
    return status


if __name__ == "__main__":
    sys.exit(main())
