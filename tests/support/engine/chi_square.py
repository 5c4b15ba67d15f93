"""Pearson's chi-square test at a significance of 1 in 10,000. Plain NumPy.

The seeds of the tests are fixed, so that this is how likely a seed is to be unlucky, not a run.
"""

from statistics import NormalDist

import numpy as np

ALPHA = 1e-4
_FEWEST_EXPECTED = 5.0  # cells that expect less are taken together


def excess(counts, probabilities):
    """Return how far the counts are off, in units of what chance explains: above 1 is a proof. The
    last axis has the cells of one distribution, those before it have independent ones."""
    statistic, freedom = 0.0, 0
    cells = counts.shape[-1]
    rows = zip(counts.reshape(-1, cells), probabilities.reshape(-1, cells), strict=True)
    for observed, probability in rows:
        if observed[probability == 0].any():
            return float("inf")  # what cannot be was seen
        expected = probability / probability.sum() * observed.sum()
        observed, expected = _merge(expected, observed, expected)
        if len(expected) > 1:
            statistic += float((np.square(observed - expected) / expected).sum())
            freedom += len(expected) - 1
    assert freedom, "too few counts to say anything"
    return statistic / critical_value(freedom)


def critical_value(freedom):
    """Return the chi-square that is exceeded with chance `ALPHA`: Wilson and Hilferty's
    approximation."""
    spread = 2 / (9 * freedom)
    return float(freedom * (1 - spread + NormalDist().inv_cdf(1 - ALPHA) * spread**0.5) ** 3)


def _merge(expected, *columns):
    """The columns, with the cells that expect too little (and are possible) added into one."""
    small = expected < _FEWEST_EXPECTED
    if small.any() and expected[small].sum() < _FEWEST_EXPECTED:
        # Together still too small: the smallest of the others joins them.
        others = np.flatnonzero(~small)
        if len(others):
            small[others[np.argmin(expected[others])]] = True
    merged = [
        np.append(column[~small], column[small].sum() if small.any() else []) for column in columns
    ]
    return merged
