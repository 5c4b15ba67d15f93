"""Greedy decoding with drafts writes what it writes without: token for token, whatever drafts.

The matrix: architectures (full attention, windows, recurrent, mixed) x precisions x drafters x
draft lengths, and caches that become quantized in the middle. A part of it runs every time, all
of it in the slow tests. That the comparison would notice is shown by mutants: the engine, broken
in ways that are easy to get wrong.
"""

import functools
import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import mlx.core as mx
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import ArraysCache, make_prompt_cache

import engine.core.batch
import engine.core.cache
import engine.core.judging
import engine.cpu.exponentials
import engine.cpu.trees
from engine.core.cache import AlignedCache, QuantizedCaches, Timeline
from engine.device import CPU, backend
from engine.draft_length import LONGEST_COPY
from engine.drafters.cascade import Cascade
from engine.drafters.copying import LookupDrafter, SuffixDrafter
from engine.drafters.early_exit import EarlyExitDrafter
from engine.drafters.lookahead import LookaheadDrafter
from engine.drafters.model import ModelDrafter
from engine.drafters.other_tokenizer import OtherTokenizerDrafter, Translation
from engine.tree import Tree
from tests.support.engine.backends import computing_as, on_a_mac
from tests.support.engine.blocks import block_drafter
from tests.support.engine.heads import untrained_drafter
from tests.support.engine.helpers import (
    BLOCK,
    CORE,
    EVERYWHERE,
    PROMPT,
    QUANTIZED,
    Known,
    build_wide,
    decoder,
    now_and_then,
    plainly,
    ranked,
    run_greedily,
    task,
    write,
)
from tests.support.engine.plain_texts import PlainTexts
from tests.support.engine.tiny import ARCHITECTURES, build, noisy
from tests.support.engine.trees import Guessing, Shaped
from tests.support.engine.writings import of_letters
from tests.support.mostly_slow import mostly_slow

LENGTHS = (0, 1, 2, 3, 5, 8, 16, 40)
PRECISIONS = ("float32", "bfloat16", "float16", "4-bit")
DRAFTERS = (
    "self",
    "noisy",
    "random",
    "hostile",
    "lookup",
    "lookahead",
    "suffix",
    "early-exit",
    "head",
    "block",
    "cascade",
    "trees",
    "other tokens",
    "abridged",
)
COUNT = 40  # with the prompt, more than three of the window
ROWS = (2, 3, 5, 9, 17, 41)  # of a pass, by which a Mac rounds
BEGINNING = 20  # of them, in which mutants show
WINDOW = 16
UNEVEN = Tree((-1, -1, 0, 1, 0, 2, 2, 3))


@dataclass(frozen=True)
class Case:
    """One model, with the caches it is read with."""

    architecture: str
    precision: str
    quantized: QuantizedCaches | None = None

    @property
    def block(self):
        """Small where there are windows to move, else large enough for the longest drafts."""
        return BLOCK if self.quantized or self.architecture == "gemma3_text" else 256


@functools.lru_cache(maxsize=4)
def model_of(case, seed=0):
    make = build if case.quantized is None else build_wide
    if case.precision == "4-bit":
        return make(case.architecture, seed=seed, bits=4)
    return make(case.architecture, seed=seed, dtype=getattr(mx, case.precision))


@functools.lru_cache(maxsize=4)
def noisy_of(case):
    return noisy(model_of(case))


def once_a_backend(make):
    """Keep what is made of the last cases, on each backend by itself."""
    kept = functools.lru_cache(maxsize=4)(lambda case, _: make(case))
    return lambda case: kept(case, backend())


@once_a_backend
def plain_of(case):
    return plainly(model_of(case), count=COUNT, quantized=case.quantized, block=case.block)


@once_a_backend
def second_bests_of(case):
    """What the target nearly wrote at each position of the plain text: never right."""
    text = [*PROMPT, *plain_of(case)]
    seconds = [second for _, second, _ in ranked(model_of(case), text, quantized=case.quantized)]
    return [text[0], *seconds]


