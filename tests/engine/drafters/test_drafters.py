"""The drafters' side of the protocol, each alone: what they propose, and that they say so truly."""

from unittest import mock

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.models.cache import KVCache

from engine.core.decoder import Decoder
from engine.core.sampling import History, candidates, distribution, scores
from engine.draft_length import DraftCandidate
from engine.drafters import DraftArrays, Drafter, DrafterRefused
from engine.drafters.cascade import Cascade
from engine.drafters.chain import DraftRequest, draft_chain
from engine.drafters.early_exit import EarlyExitDrafter, first_layers
from engine.drafters.model import ParallelDrafter
from engine.drafters.rows import Rows
from engine.request import Sampling
from engine.virtual_ids import FIRST
from models.errors import Problem
from tests.support.engine.helpers import GREEDY, proposed, up_to
from tests.support.engine.markov import Markov, random_table
from tests.support.engine.tiny import build
from tests.support.mostly_slow import mostly_slow

KEY = mx.random.key(0)
WARM = Sampling(temperature=0.8)
PENALIZED = Sampling(temperature=0.8, frequency_penalty=0.9, penalty_window=3)


# --- chain


@pytest.mark.parametrize("sampling", [GREEDY, PENALIZED], ids=["greedy", "penalized"])
def test_chain_reads_each_token_once_and_the_last_not_at_all(sampling):
    """And draws each from what it says, by the text before it."""
    table = random_table(5)
    model = Markov(table)
    cache, read = [KVCache()], []

    def reading(tokens):
        read.extend(tokens.tolist())
        return model(tokens[None], cache=cache)[0]

    asked = DraftRequest([1, 2, 3], up_to(4), sampling, KEY, Rows(5), "x")
    proposal = draft_chain(reading, asked, unread=[1, 2, 3])

    drafted = proposal.tokens.tolist()
    assert read == [1, 2, 3, *drafted[:-1]]
    assert (proposal.tokens.dtype, proposal.q.dtype) == (mx.int32, mx.float32)
    for i, token in enumerate(drafted):
        text = [1, 2, 3, *drafted[:i]]
        history = History(text, sampling).windows(mx.array([], dtype=mx.int32), 0, 1)
        law = distribution(scores(table[text[-2], text[-1]][None], history, sampling), sampling)
        assert proposal.q[i].item() == pytest.approx(law[0, token].item(), rel=1e-5)
        if sampling.greedy:
            assert token == mx.argmax(law).item()
        else:
            np.testing.assert_allclose(proposal.distributions[i], law[0], rtol=1e-5)
    assert sampling.greedy == (proposal.distributions is None)  # which greedy decoding lacks


# --- model


MASK = 63


