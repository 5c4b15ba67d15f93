"""EAGLE-3's other options against speculators; EAGLE, and DeepSpec's EAGLE-3, against their
authors' code.

All need PyTorch: `SLIPSTREAM_TORCH_PYTHON` names a Python that has it, and speculators;
`SLIPSTREAM_EAGLE`, `SLIPSTREAM_DEEPSPEC` clones of SafeAILab/EAGLE and deepseek-ai/DeepSpec. What
is compared are the logits of all rows, and then of each row gone on from its own state with the
tokens that come next.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlx.core as mx
import numpy as np

from engine.core.decoder import Decoder
from engine.drafters.eagle import load_network
from models.drafters.folders import describe_drafter
from tests.lab.parity.by_torch import by_torch
from tests.lab.parity.eagle3 import GIVEN, LAYER, ROWS, ends, layer_shapes, over_target
from tests.lab.parity.subjects import (
    PROMPT,
    VOCABULARY,
    WIDTH,
    Arrays,
    Subject,
    Unavailable,
    draw,
    hidden_states,
    numbers,
    of_tokens,
    target_reads_as_mlx_does,
)

STEPS = 3


def of_queries(*layers: int, head: int) -> dict[str, tuple[int, ...]]:
    """The norms that Qwen3's layers have."""
    names = [f"layers.{layer}.self_attn.{kind}_norm.weight" for layer in layers for kind in "qk"]
    return dict.fromkeys(names, (head,))


