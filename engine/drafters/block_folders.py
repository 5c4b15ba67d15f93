"""Folders of block drafters: from a config and tensors to a network that is bound to its target.

Sizes are those of the tensors. The config is often a copy of the target's, and only says what
tensors cannot: which layers are tapped, what is seen, how positions are rotated.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.decoder import Decoder
from engine.device import fetch
from engine.drafters import DrafterRefused
from engine.drafters.block import BlockDrafter
from engine.drafters.dflash import BlockShape, BoundNetwork, DFlash, DFlash2, Rotation
from engine.drafters.export import QUANTIZATION, packed, write_drafter
from engine.drafters.rows import Rows
from engine.drafters.weights import (
    Tensors,
    columns,
    damaged,
    fill,
    read_tensors,
    refused_as_damaged,
)
from engine.model_parts import embedding, embedding_scale, output_layer
from models.drafters.folders import describe_drafter
from models.drafters.kinds import DrafterDescription
from models.errors import Problem

DFLASH_WEIGHTS_NAME = "model.safetensors"
SPECULATORS = "transformer_layer_config"  # a key of configs in this packaging alone
_RENAMED = {"encoder.fc.": "fc.", "encoder.output_norm_enc.": "hidden_norm."}  # transformers'
_ALIKE = 0.95  # cosine of what two layers give that are the same up to quantization
_COMPARED = 64  # tokens
_MOST_ROWS = 256  # of a block; published ones have 16 at most

Settings = Mapping[str, Any]


def load_dflash(folder: Path, config: Mapping[str, Any], target: Decoder) -> BlockDrafter:
    """The DFlash or DFlash2 drafter in `folder`. Raises `Problem`."""
    network = dflash_network(folder, config, target)
    second = "candidate_selector" in network.weights
    return BlockDrafter(target, network, name="DFlash2" if second else "DFlash")


def dflash_network(folder: Path, config: Mapping[str, Any], target: Decoder) -> BoundNetwork:
    """Its network. Raises `Problem`."""
    described = describe_drafter(folder).description
    tensors = published_names(read_tensors(folder))
    with refused_as_damaged(folder):
        said = settings(config)
        windows, causal = _seen(said, depth_of(tensors))
        shape = shape_of(described, said, tensors, windows=windows, causal=causal)
        require_fit(said, shape, target)
        network = _dflash2(said, shape, tensors) if described.kind == "dflash2" else DFlash(shape)
        scale = _scale_of_raw(target)
        return bind(network, shape, tensors, said=said, target=target, folder=folder, scale=scale)


def _scale_of_raw(target: Decoder) -> float:
    """What raw embeddings of `target` are multiplied by: its own factor where it is one. A norm in
    its place is left out, as the drafters of such targets were trained."""
    try:
        return embedding_scale(target.model)
    except Problem:
        return 1.0


def save_dflash(
    network: DFlash,
    shape: BlockShape,
    kept: mx.array,
    folder: Path,
    *,
    target: str,
    fingerprint: str,
    layers: int,
    vocabulary: int,
) -> None:
    """Write `folder`, 8-bit: a DFlash with an output layer of its own.

    `kept` (rows,): the token of each of its rows; `target` is a name for people, `fingerprint` is
    what counts, `layers` and `vocabulary` are its sizes.
    """
    tensors = packed(network) | {"d2t": (kept - mx.arange(kept.size)).astype(mx.int32)}
    config = {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": len(shape.windows),
        "num_attention_heads": shape.num_attention_heads,
        "num_key_value_heads": shape.num_key_value_heads,
        "head_dim": shape.head_dim,
        "rms_norm_eps": shape.rms_norm_eps,
        "rope_theta": shape.rotation.base,
        "vocab_size": vocabulary,
        "draft_vocab_size": kept.size,
        "num_target_layers": layers,
        "block_size": shape.block_size,
        "dflash_config": {
            "target_layer_ids": [tap - 1 for tap in shape.taps if tap != "norm"],
            "mask_token_id": shape.mask_token,
            "causal": all(shape.causal),
        },
        "base_model_name_or_path": target,
        "target_fingerprint": fingerprint,
        "quantization": dict(QUANTIZATION),
    }
    write_drafter(folder, DFLASH_WEIGHTS_NAME, tensors, config)


def _dflash2(said: Settings, shape: BlockShape, tensors: Tensors) -> DFlash2:
    selector = "candidate_selector"
    for codebook in ("predecessor_codebook", "successor_codebook"):  # published without .weight
        if f"{selector}.{codebook}" in tensors:
            tensors[f"{selector}.{codebook}.weight"] = tensors.pop(f"{selector}.{codebook}")
    _, reach, width = tensors["layers.0.attention_conv.base_kernel"].shape
    kernels = tensors["layers.0.attention_conv.kernel_projection.weight"].shape[0]
    return DFlash2(
        shape,
        reach=reach,
        group=width // (kernels // (2 * reach)),
        rank=tensors[f"{selector}.hidden_projection.weight"].shape[0],
        candidates=int(said["selector_top_k"]),
        vocabulary=tensors[f"{selector}.predecessor_codebook.weight"].shape[0],
    )


def settings(config: Mapping[str, Any]) -> Settings:
    """config.json without its nesting: what is said inside counts, as the packagings have it. What
    is null is as if it were not there."""
    inner = {
        name: value
        for name, value in (config.get("transformer_layer_config") or {}).items()
        if name not in config or name in ("model_type", "vocab_size")
    }
    whole = {**config, **inner, **(config.get("dflash_config") or {})}
    return {name: value for name, value in whole.items() if value is not None}


def published_names(tensors: Tensors) -> Tensors:
    """The tensors by the names that the network has for them."""
    renamed: Tensors = {}
    for name, tensor in tensors.items():
        name = name.removeprefix("model.")
        if name.startswith("verifier_") or "rotary_emb." in name:  # the target's; computed
            continue
        for published, ours in _RENAMED.items():
            if name.startswith(published):
                name = ours + name.removeprefix(published)
        renamed[name] = tensor
    return renamed


def depth_of(tensors: Tensors) -> int:
    """How many layers there are."""
    return 1 + max(int(name.split(".")[1]) for name in tensors if name.startswith("layers."))


def shape_of(
    described: DrafterDescription,
    said: Settings,
    tensors: Tensors,
    *,
    windows: Sequence[int | None],
    causal: Sequence[bool],
) -> BlockShape:
    """The sizes, from the tensors, and the rest from the config. Raises KeyError, ValueError."""
    first = "layers.0.self_attn"
    dim = tensors[f"{first}.q_norm.weight"].shape[0]
    heads = columns(tensors, f"{first}.o_proj", said) // dim
    taps = described.taps
    if described.predictions < 1 or described.block > _MOST_ROWS:
        raise ValueError(f"its block has {described.block} rows")
    return BlockShape(
        hidden_size=tensors["fc.weight"].shape[0],
        target_width=columns(tensors, "fc", said) // len(taps),
        taps=taps,
        num_attention_heads=heads,
        num_key_value_heads=tensors[f"{first}.k_proj.weight"].shape[0] // dim,
        head_dim=dim,
        intermediate_size=tensors["layers.0.mlp.gate_proj.weight"].shape[0],
        rms_norm_eps=float(said.get("rms_norm_eps", 1e-6)),
        rotation=rotation_of(said, dim),
        windows=tuple(windows),
        causal=tuple(causal),
        block_size=described.block,
        mask_token=int(said["mask_token_id"]),
        first_slot=described.block - described.predictions,
        gated=tensors[f"{first}.q_proj.weight"].shape[0] == 2 * heads * dim,
        tied_values=f"{first}.v_proj.weight" not in tensors,
        biased=f"{first}.q_proj.bias" in tensors,
        sinks=f"{first}.attention_sink_bias" in tensors,
        gemma="layers.0.layer_scalar" in tensors,
        shared_windows=SPECULATORS in said,
    )


def _seen(said: Settings, depth: int) -> tuple[list[int | None], list[bool]]:
    """By layer, how far a row sees, and whether it sees only those before it: rows of sliding ones
    do, unless it is said of all."""
    sliding = sliding_layers(said, depth)
    window = int(said["sliding_window"]) if any(sliding) else None
    if window is not None and str(said.get("model_type")).endswith("_assistant"):
        # transformers counts how far away a row may be, and lets it see those behind it.
        return [window + 1 if slides else None for slides in sliding], [False] * depth
    causal = sliding
    if said.get("sliding_window_non_causal"):
        causal = [False] * depth
    for name in ("is_causal", "causal", "dflash_query_causal"):
        if said.get(name) is not None:
            causal = [bool(said[name])] * depth
    return [window if slides else None for slides in sliding], causal


def sliding_layers(said: Settings, depth: int) -> list[bool]:
    """Which layers see only a window. The list may be the target's, which is longer."""
    kinds = said.get("layer_types") or ["full_attention"] * depth
    if len(kinds) < depth:
        raise ValueError("layer_types")
    return [kind == "sliding_attention" for kind in kinds[:depth]]


