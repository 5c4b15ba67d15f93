"""A drafter with other tokens: what it draws has the distribution that it says, no special token
crosses, and what it has read is the text."""

from dataclasses import replace
from functools import cache

import mlx.core as mx
import numpy as np
import pytest

from engine.core.decoder import Decoder
from engine.drafters import other_tokenizer
from engine.drafters.other_tokenizer import OtherTokenizerDrafter, Translation
from tests.support.engine.drawn_texts import VOCABULARY, WARM
from tests.support.engine.helpers import GREEDY, up_to
from tests.support.engine.markov import decoder as table_decoder
from tests.support.engine.markov import exact, random_table
from tests.support.engine.tiny import build
from tests.support.engine.writings import listed
from tests.support.mostly_slow import mostly_slow

KEY = mx.random.key(0)
LETTERS = {"a": 0, "b": 1, "c": 2, "ab": 3}  # and <s>, 4
OTHER_LETTERS = {"c": 0, "a": 1, "bc": 2, "b": 3, "d": 4}  # and <s>, 5
SHARED = {0: 1, 1: 3, 2: 0}
"""The drafter's token for each of the target's that it has."""


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    root = tmp_path_factory.mktemp("letters")
    ours = listed(root / "ours", LETTERS, merges=[("a", "b")], special=["<s>"])
    return ours, listed(root / "theirs", OTHER_LETTERS, merges=[("b", "c")], special=["<s>"])


def translation(pair, *, vocabulary=VOCABULARY, rows=6):
    return Translation(*pair, vocabulary=vocabulary, rows=rows)


def drafting(pair, *, seed=7):
    """By a random table, in which the special token is likely."""
    table = random_table(6, seed=seed)
    table[..., 5] += 1.5
    return OtherTokenizerDrafter(table_decoder(table), translation(pair))


# --- Drawn from what both have


def test_the_tokens_that_both_have(letters):
    assert translation(letters).own == SHARED
    assert translation(letters, vocabulary=2).own == {0: 1, 1: 3}
    assert translation(letters, rows=3).own == {0: 1, 2: 0}


@pytest.mark.parametrize(
    "sampling", [WARM, replace(WARM, top_p=0.7), replace(WARM, top_k=2), replace(WARM, min_p=0.3)]
)
def test_q_is_the_drafters_among_what_both_have(letters, sampling):
    table = random_table(6, seed=7)
    for tokens in ([0, 2], [2, 1], [3, 0]):
        drafter = OtherTokenizerDrafter(table_decoder(table), translation(letters))
        draft = drafter.propose(tokens, up_to(1), sampling, KEY)
        assert draft.distributions is not None
        own = letters[1].tokens("".join("abc"[t] if t < 3 else "ab" for t in tokens))
        row = table[own[-2], own[-1]]
        whole = mx.full((VOCABULARY, VOCABULARY, VOCABULARY), -mx.inf)
        whole[0, 0, :3] = row[mx.array([SHARED[n] for n in range(3)])]
        expected = exact(whole[:1, :1], sampling)[0, 0]
        assert np.allclose(np.array(draft.distributions)[0], expected, atol=1e-6)
        assert draft.q.item() == draft.distributions[0, draft.tokens.item()].item()


def everything(target, drafter):
    """A mutant: the special token that both call the same is taken for shared."""
    return SHARED | {4: 5}


def test_no_special_token_crosses(letters, monkeypatch):
    def drafted(sampling):
        drafter, found = drafting(letters), set[int]()
        for seed in range(20):
            draft = drafter.propose([0, 1, 2], up_to(4), sampling, mx.random.key(seed))
            found |= set(draft.tokens.tolist() if draft else [])
        return found

    assert drafted(WARM) == {0, 1, 2}
    assert drafted(GREEDY) <= {0, 1, 2}
    monkeypatch.setattr(other_tokenizer, "shared_tokens", everything)
    assert 4 in drafted(WARM), "the mutant would have shown"


# --- Through text

