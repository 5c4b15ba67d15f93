"""Greedy decoding with drafts writes what it writes without: token for token, whatever drafts.

The matrix: architectures (full attention, windows, recurrent, mixed) x precisions x drafters x
draft lengths, and caches that become quantized in the middle. A part of it runs every time, all
of it in the slow tests. Faults in tests/mutants/engine.toml show that the comparison would notice.
"""

import functools
import itertools
from dataclasses import dataclass, replace
from unittest import mock

import mlx.core as mx
import pytest
from mlx_lm.models.cache import make_prompt_cache

import engine.cpu.exponentials
from engine.core.cache import QuantizedCaches
from engine.device import CPU, backend
from engine.draft_length import LONGEST_COPY
from engine.drafters.cascade import Cascade
from engine.drafters.copying import LookupDrafter, SuffixDrafter
from engine.drafters.early_exit import EarlyExitDrafter
from engine.drafters.lookahead import LookaheadDrafter
from engine.drafters.model import ModelDrafter
from engine.drafters.other_tokenizer import OtherTokenizerDrafter, Translation
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
)
from tests.support.engine.plain_texts import PlainTexts
from tests.support.engine.tiny import ARCHITECTURES, build, noisy
from tests.support.engine.trees import Guessing
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


PART = (
    (Case("llama", "float32"), "early-exit", 3),
    (Case("llama", "bfloat16"), "trees", 8),
    (Case("qwen2", "4-bit"), "cascade", 3),
    (Case("gemma3_text", "float16"), "noisy", 2),
    (Case("gemma3_text", "float32", QUANTIZED), "lookup", 5),
    (Case("lfm2", "float32"), "noisy", 3),
    (Case("mamba", "float32"), "noisy", 3),
)


def test_no_divergence_in_a_part_of_the_matrix():
    """Some runs are beside the host, or begin their layers one by one, as those of larger models
    are."""
    assert len(set(matrix())) == len(matrix()) >= 1000
    assert {*PART} <= {*matrix()}
    for number, (case, kind, length) in enumerate(PART):
        large = mock.patch.object(engine.cpu.exponentials, "_LARGE_LAYER", 0 if number % 3 else 1e9)
        with computing_as(replace(CPU, beside_host=bool(number % 2))), large:
            run = run_of(case, kind, length)
            assert run.tokens == plain_of(case), (case, kind, length)
            assert 0 < run.accepted < run.proposed or kind == "lookup", (case, kind, length)


# As on a Mac


def ties_of(case, trials):
    """How many near ties there are in as many runs as on a Mac, and how many differ otherwise."""
    make = functools.partial(decoder, model_of(case), quantized=case.quantized, block=case.block)
    texts, forks, roundings = PlainTexts(make, rows=ROWS), [], None
    plain = texts.plain(PROMPT, COUNT).text
    for kind, length in trials:
        written = run_of(case, kind, length).tokens
        if written != plain:
            roundings = roundings or texts.roundings(PROMPT, plain)
            forks += texts.forks(PROMPT, written, roundings)
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


QUANTIZED_AT = {start: replace(QUANTIZED, start=start) for start in range(13, 20, 2)}
WINDOWED = Case("gemma3_text", "float32")


@pytest.mark.parametrize(
    ("case", "length", "options"),
    [
        # Windows move after 256 tokens, not after a few.
        pytest.param(WINDOWED, 7, {"prompt": 4 * [*range(1, 61)], "count": 30}, id="windows"),
        *(
            pytest.param(
                *(Case(architecture, "float32"), LONGEST_COPY, {"count": LONGEST_COPY + 4}),
                id=f"long copies, {architecture}",
                marks=() if architecture == "llama" else pytest.mark.slow,
            )
            for architecture in CORE
        ),
        *(
            # Wherever the start lies, 6 drafted tokens would reach across it.
            pytest.param(
                *(Case(architecture, "float32", quantized), 6),
                {"count": 12, "quantized": quantized, "block": BLOCK},
                id=f"quantized from {start} on, {architecture}",
                marks=()
                if (architecture, start) in (("llama", 15), ("gemma3_text", 17))
                else pytest.mark.slow,
            )
            for architecture, (start, quantized) in itertools.product(
                ["llama", "gemma3_text", "qwen3_5"], QUANTIZED_AT.items()
            )
        ),
    ],
)
def test_drafts_that_stand_whole_in_part_or_not_at_all(case, length, options):
    model, options = model_of(case), {"prompt": PROMPT, "block": 256} | options
    expected = plainly(model, **options)
    for wrong in ((), now_and_then(2, chance=0.1), EVERYWHERE):
        drafter = Known([*options["prompt"], *expected], wrong=wrong)
        run = run_greedily(model, lambda _: drafter, length, **options)  # noqa: B023
        assert run.tokens == expected
        longest = max(len(guess.tokens) for guess, _ in run.rounds if guess)
        assert longest == length or case.quantized
        assert run.accepted if wrong != EVERYWHERE else not run.accepted


# Against mlx-lm


@pytest.mark.parametrize(
    ("architecture", "precision"),
    mostly_slow(
        [*itertools.product(ARCHITECTURES, ["float32", "4-bit"]), ("gemma3_text", "bfloat16")],
        quick=[("llama", "float32"), ("gemma3_text", "float32"), ("qwen3_5", "4-bit")],
    ),
)
def test_plain_decoding_is_mlx_lms(architecture, precision):
    """Past its window, mlx-lm's ring sums the keys in another order than ours."""
    model = model_of(Case(architecture, precision))
    slack = 0.5 if precision == "bfloat16" else 1e-3
    tokens = [*PROMPT, *plainly(model, count=COUNT, block=256)]
    caches, apart = make_prompt_cache(model), []
    for token, following in itertools.pairwise(tokens):
        logits = model(mx.array([[token]]), cache=caches)[0, -1].astype(mx.float32)
        apart.append(mx.max(logits) - logits[following])
    assert mx.max(mx.stack(apart[len(PROMPT) - 1 :])).item() < slack
