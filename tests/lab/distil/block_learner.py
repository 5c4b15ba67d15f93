"""Teaches a block drafter (DFlash, arXiv 2602.06036), which drafts a block of tokens in one pass.

A block may begin at every position of an answer. It sees the target's states up to there, the token
behind them, which is its anchor, and its own rows. The blocks of an answer are read as a batch;
they share the context, of which each sees its own part.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from engine.conversation.loading import LoadedModel
from engine.core.model_parts import embedding, embedding_scale, final_norm, output_rows
from engine.device import fetch
from engine.distil.learner import Rates
from engine.distil.loss import FURTHER, Batch, soft_cross_entropy
from engine.distil.store import RecordedAnswer
from engine.drafters.block import ContextCache
from engine.drafters.dflash import BlockAttention, BlockLayer, DFlash
from engine.drafters.export import BITS, GROUP_SIZE, packed, write_drafter
from engine.drafters.head_network import shape_for
from models.drafters.blocks import BlockShape, Rotation

WEIGHTS_NAME = "model.safetensors"
_LAYERS = 2
_BLOCK = 5  # rows: the anchor and four masks
_AT_FIRST = 0.25  # of the target's final norm: with all of it an untrained network is too sure


class SharedContext(ContextCache):
    """Stands in for a layer's cache: the context of all blocks of an answer.

    `seen` (blocks, 1, rows, context + rows): the mask of each block.
    """

    def __init__(self, seen: mx.array) -> None:
        self.seen = seen
        self._keys: mx.array | None = None
        self._values: mx.array | None = None

    def append(self, keys: mx.array, values: mx.array) -> None:
        self._keys, self._values = keys, values

    def beside(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        assert self._keys is not None
        assert self._values is not None
        shared = (
            mx.broadcast_to(part, (keys.shape[0], *part.shape[1:]))
            for part in (self._keys, self._values)
        )
        (all_keys, all_values) = (
            mx.concatenate([part, own], axis=2)
            for part, own in zip(shared, (keys, values), strict=True)
        )
        return all_keys, all_values


class LearningAttention(BlockAttention):
    """Attention of many blocks at once, with the masks of their `SharedContext`."""

    def __call__(self, x: mx.array, position: int | mx.array, cache: ContextCache) -> mx.array:
        assert isinstance(cache, SharedContext)
        self._seen = cache.seen
        return super().__call__(x, position, cache)

    def visible(self, context: int, rows: int) -> mx.array | None:
        return self._seen


class LearningLayer(BlockLayer):
    def __init__(self, shape: BlockShape, index: int) -> None:
        super().__init__(shape, index)
        self.self_attn = LearningAttention(shape, index)


@dataclass(frozen=True, slots=True)
class BlockLearner:
    """A block drafter that learns.

    Of the target: `embedding`, the `scale` of embeddings, and its numbers of `layers` and of logits
    (`vocabulary`).
    """

    kind: ClassVar[str] = "block"
    network: DFlash
    shape: BlockShape
    kept: mx.array
    embedding: nn.Module
    scale: float
    layers: int
    vocabulary: int

    @property
    def borrows(self) -> bool:
        return False

    @property
    def rates(self) -> Rates:
        return Rates(0.03, 1e-3)

    @classmethod
    def weights(cls, model: nn.Module, *, rows: int) -> int:
        shape = _shape(model, mask=0)
        width, dim = shape.hidden_size, shape.head_dim
        attention = 2 * width * dim * (shape.num_attention_heads + shape.num_key_value_heads)
        layer = attention + 3 * width * shape.intermediate_size
        return len(shape.taps) * width**2 + _LAYERS * layer + width * rows

    @classmethod
    def begin(cls, target: LoadedModel, kept: mx.array) -> Self:
        """Begin close to the target: the context is its last state, the output has its rows."""
        model = target.model
        shape = _shape(model, mask=min(target.ends, default=0))
        network, width = DFlash(shape, LearningLayer), shape.hidden_size
        last = mx.concatenate([mx.zeros((width, (len(shape.taps) - 1) * width)), mx.eye(width)], 1)
        network.fc.weight = 0.3 * network.fc.weight + last
        for layer in network.layers:
            layer.self_attn.o_proj.weight = mx.zeros_like(layer.self_attn.o_proj.weight)
            layer.mlp.down_proj.weight = mx.zeros_like(layer.mlp.down_proj.weight)
        network.lm_head = nn.Linear(width, kept.size, bias=False)
        network.lm_head.weight = output_rows(model, kept).astype(mx.float32)
        norm = final_norm(model)
        if isinstance(norm, nn.RMSNorm):
            network.norm.weight = _AT_FIRST * norm.weight.astype(mx.float32)
        mx.eval(network.parameters())
        vocabulary: int = model(mx.zeros((1, 1), dtype=mx.int32)).shape[-1]
        return cls(
            network,
            shape,
            kept,
            embedding(model),
            embedding_scale(model),
            len(model.layers),
            vocabulary,
        )

    def steps(self, share: float) -> int:
        return self.shape.most

    def loss(self, batch: Batch, steps: int) -> mx.array:
        """The sum of the cross entropies of a block's places; further places have less weight.

        Each token is predicted once, as blocks begin a block's length apart; the first beginning
        changes from batch to batch.
        """
        first = len(batch.rank) % steps
        begins = np.flatnonzero(batch.rank % steps == first)
        if not begins.size:  # all answers are too short
            begins = np.flatnonzero(batch.rank == 0)
        tail = batch.states.shape[1] - batch.lead
        sequence, position = np.divmod(batch.predicting[begins], tail)
        position = position + batch.lead
        states = []
        for i in np.unique(sequence):
            skipped, last = int(batch.padding[i]), int(position[sequence == i].max())
            states.append(
                self._read(
                    batch.states[int(i), skipped : last + 1],
                    batch.after[int(i)],
                    position[sequence == i],
                    skipped,
                )
            )
        read = mx.concatenate(states)
        total = mx.array(0.0)
        for k in range(steps):
            told = begins + k
            inside = told < len(batch.rank)
            inside[inside] = batch.rank[told[inside]] == batch.rank[begins[inside]] + k
            if not inside.any():
                break
            blocks, counted = mx.array(np.flatnonzero(inside)), mx.array(told[inside])
            entropy = soft_cross_entropy(
                read[blocks, k],
                self.network.lm_head.weight,
                batch.rows[counted],
                batch.chances[counted],
            )
            total = total + FURTHER**k * entropy
        return total

    def chains(self, answer: RecordedAnswer, length: int) -> Iterator[np.ndarray]:
        positions = len(answer.tokens) - 2
        read = self._read(
            answer.states[:positions].astype(mx.float32),
            mx.array(answer.tokens[1:-1]),
            np.arange(positions),
            0,
        )
        for place in range(min(length, self.shape.most)):
            drafted = mx.argmax(self.network.lm_head(read[:, place]), axis=-1)
            yield np.array(fetch(self.kept[drafted])[0])

    def save(self, folder: Path, *, target: str, fingerprint: str) -> None:
        save_dflash(
            self.network,
            self.shape,
            self.kept,
            folder,
            target=target,
            fingerprint=fingerprint,
            layers=self.layers,
            vocabulary=self.vocabulary,
        )

    def _read(
        self, states: mx.array, after: mx.array, begins: np.ndarray, skipped: int
    ) -> mx.array:
        """The normed states of the places of some blocks, (blocks, places, width).

        `states` (n, taps, width) of an answer; `after`: the tokens behind its positions. A block
        begins behind each position in `begins`, which also counts `skipped` positions without
        states.
        """
        anchors = after[mx.array(begins)][:, None].astype(mx.int32)
        masks = mx.full((len(begins), self.shape.block_size - 1), self.shape.mask_token, mx.int32)
        ids = mx.concatenate([anchors, masks], axis=1)
        embedded = self.embedding(ids).astype(mx.float32) * self.scale
        begins = begins - skipped
        shared = SharedContext(self._seen(begins, states.shape[0]))
        cache: list[ContextCache] = [SharedContext(shared.seen) for _ in self.network.layers]
        self.network.extend(states[None], 0, cache)
        x = self.network(mx.stop_gradient(embedded), mx.array(begins + 1), cache)
        normed: mx.array = self.network.norm(x[:, self.shape.first_slot :])
        return normed

    def _seen(self, begins: np.ndarray, context: int) -> mx.array:
        """The mask (blocks, 1, rows, context + rows): a row sees the context before its block, and
        the rows of the block up to itself."""
        rows = self.shape.block_size
        before = np.arange(context) <= begins[:, None, None, None]
        before = np.broadcast_to(before, (len(begins), 1, rows, context))
        own = np.broadcast_to(np.tri(rows, dtype=bool), (len(begins), 1, rows, rows))
        return mx.array(np.concatenate([before, own], axis=-1))


def _shape(model: nn.Module, *, mask: int) -> BlockShape:
    """The shape: as wide as the target, reading the layers that a head reads."""
    head = shape_for(model, rows=1)
    return BlockShape(
        hidden_size=head.hidden_size,
        target_width=head.hidden_size,
        taps=head.layers,
        num_attention_heads=head.num_attention_heads,
        num_key_value_heads=head.num_key_value_heads,
        head_dim=head.head_dim,
        intermediate_size=head.intermediate_size,
        rms_norm_eps=head.rms_norm_eps,
        rotation=Rotation(dims=head.head_dim, base=head.rope_theta),
        windows=(None,) * _LAYERS,
        causal=(True,) * _LAYERS,
        block_size=_BLOCK,
        mask_token=mask,
    )


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
        "quantization": {"group_size": GROUP_SIZE, "bits": BITS},
    }
    write_drafter(folder, WEIGHTS_NAME, tensors, config)