QWEN3 = Subject(
    name="eagle3-qwen3",
    config={
        "speculators_model_type": "eagle3",
        "draft_vocab_size": ROWS,
        "norm_before_residual": False,
        "fc_norm": True,
        "norm_output": True,
        "eagle_aux_hidden_state_layer_ids": [0, 3, 6, 8],
        "transformer_layer_config": LAYER
        | {
            "model_type": "qwen3",
            "head_dim": 16,
            "num_hidden_layers": 2,
            "rope_parameters": {"rope_theta": 1e5, "rope_type": "linear", "factor": 2.0},
        },
    },
    shapes=layer_shapes("layers.0", head=16)
    | layer_shapes("layers.1", head=16, first=False)
    | of_queries(0, 1, head=16)
    | ends(taps=4)
    | {f"fc_norm.{tap}.weight": (WIDTH,) for tap in range(4)},
    given=GIVEN,
    seed=3,
)
WINDOW = Subject(
    name="eagle3-window",
    config={
        "speculators_model_type": "eagle3",
        "draft_vocab_size": VOCABULARY,
        "norm_before_residual": True,
        "norm_before_fc": True,
        "eagle_aux_hidden_state_layer_ids": [2, 4, 6],
        "transformer_layer_config": LAYER
        | {
            "head_dim": 8,
            "layer_types": ["sliding_attention"],
            "sliding_window": 4,
            "use_sliding_window": True,
            "rope_parameters": {
                "rope_theta": 1e4,
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16,
            },
        },
    },
    shapes=layer_shapes("layers.0")
    | ends()
    | {"input_norm.weight": (3 * WIDTH,), "lm_head.weight": (VOCABULARY, WIDTH)},
    seed=4,
)
FIRST = Subject(
    name="eagle",
    config=LAYER | {"architectures": ["LlamaForCausalLM"], "bias": True, "pad_token_id": 0},
    shapes={
        name: shape
        for name, shape in layer_shapes("layers.0", first=False).items()
        if name != "layers.0.input_layernorm.weight"
    }
    | {"fc.weight": (WIDTH, 2 * WIDTH), "fc.bias": (WIDTH,)},
    given={"embed_tokens.weight": draw("model.embed_tokens.weight", (VOCABULARY, WIDTH), seed=6)},
    seed=6,
    gain=0.8,  # no norm is before the output layer: logits would be in the hundreds
)
WHOLE_VOCABULARY = {
    "embed_tokens.weight": draw("model.embed_tokens.weight", (VOCABULARY, WIDTH), seed=7)
}
DEEPSPEC: dict[str, Any] = LAYER | {
    "target_layer_ids": [0, 1, 3, 5, 7],
    "ttt_length": 7,
    "step_loss_decay": 0.8,
    "pad_token_id": 0,
}
DEEPSPEC_QWEN3 = Subject(
    name="eagle3-deepspec-qwen3",
    config=DEEPSPEC
    | {
        "architectures": ["Qwen3Eagle3Model"],
        "model_type": "qwen3",
        "head_dim": 16,
        "num_hidden_layers": 2,
        "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"},
    },
    shapes=layer_shapes("layers.0", head=16)
    | layer_shapes("layers.1", head=16)
    | of_queries(0, 1, head=16)
    | ends(taps=5)
    | {"lm_head.weight": (VOCABULARY, WIDTH)},
    given=WHOLE_VOCABULARY,
    seed=7,
)
DEEPSPEC_GEMMA4 = Subject(
    name="eagle3-deepspec-gemma4",
    config=DEEPSPEC
    | {
        "architectures": ["Gemma4Eagle3Model"],
        "model_type": "gemma4_text",
        "head_dim": 8,
        "global_head_dim": 16,
        "num_global_key_value_heads": 1,
        "attention_k_eq_v": True,
        "final_logit_softcapping": 3.0,
        "hidden_size_per_layer_input": 0,
        "num_kv_shared_layers": 0,
        "use_double_wide_mlp": False,
        "layer_types": ["full_attention"],
        "rope_parameters": {
            "full_attention": {
                "rope_type": "proportional",
                "partial_rotary_factor": 0.25,
                "rope_theta": 1e6,
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    },
    shapes={
        name: shape
        for name, shape in layer_shapes("layers.0", head=16).items()
        if "v_proj" not in name
    }
    | of_queries(0, head=16)
    | ends(taps=5)
    | {
        "layers.0.self_attn.k_proj.weight": (16, 2 * WIDTH),
        "layers.0.pre_feedforward_layernorm.weight": (WIDTH,),
        "layers.0.post_feedforward_layernorm.weight": (WIDTH,),
        "layers.0.layer_scalar": (1,),
        "lm_head.weight": (VOCABULARY, WIDTH),
    },
    given=WHOLE_VOCABULARY,
    seed=7,
)
SUBJECTS = (QWEN3, WINDOW, FIRST, DEEPSPEC_QWEN3, DEEPSPEC_GEMMA4)
# Who else's code is run, and what names the clone that has it.
SCRIPTS = {
    FIRST.name: ("eagle_torch.py", "SLIPSTREAM_EAGLE"),
    DEEPSPEC_QWEN3.name: ("deepspec_torch.py", "SLIPSTREAM_DEEPSPEC"),
    DEEPSPEC_GEMMA4.name: ("deepspec_torch.py", "SLIPSTREAM_DEEPSPEC"),
}


def steps_of(subject: Subject) -> int:
    """In training a window does not move on with the steps."""
    return 1 if subject is WINDOW else STEPS


def taps_of(subject: Subject) -> list[int]:
    """By the numbers of `hidden_states`."""
    if layers := subject.config.get("target_layer_ids"):
        return [layer + 1 for layer in layers]
    return list(subject.config.get("eagle_aux_hidden_state_layer_ids", [-1]))


def theirs(subject: Subject) -> Arrays:
    """By speculators, or by the authors, in another process."""
    script, variable = SCRIPTS.get(subject.name, ("speculators_torch.py", ""))
    if variable and variable not in os.environ:
        raise Unavailable(f"{variable} names no clone")
    target = subject.target_model()
    states = hidden_states(target, list(PROMPT))
    inputs = {
        "embedding": numbers(target.model.embed_tokens.weight),
        "head": numbers(target.lm_head.weight),
        "states": numbers(mx.concatenate([states[tap][:-1] for tap in taps_of(subject)], axis=-1)),
        "ids": np.array(PROMPT[1:], dtype=np.int64),
        "steps": np.array(steps_of(subject)),
    }
    clone = os.environ.get(variable, "")
    logits = by_torch(script, subject, inputs, packages="speculators", path=clone)["logits"]
    kept = logits if logits.shape[-1] == VOCABULARY else over_target(mx.array(logits))
    return {"logits": kept}


@target_reads_as_mlx_does
def ours(subject: Subject) -> Arrays:
    """By our network: each row is gone on from with a cache of its own."""
    target = Decoder(subject.target_model())
    with TemporaryDirectory() as folder:
        network = load_network(describe_drafter(subject.write(Path(folder))), target)
    states = target.record(network.taps)
    target.read(mx.array(PROMPT[:-1]))
    begun = network.begin(states.between(0, len(PROMPT) - 1)[None])
    after, count = mx.array([PROMPT[1:]]), steps_of(subject)
    made: list[list[mx.array]] = []

    def read_out(state: mx.array) -> mx.array:
        return of_tokens(network.logits(state), network.rows)

    for row in range(after.shape[1]):
        cache = network.make_cache()
        state = network(begun[:, : row + 1], after[:, : row + 1], "causal", cache)[:, -1:]
        made.append([read_out(state)[0, 0]])
        for step in range(1, count):
            token = after[:, row + step] if row + step < after.shape[1] else mx.zeros(1, mx.int32)
            state = network(network.go_on(state), token[None], None, cache)
            made[-1].append(read_out(state)[0, 0])
    return {"logits": numbers(mx.stack([mx.stack(row) for row in made], axis=1))}
