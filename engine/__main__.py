"""`python -m engine` is `slipstream`."""

import sys


def main() -> None:
    """Run the command line; an engine for another program begins without its imports."""
    if sys.argv[1:] == ["host"]:
        from engine.process.host import main as serve

        serve()
    from engine.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
