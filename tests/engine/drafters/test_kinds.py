"""The laws of every drafter that has a network of its own, whatever it reads of the target."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine.core.model_parts
from engine.core.decoder import Decoder
from engine.draft_length.policy import Fixed, FixedTree
from engine.drafters import NoDrafter
from engine.drafters.model import ParallelDrafter
from engine.drafters.rows import Rows
from engine.request import Sampling
from tests.engine.drafters.test_heads import untrained_medusa
from tests.support.engine import gemma4, mtp
from tests.support.engine.blocks import BLOCK_KINDS, block_drafter
from tests.support.engine.eagles import KINDS as EAGLES
from tests.support.engine.eagles import eagle_drafter
from tests.support.engine.first_two import SAMPLINGS, assert_the_targets
from tests.support.engine.heads import lively_drafter
from tests.support.engine.helpers import (
    BLOCK,
    GREEDY,
    PROMPT,
    assert_as_fresh,
    assert_same_draft,
    decoder,
    drafted,
    read_prompt,
    run_greedily,
    task,
    up_to,
    write,
)
from tests.support.engine.tiny import build, shallow
from tests.support.mostly_slow import examples, mostly_slow

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
KEY = mx.random.key(0)
SMALL = 8  # a vocabulary of which random drafters often draft the right token
SMALL_PROMPT = [token % SMALL for token in PROMPT]
ANY = ("llama", "gemma3_text", "qwen3_5", "lfm2")
"""A target of each kind of cache: full, windows, recurrent and full, short convolutions."""


@dataclass(frozen=True)
class Kind:
    """A kind of drafter, untrained. `drafter(target, architecture, seed)`: one seed gives the same
    weights again. `model(architecture, vocabulary)`: a target of one of the `architectures`.
    `reads_states`: whether it reads the target's hidden states."""

    name: str
    drafter: Callable
    model: Callable = lambda name, vocabulary: shallow(name, vocabulary=vocabulary)
    architectures: tuple = ANY
    reads_states: bool = True

    def pair(self, architecture):
        """A target that has read nothing, and its drafter."""
        target = Decoder(self.model(architecture, 24), block=BLOCK)
        return target, self.drafter(target, architecture, 0)

    def is_exact(self, architecture):
        """Whether several rows are read exactly as one by one; by DeepSeek's attention not."""
        return "kv_lora_rank" not in mtp.TARGETS.get(architecture, {})


def _block(kind, target, _, seed):
    return block_drafter(target, kind, seed=seed)


def _eagle(kind, target, _, seed):
    with TemporaryDirectory() as folder:
        return eagle_drafter(kind, target, Path(folder), seed=seed)


def _pard(target, _, seed):
    vocabulary = target.vocabulary
    model = build("llama", seed=seed + 1, layers=2, vocabulary=vocabulary)
    return ParallelDrafter(Decoder(model), vocabulary=vocabulary, mask=vocabulary - 1)


KINDS = [
    Kind("head", lambda target, _, seed: lively_drafter(target, seed=seed + 5)),
    *(Kind(name, partial(_eagle, name)) for name in EAGLES),
    *(Kind(name, partial(_block, name)) for name in BLOCK_KINDS),
    Kind("Medusa", lambda target, _, seed: untrained_medusa(target, seed=seed + 7)),
    Kind("PARD", _pard, architectures=("llama", "gemma3_text"), reads_states=False),
    Kind(
        "MTP",
        lambda target, _, seed: mtp.mtp_drafter(target, seed=seed),
        lambda name, vocabulary: mtp.build_target(name, vocabulary=vocabulary),
        tuple(mtp.TARGETS),
    ),
    Kind(
        "Gemma-4 assistant",
        lambda target, name, seed: gemma4.assistant_drafter(target, name, seed=seed),
        lambda name, vocabulary: gemma4.build_target(name, vocabulary=vocabulary),
        ("large", "small"),
    ),
]
STATEFUL = [kind for kind in KINDS if kind.reads_states]
NAMED = {kind.name: kind for kind in KINDS}

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
FEW = [NAMED[name] for name in ("head", "dspark", "Medusa", "Gemma-4 assistant")]


def fresh(kind, architecture, tokens):
    """What it drafts for a target that has read `tokens` for the first time."""
    target, drafter = kind.pair(architecture)
    read_prompt(target, drafter, tokens)
    return drafted(drafter, tokens)


