"""Chooses the part of a test that `make test` runs: some of the cases, some of the examples. `make
test-all` runs all of both."""

import hypothesis
import pytest

QUICK_EXAMPLES, ALL_EXAMPLES = 15, 100  # of a property, unless it says how many


def mostly_slow(cases, *, quick):
    """Cases for `parametrize` or for `params`; all but the `quick` ones are marked slow.

    A tuple is the values of several arguments.
    """
    listed = list(cases)
    assert all(case in listed for case in quick)
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=() if case in quick else pytest.mark.slow,
        )
        for case in listed
    ]


def examples(count):
    """Return `max_examples` for a property: `count` in `make test-all`, otherwise the quick
    profile's share of it.

    Never fewer than five, unless `count` is: the first is the simplest that there is.
    """
    share = count * hypothesis.settings().max_examples // ALL_EXAMPLES
    return max(min(count, 5), share)
