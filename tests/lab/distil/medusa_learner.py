"""Teaches Medusa's heads: each predicts the token at its own distance, all from the same states."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from engine.conversation.loading import LoadedModel
from engine.core.model_parts import embedding, final_norm, output_rows
from engine.device import fetch
from engine.distil.learner import Rates
from engine.distil.loss import FURTHER, Batch, soft_cross_entropy
from engine.distil.store import RecordedAnswer
from engine.drafters.export import BITS, GROUP_SIZE, packed, write_drafter
from engine.drafters.medusa import MEDUSA_WEIGHTS_NAME, MedusaHeads
from models.drafters.medusa import MedusaShape

_HEADS, _LAYERS = 4, 1


@dataclass(frozen=True, slots=True)
class MedusaLearner:
    """Medusa heads that learn. `norm`: the target's final norm; `vocabulary`: its number of logits.

    The heads read the last of an answer's recorded states, those behind the target's last layer.
    """

    kind: ClassVar[str] = "medusa"
    network: MedusaHeads
    kept: mx.array
    norm: nn.Module
    vocabulary: int

    @property
    def borrows(self) -> bool:
        return False

    @property
    def rates(self) -> Rates:
        return Rates(0.03, 2e-3)

    @classmethod
    def weights(cls, model: nn.Module, *, rows: int) -> int:
        width = _width(model)
        return _HEADS * width * (_LAYERS * width + rows)

    @classmethod
    def begin(cls, target: LoadedModel, kept: mx.array) -> Self:
        """Begin with the target's output layer in each head: it predicts like the target."""
        model = target.model
        network = MedusaHeads(MedusaShape(_width(model), _HEADS, _LAYERS, kept.size))
        for head in network.heads:
            head.output.weight = output_rows(model, kept).astype(mx.float32)
        mx.eval(network.parameters())
        vocabulary: int = model(mx.zeros((1, 1), dtype=mx.int32)).shape[-1]
        return cls(network, kept, final_norm(model), vocabulary)

    def steps(self, share: float) -> int:
        return len(self.network.heads)

    def loss(self, batch: Batch, steps: int) -> mx.array:
        """The sum of the heads' cross entropies; further heads have less weight (Medusa, 2.2).

        Head k predicts the token k places behind a position's first prediction.
        """
        last = batch.states[:, batch.lead :, -1]
        states = self._normed(last.reshape(-1, last.shape[-1])[mx.array(batch.predicting)])
        total = mx.array(0.0)
        for k, head in enumerate(self.network.heads[:steps]):
            far = np.flatnonzero(batch.rank >= k)
            if not far.size:  # no answer is so long
                break
            predicted, read = mx.array(far), mx.array(far - k)
            entropy = soft_cross_entropy(
                head.residual(states[read]),
                head.output.weight,
                batch.rows[predicted],
                batch.chances[predicted],
            )
            total = total + FURTHER**k * entropy
        return total

    def chains(self, answer: RecordedAnswer, length: int) -> Iterator[np.ndarray]:
        states = self._normed(answer.states[: len(answer.tokens) - 2, -1].astype(mx.float32))
        for head in self.network.heads[:length]:
            yield np.array(fetch(self.kept[mx.argmax(head(states), axis=-1)])[0])

    def save(self, folder: Path, *, target: str, fingerprint: str) -> None:
        save_medusa(
            self.network,
            self.kept,
            folder,
            target=target,
            fingerprint=fingerprint,
            vocabulary=self.vocabulary,
        )

    def _normed(self, states: mx.array) -> mx.array:
        normed: mx.array = self.norm(states)
        return mx.stop_gradient(normed.astype(mx.float32))


def _width(model: nn.Module) -> int:
    width: int = embedding(model)(mx.zeros((1,), dtype=mx.int32)).shape[-1]
    return width


def save_medusa(
    network: MedusaHeads,
    kept: mx.array,
    folder: Path,
    *,
    target: str,
    fingerprint: str,
    vocabulary: int,
) -> None:
    """Write `folder`, 8-bit. `kept` (rows,): the token of each row; `target` is a name for people,
    `fingerprint` is what counts, `vocabulary` its number of logits."""
    layers = len(network.heads[0].blocks)
    tensors = {_published(name, layers): array for name, array in packed(network).items()}
    tensors["d2t"] = (kept - mx.arange(kept.size)).astype(mx.int32)
    config = {
        "model_type": "medusa",
        "medusa_num_heads": len(network.heads),
        "medusa_num_layers": layers,
        "hidden_size": network.heads[0].output.weight.shape[1],
        "vocab_size": vocabulary,
        "draft_vocab_size": kept.size,
        "base_model_name_or_path": target,
        "target_fingerprint": fingerprint,
        "quantization": {"group_size": GROUP_SIZE, "bits": BITS},
    }
    write_drafter(folder, MEDUSA_WEIGHTS_NAME, tensors, config)


def _published(name: str, layers: int) -> str:
    """heads.K.blocks.I.linear.weight is published as K.I.linear.weight, and heads.K.output.weight
    as K.LAYERS.weight."""
    _, head, part, *rest = name.split(".")
    inner = rest if part == "blocks" else [str(layers), *rest]
    return ".".join([head, *inner])
