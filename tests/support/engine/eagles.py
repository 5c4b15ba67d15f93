"""Random EAGLE drafters for tests, for any tiny model: as others publish them, with few tokens."""

import mlx.core as mx
import numpy as np

from engine.core.model_parts import embedding
from engine.drafters.eagle import load_eagle
from models.drafters.folders import describe_drafter
from tests.support.engine.parity.subjects import Subject

KINDS = ("EAGLE-3", "EAGLE")


def eagle_subject(kind, model, *, seed=0):
    """Return a subject for `model`; EAGLE-3 cannot propose every third token."""
    width = embedding(model)(mx.zeros((1,), dtype=mx.int32)).shape[-1]
    vocabulary = model(mx.zeros((1, 1), dtype=mx.int32)).shape[-1]
    kept = np.array([token for token in range(vocabulary) if token % 3 != 2])
    read = width if kind == "EAGLE" else 2 * width
    shapes = {
        "layers.0.self_attn.q_proj.weight": (32, read),
        "layers.0.self_attn.k_proj.weight": (16, read),
        "layers.0.self_attn.v_proj.weight": (16, read),
        "layers.0.self_attn.o_proj.weight": (width, 32),
        "layers.0.mlp.gate_proj.weight": (48, width),
        "layers.0.mlp.up_proj.weight": (48, width),
        "layers.0.mlp.down_proj.weight": (width, 48),
        "layers.0.post_attention_layernorm.weight": (width,),
        "fc.weight": (width, 2 * width),
    }
    given = {}
    if kind != "EAGLE":
        norms = ("layers.0.hidden_norm", "layers.0.input_layernorm", "norm")
        shapes |= {f"{name}.weight": (width,) for name in norms}
        shapes["lm_head.weight"] = (kept.size, width)
        given["d2t"] = kept - np.arange(kept.size)
    config = {
        "architectures": ["LlamaForCausalLM" if kind == "EAGLE" else "LlamaForCausalLMEagle3"],
        "num_attention_heads": 4,
        "head_dim": 8,
        "vocab_size": vocabulary,
        "eagle_aux_hidden_state_layer_ids": [1, len(model.layers)],
    }
    gain = 0.3 if kind == "EAGLE" else 1.5  # EAGLE has no norm before the output layer
    return Subject(kind, config, shapes, given, seed=seed, gain=gain)


def eagle_drafter(kind, target, folder, *, seed=0):
    """Drafts for `target`, from a folder of its own in `folder`."""
    subject = eagle_subject(kind, target.model, seed=seed)
    return load_eagle(describe_drafter(subject.write(folder / f"{kind}-{seed}")), target)
