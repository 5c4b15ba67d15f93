"""Ranks for all tests of this folder that want them: each number of them starts once."""

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import pytest

from tests.support.engine.ranks import Ranks, started

HERE = Path(__file__).parent
_OPEN = pytest.StashKey[ExitStack]()
_GROUPS = pytest.StashKey[dict[int, Ranks]]()


@pytest.fixture
def ranks(request):
    """Two ranks, or as many as an indirect parameter says."""
    return request.config.stash[_GROUPS][getattr(request, "param", 2)]


def pytest_runtest_setup(item):
    """Start them before anybody looks which processes a test leaves behind."""
    if "ranks" not in getattr(item, "fixturenames", ()):
        return
    size = item.callspec.params.get("ranks", 2) if hasattr(item, "callspec") else 2
    opened = item.config.stash.setdefault(_OPEN, ExitStack())
    groups = item.config.stash.setdefault(_GROUPS, {})
    if size in groups and all(process.is_alive() for process in groups[size].processes):
        return
    home = opened.enter_context(tempfile.TemporaryDirectory())
    with mock.patch.dict(os.environ, SLIPSTREAM_HOME=home):
        groups[size] = opened.enter_context(started(size))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    leaves = nextitem is None or not nextitem.path.is_relative_to(HERE)
    if leaves and _OPEN in item.config.stash:
        item.config.stash[_OPEN].close()
        item.config.stash[_GROUPS].clear()
