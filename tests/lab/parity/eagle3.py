"""EAGLE-3 against mlx-vlm, which reads the names that speculators gives its tensors.

What mlx-vlm cannot do is not compared here: norms per tap, normed recycling, norms of queries and
keys, windows, scaled positions.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.core.decoder import Decoder
from engine.drafters.eagle import load_network
from models.drafters.folders import describe_drafter
from tests.lab.parity.states import continued
from tests.lab.parity.subjects import (
    PROMPT,
    VOCABULARY,
    WIDTH,
    Arrays,
    Subject,
    hidden_states,
    numbers,
    target_reads_as_mlx_does,
)

ROWS = 40  # of the drafters' own vocabulary
DRAFTED = 5
KEPT_TOKENS = np.sort(np.random.RandomState(7).permutation(VOCABULARY)[:ROWS])
GIVEN = {
    "d2t": KEPT_TOKENS - np.arange(ROWS),
    "t2d": np.isin(np.arange(VOCABULARY), KEPT_TOKENS),
}
LAYER: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": WIDTH,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 1,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-5,
}


def layer_shapes(
    prefix: str, *, width: int = WIDTH, first: bool = True, head: int = 8, hidden: int = 48
) -> dict[str, tuple[int, ...]]:
    """One layer's tensors: 4 heads, 2 of keys; the first reads the embedding beside its state."""
    read = 2 * width if first else width
    shapes: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj.weight": (4 * head, read),
        "self_attn.k_proj.weight": (2 * head, read),
        "self_attn.v_proj.weight": (2 * head, read),
        "self_attn.o_proj.weight": (width, 4 * head),
        "mlp.gate_proj.weight": (hidden, width),
        "mlp.up_proj.weight": (hidden, width),
        "mlp.down_proj.weight": (width, hidden),
        "input_layernorm.weight": (width,),
        "post_attention_layernorm.weight": (width,),
    }
    if first:
        shapes["hidden_norm.weight"] = (width,)
    return {f"{prefix}.{name}": shape for name, shape in shapes.items()}


def ends(*, width: int = WIDTH, taps: int = 3) -> dict[str, tuple[int, ...]]:
    """What is before and behind the layers."""
    return {
        "fc.weight": (width, taps * WIDTH),
        "norm.weight": (width,),
        "lm_head.weight": (ROWS, width),
    }


OFFICIAL = Subject(
    name="eagle3-official",
    config=LAYER
    | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "draft_vocab_size": ROWS,
        "rope_scaling": None,
    },
    shapes=layer_shapes("midlayer") | ends(),
    given=GIVEN,
)
SPECULATORS = Subject(
    name="eagle3-speculators",
    config={
        "speculators_model_type": "eagle3",
        "architectures": ["Eagle3Speculator"],
        "draft_vocab_size": ROWS,
        "norm_before_residual": True,
        "embed_requires_grad": True,
        "eagle_aux_hidden_state_layer_ids": [1, 4, 7],
        "transformer_layer_config": LAYER | {"head_dim": 8, "rope_theta": 5e5},
    },
    shapes=layer_shapes("layers.0") | ends() | {"embed_tokens.weight": (VOCABULARY, WIDTH)},
    given=GIVEN,
    seed=1,
)
WIDER = Subject(
    name="eagle3-wider-than-its-target",
    config={
        "speculators_model_type": "eagle3",
        "draft_vocab_size": ROWS,
        "norm_before_residual": False,
        "norm_before_fc": True,
        "target_hidden_size": WIDTH,
        "eagle_aux_hidden_state_layer_ids": [2, 5, 8],
        "transformer_layer_config": LAYER
        | {
            "hidden_size": 48,
            "head_dim": 16,
            "num_hidden_layers": 2,
            "attention_bias": True,
            "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"},
        },
    },
    shapes=layer_shapes("layers.0", width=48, head=16)
    | layer_shapes("layers.1", width=48, head=16, first=False)
    | ends(width=48)
    | {"embed_tokens.weight": (VOCABULARY, 48), "input_norm.weight": (3 * WIDTH,)}
    | {
        f"layers.{layer}.self_attn.{name}_proj.bias": (size,)
        for layer in range(2)
        for name, size in {"q": 64, "k": 32, "v": 32, "o": 48}.items()
    },
    given=GIVEN,
    seed=2,
)
SUBJECTS = (OFFICIAL, SPECULATORS, WIDER)
TAPS = {OFFICIAL.name: (2, 4, 5), SPECULATORS.name: (1, 4, 7), WIDER.name: (2, 5, 8)}


def theirs(subject: Subject) -> Arrays:
    """By mlx-vlm."""
    from mlx_vlm.speculative.drafters.eagle3 import Model, ModelConfig

    config = dict(subject.config)
    if "transformer_layer_config" not in config:
        config = {"transformer_layer_config": config, "draft_vocab_size": ROWS}
    model = Model(ModelConfig.from_dict(config))
    tensors = {
        name.replace("midlayer.", "layers.0."): mx.array(array)
        for name, array in subject.weights().items()
    }
    target = subject.target_model()
    tensors.setdefault("embed_tokens.weight", target.model.embed_tokens.weight)
    model.load_weights(list(model.sanitize(tensors).items()))
    states = hidden_states(target, list(PROMPT))
    taps = mx.concatenate([states[tap][:-1] for tap in TAPS[subject.name]], axis=-1)[None]
    after = mx.array([PROMPT[1:]])

    def forward(tokens: mx.array, hidden: mx.array) -> mx.array:
        state: mx.array = model._forward_tokens(tokens, hidden, mx.int32)
        return state

    model._cache = model.make_cache()
    model._next_position = 0
    prefill = model._logits(forward(after, taps))[0]
    model._cache = model.make_cache()
    model._next_position = 0
    steps = []
    for i in range(after.shape[1]):
        state = forward(after[:, i : i + 1], taps[:, i : i + 1])
        steps.append(model._logits(state)[0])
    draft, logits = [], []
    for _ in range(DRAFTED):
        logits.append(model._logits(state)[0])
        token = model._draft_to_target(mx.argmax(logits[-1], axis=-1), mx.int32)
        draft.append(token)
        state = forward(token[None], state)
    return {
        "prefill": over_target(prefill),
        "steps": over_target(mx.concatenate(steps)),
        "drafted logits": over_target(mx.concatenate(logits)),
        "draft": numbers(mx.concatenate(draft)).astype(np.int32),
    }


def over_target(logits: mx.array) -> NDArray[np.float32]:
    """(..., the drafter's vocabulary) to (..., the target's): the others are impossible."""
    spread = np.full((*logits.shape[:-1], VOCABULARY), -np.inf, dtype=np.float32)
    spread[..., KEPT_TOKENS] = numbers(logits)
    return spread


@target_reads_as_mlx_does
def ours(subject: Subject) -> Arrays:
    """By our network, with our target's recording."""
    target = Decoder(subject.target_model())
    with TemporaryDirectory() as folder:
        network = load_network(describe_drafter(subject.write(Path(folder))), target)
    return continued(network, target, drafted=DRAFTED)
