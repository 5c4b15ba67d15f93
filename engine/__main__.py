"""`python -m engine` is `slipstream`."""

import signal
import sys


def main() -> None:
    """Run the command line; an engine for another program begins without its imports."""
    if sys.argv[1:] == ["host"]:
        from engine.process.host import main as serve

        serve()
    # A Ctrl-C during these imports, which take most of a second, ends them without a traceback.
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from engine.cli.main import main as run

    signal.signal(signal.SIGINT, handler)
    run()


if __name__ == "__main__":
    main()
