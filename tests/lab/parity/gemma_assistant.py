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
    VOCABULARY,
    WIDTH,
    Arrays,
    Subject,
    numbers,
    target_reads_as_mlx_does,
)

DRAFTED = 4
WINDOW = 6
LENGTHS = (4, len(PROMPT))  # shorter than the window, and longer

_TARGET: dict[str, Any] = {
    "model_type": "gemma4_text",
    "hidden_size": WIDTH,
    "num_hidden_layers": 6,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_global_key_value_heads": 1,
    "head_dim": 8,
    "global_head_dim": 16,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-6,
    "sliding_window": WINDOW,
    "sliding_window_pattern": 3,
    "max_position_embeddings": 4096,
    "final_logit_softcapping": 30.0,
    "rope_parameters": {
        "full_attention": {
            "partial_rotary_factor": 0.25,
            "rope_theta": 1e6,
            "rope_type": "proportional",
        },
        "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
    },
}
LARGE = _TARGET | {
    "num_kv_shared_layers": 0,
    "hidden_size_per_layer_input": 0,
    "attention_k_eq_v": True,
}
SMALL = _TARGET | {
    "num_kv_shared_layers": 3,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": VOCABULARY,
    "use_double_wide_mlp": True,
}
_LAYERS = ("sliding_attention", "sliding_attention", "sliding_attention", "full_attention")
ASSISTANT: dict[str, Any] = {
    "model_type": "gemma4_text",
    "hidden_size": 16,
    "num_hidden_layers": len(_LAYERS),
    "intermediate_size": 24,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "global_head_dim": 16,
    "hidden_size_per_layer_input": 0,
    "num_kv_shared_layers": 0,
    "layer_types": list(_LAYERS),
    **{name: _TARGET[name] for name in ("vocab_size", "rms_norm_eps", "sliding_window")},
    **{name: _TARGET[name] for name in ("max_position_embeddings", "rope_parameters")},
}


def _shapes() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "pre_projection.weight": (16, 2 * WIDTH),
        "post_projection.weight": (WIDTH, 16),
        "model.embed_tokens.weight": (VOCABULARY, 16),
        "model.norm.weight": (16,),
    }
    for number, kind in enumerate(_LAYERS):
        size = 8 if kind == "sliding_attention" else 16
        layer: dict[str, tuple[int, ...]] = {
            "self_attn.q_proj.weight": (4 * size, 16),
            "self_attn.q_norm.weight": (size,),
            "self_attn.o_proj.weight": (16, 4 * size),
            "mlp.gate_proj.weight": (24, 16),
            "mlp.up_proj.weight": (24, 16),
            "mlp.down_proj.weight": (16, 24),
            "input_layernorm.weight": (16,),
            "post_attention_layernorm.weight": (16,),
            "pre_feedforward_layernorm.weight": (16,),
            "post_feedforward_layernorm.weight": (16,),
            "layer_scalar": (1,),
        }
        shapes |= {f"model.layers.{number}.{name}": shape for name, shape in layer.items()}
    return shapes


WHOLE = Subject(
    name="gemma-4-assistant",
    config={
        "architectures": ["Gemma4AssistantForCausalLM"],
        "model_type": "gemma4_assistant",
        "backbone_hidden_size": WIDTH,
        "use_ordered_embeddings": False,
        "tie_word_embeddings": True,
        "text_config": ASSISTANT,
    },
    shapes=_shapes(),
    target=LARGE,
)
CLUSTERED = Subject(
    name="gemma-4-assistant-clustered",
    config=dict(WHOLE.config)
    | {"use_ordered_embeddings": True, "num_centroids": 8, "centroid_intermediate_top_k": 3},
    shapes=_shapes() | {"masked_embedding.centroids.weight": (8, 16)},
    given={"masked_embedding.token_ordering": np.random.RandomState(5).permutation(VOCABULARY)},
    seed=1,
    target=SMALL,
)
SUBJECTS = (WHOLE, CLUSTERED)


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
