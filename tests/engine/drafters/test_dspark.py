"""DSpark: every packaging loads as the same drafter, and broken folders are refused."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.decoder import Decoder
from engine.drafters.block import block_network as published_network
from engine.drafters.block import load_block
from engine.drafters.dspark import (
    ConfidenceHead,
    GatedMarkovHead,
    MarkovHead,
    MarkovSlots,
    RecurrentMarkovHead,
)
from models.drafters.folders import describe_drafter
from models.errors import Problem
from tests.support.engine.helpers import GREEDY, up_to
from tests.support.engine.parity.drafters import BY_KIND, DRAFTERS
from tests.support.mostly_slow import examples

PLAIN = DRAFTERS["dspark-deepspec"]
SPECULATORS = DRAFTERS["dspark-speculators"]
LINEAGE = DRAFTERS["dspark-lineage-of-dflash"]
GEMMA = DRAFTERS["dspark-deepspec-gemma-4"]
PROMPT = [3, 1, 41, 59, 26, 5, 35]


# --- The Markov head


def numbers(array):
    return np.array(array, dtype=np.float64)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def slowly(markov, sure, states, logits, tokens):
    """(logits, confidences) by the definition, in NumPy; `tokens` come before each slot."""
    w1, w2 = numbers(markov.markov_w1.weight), numbers(markov.markov_w2.weight)
    running, rows, confidences = np.zeros(w1.shape[1]), [], []
    for state, base, token in zip(numbers(states), numbers(logits), tokens, strict=True):
        word = w1[token]
        features = np.concatenate([state, word])
        added = word
        if isinstance(markov, GatedMarkovHead):
            gate = numbers(markov.gate_proj.weight) @ features + numbers(markov.gate_proj.bias)
            added = sigmoid(gate) * word
        if isinstance(markov, RecurrentMarkovHead):
            joint = np.concatenate([running, word, state])
            joint = numbers(markov.joint_proj.weight) @ joint + numbers(markov.joint_proj.bias)
            gate, candidate, out = np.split(joint, 3)
            running = sigmoid(gate) * running + (1 - sigmoid(gate)) * np.tanh(candidate)
            added = np.tanh(out)
        rows.append(base + w2 @ added)
        proj = numbers(sure.proj.weight)[0] @ features + numbers(sure.proj.bias)
        confidences.append(sigmoid(proj)[0])
    return np.array(rows), np.array(confidences)


@pytest.mark.parametrize(
    "markov",
    [
        lambda: MarkovHead(11, 11, rank=4),
        lambda: GatedMarkovHead(11, 11, rank=4, width=6),
        lambda: RecurrentMarkovHead(11, 11, rank=4, width=6),
    ],
    ids=["plain", "gated", "recurrent"],
)
def test_markov_heads_by_their_definition(markov):
    mx.random.seed(1)
    head, sure = markov(), ConfidenceHead(10)
    states, logits = mx.random.normal((3, 6)), mx.random.normal((3, 11))
    slots = MarkovSlots(states, logits, head, sure)
    assert slots.confidence is not None
    tokens = [4, 10, 2]
    rows, confidences = [], []
    for token in tokens:
        rows.append(slots.read(mx.array([token])))
        confidences.append(slots.confidence(mx.array([0])))
    expected = slowly(head, sure, states, logits, tokens)
    assert np.allclose(numbers(mx.concatenate(rows)), expected[0], atol=1e-5)
    assert np.allclose(numbers(mx.concatenate(confidences)), expected[1], atol=1e-5)


def test_a_token_that_the_head_does_not_have_is_read_as_its_last():
    mx.random.seed(1)
    head = MarkovHead(11, 11, rank=4)
    states, logits = mx.random.normal((1, 6)), mx.random.normal((1, 11))
    beyond = MarkovSlots(states, logits, head, None).read(mx.array([64]))
    assert mx.array_equal(beyond, MarkovSlots(states, logits, head, None).read(mx.array([10])))


# --- Folders


@pytest.mark.parametrize(
    ("subject", "most", "first"),
    [
        (PLAIN, 5, 0),
        (SPECULATORS, 4, 1),
        (DRAFTERS["dspark-specforge"], 5, 0),
        (DRAFTERS["dspark-liquid"], 6, 0),
        (LINEAGE, 4, 1),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_how_many_tokens_a_block_has(subject, most, first, tmp_path):
    target = Decoder(subject.target_model())
    network = published_network(describe_drafter(subject.write(tmp_path)), target)
    assert network.most == most
    assert int(subject.config["block_size"]) - most == first


def test_whether_the_anchor_proposes_in_speculators(tmp_path):
    subject = SPECULATORS
    config = {name: each for name, each in subject.config.items() if name != "speculators_config"}
    methods = {"speculators_config": {"proposal_methods": [{"speculative_tokens": 5}]}}
    anchors = ({"sample_from_anchor": True}, {"sample_from_anchor": False}, {}, methods)
    found = []
    for said in anchors:
        changed = replace(subject, config=config | said)
        target = Decoder(subject.target_model())
        found.append(published_network(describe_drafter(changed.write(tmp_path)), target).most)
    assert found == [5, 4, 4, 5]


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
        target.read(mx.array(PROMPT[:-1]))
        draft = drafter.propose(PROMPT, up_to(3), GREEDY, mx.random.key(0))
        assert draft.tokens.size <= 3
