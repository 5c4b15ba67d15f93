"""Two ranks for all tests of this folder that want two: they start once."""

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import pytest

from tests.support.engine.ranks import Ranks, started

HERE = Path(__file__).parent
_OPEN = pytest.StashKey[ExitStack]()
_TWO = pytest.StashKey[Ranks]()


@pytest.fixture
def two(request: pytest.FixtureRequest) -> Ranks:
    return request.config.stash[_TWO]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start them before anybody looks which processes a test leaves behind."""
    if "two" not in getattr(item, "fixturenames", ()):
        return
    stash = item.config.stash
    if _TWO in stash and all(process.is_alive() for process in stash[_TWO].processes):
        return
    _end(item)
    opened = stash[_OPEN] = ExitStack()
    home = opened.enter_context(tempfile.TemporaryDirectory())
    with mock.patch.dict(os.environ, SLIPSTREAM_HOME=home):
        stash[_TWO] = opened.enter_context(started(2))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is None or not nextitem.path.is_relative_to(HERE):
        _end(item)


def _end(item: pytest.Item) -> None:
    if opened := item.config.stash.get(_OPEN, None):
        opened.close()