STEPS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 9), st.booleans()), min_size=1, max_size=6
)


@pytest.mark.quick(3)
@every_kind
@settings(max_examples=examples(8), deadline=None, derandomize=True)
@given(journey=STEPS)
def test_any_journey_ends_as_if_it_were_the_first_draft(kind, journey):
    """Rounds that accept some tokens, and texts that are taken back, once with drafts since."""
    architecture = kind.architectures[0]
    target, drafter = kind.pair(architecture)
    tokens = list(TOKENS)
    read_prompt(target, drafter, tokens)
    for accepted, back, drafts in journey:
        if drafts:
            guessed, _ = drafted(drafter, tokens)
            target.read(mx.array([*tokens[target.length :], *guessed]))
            tokens += [*guessed[:accepted], 7]
            target.rewind(len(tokens) - 1)
            drafter.accept(range(min(accepted, len(guessed))))
        if back:
            del tokens[max(len(tokens) - back, 3) :]
            target.rewind(len(tokens) - 1)
            drafter.rewind(len(tokens) - 1)
        list(target.prefill(tokens))
    draft = drafted(drafter, tokens)
    assert_same_draft(draft, fresh(kind, architecture, tokens))
    assert_same_draft(draft, drafted(drafter, tokens))  # asking twice changes nothing


@pytest.mark.parametrize(
    "kind", mostly_slow(KINDS, quick=[*FEW, NAMED["PARD"]]), ids=lambda kind: kind.name
)
def test_a_copy_goes_on_where_it_was_made(kind):
    """It reads nothing again, and what either reads or drafts later changes nothing of the
    other."""
    architecture = kind.architectures[0]
    target, drafter = kind.pair(architecture)
    read_prompt(target, drafter, TOKENS)
    drafted(drafter, TOKENS)
    other_target, _recorded = target.copy()
    other = drafter.fork(other_target)
    assert [each.behind for each in other.candidates(TOKENS)] == [
        each.behind for each in drafter.candidates(TOKENS)
    ]
    turned, continued = [*TOKENS[:-3], 9, 9], [*TOKENS, 7, 7]
    other_target.rewind(len(TOKENS) - 3)
    other.rewind(len(TOKENS) - 3)
    for reader, text in ((other_target, turned), (target, continued)):
        list(reader.prefill(text))
    assert_same_draft(drafted(other, turned), fresh(kind, architecture, turned))
    assert_same_draft(drafted(drafter, continued), fresh(kind, architecture, continued))


@pytest.mark.parametrize("kind", mostly_slow(STATEFUL, quick=FEW), ids=lambda kind: kind.name)
def test_before_the_target_has_read_anything_it_has_no_idea(kind):
    target, drafter = kind.pair(kind.architectures[0])
    assert drafter.propose(TOKENS[:1], up_to(3), GREEDY, KEY) is None
    list(target.prefill(TOKENS))
    late = kind.drafter(Decoder(target.model), kind.architectures[0], 0)
    assert late.propose(TOKENS, up_to(3), GREEDY, KEY) is None
    assert drafter.propose(TOKENS, up_to(3), GREEDY, KEY) is not None


@pytest.mark.parametrize("name", ["head", "EAGLE-3", "EAGLE", "MTP", "dflash"])
def test_a_long_prompt_is_read_in_parts(name, monkeypatch):
    kind = NAMED[name]
    architecture = kind.architectures[0]
    expected = fresh(kind, architecture, TOKENS)
    for module in ("states", "block"):
        monkeypatch.setattr(f"engine.drafters.{module}.PREFILL_ROWS", 4)
    for prepared in (True, False):
        target, drafter = kind.pair(architecture)
        list(target.prefill(TOKENS))
        if prepared:
            assert drafter.candidates(TOKENS)[0].behind > 0
            assert list(drafter.prepare(TOKENS)) == [4, 8, 11]
            assert drafter.candidates(TOKENS)[0].behind == 0
        assert_same_draft(drafted(drafter, TOKENS), expected)


@pytest.mark.parametrize("name", ["head", "dspark"])
def test_states_that_are_gone_are_done_without(name, monkeypatch):
    monkeypatch.setattr(engine.core.model_parts, "RECORDED", 4)
    target, drafter = NAMED[name].pair("llama")
    tokens = list(TOKENS)
    target.read(mx.array(tokens[:-1]))
    for token in range(20):
        tokens.append(token)
        target.read(mx.array(tokens[-2:-1]))
        if token % 7 == 6:  # between, so much is read that some of it is lost
            assert len(drafted(drafter, tokens)[0]) == 4
            drafter.accept(())


