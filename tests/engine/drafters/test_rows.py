"""What is drawn among a drafter's rows is what would be drawn over the target's vocabulary."""

import mlx.core as mx
from hypothesis import given
from hypothesis import strategies as st

from engine.core.sampling import candidates, distribution, scores
from engine.drafters.rows import Rows
from engine.request import Sampling
from engine.virtual_ids import FIRST

VOCABULARY = 12
ids = st.integers(0, VOCABULARY - 1)
kept_tokens = st.lists(ids, min_size=1, unique=True)
histories = st.lists(st.lists(st.integers(-1, VOCABULARY - 1), min_size=4, max_size=4), min_size=1)
samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.6, 1.3]),
    top_p=st.sampled_from([1.0, 0.7]),
    top_k=st.sampled_from([0, 3]),
    min_p=st.sampled_from([0.0, 0.1]),
    repetition_penalty=st.sampled_from([1.0, 1.5]),
    presence_penalty=st.sampled_from([0.0, 0.4]),
    frequency_penalty=st.sampled_from([0.0, 0.3]),
    logit_bias=st.dictionaries(ids, st.sampled_from([-3.0, 2.0]), max_size=4),
)


def over_all(logits, kept):
    """By the definition: what has no row is impossible."""
    whole = mx.full((logits.shape[0], VOCABULARY), -mx.inf)
    for row, token in enumerate(kept):
        whole[:, token] = logits[:, row]
    return whole


@given(kept_tokens, histories, samplings, st.integers(0, 1000))
def test_the_law_is_that_of_the_whole_vocabulary(kept, histories, sampling, seed):
    rows, history = Rows(VOCABULARY, kept), mx.array(histories)
    logits = mx.random.normal((len(histories), len(kept)), key=mx.random.key(seed))
    ours = rows.scores(logits, history, sampling)
    theirs = scores(over_all(logits, kept), history, sampling)
    assert mx.array_equal(ours, mx.take(theirs, mx.array(kept), axis=-1))
    p = rows.over_vocabulary(candidates(ours, sampling))
    assert mx.allclose(p, distribution(theirs, sampling), atol=1e-6)


@given(kept_tokens)
def test_tokens_have_rows_and_rows_tokens(kept):
    rows = Rows(VOCABULARY, kept)
    assert rows.tokens(mx.arange(len(kept))).tolist() == kept
    assert rows.of(mx.array([*kept, -1])).tolist() == [*range(len(kept)), -1]
    others = [*sorted(set(range(VOCABULARY)) - set(kept)), VOCABULARY + 1, FIRST]
    assert rows.of(mx.array(others, dtype=mx.int32)).tolist() == [-1] * len(others)


@given(kept_tokens, st.lists(ids), samplings)
def test_more_rows_are_as_if_they_had_been_there(kept, tokens, sampling):
    rows = Rows(VOCABULARY, kept)
    new = rows.missing(tokens)
    more, whole = rows.and_of(new), Rows(VOCABULARY, [*kept, *new])
    every = mx.arange(-1, VOCABULARY)
    assert more.of(every).tolist() == whole.of(every).tolist()
    assert more.tokens(mx.arange(len(kept) + len(new))).tolist() == [*kept, *new]
    logits = mx.random.normal((1, len(kept) + len(new)), key=mx.random.key(0))
    history = mx.array([[-1, *tokens]])
    assert mx.array_equal(
        more.scores(logits, history, sampling), whole.scores(logits, history, sampling)
    )
    assert more.missing(tokens) == []
    assert rows.missing(tokens) == new  # the others are as they were
