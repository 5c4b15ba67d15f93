"""DFlash and DFlash2: the networks that draft a block of tokens in one pass, and their folders.

DFlash (arXiv 2602.06036): the target's states of a few layers, fused into one, are the context of
a few Qwen3 layers. The block's rows attend to the context and to each other; keys and values of
both are made by the same weights. Tokens are embedded, and states read out, by the target's own
layers. DFlash2 adds short causal convolutions within the block around attention and feedforward,
and chooses among the likeliest 16 tokens of a slot by what the token before it is.

Sizes are those of the tensors. The config is often a copy of the target's, and only says what
tensors cannot: which layers are tapped, what is seen, how positions are rotated.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.gemma3_text import MLP as GemmaFeedforward
from mlx_lm.models.qwen3 import MLP as Feedforward
from mlx_lm.models.rope_utils import initialize_rope

from engine.decoder import Decoder
from engine.device import fetch
from engine.drafters import DrafterRefused
from engine.drafters.block import Block, BlockDrafter, ContextCache
from engine.drafters.chain import row_of_token, spread
from engine.drafters.export import QUANTIZATION, packed, write_drafter
from engine.drafters.weights import (
    Tensors,
    columns,
    damaged,
    fill,
    read_tensors,
    refused_as_damaged,
)
from engine.model_parts import embedding, embedding_scale, output_layer
from models.drafter_folders import describe_drafter
from models.drafter_kinds import DrafterDescription, Tap
from models.errors import Problem

DFLASH_WEIGHTS_NAME = "model.safetensors"
_SHOWN = 4096  # context positions: with more, published drafters are accepted less
_ALIKE = 0.95  # cosine of what two layers give that are the same up to quantization
_COMPARED = 64  # tokens
_MOST_ROWS = 256  # of a block; published ones have 16 at most

_RENAMED = {"encoder.fc.": "fc.", "encoder.output_norm_enc.": "hidden_norm."}  # transformers'

SPECULATORS = "transformer_layer_config"  # a key of configs in this packaging alone

Settings = Mapping[str, Any]
Confidence = Callable[[mx.array], mx.array]


@dataclass(frozen=True, slots=True)
class Rotation:
    """How positions are rotated: the first `dims` of a head; `scaling` as mlx-lm reads it."""

    dims: int
    base: float
    scaling: Mapping[str, Any] | None = None
    interleaved: bool = False
    longest: int = 32768

    def build(self) -> nn.Module:
        """The module that does so."""
        scaling = None if self.scaling is None else dict(self.scaling)
        return initialize_rope(self.dims, self.base, self.interleaved, scaling, self.longest)


@dataclass(frozen=True, slots=True)
class BlockShape:
    """The sizes of a block drafter.

    `taps`: whose states it reads; `windows`, by layer: how far a row sees, itself included, None
    for everything; `causal`, by layer: whether a row sees those before it only; `block_size` rows,
    of which those from `first_slot` on propose a token. `gated`: queries come with a gate;
    `tied_values`: values are made of the keys' projection; `gemma`: norms, activation and scale
    are Gemma-4's; `sinks`: attention may go nowhere; `shared_windows`: all rows of a block see the
    window before the block.
    """

    hidden_size: int
    target_width: int
    taps: tuple[Tap, ...]
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    rms_norm_eps: float
    rotation: Rotation
    windows: tuple[int | None, ...]
    causal: tuple[bool, ...]
    block_size: int
    mask_token: int
    first_slot: int = 1
    gated: bool = False
    tied_values: bool = False
    biased: bool = False
    sinks: bool = False
    gemma: bool = False
    shared_windows: bool = False

    @property
    def most(self) -> int:
        """How many tokens a block proposes."""
        return self.block_size - self.first_slot

    def rows(self, length: int) -> int:
        """How many of a block's rows have to be read for `length` tokens: no row sees those behind
        it where all layers are causal."""
        return self.first_slot + length if all(self.causal) else self.block_size


class BlockAttention(nn.Module):
    """Rows of a block attend to the context and to the block."""

    def __init__(self, shape: BlockShape, index: int) -> None:
        super().__init__()
        width, heads, dim = shape.hidden_size, shape.num_attention_heads, shape.head_dim
        self.head_dim, self.gated = dim, shape.gated
        self.scale = 1.0 if shape.gemma else dim**-0.5
        self.q_proj = nn.Linear(width, heads * dim * (1 + shape.gated), bias=shape.biased)
        self.k_proj = nn.Linear(width, shape.num_key_value_heads * dim, bias=shape.biased)
        if not shape.tied_values:
            self.v_proj = nn.Linear(width, shape.num_key_value_heads * dim, bias=shape.biased)
        self.o_proj = nn.Linear(heads * dim, width, bias=shape.biased)
        self.q_norm = nn.RMSNorm(dim, eps=shape.rms_norm_eps)
        self.k_norm = nn.RMSNorm(dim, eps=shape.rms_norm_eps)
        if shape.sinks:
            self.attention_sink_bias = mx.zeros((heads,))
        self._values_eps = shape.rms_norm_eps if shape.gemma else None
        window = shape.windows[index]
        self._window = None if shape.shared_windows else window
        self._shown = _SHOWN if window is None else window - (not shape.shared_windows)
        self._causal = shape.causal[index]
        self._rotate = shape.rotation.build()

    @property
    def shown(self) -> int:
        """How many context positions a row may see."""
        return self._shown

    def remember(self, context: mx.array, position: int, cache: ContextCache) -> None:
        """Append the keys and values of `context`, (1, n, width), which begins at `position`."""
        cache.append(*self._keys_and_values(context, position))

    def __call__(self, x: mx.array, position: int | mx.array, cache: ContextCache) -> mx.array:
        rows = x.shape[1]
        queries, gate = self._by_head(self.q_proj(x), parts=1 + self.gated), None
        if self.gated:
            queries, gate = mx.split(queries, 2, axis=-1)
        queries = self._rotate(self.q_norm(queries).swapaxes(1, 2), offset=position)
        keys, values = cache.beside(*self._keys_and_values(x, position))
        mixed = mx.fast.scaled_dot_product_attention(
            queries,
            keys,
            values,
            scale=self.scale,
            mask=self.visible(keys.shape[2] - rows, rows),
            sinks=self.get("attention_sink_bias"),
        )
        mixed = mixed.swapaxes(1, 2)
        if gate is not None:
            mixed = mixed * mx.sigmoid(gate)
        return self.o_proj(mixed.flatten(-2))

    def _keys_and_values(self, x: mx.array, position: int | mx.array) -> tuple[mx.array, mx.array]:
        raw = self._by_head(self.k_proj(x))
        values = self._by_head(self.v_proj(x)) if "v_proj" in self else raw
        if self._values_eps is not None:
            values = mx.fast.rms_norm(values, None, self._values_eps)
        keys = self._rotate(self.k_norm(raw).swapaxes(1, 2), offset=position)
        return keys, values.swapaxes(1, 2)

    def _by_head(self, x: mx.array, parts: int = 1) -> mx.array:
        return x.reshape(*x.shape[:-1], -1, parts * self.head_dim)

    def visible(self, context: int, rows: int) -> mx.array | None:
        """Which of (context + rows) keys each row sees; None for all."""
        if not self._causal and (self._window is None or context + rows <= self._window):
            return None
        query = context + mx.arange(rows)[:, None]
        key = mx.arange(context + rows)[None]
        seen = query - key < (self._window or 1 << 30)
        return seen & (key <= query) if self._causal else seen


class BlockLayer(nn.Module):
    """A layer as Qwen3 has it, or as Gemma-4 has it, but for what attention sees."""

    def __init__(self, shape: BlockShape, index: int) -> None:
        super().__init__()

        def norm() -> nn.RMSNorm:
            return nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)

        self.self_attn = BlockAttention(shape, index)
        feedforward = GemmaFeedforward if shape.gemma else Feedforward
        self.mlp = feedforward(shape.hidden_size, shape.intermediate_size)
        self.input_layernorm = norm()
        self.post_attention_layernorm = norm()
        self.gemma = shape.gemma
        if shape.gemma:
            self.pre_feedforward_layernorm = norm()
            self.post_feedforward_layernorm = norm()
            self.layer_scalar = mx.ones((1,))

    def __call__(self, x: mx.array, position: int | mx.array, cache: ContextCache) -> mx.array:
        mixed = self.self_attn(self.input_layernorm(x), position, cache)
        if not self.gemma:
            x = x + mixed
            return x + self.mlp(self.post_attention_layernorm(x))
        x = x + self.post_attention_layernorm(mixed)
        fed = self.mlp(self.pre_feedforward_layernorm(x))
        return (x + self.post_feedforward_layernorm(fed)) * self.layer_scalar


class DFlash(nn.Module):
    """The network without its embedding and output layer. States are (1, n, width)."""

    def __init__(
        self, shape: BlockShape, layer: Callable[[BlockShape, int], BlockLayer] = BlockLayer
    ) -> None:
        super().__init__()
        self.fc = nn.Linear(len(shape.taps) * shape.target_width, shape.hidden_size, bias=False)
        self.hidden_norm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)
        self.layers = [layer(shape, index) for index in range(len(shape.windows))]
        self.norm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)

    def extend(self, states: mx.array, position: int, cache: list[ContextCache]) -> None:
        """Append the target's states, (1, n, taps, target's width), to the context."""
        context = self.hidden_norm(self.fc(states.flatten(-2)))
        for layer, each in zip(self.layers, cache, strict=True):
            layer.self_attn.remember(context, position, each)

    def __call__(
        self, x: mx.array, position: int | mx.array, cache: list[ContextCache]
    ) -> mx.array:
        """What the layers make of blocks' embedded rows, (blocks, rows, width), not yet normed.

        `position` is that of each block's first row.
        """
        for layer, each in zip(self.layers, cache, strict=True):
            x = layer(x, position, each)
        return x

    def slots(self, states: mx.array, logits: mx.array) -> Block:
        """What tokens are drawn from: the normed states (n, width) and logits (n, rows) of the
        block's slots."""
        return Slots(logits)


