"""DFlash and DFlash2: the networks that draft a block of tokens in one pass.

DFlash (arXiv 2602.06036): the target's states of a few layers, fused into one, are the context of
a few Qwen3 layers. The block's rows attend to the context and to each other; keys and values of
both are made by the same weights. Tokens are embedded, and states read out, by the target's own
layers. DFlash2 adds short causal convolutions within the block around attention and feedforward,
and chooses among the likeliest 16 tokens of a slot by what the token before it is.
"""

from collections.abc import Callable

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.cache import KVCache
from mlx_lm.models.gemma3_text import MLP as GemmaFeedforward
from mlx_lm.models.qwen3 import MLP as Feedforward
from mlx_lm.models.rope_utils import initialize_rope

from engine.core.cache import copy_of
from engine.core.sampling import highest_ids
from engine.core.split_attention import attend
from models.drafters.blocks import BlockShape, Rotation, SelectorShape
from models.limits import BLOCK_CONTEXT, SPARE_CONTEXT

Confidence = Callable[[mx.array], mx.array]


def _rotary(rotation: Rotation) -> nn.Module:
    """Return the layer that rotates queries and keys by their positions."""
    scaling = None if rotation.scaling is None else dict(rotation.scaling)
    return initialize_rope(
        rotation.dims, rotation.base, rotation.interleaved, scaling, rotation.longest
    )


class ContextCache:
    """One layer's keys and values of the newest context positions.

    A block sees `shown` of them; some more are held, so that a little can be taken back.
    """

    def __init__(self, shown: int) -> None:
        self._shown = shown
        self._held = KVCache()

    def copy(self) -> "ContextCache":
        """Return a copy, which can be continued in another way."""
        other = ContextCache(self._shown)
        other._held = copy_of(self._held)
        return other

    @property
    def state(self) -> list[mx.array]:
        """The keys and values that are held."""
        return [] if self._held.empty() else [self._held.keys, self._held.values]

    def append(self, keys: mx.array, values: mx.array) -> None:
        """Append the keys and values of the next positions, (1, heads, n, dim) each."""
        keys, values = self._held.update_and_fetch(keys, values)
        if self._held.offset > self._shown + 2 * SPARE_CONTEXT:
            kept = self._shown + SPARE_CONTEXT
            self._held.state = keys[..., -kept:, :], values[..., -kept:, :], kept

    def with_block(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Return the shown context's keys and values, then the block's own, which are not kept."""
        first = max(self._held.offset - self._shown, 0)
        all_keys, all_values = self._held.update_and_fetch(keys, values)
        self._held.trim(keys.shape[2])
        return all_keys[..., first:, :], all_values[..., first:, :]

    def cut(self, positions: int) -> None:
        """Forget the newest `positions`."""
        self._held.trim(positions)


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
        self._shown = BLOCK_CONTEXT if window is None else window - (not shape.shared_windows)
        self._causal = shape.causal[index]
        self._rotate = _rotary(shape.rotation)

    @property
    def shown(self) -> int:
        """The number of context positions that a row may see."""
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
        keys, values = cache.with_block(*self._keys_and_values(x, position))
        mixed = attend(
            mx.fast.scaled_dot_product_attention,
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
        """Return the mask (rows, context + rows) of the keys that each row sees; None for all."""
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
        """Return the states of blocks' embedded rows, (blocks, rows, width), not yet normed.

        `position`: of each block's first row.
        """
        for layer, each in zip(self.layers, cache, strict=True):
            x = layer(x, position, each)
        return x

    def slots(self, states: mx.array, logits: mx.array) -> "Slots":
        """Return the normed states (n, width) and logits (n, rows) of the block's slots."""
        return Slots(logits)


class Slots:
    """The slots of a block that was read, from which tokens are drawn in turn. Here their logits,
    (n, rows), do not depend on each other's tokens."""

    def __init__(self, logits: mx.array) -> None:
        self._logits = logits
        self._slot = -1

    @property
    def confidence(self) -> Confidence | None:
        """Return the network's own estimate that the token drawn last is accepted: (1,) to (1,).

        None if the network makes no estimate."""
        return None

    def read(self, previous: mx.array) -> mx.array:
        """Return the next slot's logits, (1, rows), after the token `previous`, (1,)."""
        self._slot += 1
        return self._logits[self._slot : self._slot + 1]


class DynamicConvolution(nn.Module):
    """Mixes each row of a block with those before it, by kernels that depend on the row.

    Each row has two kernels, for before and after a sublayer. A kernel is the sum of a fixed part
    for each channel, and of a part for each group of channels that the row itself gives.
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
        """Return `x`, (1, n, width), with each row mixed by its kernel in `kernel`, (1, n, reach,
        width), whose k-th entry weighs the row k places before."""
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
        """Return the score that each of `candidates`, (1, k), gains after `previous`, (1,).

        `projected` is (1, rank), the slot's state by `hidden_projection`.
        """
        context = self.predecessor_codebook(mx.minimum(previous, self._last)) * projected
        return (self.successor_codebook(candidates) @ context[..., None])[..., 0]


class DFlash2(DFlash):
    """The network of a DFlash2: a DFlash with convolutions, and with a selector of candidates for
    each slot."""

    def __init__(self, shape: BlockShape, sizes: SelectorShape) -> None:
        reach, group = sizes.reach, sizes.group
        super().__init__(
            shape, lambda shape, index: MixedLayer(shape, index, reach=reach, group=group)
        )
        self.candidate_selector = CandidateSelector(
            shape.hidden_size, rank=sizes.rank, vocabulary=sizes.vocabulary
        )
        self._candidates = sizes.candidates

    def slots(self, states: mx.array, logits: mx.array) -> "Slots":
        return SelectedSlots(self.candidate_selector, states, logits, self._candidates)


class SelectedSlots(Slots):
    """Slots where one of the likeliest `count` tokens is drawn, scored by the one before it."""

    def __init__(
        self, selector: CandidateSelector, states: mx.array, logits: mx.array, count: int
    ) -> None:
        super().__init__(logits)
        self._selector = selector
        self._candidates = highest_ids(logits, count)
        self._projected = selector.hidden_projection(states).astype(mx.float32)

    def read(self, previous: mx.array) -> mx.array:
        logits = super().read(previous)
        here = slice(self._slot, self._slot + 1)
        candidates = self._candidates[here]
        scores = mx.take_along_axis(logits, candidates, axis=-1)
        scores = scores + self._selector.bonus(previous, self._projected[here], candidates)
        impossible = mx.full(logits.shape, -mx.inf)
        return mx.put_along_axis(impossible, candidates, scores.astype(mx.float32), axis=-1)
