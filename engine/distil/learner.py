"""The protocol of a kind of drafter that learns: a network, its loss, and how it drafts.

Everything else about a distillation is the same for all kinds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, Self

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from engine.conversation.loading import LoadedModel
from engine.distil.loss import Batch
from engine.distil.store import RecordedAnswer


@dataclass(frozen=True, slots=True)
class Rates:
    """Learning rates: `inner` of the matrices inside, `outer` of output rows and vectors."""

    inner: float
    outer: float


class Learner(Protocol):
    """A drafter's network that learns.

    `kind`: its name in the settings of a distillation. `network`: its output layers are named
    `output` or `lm_head`. `kept` (rows,): the token id of each of their rows; `borrows`: whether it
    has rows for the other tokens of a text too. `rates`: at their highest, which is soon after the
    beginning.
    """

    kind: ClassVar[str]

    @property
    def rates(self) -> Rates: ...

    @property
    def network(self) -> nn.Module: ...

    @property
    def kept(self) -> mx.array: ...

    @property
    def borrows(self) -> bool: ...

    @classmethod
    def weights(cls, model: nn.Module, *, rows: int) -> int:
        """The number of weights of a network for the target `model`."""

    @classmethod
    def begin(cls, target: LoadedModel, kept: mx.array) -> Self:
        """Make an untrained learner. Raises `Problem`."""

    def steps(self, share: float) -> int:
        """The number of tokens ahead in the loss, with `share` (0 to 1) of the training done."""

    def loss(self, batch: Batch, steps: int) -> mx.array:
        """The loss of predictions of up to `steps` tokens: a mean, in nats."""

    def chains(self, answer: RecordedAnswer, length: int) -> Iterator[np.ndarray]:
        """Yield the first, second, ... of up to `length` tokens drafted greedily at every position.

        Position j drafts behind x[j + 1], so there are two positions fewer than tokens.
        """

    def save(self, folder: Path, *, target: str, fingerprint: str) -> None:
        """Write the drafter. Raises OSError or RuntimeError if there is no room."""
