"""DSpark in its packagings against mlx-dspark; gated and recurrent Markov heads, which it does not
have, against those of speculators, in PyTorch."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlx.core as mx
import numpy as np

from tests.lab.parity import blocks
from tests.lab.parity.blocks import BACKBONE, MASK, TAPS, Context, Draft, drafted, layer_shapes
from tests.lab.parity.by_torch import by_torch
from tests.lab.parity.eagle3 import GIVEN, ROWS, over_target
from tests.lab.parity.subjects import VOCABULARY, WIDTH, Arrays, Subject, numbers

RANK = 8
ZERO_BASED = [tap - 1 for tap in TAPS]
MARKOV = {"markov_rank": RANK, "markov_head_type": "vanilla"}
SURE = {"enable_confidence_head": True, "confidence_head_with_markov": True}
DEEPSPEC: dict[str, Any] = (
    BACKBONE
    | MARKOV
    | SURE
    | {
        "architectures": ["Qwen3DSparkModel"],
        "block_size": 5,
        "mask_token_id": MASK,
        "num_anchors": 4,
        "target_layer_ids": ZERO_BASED,
    }
)


def heads(
    rows: int = VOCABULARY, *, own_ends: bool = True, rank: int = RANK, sure: int | None = None
) -> dict[str, tuple[int, ...]]:
    """The tensors beside the backbone's; `sure`: what the confidence head reads, None without."""
    shapes: dict[str, tuple[int, ...]] = {
        "markov_head.markov_w1.weight": (VOCABULARY, rank),
        "markov_head.markov_w2.weight": (rows, rank),
    }
    if own_ends:
        shapes["embed_tokens.weight"] = (VOCABULARY, WIDTH)
        shapes["lm_head.weight"] = (rows, WIDTH)
    if sure is not None:
        shapes["confidence_head.proj.weight"] = (1, sure)
        shapes["confidence_head.proj.bias"] = (1,)
    return shapes


