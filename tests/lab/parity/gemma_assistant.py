"""Gemma-4 assistants against mlx-vlm's, for a target whose last layers share their caches, and for
one without such layers; one assistant has an output layer of all tokens, one of clusters."""

import json
import tempfile
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import make_prompt_cache

from engine.core.decoder import Decoder
from engine.draft_length import DraftChoice
from engine.drafters.gemma_assistant import load_gemma_assistant
from engine.request import Sampling
from models.drafters.folders import describe_drafter
from tests.lab.parity.subjects import (
    PROMPT,
    WIDTH,
    Arrays,
    Subject,
    numbers,
    subjects,
    target_reads_as_mlx_does,
)

DRAFTED = 4
WINDOW = 6
LENGTHS = (4, len(PROMPT))  # shorter than the window, and longer

WHOLE, CLUSTERED = SUBJECTS = subjects("gemma_assistant")
LARGE, SMALL = WHOLE.target, CLUSTERED.target
ASSISTANT: dict[str, Any] = WHOLE.config["text_config"]


def theirs(subject: Subject) -> Arrays:
    """By mlx-vlm, with keys and values from mlx-lm's own caches."""
    from mlx_vlm.speculative.drafters.gemma4_assistant import Model, ModelConfig

    model = Model(ModelConfig.from_dict(json.loads(json.dumps(subject.config))))
    tensors = {name: mx.array(array) for name, array in subject.weights().items()}
    model.load_weights(list(model.sanitize(tensors).items()))
    target = subject.target_model()
    model.bind(target)
    given = {}
    for length in LENGTHS:
        tokens = list(PROMPT[:length])
        caches = make_prompt_cache(target)
        state = target.model(mx.array([tokens[:-1]]), cache=caches)[:, -1:]
        held = {
            layer.layer_type: (cache.keys[..., : length - 1, :], cache.values[..., : length - 1, :])
            for layer, cache in zip(target.layers, caches, strict=False)
        }
        newest = [array[..., -(WINDOW - 1) :, :] for array in held["sliding_attention"]]
        held["sliding_attention"] = (newest[0], newest[1])
        model.set_shared_kv(held, length - 1, position=length - 2, kv_valid_len=length - 1)
        logits, draft = [], [mx.array([tokens[-1]])]
        for _ in range(DRAFTED):
            embedded = target.model.embed_tokens(draft[-1][None]) * WIDTH**0.5
            inputs = mx.concatenate([embedded, state], axis=-1)
            state, scored = model(inputs, held, mx.array([[length - 2]]))
            logits.append(scored[0])
            draft.append(mx.argmax(scored[0], axis=-1))
        given[f"logits after {length}"] = numbers(mx.concatenate(logits))
        given[f"draft after {length}"] = numbers(mx.concatenate(draft[1:])).astype(np.int32)
        if subject is CLUSTERED:  # it gives tokens of other clusters a little less than the least
            rows = given[f"logits after {length}"]
            rows[rows == rows.min(axis=-1, keepdims=True)] = -np.inf
    return given


@target_reads_as_mlx_does
def ours(subject: Subject) -> Arrays:
    """By our network, with our target's caches and recording."""
    target = Decoder(subject.target_model(), block=4)
    with tempfile.TemporaryDirectory() as folder:
        subject.write(Path(folder))
        drafter = load_gemma_assistant(describe_drafter(Path(folder)), target)
    given = {}
    for length in LENGTHS:
        tokens = list(PROMPT[:length])
        target.rewind(0)
        list(target.prefill(tokens))
        network = drafter._network
        seen: list[mx.array] = []

        def watching(*inputs: Any) -> tuple[mx.array, mx.array]:
            state, logits = network(*inputs)  # noqa: B023
            seen.append(logits)  # noqa: B023
            return state, logits

        watching.caches = network.caches  # type: ignore[attr-defined]
        drafter._network = watching  # type: ignore[assignment]
        draft = drafter.propose(tokens, DraftChoice(DRAFTED), Sampling(), mx.random.key(0))
        drafter._network = network
        assert draft is not None
        given[f"logits after {length}"] = numbers(mx.concatenate(seen))
        given[f"draft after {length}"] = numbers(draft.tokens).astype(np.int32)
    return given