def drafter_of(kind, case, target):
    def own(model):
        return decoder(model, quantized=case.quantized, block=case.block)

    def by(model):
        return ModelDrafter(own(model), vocabulary=target.vocabulary)

    def by_other_tokens():
        other = own(noisy_of(case))
        pair = Translation(*of_letters(), vocabulary=target.vocabulary, rows=other.vocabulary)
        return OtherTokenizerDrafter(other, pair)

    def abridged():
        drafter = by(noisy_of(case))
        drafter.leave_out(lambda: [range(1, 3), range(5, 9)])
        return drafter

    makers = {
        "self": lambda: by(model_of(case)),
        "noisy": lambda: by(noisy_of(case)),
        "random": lambda: by(model_of(case, seed=1)),
        "hostile": lambda: Known(second_bests_of(case)),
        "lookup": LookupDrafter,
        "lookahead": LookaheadDrafter,
        "suffix": SuffixDrafter,
        "early-exit": lambda: EarlyExitDrafter(target, layers=2),
        "head": lambda: untrained_drafter(target),
        "block": lambda: block_drafter(target, "dspark"),
        "trees": lambda: Guessing([*PROMPT, *plain_of(case)], wrong=now_and_then(1)),
        "other tokens": by_other_tokens,
        "abridged": abridged,
        "cascade": lambda: Cascade(LookupDrafter(), by(noisy_of(case))),
    }
    return makers[kind]()


def run_of(case, kind, length):
    return run_greedily(
        model_of(case),
        lambda target: drafter_of(kind, case, target),
        length,
        count=COUNT,
        quantized=case.quantized,
        block=case.block,
        trees=kind == "trees",
    )


def matrix():
    """Every second length of float32 and of the quantized caches, every fifth of the other
    precisions, and other ones from drafter to drafter."""
    plain_caches = [Case(*pair) for pair in itertools.product(ARCHITECTURES, PRECISIONS)]
    quantized = [Case(a, "float32", QUANTIZED) for a in ("llama", "gemma3_text", "qwen3_5", "lfm2")]
    runs = []
    for number, (case, kind) in enumerate(itertools.product(plain_caches + quantized, DRAFTERS)):
        every = 2 if case.precision == "float32" else 5
        runs += [(case, kind, length) for length in LENGTHS[number % every :: every]]
    return runs


CASES = list(dict.fromkeys(case for case, _, _ in matrix()))
CASES_OF_A_MAC = [case for case in CASES if case.precision in ("float32", "4-bit")]


def test_matrix_has_a_thousand_runs():
    assert len(set(matrix())) == len(matrix()) >= 1000


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_divergence_in_the_matrix(case, capsys):
    trials = [(kind, length) for other, kind, length in matrix() if other == case]
    runs = {trial: run_of(case, *trial) for trial in trials}
    divergences = [trial for trial, run in runs.items() if run.tokens != plain_of(case)]
    with capsys.disabled():
        print(
            f"\n{case}: {len(runs)} runs, {sum(run.proposed for run in runs.values())} drafted, "
            f"{sum(run.accepted for run in runs.values())} accepted, "
            f"{len(divergences)} divergences"
        )
    assert divergences == []


def test_no_divergence_in_a_part_of_the_matrix():
    """A prime step walks through all kinds and lengths of every architecture and precision."""
    for number, (case, kind, length) in enumerate(matrix()[31::151]):
        beside_host = bool(number % 2)
        with computing_as(replace(CPU, beside_host=beside_host)):
            assert run_of(case, kind, length).tokens == plain_of(case), (case, kind, length)


@pytest.mark.quick(1)
@pytest.mark.cpu
@pytest.mark.parametrize("architecture", ["llama", "qwen3_5"])
def test_layers_that_are_begun_one_by_one(architecture):
    """As those of real models are, which are larger."""
    case, begun = Case(architecture, "float32"), mock.Mock(wraps=engine.cpu.exponentials.begin)
    expected = plain_of(case)
    with (
        mock.patch.object(engine.cpu.exponentials, "_LARGE_LAYER", 0),
        mock.patch.object(engine.cpu.exponentials, "begin", begun),
    ):
        runs = [run_of(case, kind, 5) for kind in ("noisy", "trees")]
    assert begun.call_count > COUNT
    assert [run.tokens for run in runs] == [expected] * 2


# As on a Mac


@functools.lru_cache(maxsize=2)
def texts_on_a_mac(case):
    """The case's plain texts, and how passes round along them."""
    make = functools.partial(decoder, model_of(case), quantized=case.quantized, block=case.block)
    texts = PlainTexts(make, rows=ROWS)
    return texts, texts.roundings(PROMPT, texts.plain(PROMPT, COUNT).text)


