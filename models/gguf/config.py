"""The MLX config and tensor names for a GGUF file, from its metadata.

Knows the Llama and Qwen2 architectures and nothing about bytes. Whatever would change the
model's answers and cannot be expressed is refused, never dropped.
"""

from collections.abc import Mapping
from typing import Any

import numpy
from numpy.typing import NDArray

from models.errors import Problem
from models.gguf.file import GgufFile, shown

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}
EMBEDDING, HEAD, ROPE_FACTORS = "token_embd.weight", "output.weight", "rope_freqs.weight"
# Control tokens that end an answer in every model family that has them.
END_TOKENS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "</s>")
CONTROL = 3  # tokenizer.ggml.token_type
_OTHER_MODEL = "Use a Llama or Qwen2 model, or an MLX version of this one."

_LAYER_NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}


def metadata_integer(
    metadata: Mapping[str, Any], key: str, default: int | None = None, *, maximum: int = 2**31
) -> int:
    """The whole number stored under `key`, 0 or more. Raises Problem if it is missing or odd."""
    value = metadata.get(key, default)
    if type(value) is not int or not 0 <= value <= maximum:
        raise Problem(
            f"The GGUF file states {shown(value)} for {key}.",
            "The file is damaged or unusual: get it from another publisher.",
        )
    return value


def metadata_float(metadata: Mapping[str, Any], key: str, default: float | None = None) -> float:
    """The positive finite number stored under `key`. Raises Problem if it is missing or odd."""
    value = metadata.get(key, default)
    if type(value) not in (int, float) or not 0 < float(value) < float("inf"):
        raise Problem(
            f"The GGUF file states {shown(value)} for {key}.",
            "The file is damaged or unusual: get it from another publisher.",
        )
    return float(value)


