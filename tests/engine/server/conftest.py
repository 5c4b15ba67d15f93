"""Tests of the server may be coroutines: each runs in an event loop of its own, with a limit."""

from inspect import iscoroutinefunction

import pytest

from tests.support.documents.read_here import read_here  # noqa: F401
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
