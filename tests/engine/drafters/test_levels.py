"""Trees drafted level by level, from hidden states too: the shape that was asked for, and the laws
that are said."""

from dataclasses import replace
from itertools import product

import mlx.core as mx
import numpy as np
import pytest

from engine.core.decoder import Decoder
from engine.core.sampling import History, distribution, scores
from engine.draft_length import DraftChoice
from engine.drafters.chain import DraftRequest
from engine.drafters.eagle import load_eagle
from engine.drafters.levels import draft_tree
from engine.drafters.rows import Rows
from engine.request import Sampling
from engine.tree import COMMITTED, Tree
from models.drafters.folders import describe_drafter
from tests.engine.drafters.test_heads import untrained_medusa
from tests.support.engine.chi_square import excess
from tests.support.engine.heads import lively_drafter
from tests.support.engine.helpers import GREEDY, read_prompt, up_to
from tests.support.engine.markov import random_table
from tests.support.engine.mtp import TARGETS, build_target, mtp_drafter
from tests.support.engine.parity.drafters import EAGLES
from tests.support.engine.tiny import shallow
from tests.support.mostly_slow import mostly_slow

VOCABULARY = 5
TABLE = random_table(VOCABULARY, sharpness=1.0)
PROMPT = [3, 1]
SHAPE = Tree((-1, 0, -1, 0, 2, 2, -1, 1, 4, 4))
BROAD = Tree((-1, -1, -1, 0, 0, 0, 2, 2, 3, 6))
WARM = Sampling(temperature=0.8)
PENALIZED = Sampling(temperature=0.8, repetition_penalty=1.6, frequency_penalty=0.5)


def reader():
    """Of a table of the last two tokens."""
    read = []  # all that were read so far

    def logits(tokens, tree):
        read.extend(tokens.tolist())
        assert len(read) == len(tree), "not all that are read are in the tree"
        first = len(tree) - tokens.size
        numbers = range(first, len(tree)) if tokens.size else (COMMITTED,)
        texts = [[*PROMPT, *(read[i] for i in tree.path(number))] for number in numbers]
        return mx.stack([TABLE[text[-2], text[-1]] for text in texts])

    return logits


def draft(sampling=WARM, *, shape=SHAPE, seed=0, read=None):
    choice, key = DraftChoice(shape.height, tree=shape), mx.random.key(seed)
    asked = DraftRequest(PROMPT, choice, sampling, key, Rows(VOCABULARY), "table")
    return draft_tree(read or reader(), asked)


def law(text, sampling):
    """The probability of each token after `text`, which begins with the prompt."""
    history = History(list(text), sampling).windows(mx.zeros((0,), dtype=mx.int32), 0, 1)
    scored = scores(TABLE[text[-2], text[-1]][None], history, sampling)
    return np.array(distribution(scored, sampling)[0], dtype=np.float64)


def without(q, tokens):
    left = q.copy()
    left[list(tokens)] = 0.0
    return left / left.sum()


@pytest.mark.parametrize(
    ("sampling", "shape"),
    [
        (WARM, SHAPE),
        (PENALIZED, SHAPE),
        *((replace(WARM, top_k=kept), BROAD) for kept in (1, 2, 3)),
    ],
)
def test_each_token_is_drawn_from_what_is_said(sampling, shape):
    """Once the filters leave none, the rejected ones are drawn."""
    drafted = draft(sampling, shape=shape)
    assert drafted.shape == shape
    ids = drafted.tokens.tolist()
    for token, parent in enumerate(shape.parents):
        text = [*PROMPT, *(ids[i] for i in shape.path(parent))]
        before = [ids[i] for i in shape.children(parent) if i < token]
        left = len(before) < (sampling.top_k or VOCABULARY)
        expected = without(law(text, sampling if left else WARM), before)
        assert np.allclose(np.array(drafted.distributions[token]), expected, atol=1e-6)
        assert drafted.q[token].item() == pytest.approx(expected[ids[token]], rel=1e-4)
        assert expected[ids[token]] > 0.0


def chances_of_drafts(shape, sampling):
    """Of each draft of this shape, (vocabulary,) * tokens."""
    chances = np.zeros((VOCABULARY,) * len(shape))
    for ids in product(range(VOCABULARY), repeat=len(shape)):
        chance = 1.0
        for token, parent in enumerate(shape.parents):
            before = [ids[i] for i in shape.children(parent) if i < token]
            q = law([*PROMPT, *(ids[i] for i in shape.path(parent))], sampling)
            chance *= 0.0 if ids[token] in before else without(q, before)[ids[token]]
        chances[ids] = chance
    return chances


def far_off(shape, sampling, *, drafts=120):
    """How far drafts are from having their chances: above 1 is a proof."""
    counts = np.zeros((VOCABULARY,) * len(shape), dtype=np.int_)
    for seed in range(drafts):
        counts[tuple(draft(sampling, shape=shape, seed=seed).tokens.tolist())] += 1
    return excess(counts.reshape(-1), chances_of_drafts(shape, sampling).reshape(-1))