def mlx_config(file: GgufFile) -> dict[str, Any]:
    """config.json as mlx-lm reads it, without `quantization` and `tie_word_embeddings`.

    Raises Problem for an architecture or a variant of it that MLX would compute differently.
    """
    metadata = file.metadata
    kind = metadata.get("general.architecture")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        raise Problem(f"{file.path.name} holds a {shown(kind)} model.", _OTHER_MODEL)
    if metadata.get("split.count", 1) not in (0, 1):
        raise Problem(
            f"{file.path.name} is one part of a model that was split over several files.",
            "Use a GGUF file that holds the whole model, or merge the parts with gguf-split.",
        )
    if metadata.get(f"{kind}.expert_count", 0) != 0:
        raise Problem(f"{file.path.name} holds a mixture-of-experts model.", _OTHER_MODEL)
    hidden_size = metadata_integer(metadata, f"{kind}.embedding_length")
    heads = metadata_integer(metadata, f"{kind}.attention.head_count")
    key_heads = metadata_integer(metadata, f"{kind}.attention.head_count_kv", heads)
    if not heads or not key_heads or hidden_size % heads or heads % key_heads:
        raise Problem(
            f"{file.path.name} states {heads} heads, {key_heads} key heads and width "
            f"{hidden_size}.",
            "The file is damaged: download it again.",
        )
    context_length = metadata_integer(metadata, f"{kind}.context_length")
    embedding = file.tensors.get(EMBEDDING)
    if embedding is None or len(embedding.shape) != 2:
        raise Problem(f"{file.path.name} has no token embedding.", "Use a complete model.")
    config: dict[str, Any] = {
        "architectures": [ARCHITECTURES[kind]],
        "model_type": kind,
        "hidden_size": hidden_size,
        "num_hidden_layers": metadata_integer(metadata, f"{kind}.block_count", maximum=1_000),
        "intermediate_size": metadata_integer(metadata, f"{kind}.feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": key_heads,
        "head_dim": metadata_integer(
            metadata, f"{kind}.attention.key_length", hidden_size // heads
        ),
        "rms_norm_eps": metadata_float(metadata, f"{kind}.attention.layer_norm_rms_epsilon"),
        "rope_theta": metadata_float(metadata, f"{kind}.rope.freq_base", 10_000.0),
        "max_position_embeddings": context_length,
        "vocab_size": embedding.shape[0],
        "hidden_act": "silu",
        **_token_ids(metadata, embedding.shape[0]),
    }
    _refuse_variants(file, config)
    scaling = _rope_scaling(file, config)
    return config if scaling is None else {**config, "rope_scaling": scaling}


def mlx_names(file: GgufFile, config: Mapping[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """GGUF name -> (MLX name, shape) of every tensor that the model needs; the head if present.

    Raises Problem if one is missing or misshapen, or if the file has any that MLX has no place for.
    """
    width, inner = config["hidden_size"], config["intermediate_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    shapes = {
        "attn_q": (queries, width),
        "attn_k": (keys, width),
        "attn_v": (keys, width),
        "attn_output": (width, queries),
        "ffn_gate": (inner, width),
        "ffn_up": (inner, width),
        "ffn_down": (width, inner),
        "attn_norm": (width,),
        "ffn_norm": (width,),
    }
    vocabulary = (config["vocab_size"], width)
    names: dict[str, tuple[str, tuple[int, ...]]] = {
        EMBEDDING: ("model.embed_tokens.weight", vocabulary),
        "output_norm.weight": ("model.norm.weight", (width,)),
    }
    if HEAD in file.tensors:
        names[HEAD] = ("lm_head.weight", vocabulary)
    for layer in range(config["num_hidden_layers"]):
        for part, shape in shapes.items():
            mlx_name = f"model.layers.{layer}.{_LAYER_NAMES[part]}"
            names[f"blk.{layer}.{part}.weight"] = (f"{mlx_name}.weight", shape)
            if config["model_type"] == "qwen2" and part in ("attn_q", "attn_k", "attn_v"):
                names[f"blk.{layer}.{part}.bias"] = (f"{mlx_name}.bias", shape[:1])
    for name, (_, shape) in names.items():
        tensor = file.tensors.get(name)
        if tensor is None or tensor.shape != shape:
            found = "is missing" if tensor is None else f"has shape {list(tensor.shape)}"
            raise Problem(
                f"Tensor {name} {found} in {file.path.name}; shape {list(shape)} is needed.",
                "The file is incomplete: download it again or from another publisher.",
            )
    unknown = sorted(file.tensors.keys() - names.keys() - {ROPE_FACTORS})
    if unknown:
        raise Problem(
            f"{file.path.name} has the unexpected tensor {shown(unknown[0])}.", _OTHER_MODEL
        )
    return names


def _token_ids(metadata: Mapping[str, Any], vocabulary_size: int) -> dict[str, Any]:
    """bos, pad and every end-of-answer id: those the file names, and the well-known ones."""
    tokens, kinds = (
        value if isinstance(value := metadata.get(f"tokenizer.ggml.{key}"), list) else []
        for key in ("tokens", "token_type")
    )
    if len(tokens) > vocabulary_size:
        raise Problem(
            f"The GGUF file has {len(tokens)} tokens but only {vocabulary_size} embedding rows.",
            "The file is damaged or unusual: get it from another publisher.",
        )
    ends = [
        metadata_integer(metadata, f"tokenizer.ggml.{name}_token_id", maximum=vocabulary_size - 1)
        for name in ("eos", "eot", "eom")
        if f"tokenizer.ggml.{name}_token_id" in metadata
    ]
    ends += [
        index
        for index, (token, kind) in enumerate(zip(tokens, kinds, strict=False))
        if kind == CONTROL and token in END_TOKENS
    ]
    ids: dict[str, Any] = {"eos_token_id": list(dict.fromkeys(ends))}
    for name, key in (("bos", "bos_token_id"), ("padding", "pad_token_id")):
        if f"tokenizer.ggml.{name}_token_id" in metadata:
            ids[key] = metadata_integer(
                metadata, f"tokenizer.ggml.{name}_token_id", maximum=vocabulary_size - 1
            )
    return ids


def _refuse_variants(file: GgufFile, config: Mapping[str, Any]) -> None:
    metadata, kind, head_width = file.metadata, config["model_type"], config["head_dim"]
    rotated = metadata_integer(metadata, f"{kind}.rope.dimension_count", head_width)
    values = metadata_integer(metadata, f"{kind}.attention.value_length", head_width)
    usual = config["hidden_size"] // config["num_attention_heads"]
    odd_head = head_width % 2 or (kind == "qwen2" and head_width != usual)
    if rotated != head_width or values != head_width or odd_head:
        raise Problem(
            f"{file.path.name} has heads of width {head_width} with {rotated} rotated dimensions.",
            _OTHER_MODEL,
        )
    window = metadata_integer(metadata, f"{kind}.attention.sliding_window", 0, maximum=2**63)
    if 0 < window < config["max_position_embeddings"]:
        raise Problem(f"{file.path.name} uses sliding-window attention.", _OTHER_MODEL)


def _rope_scaling(file: GgufFile, config: Mapping[str, Any]) -> dict[str, Any] | None:
    metadata, prefix = file.metadata, f"{config['model_type']}.rope.scaling"
    kind = metadata.get(f"{prefix}.type", "none")
    if ROPE_FACTORS in file.tensors:
        tensor = file.tensors[ROPE_FACTORS]
        factors = file.rows(tensor, 0, 1).view(numpy.float32) if tensor.type == 0 else None
        return _llama3_scaling(file, factors, config)
    if kind == "none":
        return None
    factor = metadata_float(metadata, f"{prefix}.factor", 1.0)
    if kind == "linear":
        return {"rope_type": "linear", "type": "linear", "factor": factor}
    if kind == "yarn":
        original = metadata_integer(metadata, f"{prefix}.original_context_length")
        return {
            "rope_type": "yarn",
            "type": "yarn",
            "factor": factor,
            "original_max_position_embeddings": original,
        }
    raise Problem(f"{file.path.name} uses {shown(kind)} position scaling.", _OTHER_MODEL)


def _llama3_scaling(
    file: GgufFile, factors: NDArray[numpy.float32] | None, config: Mapping[str, Any]
) -> dict[str, Any]:
    """The Llama 3 parameters behind `factors` (head_dim / 2), proven by computing them again."""
    half = config["head_dim"] // 2
    if factors is not None and factors.size == half:
        scaling = {
            "rope_type": "llama3",
            "type": "llama3",
            "factor": float(factors.max()),
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        }
        wavelengths = 2 * numpy.pi * config["rope_theta"] ** (numpy.arange(half) / half)
        smooth = numpy.clip((8192 / wavelengths - 1.0) / 3.0, 0.0, 1.0)
        expected = 1 / ((1 - smooth) / scaling["factor"] + smooth)
        if numpy.allclose(factors.ravel(), expected, rtol=1e-3):
            return scaling
    raise Problem(
        f"{file.path.name} scales positions in a way that is not Llama 3's.", _OTHER_MODEL
    )
