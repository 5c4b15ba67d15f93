"""A drafting model that does not read all of the prompt: the text stays the target's, what it holds
is a prefix of what it should have read, and it says what its tokens were really drawn from."""

import random
from itertools import product

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.decoder import Decoder
from engine.drafters.model import Abridged, ModelDrafter, ParallelDrafter
from engine.drafters.other_tokenizer import OtherTokenizerDrafter, Translation
from engine.request import Sampling
from tests.engine.drafters.test_other_tokenizer import TEXT, told
from tests.support.engine.helpers import GREEDY, up_to
from tests.support.engine.tiny import shallow
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


SIZES = {"bytes": 260, "trained": 450, "stories": 512}
KINDS = ("model", "PARD", "other tokens")
# The target's tokens, and the drafter's.
PAIRS = ("stories, trained", "trained, stories", "bytes, trained", "trained, bytes")
ARCHITECTURES = ("llama", "gemma3_text", "qwen3_5", "mamba")


def new(kind, architecture, writings):
    names = kind.split(", ")
    vocabulary = SIZES.get(names[-1], 64)
    own = Decoder(shallow(architecture, vocabulary=vocabulary), block=16)
    if kind == "PARD":
        return ParallelDrafter(own, vocabulary=64, mask=63), own
    if kind == "model":
        return ModelDrafter(own, vocabulary=64), own
    tokenizers = [writings[name] for name in names] if kind in PAIRS else of_letters()
    pair = Translation(*tokenizers, vocabulary=SIZES.get(names[0], 64), rows=vocabulary)
    return OtherTokenizerDrafter(own, pair), own


@pytest.mark.usefixtures("on_the_cpu")
@pytest.mark.parametrize(
    ("kind", "architecture", "sampling", "seed"),
    mostly_slow(
        [
            *product(KINDS, ARCHITECTURES, (GREEDY, DRAWN), range(3)),
            *product(PAIRS, ARCHITECTURES[:3], (GREEDY, DRAWN), [1]),
        ],
        quick=[("model", "gemma3_text", DRAWN, 1), (PAIRS[2], "qwen3_5", DRAWN, 1)],
    ),
)
def test_it_proposes_what_a_fresh_one_does(kind, architecture, sampling, seed, writings):
    """For prompts that begin alike, each with other gaps."""
    luck = random.Random(seed)
    text = luck.choices(range(48), k=300)
    if kind in PAIRS:
        text = writings[kind.split(", ")[0]].tokens(TEXT * 8)
    used, own = new(kind, architecture, writings)
    prompt, gaps = [], ()

    def more(count):
        start = luck.randrange(len(text) - count)
        return text[start : start + count]

    for turn in range(4):
        shared = luck.randrange(len(prompt) + 1)
        prompt = [*prompt[:shared], *more(luck.randrange(20, 60))]
        if turn != 2:  # which has those of the turn before
            edges = [luck.randrange(len(prompt) - 1) for _ in range(luck.choice([0, 2, 4, 6]))]
            gaps = gaps_of(edges)
        used.rewind(shared)
        used.leave_out(lambda: gaps)  # noqa: B023
        if turn % 2:
            list(used.prepare(prompt))
        for accepted in (0, 3, 1):
            draft = used.propose(prompt, up_to(4), sampling, KEY)
            fresh, _ = new(kind, architecture, writings)
            fresh.leave_out(lambda: gaps)  # noqa: B023
            assert told(draft) == told(fresh.propose(prompt, up_to(4), sampling, KEY))
            assert kind in PAIRS or own.length <= len(Abridged(gaps).of(prompt)) + 4
            kept = [] if draft is None else draft.tokens.tolist()[:accepted]
            if draft is not None:
                used.accept(range(len(kept)))
            prompt = [*prompt, *kept, *more(1)]
            used.rewind(len(prompt))


def test_a_long_document_is_not_read():
    drafter, own = new("model", "llama", {})
    prompt = [token % 48 for token in range(900)]
    drafter.leave_out(lambda: [range(5, 400), range(450, 880)])
    (candidate,) = drafter.candidates(prompt)
    assert candidate.behind == 900 - 395 - 430 - 2
    list(drafter.prepare(prompt))
    assert own.length == 900 - 395 - 430 - 1
