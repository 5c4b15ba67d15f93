"""DFlash and DFlash2 against mlx-vlm; with windows DFlash against dflash-mlx, and in the packaging
of speculators, whose rows share a window, against speculators, in PyTorch.

mlx-vlm's sliding layers are not compared: their ring of keys is out of order once single positions
were appended to it, and their masks count on the order.
"""

from importlib import import_module
from typing import Any

import mlx.core as mx
import numpy as np

from tests.lab.parity import blocks
from tests.lab.parity.blocks import BACKBONE, MASK, TAPS, Context, Draft, drafted, layer_shapes
from tests.lab.parity.by_torch import by_torch
from tests.lab.parity.eagle3 import GIVEN, ROWS, over_target
from tests.lab.parity.subjects import VOCABULARY, WIDTH, Arrays, Subject, numbers

_BLOCK: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "block_size": 6,
    "dflash_config": {"target_layer_ids": [tap - 1 for tap in TAPS], "mask_token_id": MASK},
}

PLAIN = Subject("dflash", BACKBONE | _BLOCK, layer_shapes())
CAUSAL = Subject(
    "dflash-causal-windows-yarn",
    BACKBONE
    | _BLOCK
    | {
        "dflash_config": _BLOCK["dflash_config"] | {"causal": True},
        "layer_types": ["sliding_attention"] * 3,
        "sliding_window": 7,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    },
    {f"model.{name}": shape for name, shape in layer_shapes().items()},
    seed=1,
)
MIXED = Subject(
    "dflash-mixed-windows",
    BACKBONE
    | _BLOCK
    | {
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
        "sliding_window": 7,
    },
    layer_shapes(),
    seed=2,
)
SECOND = Subject(
    "dflash2",
    BACKBONE
    | {
        "architectures": ["DFlash2DraftModel"],
        "dflash_config": _BLOCK["dflash_config"]
        | {
            "block_size": 6,
            "conv_kernel_size": 3,
            "conv_group_size": 4,
            "selector_rank": 8,
            "selector_top_k": 5,
        },
    },
    layer_shapes()
    | {
        f"layers.{i}.{sublayer}_conv.{name}": shape
        for i in range(3)
        for sublayer in ("attention", "mlp")
        for name, shape in {
            "base_kernel": (2, 3, WIDTH),
            "kernel_projection.weight": (2 * 3 * WIDTH // 4, WIDTH),
        }.items()
    }
    | {
        "candidate_selector.predecessor_codebook": (VOCABULARY, 8),
        "candidate_selector.successor_codebook": (VOCABULARY, 8),
        "candidate_selector.hidden_projection.weight": (8, WIDTH),
    },
    seed=4,
)
TRANSFORMERS = Subject(
    "dflash-transformers",
    BACKBONE
    | {
        "architectures": ["MuseGlimmerAssistantModel"],
        "model_type": "muse_glimmer_assistant",
        "block_size": 6,
        "mask_token_id": MASK,
        "target_layer_ids": [tap - 1 for tap in TAPS],
        "layer_types": ["sliding_attention"] * 3,
        "sliding_window": 7,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5e5},
    },
    {
        {
            "fc.weight": "encoder.fc.weight",
            "hidden_norm.weight": "encoder.output_norm_enc.weight",
        }.get(name, name): shape
        for name, shape in layer_shapes().items()
    },
    seed=5,
)
SPECULATORS = Subject(
    "dflash-speculators",
    {
        "speculators_model_type": "dflash",
        "architectures": ["DFlashSpeculator"],
        "transformer_layer_config": {
            name: value for name, value in BACKBONE.items() if name != "num_target_layers"
        }
        | {
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
            "use_sliding_window": True,
            "sliding_window": 7,
        },
        "speculators_config": {
            "algorithm": "dflash",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 5}],
            "default_proposal_method": "greedy",
            "verifier": {"name_or_path": None, "architectures": ["LlamaForCausalLM"]},
        },
        "draft_vocab_size": ROWS,
        "aux_hidden_state_layer_ids": list(TAPS),
        "block_size": 6,
        "mask_token_id": MASK,
    },
    layer_shapes() | {"lm_head.weight": (ROWS, WIDTH)},
    given=GIVEN,
    seed=6,
)
SUBJECTS = (PLAIN, CAUSAL, MIXED, TRANSFORMERS, SPECULATORS, SECOND)


def ours(subject: Subject) -> Arrays:
    """By our network."""
    return blocks.ours(subject)


