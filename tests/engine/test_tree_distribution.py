"""End to end: what the loop writes has the target's distribution where drafts branch, and where two
drafters draft side by side.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from unittest import mock

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

import engine.drafters.cascade
from engine.accept import AcceptanceRule, by_block, by_token
from engine.decoder import Decoder
from engine.draft_length.policy import Fixed, FixedTree
from engine.drafters import DraftArrays, Drafter, NoDrafter
from engine.drafters.cascade import Cascade
from engine.drafters.lookahead import LookaheadDrafter
from engine.drafters.recycling import RecyclingDrafter
from engine.drafters.suffix import SuffixDrafter
from engine.request import Sampling
from engine.speculate import RoundVerdict
from engine.tree import Tree
from tests.engine.test_accept import CHAINS
from tests.engine.test_distribution import joint_with_penalties
from tests.support.engine.branching import Branching, TakenForReplaced
from tests.support.engine.chi_square import excess
from tests.support.engine.drawn_texts import (
    DRAFTING,
    PENALIZED,
    PROMPT,
    SHORT,
    TABLE,
    VOCABULARY,
    WARM,
    accepted,
    long_text,
    model_drafter,
    no_ends,
    short_texts,
    write,
)
from tests.support.engine.markov import Markov, decoder, exact, joint
from tests.support.engine.tree_papers import (
    Mistake,
    Paper,
    mistaken,
    recursive_rejection,
    traversal_verification,
)
from tests.support.engine.trees import Shaped
from tests.support.mostly_slow import mostly_slow

LOW = Tree((-1, -1, -1, 0, 0, 1))
HIGH = Tree((-1, 0, 1, 0, -1, 4, -1))
STEEP = Tree((-1, 0, 1, -1))
COLD = replace(WARM, temperature=0.5)
FILTERED = replace(WARM, top_p=0.8)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("kind", "rule"),
    mostly_slow(
        product([LookaheadDrafter, RecyclingDrafter], [by_token, by_block]),
        quick=[(LookaheadDrafter, by_token), (RecyclingDrafter, by_block)],
    ),
)
def test_trees_of_what_the_target_saw(kind: Callable[[], Drafter], rule: AcceptanceRule) -> None:
    target = Decoder(Markov(TABLE), trial=lambda: True)
    text, rulings = write(
        target, kind(), FixedTree(12), no_ends(COLD, seed=0, length=600, accept=rule), PROMPT
    )
    tokens = np.array(PROMPT + text)
    counts = np.zeros(TABLE.shape, dtype=np.int_)
    np.add.at(counts, (tokens[:-2], tokens[1:-1], tokens[2:]), 1)

    assert excess(counts, exact(TABLE, COLD)) < 1.0
    assert accepted(rulings) > 200
    assert sum(bool(verdict.parents) for verdict in rulings) > 200


@pytest.mark.parametrize(
    ("rule", "sampling"),
    mostly_slow(product([by_token, by_block], [WARM, FILTERED]), quick=[(by_block, FILTERED)]),
)
def test_first_three_tokens_of_trees(rule: AcceptanceRule, sampling: Sampling) -> None:
    drafter = Branching(DRAFTING["noisy"])

    counts = short_texts(drafter, Shaped(LOW), sampling, texts=400, accept=rule)

    expected = joint(exact(TABLE, sampling), PROMPT, SHORT)
    assert counts[expected == 0].sum() == 0
    assert excess(counts.ravel(), expected.ravel()) < 1.0


@pytest.mark.slow
def test_first_three_tokens_of_trees_with_penalties() -> None:
    # A history of one token less, or of a token beside, would give another distribution.
    counts = short_texts(Branching(DRAFTING["noisy"]), Shaped(LOW), PENALIZED, texts=400)

    assert excess(counts.ravel(), joint_with_penalties().ravel()) < 1.0


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("rule", "guesses"),
    mostly_slow(
        product([by_token, by_block], [False, True]), quick=[(by_token, True), (by_block, False)]
    ),
)
def test_long_text_of_trees(rule: AcceptanceRule, guesses: bool) -> None:
    drafter = Branching(DRAFTING["random"], guesses=guesses)

    counts, rulings = long_text(drafter, Shaped(LOW, HIGH), WARM, length=600, accept=rule)

    assert excess(counts, exact(TABLE, WARM)) < 1.0
    assert accepted(rulings) > 180


@pytest.mark.slow
@pytest.mark.parametrize("drafting", ["noisy", "hostile"])
@pytest.mark.parametrize("rule", [by_token, by_block])
@pytest.mark.parametrize("sampling", CHAINS.values(), ids=CHAINS)
def test_long_texts_of_trees(drafting: str, rule: AcceptanceRule, sampling: Sampling) -> None:
    drafter = Branching(DRAFTING[drafting])

    counts, _ = long_text(drafter, Shaped(LOW, HIGH), sampling, length=1_000, accept=rule)

    possible = exact(TABLE, sampling)
    assert counts[possible == 0].sum() == 0
    if sampling.top_k != 1:
        assert excess(counts, possible) < 1.0


@pytest.mark.parametrize("drafting", mostly_slow(DRAFTING, quick=["noisy"]))
@pytest.mark.parametrize("sampling", [Sampling(), WARM, PENALIZED])
def test_a_certain_text_does_not_depend_on_trees(drafting: str, sampling: Sampling) -> None:
    sampling = replace(sampling, repeatable=not sampling.greedy)
    task = no_ends(sampling, seed=5, length=60)
    plain, _ = write(decoder(TABLE), NoDrafter(), Fixed(0), task, PROMPT)

    text, rulings = write(
        decoder(TABLE), Branching(DRAFTING[drafting]), Shaped(LOW, HIGH), task, PROMPT
    )

    assert text == plain
    if drafting in {"noisy", "random"}:  # some later alternatives are right
        trees = [Tree(ruling.parents) for ruling in rulings]
        paths = zip(trees, (ruling.path for ruling in rulings), strict=True)
        assert any(tree.ranks[token] for tree, path in paths for token in path)


@pytest.mark.parametrize(
    ("paper", "mistake"),
    mostly_slow(
        product([recursive_rejection, traversal_verification], [None, *Mistake]),
        quick=[(traversal_verification, Mistake.RESIDUAL_FORGOTTEN)],
    ),
)
def test_mistakes_with_trees_are_refuted(paper: Paper, mistake: Mistake | None) -> None:
    """All of them, by enumeration: `test_accept_trees.py`."""
    drafting, tree = "random", LOW
    if mistake is Mistake.COUNTED_TWICE:  # which shows where paths are long
        drafting, tree = "noisy", STEEP
    rule = mistaken(paper, mistake)

    counts, _ = long_text(
        Branching(DRAFTING[drafting]),
        Shaped(tree),
        WARM,
        length=1_200 if mistake is Mistake.RESIDUAL_FORGOTTEN else 2_500,
        accept=rule,
    )

    assert (excess(counts, exact(TABLE, WARM)) > 1.0) == (mistake is not None)


@pytest.mark.slow
def test_drafter_that_takes_its_alternatives_for_replaced_is_refuted() -> None:
    drafter = TakenForReplaced(DRAFTING["random"])
    counts, _ = long_text(drafter, Shaped(LOW), WARM, length=3_000)
    assert excess(counts, exact(TABLE, WARM)) > 1.0


# --- Joint drafts


def copier_and(kind: str) -> Cascade:
    """What is copied, which is certain, beside what is drawn or certain too."""
    others: dict[str, Callable[[], Drafter]] = {
        "tree": lambda: Branching(DRAFTING["noisy"]),
        "hostile tree": lambda: Branching(DRAFTING["hostile"]),
        "chain": lambda: model_drafter(DRAFTING["noisy"]),
        "recycling": RecyclingDrafter,
    }
    return Cascade(SuffixDrafter(), others[kind]())


def long_text_of_joint_drafts(
    kind: str, *, rule: AcceptanceRule = by_block, length: int
) -> tuple[NDArray[np.int_], list[RoundVerdict]]:
    return long_text(copier_and(kind), FixedTree(6), COLD, length=length, accept=rule)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("kind", "rule"),
    mostly_slow(
        product(["tree", "hostile tree", "chain", "recycling"], [by_token, by_block]),
        quick=[("tree", by_block), ("chain", by_token)],
    ),
)
def test_long_text_of_a_copy_beside_another_draft(kind: str, rule: AcceptanceRule) -> None:
    counts, rulings = long_text_of_joint_drafts(kind, rule=rule, length=700)

    assert excess(counts, exact(TABLE, COLD)) < 1.0
    together = [each for each in rulings if "+" in each.reason.drafter]
    assert len(together) > 70
    assert any(each.path[:1] == (0,) for each in together)  # the copy
    assert any(each.path and each.path[0] > 0 for each in together)  # the other


@pytest.mark.slow
@pytest.mark.parametrize("kind", mostly_slow(["tree", "chain"], quick=["tree"]))
def test_first_three_tokens_of_a_copy_beside_another_draft(kind: str) -> None:
    prompt = [2, 1, 0, 4, 2, 1]  # so that there is something to copy
    counts = np.zeros((VOCABULARY,) * SHORT, dtype=np.int_)
    target, drafter = decoder(TABLE), copier_and(kind)
    for seed in range(400):
        task = no_ends(WARM, seed=seed, length=SHORT)
        counts[tuple(write(target, drafter, FixedTree(6), task, prompt)[0])] += 1

    expected = joint(exact(TABLE, WARM), prompt[-2:], SHORT)
    assert excess(counts.ravel(), expected.ravel()) < 1.0


def the_copy_is_said_to_be_drawn(drafts: Sequence[DraftArrays]) -> list[mx.array]:
    """Its rows are those of the other: a one-hot row is missing."""
    whole = whole_distributions(drafts)
    rows = [each[mx.minimum(mx.arange(len(whole[0])), len(each) - 1)] for each in whole[1:]]
    return [*rows, *whole[1:]]


def in_another_order(drafts: Sequence[DraftArrays]) -> list[mx.array]:
    """Of the parts: rows are not those of their tokens."""
    return whole_distributions(drafts)[::-1]


whole_distributions = engine.drafters.cascade._distributions


@pytest.mark.parametrize(
    ("mutant", "length"),
    mostly_slow(
        [(the_copy_is_said_to_be_drawn, 600), (in_another_order, 2_000)],
        quick=[(the_copy_is_said_to_be_drawn, 600)],
    ),
)
def test_parts_that_say_what_is_not_so_are_refuted(
    mutant: Callable[[Sequence[DraftArrays]], list[mx.array]], length: int
) -> None:
    with mock.patch.object(engine.drafters.cascade, "_distributions", mutant):
        counts, _ = long_text_of_joint_drafts("tree", length=length)
    assert excess(counts, exact(TABLE, COLD)) > 1.0
