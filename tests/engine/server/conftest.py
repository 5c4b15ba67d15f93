"""Tests of the server may be coroutines: each runs in an event loop of its own, with a limit."""

from inspect import iscoroutinefunction

import pytest

from engine.documents import child, reading
from engine.documents.hidden import in_one_line
from models.errors import Problem
from tests.support.engine.asking import run


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if not iscoroutinefunction(pyfuncitem.function):
        return None
    run(
        pyfuncitem.obj(
            **{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        )
    )
    return True


def _read(name, path, *_, **options):
    try:
        if name == "pixels":
            line, pixels = child.pixels(path)
            return f"{line}\n".encode() + pixels
        return child.read(path).to_json().encode()
    except Problem as problem:
        raise Problem(f"{in_one_line(path.name)}: {problem.message}", problem.remedy) from None


@pytest.fixture
def read_here(monkeypatch):
    """Files and pictures are read in this process."""
    monkeypatch.setattr(reading, "_run", _read)
