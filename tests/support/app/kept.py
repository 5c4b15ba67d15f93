"""Texts that tests expect, kept in files: `ACCEPT=1` writes what a test has found."""

import os
from pathlib import Path

_DATA = Path(__file__).parents[2] / "app" / "data"


def kept(name, found=""):
    """Return the text of a file of `tests/app/data`, which is `found` if that is accepted."""
    file = _DATA / name
    if found and os.environ.get("ACCEPT"):
        file.write_text(found, encoding="utf-8")
    return file.read_text(encoding="utf-8")
