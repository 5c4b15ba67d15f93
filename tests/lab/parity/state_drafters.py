"""What drafters of ours that read hidden states give: all at once, step by step, and as a draft."""

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from engine.decoder import Decoder
from engine.draft_length import DraftChoice
from engine.drafters.states import StateDrafter, StateNetwork
from engine.request import Sampling
from tests.lab.parity.subjects import PROMPT, Arrays, Subject, numbers

DRAFTED = 4
Load = Callable[[Path, Mapping[str, Any], Decoder], StateDrafter]


def ours_by(load: Load, subject: Subject) -> Arrays:
    """Of the prompt's states, as our target records them, and of four drafted tokens."""
    target = Decoder(subject.target_model())
    with tempfile.TemporaryDirectory() as folder:
        subject.write(Path(folder))
        drafter = load(Path(folder), json.loads(json.dumps(subject.config)), target)
    network: StateNetwork = drafter._network
    recorded = target.record(network.taps)
    tokens = list(PROMPT)
    target.read(mx.array(tokens[:-1]))
    begun = network.begin(recorded.between(0, len(tokens) - 1)[None])
    after = mx.array([tokens[1:]])
    prefill = network.logits(network(begun, after, "causal", network.make_cache()))[0]
    cache, steps = network.make_cache(), []
    for i in range(after.shape[1]):
        state = network(begun[:, i : i + 1], after[:, i : i + 1], None, cache)
        steps.append(network.logits(state)[0])
    logits = [steps[-1]]
    draft = drafter.propose(tokens, DraftChoice(DRAFTED), Sampling(), mx.random.key(0))
    assert draft is not None
    for token in draft.tokens[:-1]:
        state = network(network.go_on(state), token[None, None], None, cache)
        logits.append(network.logits(state)[0])
    return {
        "prefill": numbers(prefill),
        "steps": numbers(mx.concatenate(steps)),
        "drafted logits": numbers(mx.concatenate(logits)),
        "draft": numbers(draft.tokens).astype(np.int32),
    }