def theirs(subject: Subject) -> Arrays:
    """By mlx-vlm, dflash-mlx or speculators."""
    if subject is SPECULATORS:
        return _by_speculators(subject)
    windows = subject.config.get("sliding_window") and subject is not TRANSFORMERS
    return _by_dflash_mlx(subject) if windows else _by_mlx_vlm(subject)


def _by_mlx_vlm(subject: Subject) -> Arrays:
    names = {SECOND.name: "dflash2", TRANSFORMERS.name: "muse_glimmer_assistant"}
    kind = names.get(subject.name, "qwen3_dflash")
    drafters = import_module(f"mlx_vlm.speculative.drafters.{kind}")
    Model, ModelConfig = drafters.Model, drafters.ModelConfig
    model = Model(ModelConfig.from_dict(dict(subject.config)))
    tensors = {name: mx.array(array) for name, array in subject.weights().items()}
    model.load_weights(list(model.sanitize(tensors).items()))
    target = subject.target_model()
    model.embed_tokens, model.lm_head = target.model.embed_tokens, target.lm_head

    def begin() -> tuple[Context, Draft]:
        cache, waiting = model.make_cache(), []

        def extend(states: mx.array, position: int) -> None:
            if waiting:  # it reads the context together with a block
                model._hidden(mx.array([[0]]), waiting.pop()[None], cache)
            waiting.append(states)

        def draft(anchor: int, position: int) -> Arrays:
            rows = [anchor, *[MASK] * (model.config.block_size - 1)]
            hidden = model._hidden(mx.array([rows]), waiting.pop()[None], cache)[:, 1:]
            logits = model._logits(hidden)
            if subject is not SECOND:
                return drafted([logits[0]], [mx.argmax(logits[0], axis=-1)], [])
            return _selected(model.candidate_selector, hidden, logits, anchor)

        return extend, draft

    return blocks.walk(subject, begin)


def _selected(selector: Any, hidden: mx.array, logits: mx.array, anchor: int) -> Arrays:
    """The scores of the candidates at each place, as the selector hands them to a sampler."""
    scored: list[mx.array] = []

    class Sampler:
        def sample_proposal(self, scores: mx.array) -> mx.array:
            scored.append(scores)
            return mx.argmax(scores, axis=-1)

    tokens = selector.select(hidden, logits, mx.array([anchor]), Sampler())[0]
    candidates = mx.argpartition(logits, -selector.top_k, axis=-1)[0, :, -selector.top_k :]
    impossible = mx.full(logits[0].shape, -mx.inf)
    scores = mx.put_along_axis(impossible, candidates, mx.concatenate(scored), axis=-1)
    return drafted([scores], [tokens], [])


def _by_dflash_mlx(subject: Subject) -> Arrays:
    from dflash_mlx.model import (
        DFlashDraftModel,
        DFlashDraftModelArgs,
        FullContextDraftKVCache,
    )

    model = DFlashDraftModel(DFlashDraftModelArgs.from_dict(dict(subject.config)))
    tensors = {
        name.removeprefix("model."): mx.array(array) for name, array in subject.weights().items()
    }
    model.load_weights(list(tensors.items()))
    target = subject.target_model()

    def begin() -> tuple[Context, Draft]:
        cache, waiting = [FullContextDraftKVCache() for _ in model.layers], []

        def read(ids: list[int], states: mx.array) -> mx.array:
            embedded = target.model.embed_tokens(mx.array([ids]))
            return model(noise_embedding=embedded, target_hidden=states[None], cache=cache)

        def extend(states: mx.array, position: int) -> None:
            if waiting:
                read([0], waiting.pop())
            waiting.append(states)

        def draft(anchor: int, position: int) -> Arrays:
            hidden = read([anchor, *[MASK] * 5], waiting.pop())[:, 1:]
            logits = target.lm_head(hidden)[0]
            return drafted([logits], [mx.argmax(logits, axis=-1)], [])

        return extend, draft

    return blocks.walk(subject, begin)


def _by_speculators(subject: Subject) -> Arrays:
    """Its training reads whole texts: what is behind the anchor is not seen."""
    target = subject.target_model()

    def begin() -> tuple[Context, Draft]:
        read: list[mx.array] = []

        def extend(states: mx.array, position: int) -> None:
            read.append(states)

        def draft(anchor: int, position: int) -> Arrays:
            inputs = {
                "states": numbers(mx.concatenate(read)),
                "anchor": np.array(anchor),
                "embedding": numbers(target.model.embed_tokens.weight),
            }
            made = by_torch("dflash_torch.py", subject, inputs, packages="speculators")
            logits = over_target(mx.array(made["logits"]))
            return {"logits": logits, "tokens": logits.argmax(axis=-1).astype(np.int32)}

        return extend, draft

    return blocks.walk(subject, begin)
