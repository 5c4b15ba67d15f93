"""DSpark: every packaging loads as the same drafter, and broken folders are refused."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.decoder import Decoder
from engine.drafters.block import block_network as published_network
from engine.drafters.block import load_block
from engine.drafters.dspark import (
    MarkovHead,
    MarkovSlots,
)
from models.drafters.folders import describe_drafter
from models.errors import Problem
from tests.support.engine.helpers import GREEDY, up_to
from tests.support.engine.parity.drafters import BY_KIND, DRAFTERS
from tests.support.mostly_slow import examples

PLAIN = DRAFTERS["dspark-deepspec"]
SPECULATORS = DRAFTERS["dspark-speculators"]
LINEAGE = DRAFTERS["dspark-lineage-of-dflash"]
PROMPT = [3, 1, 41, 59, 26, 5, 35]


# --- The Markov head


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
