"""Trees drafted from hidden states: each path has the laws that a chain along it would have."""

import mlx.core as mx
import numpy as np
import pytest

from engine.core.decoder import Decoder
from engine.draft_length import DraftChoice
from engine.drafters.eagle import load_eagle
from engine.request import Sampling
from engine.tree import Tree
from models.drafters.folders import describe_drafter
from tests.support.engine.heads import lively_drafter
from tests.support.engine.helpers import GREEDY, read_prompt, up_to
from tests.support.engine.medusas import untrained_medusa
from tests.support.engine.mtp import TARGETS, build_target, mtp_drafter
from tests.support.engine.parity.drafters import EAGLES
from tests.support.engine.tiny import shallow
from tests.support.mostly_slow import mostly_slow

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
KEY = mx.random.key(0)
WARM = Sampling(temperature=0.8)
PENALIZED = Sampling(temperature=0.8, repetition_penalty=1.5)
SHAPE = Tree((-1, -1, 0, 0, 1, 2, 2, 4, 3, 5, 7))


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
        return target, untrained_medusa(target, heads=SHAPE.height - 1)
    return target, lively_drafter(target)


def proposed(drafter, sampling, tokens=TOKENS):
    choice = DraftChoice(SHAPE.height, tree=SHAPE)
    draft = drafter.propose(list(tokens), choice, sampling, KEY)
    mx.eval(draft.tokens, draft.q, draft.distributions)
    drafter.accept(())
    return draft


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
    assert draft.distributions is not None
    return np.array(draft.distributions, dtype=np.float64)


def furthest(kind, folder, patch, sampling=WARM):
    """By how much a token's distribution differs from that of a chain along its path, without the
    alternatives before it."""
    target, drafter = drafter_of(kind, folder)
    read_prompt(target, drafter, TOKENS)
    draft = proposed(drafter, sampling)
    ids, tree = draft.tokens.tolist(), draft.shape
    assert tree == SHAPE.no_higher(SHAPE.height - (kind == "Medusa"))
    assert draft.distributions is not None
    apart = 0.0
    for path in tree.paths:
        rows = chain_along(drafter, [ids[i] for i in path], sampling, patch)
        for token, q in zip(path, rows, strict=True):
            q[[ids[i] for i in tree.children(tree.parents[token]) if i < token]] = 0.0
            drawn_from = np.array(draft.distributions[token])
            apart = max(apart, np.abs(q / q.sum() - drawn_from).max())
    return apart


TOLERANCE = 1e-4


@pytest.mark.parametrize(
    "kind",
    mostly_slow(
        ["head", "Medusa", *EAGLES, *TARGETS],
        quick=["head", "Medusa", "eagle3-window", "qwen3_5"],
    ),
)
def test_each_path_has_a_chains_laws(kind, tmp_path, monkeypatch):
    assert furthest(kind, tmp_path, monkeypatch) < TOLERANCE


@pytest.mark.parametrize("kind", mostly_slow(["head", "eagle3-window"], quick=["head"]))
def test_penalties_are_for_what_is_on_the_path(kind, tmp_path, monkeypatch):
    assert furthest(kind, tmp_path, monkeypatch, PENALIZED) < TOLERANCE


@pytest.mark.quick(3)
@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "warm"])
@pytest.mark.parametrize("kind", ["head", "qwen3_5", "eagle3-official"])
def test_what_was_drafted_is_forgotten(kind, sampling, tmp_path):
    target, drafter = drafter_of(kind, tmp_path)
    read_prompt(target, drafter, TOKENS)
    first = proposed(drafter, sampling).tokens.tolist()
    assert proposed(drafter, sampling).tokens.tolist() == first
    committed = [*TOKENS, first[0], 7]
    target.read(mx.array(committed[target.length : -1]))
    second = proposed(drafter, sampling, committed)
    target, fresh = drafter_of(kind, tmp_path / "fresh")
    read_prompt(target, fresh, committed)
    other = proposed(fresh, sampling, committed)
    assert second.shape == other.shape
    assert second.tokens.tolist() == other.tokens.tolist()
    assert second.q.tolist() == pytest.approx(other.q.tolist(), rel=1e-3)
