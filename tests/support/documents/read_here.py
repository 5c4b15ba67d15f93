"""Files and pictures read in this process: for tests of what is done with them."""

import pytest

from engine.documents import child, reading
from engine.documents.hidden import in_one_line
from models.errors import Problem


def _run(name, path, *_, **options):
    try:
        if name == "pixels":
            line, pixels = child.pixels(path)
            return f"{line}\n".encode() + pixels
        return child.read(path).to_json().encode()
    except Problem as problem:
        raise Problem(f"{in_one_line(path.name)}: {problem.message}", problem.remedy) from None


@pytest.fixture
def read_here(monkeypatch):
    """No process of its own reads a file."""
    monkeypatch.setattr(reading, "_run", _run)
