"""Drafting in blocks: what is drafted is what the network makes of the committed tokens alone, and
the forms of DFlash's, DFlash2's and DSpark's folders."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine.drafters.block as published
import engine.drafters.dflash
from engine.core.decoder import Decoder
from engine.core.model_parts import embedding_scale
from engine.core.sampling import History, distribution, scores
from engine.draft_length.policy import Fixed
from engine.drafters.block import load_block
from engine.drafters.dflash import ContextCache
from engine.drafters.dspark import MarkovHead, MarkovSlots
from engine.request import Sampling
from models.drafters.blocks import rotation_of
from models.drafters.folders import describe_drafter
from models.errors import Problem
from tests.engine.drafters.test_drafter_folders import has
from tests.support.engine.blocks import BLOCK_KINDS, block_drafter, block_network, logits_of
from tests.support.engine.helpers import (
    GREEDY,
    PROMPT,
    plainly,
    read_prompt,
    task,
    up_to,
    write,
)
from tests.support.engine.parity.drafters import BY_KIND, DRAFTERS
from tests.support.engine.parity.subjects import TARGET, seeded
from tests.support.engine.tiny import shallow
from tests.support.mostly_slow import examples, mostly_slow

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
KEY = mx.random.key(0)
WARM = Sampling(temperature=0.8)
CHAINED = Sampling(
    temperature=1.3, top_p=0.9, top_k=6, repetition_penalty=1.2, frequency_penalty=0.3
)
SMALL = 8  # a vocabulary of which random drafters often draft the right token
SMALL_PROMPT = [token % SMALL for token in PROMPT]


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
    target = Decoder(shallow("llama"))
    drafter = block_drafter(target, kind)
    read_prompt(target, drafter, TOKENS)
    drafted = drafter.propose(TOKENS, up_to(5), sampling, KEY)
    expected = law(kind, drafted.tokens.tolist(), sampling)
    assert mx.allclose(drafted.distributions, expected, atol=1e-5)
    q = mx.take_along_axis(expected, drafted.tokens[:, None], axis=-1)[:, 0]
    assert mx.allclose(drafted.q, q, atol=1e-5)
    if kind == "dflash2":
        assert mx.max(mx.sum(drafted.distributions > 0, axis=-1)).item() <= 4


# --- Folders


PLAIN = DRAFTERS["dflash"]
MUSE = TARGET | {"model_type": "muse_glimmer", "sliding_window": 16}
GEMMA = MUSE | {"model_type": "gemma3_text", "query_pre_attn_scalar": 8}


def network_of(subject, folder, model=None, **tensors):
    """The subject's network for a target, with some of its tensors replaced."""
    has(**tensors)(subject.write(folder))
    target = Decoder(subject.target_model() if model is None else model)
    return published.block_network(describe_drafter(folder), target)


def test_an_embedding_of_its_own_is_used_unless_it_is_the_targets(tmp_path):
    model = PLAIN.target_model()
    near = model.model.embed_tokens.weight + 0.05 * mx.random.normal((64, 32))
    far = mx.random.normal((64, 32), key=mx.random.key(3))
    weights = {
        "near": {"embed_tokens": near, "lm_head": model.lm_head.weight + 0.01},
        "far": {"embed_tokens": far, "lm_head": far},
    }
    for name, modules in weights.items():
        for module, weight in modules.items():
            folder = tmp_path / name / module
            network = network_of(PLAIN, folder, **{f"{module}.weight": weight})
            assert (module in network.weights) == (name == "far")


def test_a_norm_of_embeddings_is_left_out(tmp_path):
    """Muse's drafters were trained with embeddings as they are stored."""
    subject, model = DRAFTERS["dflash-transformers"], seeded(MUSE)
    with pytest.raises(Problem):
        embedding_scale(model)
    target = Decoder(model)
    drafter = load_block(describe_drafter(subject.write(tmp_path)), target)
    run = write(target, drafter, Fixed(4), list(PROMPT), task(8))
    assert run.tokens == plainly(model, count=8, prompt=PROMPT, block=128)
    network = network_of(subject, tmp_path, model)
    assert mx.array_equal(network.embed(mx.array([[5]]))[0], model.model.embed_tokens.weight[5:6])