class Slots:
    """Slots whose logits do not depend on each other's tokens."""

    confidence: Confidence | None = None

    def __init__(self, logits: mx.array) -> None:
        self._logits = iter(logits[:, None])

    def read(self, previous: mx.array) -> mx.array:
        return next(self._logits)


class DynamicConvolution(nn.Module):
    """Mixes each row of a block with those before it, by kernels that depend on the row.

    There are two, before and after a sublayer, with a fixed part for each channel and a part from
    the row itself for each group of channels.
    """

    def __init__(self, width: int, *, reach: int, group: int) -> None:
        super().__init__()
        self.base_kernel = mx.zeros((2, reach, width))
        self.kernel_projection = nn.Linear(width, 2 * reach * (width // group), bias=False)
        self._reach, self._group = reach, group

    def kernels(self, x: mx.array) -> mx.array:
        """Both kernels of each row of `x`, (1, n, width): (2, 1, n, reach, width)."""
        own = self.kernel_projection(x).reshape(*x.shape[:2], 2, self._reach, -1)
        own = mx.repeat(own, self._group, axis=-1)
        return (own + self.base_kernel.astype(x.dtype)).transpose(2, 0, 1, 3, 4)

    def mix(self, x: mx.array, kernel: mx.array) -> mx.array:
        """`kernel`, (1, n, reach, width): its k-th entry weighs the row k before."""
        rows = x.shape[1]
        padded = mx.pad(x, [(0, 0), (self._reach - 1, 0), (0, 0)])
        first = self._reach - 1
        before = [padded[:, first - k : first - k + rows] for k in range(self._reach)]
        return mx.sum(mx.stack(before, axis=2) * kernel, axis=2)


class MixedLayer(BlockLayer):
    """DFlash2's layer: convolutions around both sublayers."""

    def __init__(self, shape: BlockShape, index: int, *, reach: int, group: int) -> None:
        super().__init__(shape, index)
        self.attention_conv = DynamicConvolution(shape.hidden_size, reach=reach, group=group)
        self.mlp_conv = DynamicConvolution(shape.hidden_size, reach=reach, group=group)

    def __call__(self, x: mx.array, position: int | mx.array, cache: ContextCache) -> mx.array:
        normed = self.input_layernorm(x)
        before, after = self.attention_conv.kernels(normed)
        mixed = self.attention_conv.mix(normed, before)
        x = x + self.attention_conv.mix(self.self_attn(mixed, position, cache), after)
        normed = self.post_attention_layernorm(x)
        before, after = self.mlp_conv.kernels(normed)
        mixed = self.mlp_conv.mix(normed, before)
        return x + self.mlp_conv.mix(self.mlp(mixed), after)


class CandidateSelector(nn.Module):
    """Scores a slot's likeliest tokens by the token before it."""

    def __init__(self, width: int, *, rank: int, vocabulary: int) -> None:
        super().__init__()
        self.predecessor_codebook = nn.Embedding(vocabulary, rank)
        self.successor_codebook = nn.Embedding(vocabulary, rank)
        self.hidden_projection = nn.Linear(width, rank, bias=False)
        self._last = vocabulary - 1

    def bonus(self, previous: mx.array, projected: mx.array, candidates: mx.array) -> mx.array:
        """What each of `candidates`, (1, k), gains behind `previous`, (1,): (1, k).

        `projected` is (1, rank), the slot's state by `hidden_projection`.
        """
        context = self.predecessor_codebook(mx.minimum(previous, self._last)) * projected
        return (self.successor_codebook(candidates) @ context[..., None])[..., 0]


class DFlash2(DFlash):
    """See above."""

    def __init__(
        self,
        shape: BlockShape,
        *,
        reach: int,
        group: int,
        rank: int,
        candidates: int,
        vocabulary: int,
    ) -> None:
        super().__init__(
            shape, lambda shape, index: MixedLayer(shape, index, reach=reach, group=group)
        )
        self.candidate_selector = CandidateSelector(
            shape.hidden_size, rank=rank, vocabulary=vocabulary
        )
        self._candidates = candidates

    def slots(self, states: mx.array, logits: mx.array) -> Block:
        return SelectedSlots(self.candidate_selector, states, logits, self._candidates)


class SelectedSlots:
    """Slots where one of the likeliest `count` tokens is drawn, scored by the one before it."""

    confidence: Confidence | None = None

    def __init__(
        self, selector: CandidateSelector, states: mx.array, logits: mx.array, count: int
    ) -> None:
        self._selector, self._logits = selector, logits
        self._candidates = mx.argpartition(logits, -count, axis=-1)[:, -count:]
        self._projected = selector.hidden_projection(states).astype(mx.float32)
        self._slot = -1

    def read(self, previous: mx.array) -> mx.array:
        self._slot += 1
        here = slice(self._slot, self._slot + 1)
        candidates, logits = self._candidates[here], self._logits[here]
        scores = mx.take_along_axis(logits, candidates, axis=-1)
        scores = scores + self._selector.bonus(previous, self._projected[here], candidates)
        impossible = mx.full(logits.shape, -mx.inf)
        return mx.put_along_axis(impossible, candidates, scores.astype(mx.float32), axis=-1)


class BoundNetwork:
    """A network with what it borrows of its target: a `BlockNetwork`.

    `embed`: ids (1, n) to (1, n, width); `read_out`: states (1, n, width) to logits (1, n, rows);
    `row_of`: the row of each of the target's tokens, where there are fewer rows: see `spread`.
    Attributes: `weights`, the network; `embed`, `read_out`.
    """

    def __init__(
        self,
        network: DFlash,
        shape: BlockShape,
        *,
        embed: Callable[[mx.array], mx.array],
        read_out: Callable[[mx.array], mx.array],
        row_of: mx.array | None = None,
    ) -> None:
        self.taps, self.most = shape.taps, shape.most
        self.weights, self._shape = network, shape
        self.embed, self.read_out, self._row_of = embed, read_out, row_of
        self.extend = network.extend

    def make_cache(self) -> list[ContextCache]:
        return [ContextCache(layer.self_attn.shown) for layer in self.weights.layers]

    def block(self, anchor: int, length: int, position: int, cache: list[ContextCache]) -> Block:
        first, rows = self._shape.first_slot, self._shape.rows(length)
        ids = mx.array([[anchor] + [self._shape.mask_token] * (rows - 1)], dtype=mx.int32)
        states = self.weights(self.embed(ids), position, cache)
        states = self.weights.norm(states[:, first : first + length])
        logits = self.read_out(states)[0].astype(mx.float32)
        slots = self.weights.slots(states[0], logits)
        return slots if self._row_of is None else SpreadSlots(slots, self._row_of)


class SpreadSlots:
    """Slots whose logits are of some tokens only, over the target's vocabulary."""

    def __init__(self, slots: Block, row_of: mx.array) -> None:
        self._slots, self._row_of = slots, row_of
        self.confidence = slots.confidence

    def read(self, previous: mx.array) -> mx.array:
        return spread(self._slots.read(previous), self._row_of)


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
    depth = len(target.model.layers)
    for what, its, ours in (
        ("states of width", shape.target_width, width),
        ("layers", said.get("num_target_layers"), depth),
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
    fill(network, tensors)
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
        row_of=None if kept is None else row_of_token(kept, target.vocabulary),
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