PLAIN = Subject("dspark-deepspec", DEEPSPEC, layer_shapes() | heads(sure=WIDTH + RANK))
GEMMA = Subject(
    "dspark-deepspec-gemma-4",
    DEEPSPEC
    | {
        "architectures": ["Gemma4DSparkModel"],
        "model_type": "gemma4_text",
        "attention_k_eq_v": True,
        "global_head_dim": 8,
        "head_dim": 4,  # of the target's sliding layers
        "num_global_key_value_heads": 1,
        "final_logit_softcapping": 3.0,
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
        "sliding_window": 4,
        "rope_parameters": {
            "full_attention": {
                "rope_type": "proportional",
                "rope_theta": 1e4,
                "partial_rotary_factor": 0.5,
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    },
    {
        name: shape
        for name, shape in layer_shapes(keys=8).items()
        if not name.endswith("v_proj.weight")
    }
    | {
        f"layers.{i}.{name}": shape
        for i in range(3)
        for name, shape in {
            "pre_feedforward_layernorm.weight": (WIDTH,),
            "post_feedforward_layernorm.weight": (WIDTH,),
            "layer_scalar": (1,),
        }.items()
    }
    | heads(sure=WIDTH + RANK),
    seed=1,
)
SPECULATORS = Subject(
    "dspark-speculators",
    {
        "speculators_model_type": "dspark",
        "architectures": ["DSparkSpeculator"],
        "transformer_layer_config": {
            name: value for name, value in BACKBONE.items() if name != "num_target_layers"
        },
        "speculators_config": {
            "algorithm": "dspark",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 4}],
        },
        "draft_vocab_size": ROWS,
        "aux_hidden_state_layer_ids": list(TAPS),
        "block_size": 5,
        "mask_token_id": MASK,
    }
    | MARKOV
    | SURE
    | {"confidence_head_with_markov": False},
    layer_shapes() | heads(ROWS, sure=WIDTH),
    given=GIVEN,
    seed=2,
)
SPECFORGE = Subject(
    "dspark-specforge",
    BACKBONE
    | MARKOV
    | {
        "architectures": ["DSparkDraftModel"],
        "block_size": 5,
        "enable_confidence_head": False,
        "dflash_config": {
            "projector_type": "dspark",
            "target_layer_ids": ZERO_BASED,
            "mask_token_id": MASK,
        },
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 1e6,
            "factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    },
    layer_shapes() | heads(),
    seed=3,
)
LIQUID = Subject(
    "dspark-liquid",
    BACKBONE
    | MARKOV
    | {
        "architectures": ["Lfm2DSparkDraftModel"],
        "block_size": 6,
        "enable_confidence_head": False,
        "rope_is_neox_style": False,
        "dflash_config": {
            "target_layer_ids": ZERO_BASED,
            "mask_token_id": MASK,
            "num_target_layers": 8,
        },
    },
    layer_shapes() | heads(),
    seed=4,
)
LINEAGE = Subject(
    "dspark-lineage-of-dflash",
    DEEPSPEC
    | {
        "attention_sink_bias": True,
        "dflash_query_causal": True,
        "enable_confidence_head": False,
        "has_lm_head": False,
        "sample_from_anchor": False,
        "sliding_window": 7,
    },
    layer_shapes()
    | heads(own_ends=False)
    | {f"layers.{i}.self_attn.attention_sink_bias": (4,) for i in range(3)},
    seed=5,
)
LIKE_QWEN35 = Subject(
    "dspark-qwen3-5",
    DEEPSPEC
    | {
        "architectures": ["Qwen35DSparkModel"],
        "model_type": "qwen3_5",
        "enable_qwen35_gated_q_proj": True,
        "rope_parameters": {"rope_theta": 1e6, "partial_rotary_factor": 0.5},
    },
    layer_shapes(gated=True) | heads(sure=WIDTH + RANK),
    zero_centred=True,
    seed=6,
)
_BY_TORCH = [
    f"markov_head.{name}_proj.{kind}" for name in ("gate", "joint") for kind in ("weight", "bias")
]
GATED = Subject(
    "dspark-gated",
    DEEPSPEC | {"markov_head_type": "gated", "enable_confidence_head": False},
    layer_shapes()
    | heads()
    | {
        "markov_head.gate_proj.weight": (RANK, WIDTH + RANK),
        "markov_head.gate_proj.bias": (RANK,),
    },
    seed=7,
)
RECURRENT = Subject(
    "dspark-recurrent",
    DEEPSPEC | {"markov_head_type": "rnn", "enable_confidence_head": False},
    layer_shapes()
    | heads()
    | {
        "markov_head.joint_proj.weight": (3 * RANK, WIDTH + 2 * RANK),
        "markov_head.joint_proj.bias": (3 * RANK,),
    },
    seed=8,
)
SUBJECTS = (
    PLAIN,
    GEMMA,
    SPECULATORS,
    SPECFORGE,
    LIQUID,
    LINEAGE,
    LIKE_QWEN35,
    GATED,
    RECURRENT,
)


def ours(subject: Subject) -> Arrays:
    """By our network."""
    return blocks.ours(subject)


def theirs(subject: Subject) -> Arrays:
    """By mlx-dspark, and by speculators what it does not have."""
    from mlx_dspark.load import load_drafter

    plain = replace(
        subject,
        shapes={name: each for name, each in subject.shapes.items() if name not in _BY_TORCH},
    )
    with TemporaryDirectory() as folder:
        model, _ = load_drafter(str(plain.write(Path(folder))), quantize=False)
    target = subject.target_model()
    if model.lm_head is None:
        model.bind_lm_head(target.lm_head)
    if model.embed_tokens is None:
        model.bind_embed(target.model.embed_tokens)

    def begin() -> tuple[Context, Draft]:
        cache = model.make_ctx_cache()

        def extend(states: mx.array, position: int) -> None:
            model.update_context(states[None], position, cache)

        def draft(anchor: int, position: int) -> Arrays:
            rows = mx.array([[anchor, *[MASK] * (model.block_size - 1)]])
            hidden = model.backbone(model.embed(rows), position, cache)
            hidden = model.head_slice(hidden, model.max_draft)
            base = model.compute_logits(hidden)[0]
            if plain.shapes.keys() != subject.shapes.keys():
                inputs = {
                    "base": numbers(base),
                    "states": numbers(hidden[0]),
                    "anchor": np.array(anchor),
                }
                made = by_torch("markov_torch.py", subject, inputs, packages="speculators")
                return made | {"tokens": made["tokens"].astype(np.int32)}
            tokens = model.sample_block(base, anchor)
            before = mx.concatenate([mx.array([anchor]), tokens[:-1]])
            logits = base + model.markov_head.step_bias(before)
            if subject.given:
                logits = mx.array(over_target(logits))
            sure = model.confidence_logits(hidden[0], before)
            return drafted([logits], [tokens], [] if sure is None else [mx.sigmoid(sure)])

        return extend, draft

    return blocks.walk(subject, begin)