def rotation_of(said: Settings, dims: int) -> Rotation:
    """How positions are rotated: over whole heads, by what Qwen3's own code reads."""
    scaling: dict[str, Any] = said.get("rope_parameters") or said.get("rope_scaling") or {}
    scaling = scaling.get("full_attention", scaling)  # of a Gemma
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    base = scaling.get("rope_theta") or said.get("rope_theta") or 10000.0
    longest = int(said.get("max_position_embeddings") or 32768)
    if kind == "yarn":
        scaling = {"original_max_position_embeddings": longest} | scaling
    return Rotation(
        dims=dims,
        base=float(base),
        scaling=None if kind in ("default", "mrope") else {**scaling, "rope_type": kind},
        interleaved=said.get("rope_is_neox_style") is False,
        longest=longest,
    )


def require_fit(said: Settings, shape: BlockShape, target: Decoder) -> None:
    """Raises `DrafterRefused` where the sizes are not those of `target`."""
    width = embedding(target.model)(mx.zeros((1,), dtype=mx.int32)).shape[-1]
    for what, its, ours in (
        ("states of width", shape.target_width, width),
        ("layers", said.get("num_target_layers"), target.depth),
        ("tokens", said.get("vocab_size"), target.vocabulary),
    ):
        if its is not None and int(its) != ours:
            raise DrafterRefused(
                "other target",
                f"The drafter was trained for a target with {its} {what}, and this one has {ours}.",
                "Choose a drafter that was trained for this target.",
            )


