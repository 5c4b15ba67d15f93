"""The sampler chain, against plain Python, and its histories."""

import math
import re
import tempfile
from collections import Counter
from itertools import product
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.core.accept import by_block, outcomes
from engine.core.sampling import (
    CANDIDATES,
    History,
    candidates,
    distribution,
    draw,
    entries,
    scores,
)
from engine.drafters.dflash import CandidateSelector, SelectedSlots
from engine.drafters.gemma_assistant import ClusteredOutput
from engine.request import Sampling
from engine.tree import Tree
from models.errors import Problem
from tests.support.engine.chi_square import excess

FILTERS = [
    Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    for temperature, top_k, top_p, min_p in [
        (1.0, 0, 1.0, 0.0),
        (0.3, 0, 1.0, 0.0),
        (2.5, 0, 1.0, 0.0),
        (1.0, 5, 1.0, 0.0),
        (1.0, 1, 1.0, 0.0),
        (1.0, 0, 0.7, 0.0),
        (1.0, 0, 0.01, 0.0),
        (1.0, 0, 1.0, 0.1),
        (1.0, 0, 1.0, 1.0),
        (0.6, 7, 0.9, 0.05),
        (1.5, 3, 0.5, 0.02),
        (1.0, 500, 0.0, 0.0),  # both mean: no filter
    ]
]


def filtered(row, sampling):
    """The distribution by the filters' definitions, in plain Python; no two scores are equal."""
    p = np.exp(row - row.max())
    p /= p.sum()
    kept = np.ones(len(p), dtype=bool)
    if 0.0 < sampling.top_p < 1.0:
        order = np.argsort(-p)
        above = np.concatenate([[0.0], np.cumsum(p[order])[:-1]])
        kept[order[above >= sampling.top_p]] = False
    kept &= p >= sampling.min_p * p.max()
    if sampling.top_k:
        best = sorted(np.flatnonzero(kept), key=lambda i: -p[i])[: sampling.top_k]
        kept &= np.isin(np.arange(len(p)), best)
    powered = np.where(kept, p ** (1 / sampling.temperature), 0.0)
    return powered / powered.sum()


def small_rows():
    """With impossible tokens, as of a drafter with a smaller vocabulary."""
    scored = 2.0 * mx.random.normal((20, 40), key=mx.random.key(8))
    scored[:, ::7] = -mx.inf
    return scored


def large_rows(vocabulary):
    """The likeliest side by side, spread, and after the last whole block."""
    scored = 3.0 * mx.random.normal((3, vocabulary), key=mx.random.key(10))
    scored[0, :400] += 9.0
    scored[1, ::50] += 9.0
    scored[2, -3:] += 9.0
    return scored


def test_distribution_by_definition():
    """In a large vocabulary filters are about the candidates; no row depends on those beside it."""
    for scored, sampling in product(
        [small_rows(), large_rows(2 * CANDIDATES), large_rows(12 * CANDIDATES + 5)], FILTERS
    ):
        ours = np.array(distribution(scored, sampling))

        rows = np.array(scored, dtype=np.float64)
        filters = 0.0 < sampling.top_p < 1.0 or sampling.min_p or sampling.top_k
        least = np.sort(rows)[:, -CANDIDATES:][:, :1] if filters else -np.inf
        expected = [filtered(row, sampling) for row in np.where(rows >= least, rows, -np.inf)]
        case = f"{scored.shape} {sampling}"
        np.testing.assert_allclose(ours, np.stack(expected), 1e-3, 1e-7, err_msg=case)
        assert not filters or np.array_equal(ours > 0, np.stack(expected) > 0), case
        alone = [np.array(distribution(row[None], sampling))[0] for row in scored]
        np.testing.assert_array_equal(ours, np.stack(alone), err_msg=case)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.integers(1, 63))
def test_top_p_keeps_what_has_less_than_it_above_and_equals_together(sizes, share):
    mass = [2.0**-size / 64 for size in sizes]
    row = np.array([*mass, 1.0 - sum(mass)])
    sampling = Sampling(temperature=1.0, top_p=share / 64)

    p = distribution(mx.log(mx.array(row, dtype=mx.float32))[None], sampling)

    kept = np.array(p > 0.0)[0]
    above = np.array([row[row > each].sum() for each in row])
    sure = np.abs(above - sampling.top_p) > 1e-5  # else rounding decides
    np.testing.assert_array_equal(kept[sure], (above < sampling.top_p)[sure])
    assert all(len(set(kept[row == each])) == 1 for each in row)


