"""Ranks for all tests that want them: each number of them starts once."""

import pytest

from tests.support.engine.ranks import started


@pytest.fixture(scope="session", params=[2])
def ranks(request):
    """Two ranks, or as many as an indirect parameter says."""
    with started(request.param) as ranks:
        yield ranks