QUICK = [("MTP", "glm4_moe_lite"), ("PARD", "llama"), ("Gemma-4 assistant", "small")]


@pytest.mark.parametrize(
    ("name", "architecture"),
    mostly_slow([(kind.name, each) for kind in KINDS for each in kind.architectures], quick=QUICK),
)
def test_greedy_text_is_the_targets_own(name, architecture):
    """Of every kind; `test_lossless` has a head and a block, with every architecture and length."""
    kind, accepted = NAMED[name], 0
    model = kind.model(architecture, SMALL)

    def written(make_drafter, length):
        exact = kind.is_exact(architecture)
        return run_greedily(
            model, make_drafter, length, count=14, prompt=SMALL_PROMPT, check_caches=exact
        )

    plain = written(lambda _: NoDrafter(), 0).tokens
    for length, seed in ((3, 0), *((8, seed) for seed in range(1, 9))):
        if accepted and seed > 1:
            break
        run = written(lambda target: kind.drafter(target, architecture, seed), length)  # noqa: B023
        assert run.tokens == plain, (length, seed)
        accepted += run.accepted
    assert accepted > 0


DISTRIBUTIONS = [(kind.name, kind.architectures[0], "top-p") for kind in KINDS]
DISTRIBUTIONS += [("MTP", "qwen3_5", "penalty"), ("MTP", "glm4_moe_lite", "warm")]
DISTRIBUTIONS += [("Gemma-4 assistant", "small", "penalty")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "architecture", "sampling"), DISTRIBUTIONS)
def test_sampled_text_has_the_targets_distribution(name, architecture, sampling):
    kind = NAMED[name]
    model = kind.model(architecture, SMALL)
    assert_the_targets(
        model, lambda target: kind.drafter(target, architecture, 0), SAMPLINGS[sampling]
    )


@pytest.mark.quick(2)
@pytest.mark.parametrize("value", [math.nan, math.inf])
@every_kind
def test_what_computes_nan_is_switched_off(kind, value, monkeypatch):
    """From its second draft on: the text is the target's, nothing that is not finite is shown, and
    it drafts no more."""
    scores = Rows.scores

    def broken(rows, logits, *rest):
        scored = scores(rows, logits, *rest)
        return scored if next(calls) < 3 else mx.full(scored.shape, value)

    architecture = kind.architectures[0 if math.isnan(value) else -1]  # short convolutions too
    model = kind.model(architecture, SMALL)
    for sampling in (GREEDY, Sampling(temperature=0.8, repeatable=True), SAMPLINGS["warm"]):
        plain = write(
            Decoder(model), NoDrafter(), Fixed(0), list(SMALL_PROMPT), task(12, sampling=sampling)
        )
        target, tokens = Decoder(model, block=BLOCK), list(SMALL_PROMPT)
        drafter = kind.drafter(target, architecture, 0)
        with monkeypatch.context() as patched:
            patched.setattr(Rows, "scores", broken)
            calls = count()
            run = write(target, drafter, Fixed(3), tokens, task(12, sampling=sampling))
        if sampling.greedy or sampling.repeatable:
            assert run.tokens == plain.tokens
        shown = [q for guess, _ in run.rounds if guess for q in guess.q]
        numbers = [*shown, *(ruled.own_p for _, ruled in run.rounds)]
        assert all(map(math.isfinite, numbers))
        assert 0 < len(shown) <= 3
        assert drafter.dropped == {drafter.name}
        if kind.is_exact(architecture):
            assert_as_fresh(target, tokens, Decoder(model, block=BLOCK))


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLINGS["warm"]])
def test_a_tree_of_nan_switches_its_drafter_off(sampling, monkeypatch):
    target = decoder(NAMED["head"].model("llama", SMALL))
    drafter = NAMED["head"].drafter(target, "llama", 0)
    monkeypatch.setattr(Rows, "scores", lambda _, logits, *rest: mx.full(logits.shape, math.nan))
    run = write(target, drafter, FixedTree(4), list(SMALL_PROMPT), task(6, sampling=sampling))
    assert run.proposed == 0
    assert drafter.dropped == {"head"}