def test_candidates_are_what_is_sampled_from():
    for sampling, vocabulary in product(FILTERS, [40, 2 * CANDIDATES]):
        scored = 3.0 * mx.random.normal((3, vocabulary), key=mx.random.key(12))

        few, spare = (candidates(scored, sampling, spare=each) for each in (False, True))

        ours = np.array(few.over(vocabulary))
        np.testing.assert_allclose(spare.over(vocabulary), ours, atol=1e-6, err_msg=str(sampling))
        if few.ids is not None:
            assert few.p.shape == few.ids.shape == (3, CANDIDATES)
            assert all(len(set(ids)) == CANDIDATES for ids in few.ids.tolist())
        if not sampling.greedy:
            # What the filters reject has next to nothing, in the old proportions.
            p, q, all_scores = np.array(few.p), np.array(spare.p), np.array(scored)
            if few.ids is not None:
                all_scores = np.take_along_axis(all_scores, np.array(few.ids), axis=-1)
            for row, rejected in enumerate(p == 0.0):
                likely = rejected & (all_scores[row] > all_scores[row].max() - 10.0)
                mass, of_scores = q[row][likely], all_scores[row][likely] / sampling.temperature
                assert (mass > 0.0).all()
                np.testing.assert_allclose(
                    mass / mass.sum(), np.exp(of_scores) / np.exp(of_scores).sum(), rtol=1e-3
                )


def points(rows, *, seed):
    return mx.random.uniform(shape=(rows, 1), key=mx.random.key(seed))


def test_a_draw_needs_no_sum_and_follows_the_mass():
    row = mx.array([0.0, 3.0, 0.0, 0.5, 1e-4, 2.0, 0.0])
    drawn = np.array(draw(mx.repeat(row[None], 100_000, 0), points(100_000, seed=4)))
    counts = np.bincount(drawn, minlength=7)
    assert excess(counts, np.array(row, np.float64)) < 1.0
    skewed = np.array(row, np.float64) * [1, 1.1, 1, 1, 1, 1, 1]
    assert excess(counts, skewed) > 1.0, "a tenth more would have been noticed"
    for point in (0.0, 0.25, 0.9999999, 1.0):
        # Where rounding brings the point to the very end, or it is 0 before the first mass.
        drawn = draw(mx.array([[0.0, 1.0, 0.0, 3.0, 0.0]]), mx.array([[point]])).item()
        assert drawn == (1 if point < 0.25 else 3)


@given(
    st.lists(st.sampled_from([0.0, 1e-38, 1e-20, 1e-8, 0.3, 1.0, 7.0]), min_size=1, max_size=40),
    st.integers(0, 1 << 30),
)
def test_what_has_no_mass_is_never_drawn(row, seed):
    assume(any(row))
    drawn = draw(mx.array([row] * 50), points(50, seed=seed))
    assert all(row[index] > 0.0 for index in drawn.tolist())


OUT_OF_RANGE = [
    {"temperature": -0.1},
    {"temperature": math.nan},
    {"temperature": math.inf},
    {"temperature": 1e-40},  # the scores divided by it overflow
    {"top_k": -1},
    {"top_k": 2.5},
    {"top_p": 1.1},
    {"min_p": -0.5},
    {"repetition_penalty": 0.0},
    {"frequency_penalty": math.inf},
    {"penalty_window": 0},
    {"logit_bias": {0: math.inf}},
    {"logit_bias": {0: math.nan}},
    {"logit_bias": {-1: 1.0}},
]


@pytest.mark.parametrize("wrong", OUT_OF_RANGE, ids=str)
def test_settings_out_of_range_are_refused_with_a_remedy(wrong):
    with pytest.raises(Problem) as problem:
        Sampling(**wrong)
    assert problem.value.remedy


def slow_scores(logits, history, sampling):
    """As `scores`, for one row and the whole history, in plain Python."""
    counts = Counter(history[-sampling.penalty_window :])
    result = []
    for token, score in enumerate(logits):
        score += sampling.logit_bias.get(token, 0.0)
        if token in counts:
            by = sampling.repetition_penalty
            score = score / by if score > 0 else score * by
            score -= sampling.presence_penalty
            score -= sampling.frequency_penalty * counts[token]
        result.append(score)
    return result