@pytest.mark.parametrize("length", [1, 2, 6])
def test_a_mask_gives_the_token_after_it(length):
    """As one pass over everything gives it, without a cache."""
    model, tokens = build("llama", seed=1, layers=2), [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
    reader = Decoder(model)
    drafter = ParallelDrafter(reader, vocabulary=64, mask=MASK)
    assert list(drafter.prepare(tokens))
    logits = model(mx.array([[*tokens, *[MASK] * (length - 1)]]))[0, -length:]
    assert proposed(drafter, tokens, length) == mx.argmax(logits, axis=-1).tolist()
    assert reader.length == len(tokens)  # the masks are not part of the text


# --- early exit


@pytest.mark.parametrize(
    ("architecture", "layers"),
    mostly_slow(
        [("llama", 3), ("qwen2", 2), ("qwen3", 2), ("gemma3_text", 2), ("mamba", 1)],
        quick=[("gemma3_text", 2), ("mamba", 1)],
    ),
)
def test_early_exit_drafts_what_the_first_layers_would_write(architecture, layers):
    model = build(architecture)
    target = Decoder(model)
    drafter = EarlyExitDrafter(target, layers=layers)
    shallow = first_layers(model, layers)
    tokens = list(range(1, 30))
    list(target.prefill(tokens))
    before = target.length

    proposal = drafter.propose(tokens, up_to(4), WARM, KEY)

    drafted = proposal.tokens.tolist()
    logits = shallow(mx.array([[*tokens, *drafted[:-1]]]), cache=None)[0, -4:]
    expected = distribution(scores(logits, None, WARM), WARM)
    np.testing.assert_allclose(proposal.distributions, expected, atol=2e-3)
    # It leaves no trace in the target.
    assert target.length == before
    fresh = Decoder(model)
    list(fresh.prefill(tokens))
    unread = mx.array(tokens[before:])
    assert mx.array_equal(target.read(unread), fresh.read(unread))


@pytest.mark.parametrize(
    ("architecture", "layers", "refusal"),
    [
        *(("llama", layers, Problem) for layers in (0, -1, 4, 9)),  # it has 4
        # Gemma makes one mask for all global layers, from the first of them.
        ("gemma3_text", 1, DrafterRefused),
    ],
)
def test_early_exit_is_refused_where_the_first_layers_cannot_run_alone(
    architecture, layers, refusal
):
    with pytest.raises(refusal) as problem:
        EarlyExitDrafter(Decoder(build(architecture)), layers=layers)
    assert problem.value.remedy


# --- rows

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


@given(kept_tokens, st.lists(ids), samplings)
def test_tokens_have_rows_and_more_rows_are_as_if_they_had_been_there(kept, tokens, sampling):
    rows = Rows(VOCABULARY, kept)
    assert rows.tokens(mx.arange(len(kept))).tolist() == kept
    assert rows.of(mx.array([*kept, -1])).tolist() == [*range(len(kept)), -1]
    others = [*sorted(set(range(VOCABULARY)) - set(kept)), VOCABULARY + 1, FIRST]
    assert rows.of(mx.array(others, dtype=mx.int32)).tolist() == [-1] * len(others)

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


# --- cascade


def proposing(name, *ids, learns, match=0):
    """One that always proposes this chain, of which it is certain, or nothing."""
    tokens = mx.array(ids, dtype=mx.int32)
    draft = DraftArrays(tokens, mx.ones(tokens.shape), None, name) if ids else None
    made = mock.create_autospec(Drafter, instance=True, learns=learns, dropped=frozenset())
    made.name = name
    made.candidates.return_value = (DraftCandidate(name, 8, match, behind=2, alternatives=3),)
    made.prepare.side_effect = lambda tokens: iter([len(tokens)])
    made.propose.return_value = draft
    return made


def cascade(copied, guessed):
    drafters = [
        proposing("copy", *copied, match=5, learns=1),
        proposing("head", *guessed, learns=2),
    ]
    return Cascade(*drafters), drafters


def test_all_name_their_candidates_read_learn_and_are_taken_back():
    """Each learns as many of the likeliest as it wants."""
    both, drafters = cascade([], [])
    assert both.name == "copy+head"
    assert [each.drafter for each in both.candidates([1, 2])] == ["copy", "head"]
    assert list(both.prepare([1, 2])) == [2, 2]
    both.rewind(1)
    for each in drafters:
        each.prepare.assert_called_once_with([1, 2])
        each.rewind.assert_called_once_with(1)
    assert both.learns == 2
    both.learn([1, 7], [[3, 4], [5, 6]])
    copy, head = drafters
    copy.learn.assert_called_once_with([1, 7], [[3], [5]])
    head.learn.assert_called_once_with([1, 7], [[3, 4], [5, 6]])


def test_who_is_named_drafts_and_else_the_first_that_has_something():
    both, (copy, head) = cascade([7], [5])
    for named, drafter in (("head", head), ("copy", copy), ("", copy)):
        draft = both.propose([1, 2], up_to(1, drafter=named), GREEDY, KEY)
        assert draft.drafter == drafter.name
        both.accept((0,))
        drafter.accept.assert_called_once_with((0,))
        drafter.accept.reset_mock()
        assert not copy.accept.called
        assert not head.accept.called

    silent, _ = cascade([], [5])
    draft = silent.propose([1, 2], up_to(1), GREEDY, KEY)
    assert draft.drafter == "head"
    assert silent.propose([1, 2], up_to(1, drafter="copy"), GREEDY, KEY) is None
    nobody, _ = cascade([], [])
    assert nobody.propose([1, 2], up_to(1), GREEDY, KEY) is None


def test_a_cascade_in_a_cascade_stands_for_its_drafters():
    """A prediction in front of several drafters is not asked for what one of them was chosen."""
    inner, _ = cascade([], [5])
    front = proposing("front", 9, match=32, learns=0)
    outer = Cascade(front, inner)
    assert outer.name == "front+copy+head"
    draft = outer.propose([1, 2], up_to(1, drafter="head"), GREEDY, KEY)
    assert (draft.drafter, front.propose.called) == ("head", False)
    outer.learn([1], [[3, 4]])
    assert not front.learn.called
