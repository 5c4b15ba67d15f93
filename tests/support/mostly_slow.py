"""Of many cases a few are tried by `make test`; the others are marked slow, for `make test-all`."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def mostly_slow(cases: Iterable[Any], *, quick: Collection[Any]) -> list[Any]:
    """For `parametrize`; a tuple is the values of several arguments."""
    listed = list(cases)
    assert all(case in listed for case in quick)
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=() if case in quick else pytest.mark.slow,
        )
        for case in listed
    ]
