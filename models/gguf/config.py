"""config.json for a GGUF file, from its metadata.

Knows what all architectures have in common, and reads the rest by their rows; nothing about bytes.
A setting that would change the model's answers and cannot be expressed is refused, never dropped.
"""

from collections.abc import Mapping
from typing import Any

from models.errors import Problem
from models.gguf.architectures import ARCHITECTURES, EMBEDDING, OTHER_MODEL, Architecture
from models.gguf.file import GgufFile, shown
from models.gguf.positions import rope_scaling

# Control tokens that end an answer in every model family that has them.
END_TOKENS = (
    "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "</s>",
    "<end_of_turn>", "<|return|>", "<|call|>", "<|end|>",
)  # fmt: skip
CONTROL = 3  # tokenizer.ggml.token_type

# In all architectures, where a row says nothing else.
_INTEGERS: dict[str, str | tuple[str, int]] = {"intermediate_size": "feed_forward_length"}
_FLOATS: dict[str, str | tuple[str, float]] = {
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "rope_theta": ("rope.freq_base", 10_000.0),
}
# Settings that no row has, with the values at which they change nothing.
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "attention.causal": (True,), "attention.scale": (0.0,), "attn_logit_softcapping": (0.0,),
    "embedding_scale": (0.0, 1.0), "expert_shared_count": (0,), "expert_weights_scale": (0.0, 1.0),
    "final_logit_softcapping": (0.0,), "logit_scale": (0.0, 1.0), "pooling_type": (0,),
    "residual_scale": (0.0, 1.0), "rope.scaling.yarn_attn_factor": (1.0,),
    "rope.scaling.yarn_ext_factor": (-1.0, 1.0),
}  # fmt: skip


def architecture_of(file: GgufFile) -> Architecture:
    """The row of the file's architecture. Raises Problem if there is none."""
    kind = file.metadata.get("general.architecture")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        raise Problem(f"{file.path.name} holds a {shown(kind)} model.", OTHER_MODEL)
    return ARCHITECTURES[kind]