def ties_of(case, trials):
    """How many near ties there are in as many runs as on a Mac, and how many differ otherwise."""
    texts, roundings = texts_on_a_mac(case)
    forks = [
        fork
        for kind, length in trials
        for fork in texts.forks(PROMPT, run_of(case, kind, length).tokens, roundings)
    ]
    near = sum(fork.near_tie for fork in forks)
    return near, len(forks) - near


def test_only_near_ties_differ_on_a_mac_in_a_part_of_the_matrix():
    trials = [trial for trial in matrix() if trial[0] in CASES_OF_A_MAC][65::499]
    trials.append((Case("gemma3_text", "float32"), "early-exit", 2))
    with on_a_mac():
        found = [ties_of(case, [(kind, length)]) for case, kind, length in trials]
    assert [different for _, different in found] == [0] * len(trials)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES_OF_A_MAC, ids=str)
def test_only_near_ties_differ_on_a_mac(case, capsys):
    trials = [(kind, length) for other, kind, length in matrix() if other == case][::2]
    with on_a_mac():
        near, different = ties_of(case, trials)
    with capsys.disabled():
        print(f"\n{case}, as on a Mac: {len(trials)} runs, {near} near ties, {different} different")
    assert different == 0


@pytest.mark.slow
def test_drafters_are_what_they_are_called():
    case = Case("llama", "float32")
    runs = {kind: run_of(case, kind, 5 if kind == "trees" else 3) for kind in DRAFTERS}

    assert {kind for kind, run in runs.items() if run.tokens != plain_of(case)} == set()
    assert runs["self"].accepted == runs["self"].proposed > 0
    assert runs["hostile"].accepted == 0
    assert len(runs["hostile"].rounds) == COUNT
    assert any(guess and guess.parents for guess, _ in runs["trees"].rounds)
    for kind in ("noisy", "trees", "early-exit", "other tokens", "abridged"):
        assert 0 < runs[kind].accepted < runs[kind].proposed, kind


@pytest.mark.cpu
@pytest.mark.parametrize(
    "kind", mostly_slow(["self", "noisy", "lookup", "hostile"], quick=["noisy"])
)
def test_window_is_passed_three_times(kind):
    case = Case("gemma3_text", "float32")
    assert len(PROMPT) + COUNT > 3 * WINDOW
    model = model_of(case)
    layers = decoder(model).timeline.layers
    assert all(isinstance(layer, AlignedCache) for layer in layers)
    assert [layer.window for layer in layers] == [WINDOW, None, WINDOW, None]

    for length in (3, 11):
        assert run_of(case, kind, length).tokens == plain_of(case)


def test_window_with_the_usual_block():
    """Where windows move after 256 tokens, not after a few."""
    model, prompt = model_of(Case("gemma3_text", "float32")), list(range(1, 61)) * 4
    expected = plainly(model, count=100, prompt=prompt, block=256)

    drafter = Known([*prompt, *expected], wrong=now_and_then(1))
    run = run_greedily(model, lambda _: drafter, 7, count=100, prompt=prompt, block=256)

    assert run.tokens == expected
    assert 0 < run.accepted < run.proposed


SHARING = {
    "hidden_dim": 64, "num_layers": 4, "num_hidden_layers": 4, "num_kv_reuse_layers": 2,
    "num_heads": 4, "num_kv_heads": 2,
}  # fmt: skip
MLX_LMS_OWN = SHARING | {
    "hidden_dim": 256, "num_layers": 16, "num_hidden_layers": 16, "num_kv_reuse_layers": 8,
    "num_heads": 8, "num_kv_heads": 4,
}  # fmt: skip


@pytest.mark.parametrize("sizes", mostly_slow([SHARING, MLX_LMS_OWN], quick=[SHARING]))
def test_layers_that_count_the_keys_of_another(sizes):
    """Apple's AFM computes the positions of its last layers from how many keys there are."""
    model = build("afm7", sizes=sizes)
    expected = plainly(model, count=COUNT, block=256)
    theirs = generate_step(mx.array(PROMPT), model, max_tokens=COUNT)
    assert expected == [int(token) for token, _ in theirs]

    drafter = Known([*PROMPT, *expected], wrong=now_and_then(1))
    run = run_greedily(model, lambda _: drafter, 7, count=COUNT, block=256)
    assert run.tokens == expected
    assert 0 < run.accepted < run.proposed


