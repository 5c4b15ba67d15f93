"""A drafting model that does not read all of the prompt: the text stays the target's, what it holds
is a prefix of what it should have read, and it says what its tokens were really drawn from."""

import random
from functools import cache
from itertools import product

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.decoder import Decoder
from engine.drafters.model import Abridged, ModelDrafter, ParallelDrafter
from engine.drafters.other_tokenizer import OtherTokenizerDrafter, Translation
from engine.request import Sampling
from tests.engine.drafters.test_other_tokenizer import told
from tests.support.engine.helpers import GREEDY, up_to
from tests.support.engine.tiny import build
from tests.support.engine.writings import of_letters
from tests.support.mostly_slow import mostly_slow

KEY = mx.random.key(0)
DRAWN = Sampling(temperature=0.8, repetition_penalty=1.3, penalty_window=16)


def gaps_of(edges):
    """Ranges between the first two, the next two, ... of these numbers, once each and in order."""
    pairs = iter(sorted(set(edges)))
    return tuple(range(*pair) for pair in zip(pairs, pairs, strict=False))


GAPS = st.lists(st.integers(0, 40), max_size=8).map(gaps_of)
TEXTS = st.lists(st.integers(0, 3), min_size=1, max_size=48)


@given(gaps=GAPS, tokens=TEXTS, more=TEXTS, length=st.integers(0, 48))
def test_what_is_read_goes_on_as_the_text_does(gaps, tokens, more, length):
    text, length = Abridged(gaps), min(length, len(tokens))
    read = text.of(tokens)
    left_out = {place for gap in gaps for place in gap}
    assert read == [token for place, token in enumerate(tokens) if place not in left_out]
    assert text.ends_in_gap(tokens) == (len(tokens) - 1 in left_out)
    held = text.of(tokens[:length])
    assert len(held) == text.length(length)
    assert text.of([*tokens[:length], *more])[: len(held)] == held


@given(before=GAPS, now=GAPS, tokens=TEXTS, held=st.integers(0, 48))
def test_with_other_gaps_what_is_held_is_a_prefix_still(before, now, tokens, held):
    text = Abridged(before)
    held = min(held, text.length(len(tokens)))
    read = text.of(tokens)[:held]

    def rewind(length):
        del read[text.length(length) :]

    other = text.changed(now, rewind=rewind)
    assert other == Abridged(now)
    assert other.of(tokens)[: len(read)] == read
    if before == now:
        assert len(read) == held


KINDS = ("model", "PARD", "other tokens")
ARCHITECTURES = ("llama", "gemma3_text", "qwen3_5", "mamba")


@cache
def model_of(kind, architecture):
    return build(architecture, seed=1, layers=2)


def new(kind, architecture="llama"):
    own = Decoder(model_of(kind, architecture), block=16)
    if kind == "PARD":
        return ParallelDrafter(own, vocabulary=64, mask=63), own
    if kind == "other tokens":
        pair = Translation(*of_letters(), vocabulary=64, rows=own.vocabulary)
        return OtherTokenizerDrafter(own, pair), own
    return ModelDrafter(own, vocabulary=64), own


@pytest.mark.usefixtures("on_the_cpu")
@pytest.mark.parametrize(
    ("kind", "sampling", "architecture", "seed"),
    mostly_slow(
        product(KINDS, (GREEDY, DRAWN), ARCHITECTURES, range(3)),
        quick=[("model", DRAWN, architecture, 1) for architecture in ("gemma3_text", "qwen3_5")],
    ),
)
def test_it_proposes_what_a_fresh_one_does(kind, sampling, architecture, seed):
    """For prompts that begin alike, each with other gaps."""
    luck = random.Random(seed)
    used, own = new(kind, architecture)
    prompt, gaps = [], ()
    for turn in range(4):
        shared = luck.randrange(len(prompt) + 1)
        prompt = [*prompt[:shared], *(luck.randrange(48) for _ in range(luck.randrange(20, 60)))]
        if turn != 2:  # which has those of the turn before
            edges = [luck.randrange(len(prompt) - 1) for _ in range(luck.choice([0, 2, 4, 6]))]
            gaps = gaps_of(edges)
        used.rewind(shared)
        used.leave_out(lambda: gaps)  # noqa: B023
        if turn % 2:
            list(used.prepare(prompt))
        for accepted in (0, 3, 1):
            draft = used.propose(prompt, up_to(4), sampling, KEY)
            fresh, _ = new(kind, architecture)
            fresh.leave_out(lambda: gaps)  # noqa: B023
            assert told(draft) == told(fresh.propose(prompt, up_to(4), sampling, KEY))
            assert own.length <= len(Abridged(gaps).of(prompt)) + 4
            kept = [] if draft is None else draft.tokens.tolist()[:accepted]
            if draft is not None:
                used.accept(range(len(kept)))
            prompt = [*prompt, *kept, luck.randrange(48)]
            used.rewind(len(prompt))


def test_a_long_document_is_not_read():
    drafter, own = new("model")
    prompt = [token % 48 for token in range(900)]
    drafter.leave_out(lambda: [range(5, 400), range(450, 880)])
    (candidate,) = drafter.candidates(prompt)
    assert candidate.behind == 900 - 395 - 430 - 2
    list(drafter.prepare(prompt))
    assert own.length == 900 - 395 - 430 - 1
