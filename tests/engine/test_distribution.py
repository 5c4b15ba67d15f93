"""End to end: what the loop writes has the target's distribution, whatever drafts, how far, and
whether drafts branch.

Two kinds of evidence, both against exact enumeration (see `tests.support.engine.markov`): the joint
distribution of the first three tokens of many short texts, and every next token of one long text,
given the two before it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
import pytest

import engine.core.judging
import engine.core.sampling
from engine.core.decoder import Decoder
from engine.core.loop import speculate
from engine.core.rounds import RoundDraft
from engine.core.sampling import CANDIDATES
from engine.draft_length import DraftChoice
from engine.draft_length.policy import Automatic, Fixed, FixedTree
from engine.drafters import NoDrafter
from engine.drafters.cascade import Cascade
from engine.drafters.copying import LookupDrafter, SuffixDrafter
from engine.drafters.early_exit import EarlyExitDrafter
from engine.drafters.lookahead import LookaheadDrafter
from engine.drafters.model import ModelDrafter
from engine.request import Sampling
from engine.tree import Tree
from tests.engine.core.test_sampling import slow_scores
from tests.support.engine.branching import Branching
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
from tests.support.engine.first_two import exact_first_two
from tests.support.engine.markov import decoder, drafting_tables, exact, joint, random_table
from tests.support.engine.tiny import build, noisy
from tests.support.engine.trees import Shaped
from tests.support.mostly_slow import mostly_slow

CHAINS = {
    "temperature 0.6": Sampling(temperature=0.6),
    "temperature 1.7": Sampling(temperature=1.7),
    "top-k": Sampling(temperature=1.0, top_k=3),
    "top-p": Sampling(temperature=1.0, top_p=0.8),
    "min-p": Sampling(temperature=1.0, min_p=0.15),
    "all": Sampling(temperature=0.8, top_k=4, top_p=0.9, min_p=0.05),
    "one left": Sampling(temperature=1.0, top_k=1),
}

LOW = Tree((-1, -1, -1, 0, 0, 1))
HIGH = Tree((-1, 0, 1, 0, -1, 4, -1))
COLD = replace(WARM, temperature=0.5)
FILTERED = replace(WARM, top_p=0.8)
REPEATABLE = replace(WARM, repeatable=True)

# --- The first tokens together


def chain(drafting):
    return model_drafter(DRAFTING[drafting])


def trees(drafting, **options):
    return Branching(DRAFTING[drafting], **options)


@dataclass(frozen=True)
class Texts:
    """What is drafted, and how far, in `count` short texts or in a long one of so many tokens.
    `accepted`: more drafted tokens than that are. `candidates`: among which filters choose."""

    drafter: Callable
    policy: Callable
    sampling: Sampling
    count: int
    table: np.ndarray = TABLE
    accepted: int = -1
    candidates: int = CANDIDATES


SHORT_TEXTS = {
    "a chain": Texts(partial(chain, "noisy"), partial(Fixed, 2), WARM, 150),
    "a tree, filtered": Texts(partial(trees, "noisy"), partial(Shaped, LOW), FILTERED, 150),
    "a tree": Texts(partial(trees, "noisy"), partial(Shaped, LOW), WARM, 150),
    # Over all seeds; with one seed there is one text, whatever is drafted.
    "repeatable": Texts(partial(chain, "noisy"), partial(Fixed, 0), REPEATABLE, 150),
    # A history of one token less, or of a token beside, would give another distribution.
    "a chain, penalties": Texts(partial(chain, "noisy"), partial(Fixed, 2), PENALIZED, 400),
    "a tree, penalties": Texts(partial(trees, "noisy"), partial(Shaped, LOW), PENALIZED, 400),
    "a repeatable chain": Texts(partial(chain, "noisy"), partial(Fixed, 3), REPEATABLE, 150),
    **{
        f"many, {drafting} {length}": Texts(
            partial(chain, drafting), partial(Fixed, length), WARM, 1_500
        )
        for drafting, length in product(DRAFTING, [1, 4])
    },
}


def joint_with_penalties():
    table = np.array(TABLE, dtype=np.float64)
    expected = np.ones((VOCABULARY,) * SHORT)
    for text in np.ndindex(expected.shape):
        for i in range(SHORT):
            history = [*PROMPT, *text[:i]]
            row = slow_scores(table[history[-2], history[-1]].tolist(), history, PENALIZED)
            weights = np.exp(np.array(row) / PENALIZED.temperature)
            expected[text] *= weights[text[i]] / weights.sum()
    return expected


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", SHORT_TEXTS)
def test_first_three_tokens(name):
    case = SHORT_TEXTS[name]
    counts = short_texts(case.drafter(), case.policy(), case.sampling, texts=case.count)
    if case.sampling.penalizes:
        expected = joint_with_penalties()
    else:
        expected = joint(exact(TABLE, case.sampling), PROMPT, SHORT)
    assert counts[expected == 0].sum() == 0
    assert excess(counts.ravel(), expected.ravel()) < 1.0


CERTAIN = {
    "repeatable, penalties": replace(PENALIZED, repeatable=True),
    "greedy, penalties in a short window": replace(PENALIZED, temperature=0.0),
    "greedy, all penalties": Sampling(
        repetition_penalty=1.3, presence_penalty=0.5, frequency_penalty=0.3
    ),
    "repeatable": REPEATABLE,
    "greedy": Sampling(),
}


@pytest.mark.quick(2)
@pytest.mark.parametrize("how", CERTAIN)
@pytest.mark.parametrize("drafting", ["noisy", *sorted({*DRAFTING} - {"noisy"})])
def test_a_certain_text_does_not_depend_on_its_drafts(drafting, how):
    task = no_ends(CERTAIN[how], seed=5, length=60)
    plain, _ = write(decoder(TABLE), NoDrafter(), Fixed(0), task, PROMPT)
    for length in (1, 3, 5):
        assert write(decoder(TABLE), chain(drafting), Fixed(length), task, PROMPT)[0] == plain
    others = (replace(task, seed=seed) for seed in range(8))
    runs = (speculate(decoder(TABLE), chain(drafting), Fixed(3), [*PROMPT], one) for one in others)
    first = {tuple(next(i for i in run if isinstance(i, RoundDraft)).tokens) for run in runs}
    assert len(first) == 1

    text, rulings = write(decoder(TABLE), trees(drafting), Shaped(LOW, HIGH), task, PROMPT)

    assert text == plain
    if drafting in {"noisy", "random"} and "greedy, " not in how:  # later alternatives are right
        paths = [(Tree(each.parents), each.path) for each in rulings if each.parents]
        assert any(tree.ranks[token] for tree, path in paths for token in path)


# --- Every token of a long text, given the two before


class Erratic(Fixed):
    """Another length every round, plain ones in between."""

    def __init__(self):
        super().__init__(0)
        self._lengths = np.random.default_rng(0).integers(0, 7, size=10_000).tolist()

    def choose(self, candidates, *, most, context, others=0):
        length = self._lengths.pop()
        return DraftChoice(min(length, most), rounds=1 if length else 3)


FEW = random_table(3)  # and a drafter that is mostly wrong
OF_FEW = drafting_tables(FEW)["random"]
BOTH = partial(Shaped, LOW, HIGH)
COPIERS = {  # copies are certain; what is copied depends on what was written before
    "lookup": LookupDrafter,
    "suffix": SuffixDrafter,
    "lookahead": LookaheadDrafter,
    "cascade": lambda: Cascade(LookupDrafter(), chain("noisy")),
}
LONG_TEXTS = {
    **{
        f"{drafting} chains": Texts(partial(chain, drafting), partial(Fixed, 4), WARM, 400)
        for drafting in DRAFTING
    },
    **{
        f"chains, {name}": Texts(
            *(partial(chain, "noisy"), partial(Fixed, 3), sampling, 400),
            accepted=-1 if name == "one left" else 120,
        )
        for name, sampling in CHAINS.items()
    },
    # Judged over the candidates alone.
    "chains, few candidates": Texts(
        *(partial(chain, "noisy"), partial(Fixed, 3), CHAINS["top-p"], 400),
        accepted=120,
        candidates=4,
    ),
    "trees of what the target saw": Texts(
        LookaheadDrafter, partial(FixedTree, 12), COLD, 400, accepted=130
    ),
    "chains of few": Texts(
        partial(model_drafter, OF_FEW, vocabulary=3), partial(Fixed, 2), WARM, 450, FEW
    ),
    "trees": Texts(partial(trees, "random"), BOTH, WARM, 350, accepted=100),
    "trees with a guess": Texts(
        partial(trees, "random", guesses=True), BOTH, WARM, 350, accepted=100
    ),
    "trees of few": Texts(
        partial(Branching, OF_FEW, alternatives=2), partial(Shaped, LOW), WARM, 350, FEW
    ),
    **{
        f"{drafting} trees, {name}": Texts(partial(trees, drafting), BOTH, sampling, 1_000)
        for drafting, (name, sampling) in product(("noisy", "hostile"), CHAINS.items())
    },
    **{
        f"{name}, erratic": Texts(drafter, Erratic, COLD, 400, accepted=40)
        for name, drafter in COPIERS.items()
    },
    **{
        f"{name}, automatic": Texts(drafter, Automatic, COLD, 400)
        for name, drafter in COPIERS.items()
    },
}
TELLING = ("chains of few", "chains, few candidates", "trees of few", "trees with a guess")


@pytest.mark.parametrize(
    "name", mostly_slow(LONG_TEXTS, quick=[*TELLING, "suffix, erratic", "cascade, automatic"])
)
def test_every_token_of_a_long_text(name, monkeypatch):
    case = LONG_TEXTS[name]
    monkeypatch.setattr(engine.core.sampling, "CANDIDATES", case.candidates)

    counts, rulings = long_text(
        case.drafter(), case.policy(), case.sampling, length=case.count, table=case.table
    )

    possible = exact(case.table, case.sampling)
    assert counts.sum() == case.count
    assert counts[possible == 0].sum() == 0
    if case.sampling.top_k != 1:
        assert excess(counts, possible) < 1.0
    assert accepted(rulings) > case.accepted
    if name == "self chains":
        assert all(verdict.accepted == len(verdict.p) for verdict in rulings)
    if "trees" in name and case.drafter is LookaheadDrafter:
        assert sum(bool(verdict.parents) for verdict in rulings) > 130


@pytest.mark.parametrize(
    ("columns", "known", "temperature"),
    mostly_slow(product([3, 5, 8], [3, 8], [0.0, 0.8]), quick=[(8, 3, 0.8)]),
)
def test_drafter_with_another_vocabulary(columns, known, temperature):
    # `known`: ids it can read, `columns`: ids it can propose, of a target that has five.
    wide = random_table(VOCABULARY + 3, seed=103)
    wide[:VOCABULARY, :VOCABULARY, :VOCABULARY] = DRAFTING["noisy"]
    drafter = model_drafter(wide[:known, :known, :columns])
    sampling = Sampling(temperature=temperature)

    counts, rulings = long_text(drafter, Fixed(3), sampling, length=250)

    if temperature:
        assert excess(counts, exact(TABLE, sampling)) < 1.0
        assert accepted(rulings) > 25
    else:
        plain, _ = long_text(NoDrafter(), Fixed(0), sampling, length=250)
        assert (counts == plain).all()


# --- Seeds


@pytest.mark.parametrize("length", mostly_slow([0, 4], quick=[4]))
def test_same_seed_same_text(length):
    def text(seed):
        drafter = model_drafter(DRAFTING["noisy"])
        task = no_ends(WARM, seed=seed, length=40)
        return write(decoder(TABLE), drafter, Fixed(length), task, PROMPT)[0]

    assert text(1) == text(1)
    assert text(1) != text(2)


def test_no_key_is_used_twice(monkeypatch):
    """Nor a point: one that both ends a round and draws its own token would tie the two."""
    used = []
    points = []

    class Noting(ModelDrafter):
        def propose(self, tokens, choice, sampling, key):
            used.append(tuple(key.tolist()))
            return super().propose(tokens, choice, sampling, key)

    judging = engine.core.judging
    draw, last_accepted = judging.draw, judging.last_accepted

    def drawing(weights, drawn):
        points.extend(drawn.reshape(-1).tolist())
        return draw(weights, drawn)

    def ending(ends, point):
        points.append(float(np.float32(point)))  # as those that draw
        return last_accepted(ends, point)

    monkeypatch.setattr(judging, "draw", drawing)
    monkeypatch.setattr(judging, "last_accepted", ending)
    drafter = Noting(decoder(DRAFTING["noisy"]), vocabulary=VOCABULARY)
    _, rulings = write(decoder(TABLE), drafter, Fixed(2), no_ends(WARM, seed=0, length=60), PROMPT)

    assert len(used) >= 20
    assert len(set(used)) == len(used)
    assert len(points) >= 4 * (len(rulings) - 1)  # the last may have no room for a draft
    assert len(set(points)) == len(points)


# --- Real architectures


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "architecture"),
    [
        ("noisy", "llama"),
        ("noisy", "gemma3_text"),
        ("early-exit", "qwen3_5"),
        ("noisy", "mamba"),
    ],
)
def test_first_two_tokens_of_real_architectures(architecture, kind):
    size = 8
    model = build(architecture, vocabulary=size)
    target = Decoder(model)
    if kind == "noisy":
        drafter = ModelDrafter(Decoder(noisy(model)), vocabulary=size)
    else:
        drafter = EarlyExitDrafter(target, layers=2)
    sampling = Sampling(temperature=1.5, top_k=6)
    prompt = [1, 2, 3, 4, 5, 6]
    counts = np.zeros((size, size), dtype=np.int_)
    for seed in range(2_000):
        task = no_ends(sampling, seed=seed, length=3)
        counts[tuple(write(target, drafter, Fixed(2), task, prompt)[0][:2])] += 1

    assert excess(counts.ravel(), exact_first_two(model, sampling, prompt).ravel()) < 1.0
