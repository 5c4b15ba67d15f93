"""Folders of block drafters: from their description to a network that is bound to its target."""

from collections.abc import Callable
from dataclasses import replace

import mlx.core as mx
import mlx.nn as nn

from engine.core.decoder import Decoder
from engine.core.model_parts import embedding, embedding_scale, output_layer
from engine.core.split_attention import measuring
from engine.device import backend, fetch
from engine.drafters.block import BlockDrafter
from engine.drafters.dflash import BoundNetwork, DFlash, DFlash2
from engine.drafters.dspark import dspark
from engine.drafters.rows import Rows
from engine.drafters.weights import Tensors, fill, read_tensors, require_fit, take_kept
from models.drafters.blocks import BlockShape
from models.drafters.folders import DrafterFolder
from models.drafters.refusal import refused_as_damaged
from models.errors import Problem

_ZERO_CENTRED = 0.5  # norms whose mean is below this are stored without the 1 that is added
_ALIKE = 0.95  # cosine of what two layers give that are the same up to quantization
_COMPARED = 64  # tokens


def load_block(folder: DrafterFolder, target: Decoder) -> BlockDrafter:
    """The DFlash, DFlash2 or DSpark drafter in `folder`. Raises `Problem`."""
    return BlockDrafter(target, block_network(folder, target), name=folder.description.name)


def block_network(folder: DrafterFolder, target: Decoder) -> BoundNetwork:
    """Return the network in `folder`, bound to `target`. Raises `Problem`."""
    shape: BlockShape = folder.network
    require_fit(folder, target)
    tensors = read_tensors(folder)
    with refused_as_damaged(folder.path):
        if shape.centred is not None and _is_centred(tensors):
            shape = replace(shape, rotation=shape.centred)
            tensors |= {name: tensors[name] + 1.0 for name in _norms(tensors)}
        if folder.kind == "dspark":
            network: DFlash = dspark(shape)
        else:
            network = DFlash2(shape, shape.selector) if shape.selector else DFlash(shape)
        scale = shape.embedding_scale
        if scale is None:
            strict = folder.kind == "dspark"
            scale = embedding_scale(target.model) if strict else _scale_of_raw(target)
        return _bind(network, shape, tensors, target=target, folder=folder, scale=scale)


def _is_centred(tensors: Tensors) -> bool:
    """Whether norms are stored without the 1 that is added to them, as Qwen3.5's are."""
    norms = [tensors[name].astype(mx.float32) for name in _norms(tensors)]
    (mean,) = fetch(mx.mean(mx.concatenate(norms)))
    return bool(mean < _ZERO_CENTRED)


def _norms(tensors: Tensors) -> list[str]:
    return [name for name in tensors if name.endswith("norm.weight") and tensors[name].ndim == 1]


def _scale_of_raw(target: Decoder) -> float:
    """Return the factor by which `target` multiplies raw embeddings; 1 if it does anything else to
    them, such as a norm: DFlash drafters of such targets were trained without it."""
    try:
        return embedding_scale(target.model)
    except Problem:
        return 1.0


def _bind(
    network: DFlash,
    shape: BlockShape,
    tensors: Tensors,
    *,
    target: Decoder,
    folder: DrafterFolder,
    scale: float,
) -> BoundNetwork:
    """Give `network` its weights, and the embedding and output layer of `target` if it has none of
    its own. Embeddings are multiplied by `scale`. Raises `Problem`."""
    kept = take_kept(tensors, target, folder.path)
    borrowed, model, cap = embedding(target.model), target.model, shape.soft_cap
    _share(tensors, target, cap=cap)
    last = target.vocabulary - 1
    if shape.embedding is not None and "embed_tokens.weight" in tensors:
        network.embed_tokens = nn.Embedding(*shape.embedding)
        last = shape.embedding[0] - 1
    if shape.output is not None and "lm_head.weight" in tensors:
        rows, columns = shape.output
        network.lm_head = nn.Linear(columns, rows, bias=False)
    fill(network, tensors, target.model, bits=folder.held_bits)
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
    """Build one pass and compute nothing: sizes that do not fit each other raise an error."""
    cache = bound.make_cache()
    bound.extend(mx.zeros((1, 1, len(shape.taps), shape.target_width)), 0, cache)
    if bound.read_out(mx.zeros((1, 1, shape.hidden_size))).shape[-1] != rows:
        raise ValueError("its output layer has another number of rows than there are tokens")
    longest = max(layer.self_attn.shown for layer in bound.weights.layers) + shape.most
    with measuring(longest if backend().beside_host else 0):
        bound.block(0, shape.most, 1, cache).read(mx.zeros((1,), dtype=mx.int32))


def _capped(
    layer: Callable[[mx.array], mx.array], cap: float | None
) -> Callable[[mx.array], mx.array]:
    return layer if not cap else lambda states: mx.tanh(layer(states) / cap) * cap


def _share(tensors: Tensors, target: Decoder, *, cap: float | None) -> None:
    """Drop the drafter's embedding and output layer from `tensors` if the target's give the same.

    The target's may be quantized, and then are faster. `cap` is the drafter's own soft cap.
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
