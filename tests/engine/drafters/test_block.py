"""Drafting in blocks: what is drafted is what the network makes of the committed tokens alone."""

import mlx.core as mx
import pytest

import engine.core.model_parts
import engine.core.rounds
import engine.drafters.block
import engine.drafters.dflash
from engine.core.decoder import Decoder
from engine.core.sampling import History, distribution, scores
from engine.draft_length.policy import Fixed
from engine.drafters.block import BlockDrafter
from engine.drafters.dflash import ContextCache
from engine.request import Sampling
from tests.support.engine.blocks import BLOCK_KINDS, block_drafter, block_network
from tests.support.engine.helpers import PROMPT, plainly, task, up_to, write
from tests.support.engine.tiny import build, shallow
from tests.support.mostly_slow import mostly_slow

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
KEY = mx.random.key(0)
WARM = Sampling(temperature=0.8)
CHAINED = Sampling(
    temperature=1.3, top_p=0.9, top_k=6, repetition_penalty=1.2, frequency_penalty=0.3
)
SMALL = 8  # a vocabulary of which random drafters often draft the right token
SMALL_PROMPT = [token % SMALL for token in PROMPT]


def ready(kind, tokens):
    """A target and a drafter that have read all but the last of `tokens`."""
    target = Decoder(shallow("llama"))
    drafter = block_drafter(target, kind)
    for _ in target.prefill(tokens):
        pass
    assert list(drafter.prepare(tokens))
    return target, drafter


def draft(drafter, tokens, sampling=WARM, *, limit=5):
    drafted = drafter.propose(tokens, up_to(limit), sampling, KEY)
    assert drafted is not None
    return drafted


# --- The context


def test_it_says_how_much_it_has_to_read():
    target = Decoder(shallow("llama"))
    drafter = block_drafter(target, "dflash")
    for _ in target.prefill(TOKENS):
        pass
    (candidate,) = drafter.candidates(TOKENS)
    assert (candidate.drafter, candidate.most, candidate.behind) == ("dflash", 5, 11 - 6)
    for _ in drafter.prepare(TOKENS):
        pass
    assert drafter.candidates(TOKENS)[0].behind == 0


@pytest.mark.parametrize(("shown", "rounds"), [(3, 40), (8, 5)])
def test_the_cache_shows_the_newest_positions(shown, rounds, monkeypatch):
    monkeypatch.setattr(engine.drafters.dflash, "SPARE_CONTEXT", 4)
    cached, length = ContextCache(shown), 0

    def rows(first, count):
        return mx.arange(first, first + count, dtype=mx.float32).reshape(1, 1, count, 1)

    for i in range(rounds):
        cached.append(rows(length, 1 + i % 3), -rows(length, 1 + i % 3))
        length += 1 + i % 3
        if i % 4 == 3:
            cached.cut(2)
            length -= 2
        keys, values = cached.with_block(rows(900, 2), -rows(900, 2))
        expected = [*range(max(length - shown, 0), length), 900, 901]
        assert keys.flatten().tolist() == expected
        assert (-values).flatten().tolist() == expected
        assert all(array.shape[2] < shown + 300 for array in cached.state)


# --- The block


def test_a_causal_block_is_read_as_far_as_it_is_drafted(monkeypatch):
    read = []
    beside = ContextCache.with_block

    def counting(self, keys, values):
        read.append(keys.shape[2])
        return beside(self, keys, values)

    monkeypatch.setattr(ContextCache, "with_block", counting)
    for kind, rows in (("windows", 3), ("dflash", 6), ("dspark", 6)):
        read.clear()
        draft(ready(kind, TOKENS)[1], TOKENS, limit=2)
        assert set(read) == {rows}


# --- The law that tokens are drawn from


def law(kind, drafted, sampling):
    """The distribution of each drafted token, given those before it, by the chain's definition."""
    target = Decoder(shallow("llama"))
    states_of = target.record((1, len(target.model.layers)))
    target.read(mx.array(TOKENS[:-1]))
    network = block_network(target, kind)
    context = network.make_cache()
    network.extend(states_of.between(0, len(TOKENS) - 1)[None], 0, context)
    block = network.block(TOKENS[-1], len(drafted), len(TOKENS) - 1, context)
    rows = []
    for i, token in enumerate([TOKENS[-1], *drafted[:-1]]):
        history = History([*TOKENS, *drafted[:i]], sampling).windows(mx.array([], mx.int32), 0, 1)
        logits = block.read(mx.array([token]))
        rows.append(distribution(scores(logits, history, sampling), sampling))
    return mx.concatenate(rows)


@pytest.mark.parametrize(
    "kind", mostly_slow(BLOCK_KINDS, quick=["dflash2", "recurrent", "windows"])
)
@pytest.mark.parametrize("sampling", [WARM, CHAINED], ids=["warm", "chained"])
def test_what_is_reported_is_the_law_behind_the_chain(kind, sampling):
    _, drafter = ready(kind, TOKENS)
    drafted = draft(drafter, TOKENS, sampling)
    assert drafted.distributions is not None
    expected = law(kind, drafted.tokens.tolist(), sampling)
    assert mx.allclose(drafted.distributions, expected, atol=1e-5)
    q = mx.take_along_axis(expected, drafted.tokens[:, None], axis=-1)[:, 0]
    assert mx.allclose(drafted.q, q, atol=1e-5)
    if kind == "dflash2":
        assert mx.max(mx.sum(drafted.distributions > 0, axis=-1)).item() <= 4


# --- Losslessness


@pytest.mark.parametrize(
    "kind", mostly_slow(["windows", "dflash2", "recurrent"], quick=["recurrent"])
)
def test_half_precision_stays_half(kind):
    """As on a GPU, where weights stay as they are stored."""
    small = build("llama", vocabulary=SMALL, dtype=mx.bfloat16, layers=2)
    target = Decoder(small)
    network = block_network(target, kind)
    network.weights.set_dtype(mx.bfloat16)
    context = network.make_cache()
    network.extend(mx.zeros((1, 3, 2, 64), mx.bfloat16), 0, context)
    network.block(1, 5, 3, context)
    assert {array.dtype for each in context for array in each.state} == {mx.bfloat16}
    tokens = list(SMALL_PROMPT)
    run = write(target, BlockDrafter(target, network, name=kind), Fixed(4), tokens, task(10))
    assert run.tokens == plainly(small, count=10, prompt=SMALL_PROMPT, block=128)