def mlx_config(file: GgufFile) -> dict[str, Any]:
    """config.json as mlx-lm reads it, without `quantization` and `tie_word_embeddings`.

    Raises Problem for an architecture or a variant of it that MLX would compute differently.
    """
    architecture = architecture_of(file)
    prefix = file.metadata["general.architecture"]
    embedding = file.tensors.get(EMBEDDING)
    if embedding is None or len(embedding.shape) != 2:
        raise Problem(f"{file.path.name} has no token embedding.", "Use a complete model.")
    layers = file.integer(f"{prefix}.block_count", maximum=1_000)
    hidden_size = file.integer(f"{prefix}.embedding_length")
    heads = file.integer(f"{prefix}.attention.head_count")
    key_heads, kinds = _key_heads(file, architecture, layers=layers, heads=heads)
    if not heads or not key_heads or hidden_size % heads or heads % key_heads:
        raise Problem(
            f"{file.path.name} states {heads} heads, {key_heads} key heads and width "
            f"{hidden_size}.",
            "The file is damaged: download it again.",
        )
    config: dict[str, Any] = {
        "architectures": [architecture.class_name],
        "model_type": architecture.model_type,
        "hidden_size": hidden_size,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": key_heads,
        "head_dim": file.integer(f"{prefix}.attention.key_length", hidden_size // heads),
        "max_position_embeddings": file.integer(f"{prefix}.context_length"),
        "vocab_size": embedding.shape[0],
        "hidden_act": "silu",
        **architecture.constants,
        **_token_ids(file, embedding.shape[0]),
    }
    for key, source in {**_INTEGERS, **architecture.integers}.items():
        name, default = (source, None) if isinstance(source, str) else source
        config[key] = file.integer(f"{prefix}.{name}", default)
    for key, real in {**_FLOATS, **architecture.floats}.items():
        name, standard = (real, None) if isinstance(real, str) else real
        config[key] = file.number(f"{prefix}.{name}", standard)
    if kinds:
        config["layer_types"] = kinds
    _refuse_variants(file, architecture, config)
    scaling = rope_scaling(file, architecture, config)
    if scaling is not None:
        config["rope_scaling"] = scaling
    return config | architecture.complete(file, config)


def _key_heads(
    file: GgufFile, architecture: Architecture, *, layers: int, heads: int
) -> tuple[int, list[str]]:
    """The number of key heads, and the kind of each layer where the architecture has several."""
    key = f"{file.metadata['general.architecture']}.attention.head_count_kv"
    listed = file.metadata.get(key)
    if not architecture.kinds:
        return file.integer(key, heads), []
    attention, other = architecture.kinds
    if (
        not isinstance(listed, list)
        or len(listed) != layers
        or any(type(count) is not int for count in listed)
        or len({0, *listed}) != 2
    ):
        raise file.odd(key, listed)
    return max(listed), [attention if count else other for count in listed]


def _token_ids(file: GgufFile, vocabulary_size: int) -> dict[str, Any]:
    """bos, pad and every end-of-answer id: those the file names, and the well-known ones."""
    tokens, kinds = (
        value if isinstance(value := file.metadata.get(f"tokenizer.ggml.{key}"), list) else []
        for key in ("tokens", "token_type")
    )
    if len(tokens) > vocabulary_size:
        raise Problem(
            f"The GGUF file has {len(tokens)} tokens but only {vocabulary_size} embedding rows.",
            "The file is damaged or unusual: get it from another publisher.",
        )
    ids = {
        name: file.integer(f"tokenizer.ggml.{name}_token_id", maximum=vocabulary_size - 1)
        for name in ("eos", "eot", "eom", "bos", "padding")
        if f"tokenizer.ggml.{name}_token_id" in file.metadata
    }
    ends = [ids[name] for name in ("eos", "eot", "eom") if name in ids]
    ends += [
        index
        for index, (token, kind) in enumerate(zip(tokens, kinds, strict=False))
        if kind == CONTROL
        and token in END_TOKENS
        # gpt-oss ends each of several messages in an answer with it.
        and not (token == "<|end|>" and "<|return|>" in tokens)
    ]
    found: dict[str, Any] = {"eos_token_id": list(dict.fromkeys(ends))}
    for name, key in (("bos", "bos_token_id"), ("padding", "pad_token_id")):
        if name in ids:
            found[key] = ids[name]
    return found


def _refuse_variants(file: GgufFile, architecture: Architecture, config: Mapping[str, Any]) -> None:
    """Raise Problem for what mlx-lm's module of the architecture has not."""
    prefix = file.metadata["general.architecture"]
    experts = config.get("num_experts", config.get("num_local_experts", 0))
    chosen = config.get("num_experts_per_tok", 0)
    if not chosen and file.metadata.get(f"{prefix}.expert_count", 0) != 0:
        raise Problem(f"{file.path.name} holds a mixture-of-experts model.", OTHER_MODEL)
    if chosen > experts:
        raise Problem(
            f"{file.path.name} states {experts} experts, and uses {chosen} of them.",
            "The file is damaged: download it again.",
        )
    for name, neutral in _NEUTRAL.items():
        value = file.metadata.get(f"{prefix}.{name}", neutral[0])
        if value not in neutral:
            raise Problem(f"{file.path.name} states {shown(value)} for {name}.", OTHER_MODEL)
    window = file.integer(f"{prefix}.attention.sliding_window", 0, maximum=2**63)
    if architecture.window == "none" and 0 < window < config["max_position_embeddings"]:
        raise Problem(f"{file.path.name} uses sliding-window attention.", OTHER_MODEL)
    if architecture.window == "used" and not (window and config.get("sliding_window_pattern", 1)):
        raise file.odd(f"{prefix}.attention.sliding_window", window)
    _refuse_heads(file, architecture, config)


def _refuse_heads(file: GgufFile, architecture: Architecture, config: Mapping[str, Any]) -> None:
    """Raise Problem for a width of heads, or of their rotated part, that mlx-lm has not."""
    prefix, width = file.metadata["general.architecture"], config["head_dim"]
    rotated = file.integer(f"{prefix}.rope.dimension_count", width)
    allowed = width > 0 and rotated > 0 and width % 2 == rotated % 2 == 0
    if not architecture.any_head_width:
        allowed = allowed and width == config["hidden_size"] // config["num_attention_heads"]
    if architecture.partly_rotated:  # mlx-lm has the part as a fraction, and rounds it down
        allowed = allowed and rotated <= width and int(width * (rotated / width)) == rotated
    else:
        allowed = allowed and rotated == width
    if not allowed or file.integer(f"{prefix}.attention.value_length", width) != width:
        raise Problem(
            f"{file.path.name} has heads of width {width} with {rotated} rotated dimensions.",
            OTHER_MODEL,
        )
