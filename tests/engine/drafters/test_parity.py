"""Our drafters' networks compute what other people's programs computed of the same weights.

What those programs gave is kept: see `tests.support.engine.parity.subjects`.
"""

import pytest

from tests.support.engine.parity.drafters import DRAFTERS, ours
from tests.support.engine.parity.subjects import TOLERANCE, difference, kept


@pytest.mark.parametrize("name", DRAFTERS)
def test_it_computes_what_others_compute(name):
    assert difference(ours(DRAFTERS[name]), kept(DRAFTERS[name])) <= TOLERANCE