SIZES = {"bytes": 260, "trained": 450, "stories": 512}
PAIRS = [("stories", "trained"), ("trained", "stories"), ("bytes", "trained"), ("trained", "bytes")]
TEXT = "The drafter reads what the target has written: über 日本語. "


def by(model, target, drafter, vocabulary):
    decoder = Decoder(model)
    made = Translation(target, drafter, vocabulary=vocabulary, rows=decoder.vocabulary)
    return OtherTokenizerDrafter(decoder, made)


@cache
def small(architecture="llama", *, vocabulary=450):
    return build(architecture, vocabulary=vocabulary, seed=1, layers=2)


def test_nothing_is_drafted_inside_a_character(writings):
    drafter = by(small(), writings["bytes"], writings["trained"], 260)
    tokens = list(TEXT.encode())
    inside = TEXT.encode().index("日".encode()) + 1
    for sampling in (GREEDY, WARM):
        for more in (0, 1):
            assert drafter.propose(tokens[: inside + more], up_to(4), sampling, KEY) is None
        drafter.rewind(0)
    for length in (inside - 1, inside + 2):
        assert drafter.propose(tokens[:length], up_to(4), WARM, KEY) is not None


# --- What it has read


def told(draft):
    if draft is None:
        return None
    whole = None if draft.distributions is None else draft.distributions.tolist()
    return draft.tokens.tolist(), draft.q.tolist(), whole


def rounds_and_rewinds(make, tokens, sampling):
    """After rounds of every kind, it proposes what one that has just begun proposes."""
    used, at = make(), 20
    for _ in used.prepare(list(tokens[:at])):
        pass
    for accepted_tokens in (0, 3, 1, 4, 2, 0, 2, 4):
        draft = used.propose(list(tokens[:at]), up_to(4), sampling, KEY)
        assert told(draft) == told(make().propose(list(tokens[:at]), up_to(4), sampling, KEY))
        if draft is None:
            at += 1
            continue
        kept = draft.tokens.tolist()[:accepted_tokens]
        used.accept(range(len(kept)))
        tokens = [*tokens[:at], *kept, *tokens[at:]]
        at += len(kept) + 1
        used.rewind(at)
    for length in (at - 1, at - 5, 12, 3):
        used.rewind(length)
        shorter = [*tokens[:length], *tokens[30:40]]
        draft = used.propose(shorter, up_to(4), sampling, KEY)
        assert told(draft) == told(make().propose(shorter, up_to(4), sampling, KEY))


@pytest.mark.usefixtures("on_the_cpu")
@pytest.mark.parametrize(
    ("sampling", "architecture", "target", "drafter"),
    mostly_slow(
        [
            (sampling, kind, *pair)
            for sampling in (GREEDY, WARM)
            for kind in ("llama", "gemma3_text", "qwen3_5")
            for pair in PAIRS
        ],
        quick=[(WARM, "qwen3_5", *PAIRS[2])],
    ),
)
def test_what_was_not_accepted_leaves_no_trace(writings, target, drafter, sampling, architecture):
    model = small(architecture, vocabulary=SIZES[drafter])

    def make():
        return by(model, writings[target], writings[drafter], SIZES[target])

    rounds_and_rewinds(make, writings[target].tokens(TEXT * 4), sampling)


def test_a_copy_has_read_as_much_and_follows_another_text(writings):
    one = by(small(), writings["bytes"], writings["trained"], 260)
    target, text = Decoder(small(vocabulary=260)), list((TEXT * 4).encode())
    list(target.prefill(text))
    list(one.prepare(text))
    one.propose(text, up_to(3), GREEDY, KEY)
    other = one.fork(target)
    (candidate,) = other.candidates(text)
    assert candidate.behind == 0
    turned = [*text[:-9], *b" So does the target, too"]
    other.rewind(len(text) - 9)
    for drafter, its in ((other, turned), (one, text + turned[-9:])):
        alone = by(small(), writings["bytes"], writings["trained"], 260)
        found = [each.propose(its, up_to(3), GREEDY, KEY) for each in (drafter, alone)]
        assert told(found[0]) == told(found[1])