@pytest.mark.parametrize(
    ("subject", "said", "scale"),
    [
        (PLAIN, {}, 32**0.5),
        (PLAIN, {"input_embedding_scale": 3.0}, 3.0),
        (DRAFTERS["dflash-speculators"], {}, 1.0),
    ],
)
def test_embeddings_of_a_target_that_scales_them(subject, said, scale, tmp_path):
    model = seeded(GEMMA)
    changed = replace(subject, config={**subject.config, **said})
    network = network_of(changed, tmp_path, model)
    raw = model.model.embed_tokens.weight[5:6]
    assert mx.allclose(network.embed(mx.array([[5]]))[0], raw * scale, rtol=2e-3)


def test_rows_of_the_targets_output_layer(tmp_path):
    """Where a drafter proposes some tokens only, and has no output layer of its own."""
    some = mx.array([3, 17, 40, 63])
    network = network_of(PLAIN, tmp_path / "some", d2t=some - mx.arange(4))
    logits, whole = logits_of(network), logits_of(network_of(PLAIN, tmp_path / "all"))
    assert mx.allclose(logits, whole[:, some], atol=1e-5)
    assert network.rows.tokens(mx.arange(4)).tolist() == some.tolist()


def test_rotations():
    cases = [
        ({}, 1e4, None),
        ({"rope_theta": 5e5}, 5e5, None),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, 1e6, None),
        ({"rope_theta": 1e7, "rope_scaling": {"type": "linear", "factor": 2.0}}, 1e7, "linear"),
        ({"rope_parameters": {"mrope_section": [1, 1], "rope_type": "default"}}, 1e4, None),
    ]
    for config, base, kind in cases:
        rotation = rotation_of(config, 8)
        assert (rotation.dims, rotation.base, rotation.interleaved) == (8, base, False)
        assert (rotation.scaling or {}).get("rope_type") == kind


def test_a_token_that_the_head_does_not_have_is_read_as_its_last():
    mx.random.seed(1)
    head = MarkovHead(11, 11, rank=4)
    states, logits = mx.random.normal((1, 6)), mx.random.normal((1, 11))
    beyond = MarkovSlots(states, logits, head, None).read(mx.array([64]))
    assert mx.array_equal(beyond, MarkovSlots(states, logits, head, None).read(mx.array([10])))


ANCHOR = "sample_from_anchor"  # whether the anchor proposes in speculators
METHODS = {"speculators_config": {"proposal_methods": [{"speculative_tokens": 5}]}}


@pytest.mark.parametrize(
    ("most", "said"),
    [
        (5, {ANCHOR: True, "speculators_config": {}}),
        (4, {ANCHOR: False, "speculators_config": {}}),
        (4, {"speculators_config": {}}),
        (5, METHODS),
    ],
)
def test_how_many_tokens_a_block_of_speculators_has(most, said, tmp_path):
    """Those of other packagings are compared with what other programs draft."""
    subject = DRAFTERS["dspark-speculators"]
    changed = replace(subject, config={**subject.config, **said})
    assert network_of(changed, tmp_path).most == most


ODD = (None, 0, -1, 3.5, "x", [], [1], {}, {"a": 1}, True, 1 << 40, [None], ["sliding_attention"])
CASES = [
    (subject, path)
    for subject in (*BY_KIND["dflash"].values(), *BY_KIND["dspark"].values())
    for name, value in subject.config.items()
    for path in ((name,), *((name, each) for each in (value if isinstance(value, dict) else ())))
]


@settings(max_examples=examples(15), deadline=None)
@given(st.sampled_from(CASES), st.sampled_from(ODD))
def test_whatever_a_config_says_is_read_or_refused(case, odd):
    subject, path = case
    config = deepcopy(dict(subject.config))
    place = config if len(path) == 1 else config[path[0]]
    place[path[-1]] = odd
    target = Decoder(subject.target_model())
    with TemporaryDirectory() as folder:
        try:
            written = replace(subject, config=config).write(Path(folder))
            drafter = load_block(describe_drafter(written), target)
        except Problem:
            return
        target.read(mx.array(TOKENS[:-1]))
        draft = drafter.propose(TOKENS, up_to(3), GREEDY, KEY)
        assert draft.tokens.size <= 3
