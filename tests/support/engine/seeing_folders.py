"""Whole tiny models that see, as folders: the towers whose parity is tested, and a text half."""

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.tokenizer_utils import load as load_tokenizer

from models.architectures import spelled
from tests.support.engine.parity.towers import TOWERS, Sight
from tests.support.engine.pictures import TEMPLATE
from tests.support.engine.tiny import Config, build, byte_tokenizer

_TEXT: Config = {
    "num_hidden_layers": 3,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
}
_SLIDING: Config = _TEXT | {"sliding_window": 32, "sliding_window_pattern": 2}
_GEMMA_4: Config = _SLIDING | {
    "global_head_dim": 16,
    "attention_k_eq_v": False,
    "rope_parameters": {
        "full_attention": {
            "partial_rotary_factor": 0.25,
            "rope_theta": 1e6,
            "rope_type": "proportional",
        },
        "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
    },
}


@dataclass(frozen=True, slots=True)
class Family:
    """A family of models that see. `text`: of its text half; `words`: its special tokens, by the
    names in config.json; `mark`: what the template writes for a picture."""

    tower: Sight
    text: Config
    words: dict[str, str]
    mark: str


_QWEN = {
    "image_token_id": "<|image_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}
_SHOWN = "<|vision_start|><|image_pad|><|vision_end|>"
_GEMMA = {"boi_token_id": "<|image>", "image_token_id": "<|image|>", "eoi_token_id": "<image|>"}
FAMILIES: dict[str, Family] = {
    "lfm2-vl": Family(
        TOWERS["tower-lfm2-vl"],
        {
            "num_hidden_layers": 4,
            "layer_types": ["conv", "full_attention"] * 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "max_position_embeddings": 4096,
            "norm_eps": 1e-5,
            "conv_bias": False,
            "conv_L_cache": 3,
            "block_multiple_of": 8,
            "block_ffn_dim_multiplier": 1.0,
            "block_auto_adjust_ff_dim": False,
            "block_ff_dim": 32,
            "rope_theta": 1e4,
        },
        {
            "image_token_id": "<image>",
            "start": "<|image_start|>",
            "end": "<|image_end|>",
            "small": "<|img_thumbnail|>",
        },
        "<image>",
    ),
    "qwen3_vl": Family(TOWERS["tower-qwen3-vl"], _TEXT, _QWEN, _SHOWN),
    "qwen3_5": Family(
        TOWERS["tower-qwen3-5"],
        _TEXT
        | {
            "full_attention_interval": 2,
            "linear_num_value_heads": 2,
            "linear_num_key_heads": 1,
            "linear_key_head_dim": 32,
            "linear_value_head_dim": 32,
            "linear_conv_kernel_dim": 4,
            "rope_parameters": {
                "type": "default",
                "mrope_section": [4, 2, 2],
                "mrope_interleaved": True,
                "rope_theta": 1e4,
                "partial_rotary_factor": 1.0,
            },
        },
        _QWEN,
        _SHOWN,
    ),
    "gemma3": Family(
        TOWERS["tower-gemma3"],
        _SLIDING | {"query_pre_attn_scalar": 16, "rope_local_base_freq": 1e4, "rope_theta": 1e4},
        {
            "boi_token_index": "<start_of_image>",
            "eoi_token_index": "<end_of_image>",
            "image_token_index": "<image_soft_token>",
        },
        "<start_of_image>",
    ),
    "gemma4": Family(
        TOWERS["tower-gemma4"],
        _GEMMA_4
        | {
            "hidden_size_per_layer_input": 4,
            "num_kv_shared_layers": 1,
            "layer_types": ["sliding_attention", "full_attention", "full_attention"],
        },
        _GEMMA,
        "<|image|>",
    ),
    "gemma4_unified": Family(
        TOWERS["tower-gemma4-unified"],
        _GEMMA_4
        | {
            "layer_types": ["sliding_attention", "full_attention", "full_attention"],
            "use_bidirectional_attention": "vision",
        },
        _GEMMA,
        "<|image|>",
    ),
}


def write_seeing(family: str, folder: Path) -> Path:
    """Write a model of a family as a folder."""
    made = FAMILIES[family]
    byte_tokenizer(folder)
    tokenizer: Any = load_tokenizer(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": list(made.words.values())})
    tokenizer.chat_template = TEMPLATE.replace("<picture>", made.mark)
    tokenizer._tokenizer.save_pretrained(folder)
    vocabulary = len(tokenizer.get_vocab())
    config: Config = copy.deepcopy(dict(made.tower.config)) | {
        name: tokenizer.convert_tokens_to_ids(word) for name, word in made.words.items()
    }
    config["video_token_id"] = 1  # which no text has
    config["text_config"] |= made.text | {"vocab_size": vocabulary, "eos_token_id": 256}
    config["text_config"]["vocab_size_per_layer_input"] = vocabulary
    named = {"model_type": spelled(config["model_type"])}
    model = build(named["model_type"], vocabulary=vocabulary, sizes=config | named)
    tensors: Any = dict(tree_flatten(model.parameters()))
    tensors |= {name: mx.array(array) for name, array in made.tower.weights().items()}
    mx.save_safetensors(str(folder / "model.safetensors"), tensors, {"format": "mlx"})
    config |= {"vocab_size": vocabulary, "eos_token_id": 256}
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    (folder / "preprocessor_config.json").write_text(json.dumps(dict(made.tower.settings)))
    return folder