def bind(
    network: DFlash,
    shape: BlockShape,
    tensors: Tensors,
    *,
    said: Settings,
    target: Decoder,
    folder: Path,
    scale: float | None = None,
) -> BoundNetwork:
    """Give `network` its weights, and the embedding and output layer of `target`, unless it has
    others of its own. `scale` is that of the target's embedding; None asks it. Raises `Problem`."""
    kept = _kept(tensors, target, folder)
    borrowed, model = embedding(target.model), target.model
    if "input_embedding_scale" in said:
        scale = float(said["input_embedding_scale"])
    elif "embed_tokens.weight" in tensors:
        scale = shape.hidden_size**0.5 if shape.gemma else 1.0
    elif SPECULATORS in said:
        scale = 1.0  # it was trained with a copy of the table alone
    elif scale is None:
        scale = embedding_scale(model)
    cap = said.get("final_logit_softcapping")
    _share(tensors, target, cap=cap)
    last = target.vocabulary - 1
    if "embed_tokens.weight" in tensors:
        rows = tensors["embed_tokens.weight"].shape[0]
        network.embed_tokens = nn.Embedding(rows, columns(tensors, "embed_tokens", said))
        last = rows - 1
    if "lm_head.weight" in tensors:
        rows = tensors["lm_head.weight"].shape[0]
        network.lm_head = nn.Linear(columns(tensors, "lm_head", said), rows, bias=False)
    fill(network, tensors, target.model)
    embed = network.get("embed_tokens", borrowed)
    own_output = network.get("lm_head")
    if own_output is None:
        read_out = output_layer(model, None if kept is None else mx.array(kept))
    else:
        read_out = _capped(own_output, cap)
    bound = BoundNetwork(
        network,
        shape,
        embed=lambda ids: embed(mx.minimum(ids, last)) * scale,
        read_out=read_out,
        rows=None if kept is None else Rows(target.vocabulary, kept),
    )
    _try_out(bound, shape, rows=target.vocabulary if kept is None else len(kept))
    return bound