@pytest.mark.parametrize("architecture", mostly_slow(CORE, quick=["llama"]))
def test_long_copies(architecture):
    """As long as the longest, which stand whole, in part, or not at all."""
    model, count = model_of(Case(architecture, "float32")), LONGEST_COPY + 20
    expected = plainly(model, count=count, block=256)

    for wrong in ((), now_and_then(2, chance=0.03), EVERYWHERE):
        drafter = Known([*PROMPT, *expected], wrong=wrong)
        run = run_greedily(model, lambda _: drafter, LONGEST_COPY, count=count, block=256)  # noqa: B023
        assert run.tokens == expected
        drafted = [len(guess.tokens) for guess, _ in run.rounds if guess]
        assert max(drafted) == LONGEST_COPY


@pytest.mark.parametrize(
    ("architecture", "start"),
    mostly_slow(
        itertools.product(["llama", "gemma3_text", "qwen3_5"], range(13, 20, 2)),
        quick=[("llama", 15), ("gemma3_text", 17)],
    ),
)
def test_caches_become_quantized_inside_a_draft(architecture, start):
    """Wherever the start lies, 6 drafted tokens would reach across it."""
    assert len(PROMPT) < start < len(PROMPT) + 8
    quantized = QuantizedCaches(bits=8, group_size=32, start=start)
    model = model_of(Case(architecture, "float32", QUANTIZED))
    expected = plainly(model, count=12, quantized=quantized)

    for wrong in ((), EVERYWHERE, now_and_then(start)):
        drafter = Known([*PROMPT, *expected], wrong=wrong)
        run = run_greedily(model, lambda _: drafter, 6, count=12, quantized=quantized)  # noqa: B023
        assert run.tokens == expected


# Against mlx-lm


@pytest.mark.parametrize(
    ("architecture", "precision"),
    mostly_slow(
        itertools.product([a for a in ARCHITECTURES if a != "gemma3_text"], ["float32", "4-bit"]),
        quick=[("llama", "float32"), ("qwen3_5", "4-bit")],
    ),
)
def test_plain_decoding_is_mlx_lms(architecture, precision):
    case = Case(architecture, precision)
    theirs = generate_step(mx.array(PROMPT), model_of(case), max_tokens=COUNT)
    assert plain_of(case) == [int(token) for token, _ in theirs]


@pytest.mark.parametrize("precision", mostly_slow(["float32", "bfloat16"], quick=["float32"]))
def test_plain_decoding_in_a_window_is_mlx_lms(precision):
    """Past the window, mlx-lm's ring sums the keys in another order than ours.

    So there, a first difference is allowed where our two best are closer than that can shift
    them; nothing after it is comparable.
    """
    case = Case("gemma3_text", precision)
    slack = 1e-3 if precision == "float32" else 0.5
    theirs = generate_step(mx.array(PROMPT), model_of(case), max_tokens=2 * COUNT)
    ours = plainly(model_of(case), count=2 * COUNT)
    margins = [margin for _, _, margin in ranked(model_of(case), [*PROMPT, *ours])]

    pairs = enumerate(zip(ours, (int(token) for token, _ in theirs), strict=True))
    first = next((i for i, (our, their) in pairs if our != their), None)
    if first is not None:
        assert len(PROMPT) + first > WINDOW
        assert margins[len(PROMPT) + first - 1] < slack


# Mutants: what the comparison must notice


def keep_one_too_many():
    def broken(layers, mark):
        for layer in layers:
            layer.trim(max(0, layer.offset - mark.length - 1))

    return mock.patch.object(engine.core.cache, "_restore", broken)


def forget_no_state():
    """Recurrent states stay as the rejected tokens left them."""
    restore = engine.core.cache._restore

    def broken(layers, mark):
        kept = {i: layer.cache for i, layer in enumerate(layers) if isinstance(layer, ArraysCache)}
        restore(layers, mark)
        for i, state in kept.items():
            layers[i].cache = state

    return mock.patch.object(engine.core.cache, "_restore", broken)


def share_the_copies():
    """A mark that holds the cache itself."""
    return mock.patch.object(engine.core.cache, "copy_of", lambda layer: layer)


def cross_a_step():
    """Caches become quantized after a draft, not in the middle of it."""
    return mock.patch.object(Timeline, "room", return_value=1 << 30)


def use_mlx_lms_ring():
    def of(model, **_):
        return Timeline(make_prompt_cache(model))

    stack = ExitStack()
    stack.enter_context(mock.patch.object(engine.core.cache, "_can_be_cut", return_value=True))
    stack.enter_context(mock.patch.object(Timeline, "of", of))
    return stack