FORKED = Tree((-1, -1, 0))


@pytest.mark.parametrize("sampling", mostly_slow([WARM, PENALIZED], quick=[PENALIZED]))
def test_drafts_have_their_chances(sampling):
    assert far_off(FORKED, sampling) < 1.0


def best_paths(shape):
    """The worthiest texts, and their worths: as many as the shape has tokens, by trying all."""
    found = []
    for length in range(1, shape.height + 1):
        for ids in product(range(VOCABULARY), repeat=length):
            worth = 1.0
            for i, token in enumerate(ids):
                worth *= law([*PROMPT, *ids[:i]], GREEDY)[token]
            found.append((worth, list(ids)))
    return sorted(found, key=lambda each: -each[0])[: len(shape)]


@pytest.mark.parametrize("size", [1, 3, 8])
def test_the_likeliest_tree_is_the_best_one(size):
    shape = Tree((*range(-1, min(size, 3) - 1), *([-1] * (size - 3))))
    drafted = draft(GREEDY, shape=shape)
    ids, tree = drafted.tokens.tolist(), drafted.shape
    texts = [[ids[i] for i in tree.path(token)] for token in range(len(tree))]
    worths = [np.prod(each) for each in paths_of_q(drafted)]
    expected = best_paths(shape)
    assert worths == pytest.approx([worth for worth, _ in expected], rel=1e-4)
    assert texts == [text for _, text in expected]
    assert drafted.distributions is None


def paths_of_q(drafted):
    q, tree = drafted.q.tolist(), drafted.shape
    return [[q[i] for i in tree.path(token)] for token in range(len(tree))]


def test_where_the_drafter_is_sure_the_tree_is_a_chain():
    def sure(tokens, tree):
        return mx.broadcast_to(100.0 * mx.eye(VOCABULARY)[2], (max(tokens.size, 1), VOCABULARY))

    drafted = draft(GREEDY, shape=Tree((-1, 0, 1, -1)), read=sure)
    assert drafted.tree is None
    assert drafted.tokens.tolist() == [2, 2, 2]  # what has no chance at all is left out


# --- From hidden states: each path has the laws that a chain along it would have

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
KEY = mx.random.key(0)
TALL = Tree((-1, -1, 0, 0, 1, 2, 2, 4, 3, 5, 7))


def drafter_of(kind, folder):
    if kind in EAGLES:
        target = Decoder(EAGLES[kind].target_model())
        path = EAGLES[kind].write(folder / "drafter")
        return target, load_eagle(describe_drafter(path), target)
    if kind in TARGETS:
        target = Decoder(build_target(kind))
        return target, mtp_drafter(target)
    target = Decoder(shallow("llama"))
    if kind == "Medusa":
        return target, untrained_medusa(target, heads=TALL.height - 1)
    return target, lively_drafter(target)


def chain_along(drafter, path, sampling, patch):
    """What each token of a chain would be drawn from if these were drawn before it."""
    forced = iter(path)
    with patch.context() as patched:
        patched.setattr(
            "engine.drafters.rows.Rows.tokens",
            lambda self, rows: mx.array([next(forced)], dtype=mx.int32),
        )
        draft = drafter.propose(list(TOKENS), up_to(len(path)), sampling, KEY)
    drafter.accept(())
    return np.array(draft.distributions, dtype=np.float64)


CASES = [(kind, "warm") for kind in ("head", "Medusa", *EAGLES, *TARGETS)]
CASES += [("head", "penalized"), ("eagle3-window", "penalized")]  # by what is on the path
QUICK = [(kind, "warm") for kind in ("head", "Medusa", "eagle3-window", "qwen3_5")]


@pytest.mark.parametrize(("kind", "how"), mostly_slow(CASES, quick=[*QUICK, ("head", "penalized")]))
def test_each_path_has_a_chains_laws(kind, how, tmp_path, monkeypatch):
    """Without the alternatives before a token."""
    sampling = {"warm": WARM, "penalized": PENALIZED}[how]
    target, drafter = drafter_of(kind, tmp_path)
    read_prompt(target, drafter, TOKENS)
    draft = drafter.propose(TOKENS, DraftChoice(TALL.height, tree=TALL), sampling, KEY)
    drafter.accept(())
    ids, tree = draft.tokens.tolist(), draft.shape
    assert tree == TALL.no_higher(TALL.height - (kind == "Medusa"))
    for path in tree.paths:
        rows = chain_along(drafter, [ids[i] for i in path], sampling, monkeypatch)
        for token, q in zip(path, rows, strict=True):
            q[[ids[i] for i in tree.children(tree.parents[token]) if i < token]] = 0.0
            np.testing.assert_allclose(draft.distributions[token], q / q.sum(), rtol=0, atol=1e-4)