def _try_out(bound: BoundNetwork, shape: BlockShape, *, rows: int) -> None:
    """Raises what sizes that do not fit each other raise; nothing is computed."""
    cache = bound.make_cache()
    bound.extend(mx.zeros((1, 1, len(shape.taps), shape.target_width)), 0, cache)
    if bound.read_out(mx.zeros((1, 1, shape.hidden_size))).shape[-1] != rows:
        raise ValueError("its output layer has another number of rows than there are tokens")
    bound.block(0, shape.most, 1, cache).read(mx.zeros((1,), dtype=mx.int32))


def _kept(tensors: Tensors, target: Decoder, folder: Path) -> list[int] | None:
    """The token of each row of the output layer; None for all. How far away it is, `d2t` says."""
    offsets, _ = tensors.pop("d2t", None), tensors.pop("t2d", None)
    if offsets is None:
        return None
    (ids,) = fetch(offsets + mx.arange(offsets.size))
    if min(ids) < 0 or max(ids) >= target.vocabulary or len(set(ids)) != len(ids):
        raise damaged(folder, "its vocabulary map does not fit the target")
    kept: list[int] = ids
    return kept


def _capped(
    layer: Callable[[mx.array], mx.array], cap: float | None
) -> Callable[[mx.array], mx.array]:
    return layer if not cap else lambda states: mx.tanh(layer(states) / cap) * cap


def _share(tensors: Tensors, target: Decoder, *, cap: float | None) -> None:
    """Drop the embedding and the output layer where the target's give the same.

    Those may be quantized, and then are faster. `cap` is the drafter's own soft cap.
    """
    every = max(target.vocabulary // _COMPARED, 1)
    ids = mx.arange(0, target.vocabulary, every, dtype=mx.int32)
    if _is_whole(tensors, "embed_tokens", target.vocabulary):
        ours, theirs = tensors["embed_tokens.weight"][ids], embedding(target.model)(ids)
        if _alike(ours, theirs):
            del tensors["embed_tokens.weight"]
    if _is_whole(tensors, "lm_head", target.vocabulary):
        rows = tensors["lm_head.weight"][ids].astype(mx.float32)
        states = mx.random.normal((_COMPARED, rows.shape[1]), key=mx.random.key(0))
        spread = 2.0 * (cap or 30.0)  # so that caps show
        states = states * spread / mx.std(states @ rows.T)
        ours = _capped(lambda x: x @ rows.T, cap)(states)
        if _alike(ours, output_layer(target.model, ids)(states[None])[0]):
            del tensors["lm_head.weight"]


def _is_whole(tensors: Tensors, module: str, vocabulary: int) -> bool:
    weight = tensors.get(f"{module}.weight")
    return weight is not None and f"{module}.scales" not in tensors and len(weight) == vocabulary


def _alike(ours: mx.array, theirs: mx.array) -> bool:
    if ours.shape != theirs.shape:
        return False
    ours, theirs = ours.astype(mx.float32), theirs.astype(mx.float32)
    lengths = mx.linalg.norm(ours) * mx.linalg.norm(theirs)
    (cosine,) = fetch(mx.sum(ours * theirs) / lengths)
    return bool(cosine > _ALIKE)