def look_at_the_wrong_row():
    compare = engine.core.judging._compare

    def broken(scored, *arguments):
        return compare(mx.roll(scored, 1, axis=0), *arguments)

    return mock.patch.object(engine.core.judging, "_compare", broken)


def keep_the_first_rows():
    """And not the accepted path."""
    return mock.patch.object(Timeline, "move", return_value=None)


def mask_as_a_chain():
    """A tree whose rows are read at once."""
    mask = engine.core.batch._Part.mask

    def broken(part, *args):
        sight = mask(part, *args)
        return sight if sight.as_chain is None else sight._replace(own=sight.as_chain)

    stack = ExitStack()
    stack.enter_context(mock.patch.object(engine.cpu.trees, "_SUMS_IN_TURN", True))
    stack.enter_context(mock.patch.object(engine.core.batch._Part, "mask", broken))
    return stack


@dataclass(frozen=True)
class Mutant:
    """A broken engine, and a case in which it must show."""

    broken: Callable[[], AbstractContextManager[Any]]
    case: Case


COARSE = QuantizedCaches(bits=2, group_size=32, start=QUANTIZED.start)
MUTANTS = [
    Mutant(keep_one_too_many, Case("llama", "float32")),
    Mutant(keep_one_too_many, Case("llama", "bfloat16")),
    Mutant(forget_no_state, Case("qwen3_5", "float32")),
    Mutant(forget_no_state, Case("lfm2", "float32")),
    Mutant(forget_no_state, Case("mamba", "float32")),
    Mutant(share_the_copies, Case("qwen3_5", "float32")),
    Mutant(cross_a_step, Case("llama", "float32", COARSE)),
    Mutant(use_mlx_lms_ring, Case("gemma3_text", "float32")),
    Mutant(look_at_the_wrong_row, Case("llama", "float32")),
]
TREE_MUTANTS = [
    Mutant(keep_the_first_rows, Case("gemma3_text", "float32")),
    Mutant(mask_as_a_chain, Case("llama", "float32")),
]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.broken.__name__}-{m.case}")
def test_comparison_notices_a_mutant(mutant):
    """By the text alone."""
    case, model = mutant.case, model_of(mutant.case)
    expected = plain_of(case)[:BEGINNING]
    text = [*PROMPT, *expected]

    def notices(length, wrong, silent):
        run = run_greedily(
            model,
            lambda _: Known(text, wrong=wrong, silent=silent),
            length,
            count=BEGINNING,
            quantized=case.quantized,
            block=case.block,
            check_caches=False,
        )
        return run.tokens != expected

    trials = [(3, EVERYWHERE, ()), (8, (), ())]
    trials += [(k, now_and_then(k), now_and_then(-k)) for k in (5, 3, 8)]
    with mutant.broken():
        showing = next(trial for trial in trials if notices(*trial))
    assert not notices(*showing)


@pytest.mark.slow
@pytest.mark.cpu
@pytest.mark.parametrize("mutant", TREE_MUTANTS, ids=lambda m: f"{m.broken.__name__}-{m.case}")
def test_comparison_notices_a_mutant_that_misreads_trees(mutant):
    """By the text alone."""
    case, expected = mutant.case, plain_of(mutant.case)[:BEGINNING]

    def notices(seed):
        drafter = Guessing([*PROMPT, *expected], seed=seed)
        target, policy = decoder(model_of(case), block=case.block), Shaped(UNEVEN)
        target.shares = True  # the trial would notice the mutant
        return write(target, drafter, policy, list(PROMPT), task(BEGINNING)).tokens != expected

    with mutant.broken():
        showing = next(seed for seed in range(8) if notices(seed))
    assert not notices(showing)


def test_drafter_that_forgets_to_rewind_costs_only_acceptance():
    case = Case("llama", "float32")

    def forgetful(target):
        own = decoder(noisy_of(case), block=case.block)
        timeline = own.timeline

        def rewind(length):
            timeline.length = min(length, timeline.length)  # and what was read stays

        timeline.rewind = rewind
        return ModelDrafter(own, vocabulary=target.vocabulary)

    careful = run_of(case, "noisy", 4)
    run = run_greedily(model_of(case), forgetful, 4, count=COUNT, block=case.block)

    assert run.tokens == careful.tokens == plain_of(case)
    assert run.accepted < careful.accepted
