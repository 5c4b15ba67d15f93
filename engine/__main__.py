"""`python -m engine` is `slipstream`."""

from engine.cli.main import main

if __name__ == "__main__":
    main()