VOCABULARY = 7
TOKENS = st.integers(0, VOCABULARY - 1)


@given(
    logits=st.lists(st.floats(-8, 8, width=32), min_size=VOCABULARY, max_size=VOCABULARY),
    committed=st.lists(st.integers(0, VOCABULARY + 3), max_size=12),  # a prompt may have others
    drafted=st.lists(TOKENS, max_size=5),
    sampling=st.builds(
        Sampling,
        repetition_penalty=st.sampled_from([0.5, 1.0, 1.3]),
        presence_penalty=st.sampled_from([0.0, 0.7, -1.0]),
        frequency_penalty=st.sampled_from([0.0, 0.25]),
        penalty_window=st.integers(1, 15) | st.just(1 << 20),
        logit_bias=st.dictionaries(st.integers(0, VOCABULARY + 3), st.floats(-5, 5, width=16)),
    ),
    dtype=st.sampled_from([mx.float32, mx.bfloat16]),
)
def test_scores_at_every_position_of_a_round(logits, committed, drafted, sampling, dtype):
    row, rows = mx.array(logits).astype(dtype), len(drafted) + 1
    logits = row.tolist()
    history = History(committed, sampling).windows(mx.array(drafted, dtype=mx.int32), 0, rows)

    ours = scores(mx.repeat(row[None], rows, axis=0), history, sampling)

    assert ours.dtype == mx.float32
    assert row.tolist() == logits
    assert (history is not None) == sampling.penalizes
    # Else each round of a request for all of a large context would build millions of numbers.
    assert history is None or history.shape[1] < 100
    expected = [slow_scores(logits, [*committed, *drafted[:i]], sampling) for i in range(rows)]
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)


VIEWS = frozenset(
    ["Reshape", "Transpose", "Unflatten", "Flatten", "Squeeze", "ExpandDims", "Slice", "Broadcast"]
)
"""Primitives that move no numbers."""


def kernels(*arrays):
    """The primitives that make `arrays`, not evaluated yet, less those that are `VIEWS`."""
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder, "graph.dot")
        mx.export_to_dot(str(graph), *arrays)
        names = re.findall(r'label ?= ?"([A-Za-z0-9_]+)"', graph.read_text())
    return sum(name not in VIEWS for name in names)


@pytest.mark.parametrize(
    ("filters", "most"), [({}, 40), ({"min_p": 0.05}, 55), ({"top_p": 0.8, "top_k": 20}, 60)]
)
def test_a_verdict_takes_few_kernels(filters, most):
    """A GPU begins each of them by itself. Four drafted tokens, each drawn from its own q."""
    logits, q = mx.zeros((5, 15_000), dtype=mx.bfloat16), mx.full((4, 15_000), 1 / 15_000)
    drafted, points = mx.zeros((4,), dtype=mx.int32), mx.full((5, 1), 0.5)
    mx.eval(logits, q, drafted, points)
    sampling = Sampling(temperature=0.7, **filters)

    p = candidates(scores(logits, None, sampling), sampling)
    may_come = outcomes(by_block, drafted, p, q, Tree.chain(4))
    columns = draw(may_come.own, points)

    assert 20 < kernels(*may_come, p.of(columns), entries(p.p, columns)) <= most


def test_no_drafter_sorts_a_whole_vocabulary(monkeypatch):
    """On Metal a partition is a sort of each row."""
    widths, partition = list[int](), mx.argpartition

    def spy(rows, *more, **options):
        widths.append(rows.shape[-1])
        return partition(rows, *more, **options)

    monkeypatch.setattr(mx, "argpartition", spy)
    selector = CandidateSelector(8, rank=4, vocabulary=4096)
    SelectedSlots(selector, mx.zeros((3, 8)), mx.random.normal((3, 4096)), 16)
    clustered = ClusteredOutput(8, 8192, clusters=2048, likeliest=32)
    clustered(mx.zeros((1, 8)), lambda ids: mx.zeros((*ids.shape, 8)))
    assert widths
    assert max(widths) <= 4096 // 8
