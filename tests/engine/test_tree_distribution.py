"""End to end: what the loop writes has the target's distribution where drafts branch."""

from dataclasses import replace

import numpy as np
import pytest

from engine.core.decoder import Decoder
from engine.draft_length.policy import Fixed, FixedTree
from engine.drafters import NoDrafter
from engine.drafters.lookahead import LookaheadDrafter
from engine.request import Sampling
from engine.tree import Tree
from tests.engine.test_distribution import CHAINS, joint_with_penalties
from tests.support.engine.branching import Branching
from tests.support.engine.chi_square import excess
from tests.support.engine.drawn_texts import (
    DRAFTING,
    PENALIZED,
    PROMPT,
    SHORT,
    TABLE,
    WARM,
    accepted,
    long_text,
    no_ends,
    short_texts,
    write,
)
from tests.support.engine.markov import Markov, decoder, drafting_tables, exact, joint, random_table
from tests.support.engine.trees import Shaped
from tests.support.mostly_slow import mostly_slow

LOW = Tree((-1, -1, -1, 0, 0, 1))
HIGH = Tree((-1, 0, 1, 0, -1, 4, -1))
COLD = replace(WARM, temperature=0.5)
FILTERED = replace(WARM, top_p=0.8)


@pytest.mark.slow
def test_trees_of_what_the_target_saw():
    target = Decoder(Markov(TABLE), trial=lambda: True)
    to_do = no_ends(COLD, seed=0, length=400)
    text, rulings = write(target, LookaheadDrafter(), FixedTree(12), to_do, PROMPT)
    tokens = np.array(PROMPT + text)
    counts = np.zeros(TABLE.shape, dtype=np.int_)
    np.add.at(counts, (tokens[:-2], tokens[1:-1], tokens[2:]), 1)

    assert excess(counts, exact(TABLE, COLD)) < 1.0
    assert accepted(rulings) > 130
    assert sum(bool(verdict.parents) for verdict in rulings) > 130


@pytest.mark.parametrize("sampling", mostly_slow([WARM, FILTERED], quick=[FILTERED]))
def test_first_three_tokens_of_trees(sampling):
    drafter = Branching(DRAFTING["noisy"])

    counts = short_texts(drafter, Shaped(LOW), sampling, texts=150)

    expected = joint(exact(TABLE, sampling), PROMPT, SHORT)
    assert counts[expected == 0].sum() == 0
    assert excess(counts.ravel(), expected.ravel()) < 1.0


@pytest.mark.slow
def test_first_three_tokens_of_trees_with_penalties():
    # A history of one token less, or of a token beside, would give another distribution.
    counts = short_texts(Branching(DRAFTING["noisy"]), Shaped(LOW), PENALIZED, texts=400)

    assert excess(counts.ravel(), joint_with_penalties().ravel()) < 1.0


@pytest.mark.parametrize("guesses", mostly_slow([False, True], quick=[True]))
def test_long_text_of_trees(guesses):
    drafter = Branching(DRAFTING["random"], guesses=guesses)

    counts, rulings = long_text(drafter, Shaped(LOW, HIGH), WARM, length=350)

    assert excess(counts, exact(TABLE, WARM)) < 1.0
    assert accepted(rulings) > 100


@pytest.mark.slow
def test_tokens_after_rejected_alternatives():
    """Few tokens, and a drafter that is mostly wrong."""
    table = random_table(3)
    drafter = Branching(drafting_tables(table)["random"], alternatives=2)

    counts, _ = long_text(drafter, Shaped(LOW), WARM, length=350, table=table)

    assert excess(counts, exact(table, WARM)) < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("drafting", ["noisy", "hostile"])
@pytest.mark.parametrize("sampling", CHAINS.values(), ids=CHAINS)
def test_long_texts_of_trees(drafting, sampling):
    drafter = Branching(DRAFTING[drafting])

    counts, _ = long_text(drafter, Shaped(LOW, HIGH), sampling, length=1_000)

    possible = exact(TABLE, sampling)
    assert counts[possible == 0].sum() == 0
    if sampling.top_k != 1:
        assert excess(counts, possible) < 1.0


@pytest.mark.quick(1)
@pytest.mark.parametrize("drafting", ["noisy", *sorted({*DRAFTING} - {"noisy"})])
@pytest.mark.parametrize("sampling", [PENALIZED, WARM, Sampling()])
def test_a_certain_text_does_not_depend_on_trees(drafting, sampling):
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
