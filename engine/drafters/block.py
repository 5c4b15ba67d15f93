"""Drafts a block of tokens in one pass (DFlash, arXiv 2602.06036, DFlash2, DSpark), and loads what
does so from a folder.

A network keeps keys and values of the target's hidden states of all committed tokens but the
newest: the context. The newest token is the anchor; it and mask tokens after it are the slots of
a block, read in one pass that sees the context and itself, and leaves no trace in it. Then tokens
are drawn from slot to slot, each slot corrected by the token before it where the network can do so.
To take tokens back is to cut the context.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import mlx.core as mx
import mlx.nn as nn

from engine.core.decoder import Decoder
from engine.core.model_parts import embedding, embedding_scale, output_layer
from engine.core.split_attention import measuring
from engine.device import backend, fetch, wait
from engine.draft_length import DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter
from engine.drafters.chain import DraftRequest, draft_chain
from engine.drafters.dflash import ContextCache, DFlash, DFlash2, Slots
from engine.drafters.dspark import dspark
from engine.drafters.rows import Rows
from engine.drafters.weights import (
    Tensors,
    are_centred,
    fill,
    read_tensors,
    require_fit,
    take_kept,
    with_ones,
)
from engine.request import Sampling
from models.drafters.blocks import BlockShape
from models.drafters.folders import DrafterFolder
from models.drafters.refusal import refused_as_damaged
from models.errors import Problem
from models.limits import PREFILL_ROWS

_ALIKE = 0.95  # cosine of what two layers give that are the same up to quantization
_COMPARED = 64  # tokens


class BoundNetwork:
    """A network that drafts blocks for one target, with the layers that the target lends it.

    Attributes: `weights`, the network; `embed`: ids (1, n) to (1, n, width); `read_out`: states
    (1, n, width) to logits (1, n, rows); `rows` of its output, None if each of the target's tokens
    has its own; `taps`, the target's states that it reads; `most`, the most tokens of a block;
    `extend` appends the target's states, (1, n, taps, width), from a position on to a context.
    """

    def __init__(
        self,
        network: DFlash,
        shape: BlockShape,
        *,
        embed: Callable[[mx.array], mx.array],
        read_out: Callable[[mx.array], mx.array],
        rows: Rows | None = None,
    ) -> None:
        self.taps, self.most = shape.taps, shape.most
        self.weights, self._shape = network, shape
        self.embed, self.read_out, self.rows = embed, read_out, rows
        self.extend = network.extend

    def make_cache(self) -> list[ContextCache]:
        """Return empty caches, one for each layer."""
        return [ContextCache(layer.self_attn.shown) for layer in self.weights.layers]

    def block(self, anchor: int, length: int, position: int, cache: list[ContextCache]) -> Slots:
        """Return the block of `length` slots after the token `anchor`, which is at `position`."""
        first, rows = self._shape.first_slot, self._shape.rows(length)
        ids = mx.array([[anchor] + [self._shape.mask_token] * (rows - 1)], dtype=mx.int32)
        states = self.weights(self.embed(ids), position, cache)
        states = self.weights.norm(states[:, first : first + length])
        logits = self.read_out(states)[0].astype(mx.float32)
        return self.weights.slots(states[0], logits)


class BlockDrafter(Drafter):
    """Drafts for `target`, whose hidden states are recorded from now on."""

    def __init__(self, target: Decoder, network: BoundNetwork, *, name: str) -> None:
        self.name = name
        self._network = network
        self._states = target.record(network.taps)
        self._rows = network.rows or Rows(target.vocabulary)
        self._cache = network.make_cache()
        self._first = self._end = 0  # the positions in the context

    def fork(self, target: Decoder) -> Drafter:
        other = type(self)(target, self._network, name=self.name)
        if target.length:
            other._cache = [cache.copy() for cache in self._cache]
            other._first, other._end = self._first, self._end
        return other

    def prepare(self, tokens: list[int]) -> Iterator[int]:
        self.rewind(len(tokens) - 1)
        while self._extend(tokens):
            wait([cache.state for cache in self._cache])
            yield self._end

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        most = self._network.most
        unread = min(len(tokens) - 1, self._states.end) - max(self._end, self._states.first)
        behind = max(unread - most - 1, 0)  # what a round commits is read with the next block
        return (DraftCandidate(self.name, most, behind=behind),)

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        self.rewind(len(tokens) - 1)  # the newest token is the anchor
        while self._extend(tokens):
            pass
        if self._end == self._first:
            return None
        choice = choice.within(self._network.most)
        block = self._network.block(tokens[-1], choice.length, len(tokens) - 1, self._cache)
        asked = DraftRequest(tokens, choice, sampling, key, self._rows, self.name)
        return draft_chain(block.read, asked, unread=tokens[-1:], confidence=block.confidence)

    def accept(self, path: Sequence[int]) -> None:
        """Do nothing: the context grows by the target's states alone, and holds no drafted
        token."""

    def rewind(self, length: int) -> None:
        surplus = self._end - max(length, self._first)
        if surplus > 0:
            for cache in self._cache:
                cache.cut(surplus)
            self._end -= surplus

    def _extend(self, tokens: list[int]) -> bool:
        """Read some more of the target's states. Returns False if all were read.

        If states in between are missing, the context starts again with the recorded ones.
        """
        if self._end == self._first or self._end < self._states.first:
            self._cache = self._network.make_cache()
            self._first = self._end = self._states.first
        end = min(self._end + PREFILL_ROWS, len(tokens) - 1, self._states.end)
        if end <= self._end:
            return False
        states = self._states.between(self._end, end)[None]
        self._network.extend(states, self._end, self._cache)
        self._end = end
        return True


def load_block(folder: DrafterFolder, target: Decoder) -> BlockDrafter:
    """The DFlash, DFlash2 or DSpark drafter in `folder`. Raises `Problem`."""
    return BlockDrafter(target, block_network(folder, target), name=folder.description.name)


def block_network(folder: DrafterFolder, target: Decoder) -> BoundNetwork:
    """Return the network in `folder`, bound to `target`. Raises `Problem`."""
    shape: BlockShape = folder.network
    require_fit(folder, target)
    tensors = read_tensors(folder)
    with refused_as_damaged(folder.path):
        if shape.centred is not None and are_centred(tensors):
            shape, tensors = replace(shape, rotation=shape.centred), with_ones(tensors)
        if folder.kind == "dspark":
            network: DFlash = dspark(shape)
        else:
            network = DFlash2(shape, shape.selector) if shape.selector else DFlash(shape)
        scale = shape.embedding_scale
        if scale is None:
            strict = folder.kind == "dspark"
            scale = embedding_scale(target.model) if strict else _scale_of_raw(target)
        return _bind(network, shape, tensors, target=target, folder=folder, scale=scale)


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
    kept = take_kept(tensors)
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
