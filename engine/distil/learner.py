"""What learns to draft: a network of one of the kinds, with its loss and its way to draft.

Everything else about a distillation is the same for all kinds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, Self

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from engine.distil.loss import Batch
from engine.distil.store import RecordedAnswer
from engine.loading import LoadedModel


@dataclass(frozen=True, slots=True)
class Rates:
    """How far a step goes: `inner` of the matrices inside, `outer` of output rows and vectors."""

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
        """How many weights one for the target `model` has."""

    @classmethod
    def begin(cls, target: LoadedModel, kept: mx.array) -> Self:
        """One that has learned nothing. Raises `Problem`."""

    def steps(self, share: float) -> int:
        """How many tokens ahead the loss looks with `share` (0 to 1) of the training done."""

    def loss(self, batch: Batch, steps: int) -> mx.array:
        """How far predictions of up to `steps` tokens are off: a mean, in nats."""

    def chains(self, answer: RecordedAnswer, length: int) -> Iterator[np.ndarray]:
        """The first, second, ... of up to `length` tokens drafted greedily at every position.

        Position j stands for what is drafted when x[j + 1] is the newest token; there are two
        fewer than tokens.
        """

    def save(self, folder: Path, *, target: str, fingerprint: str) -> None:
        """Write the drafter. Raises OSError or RuntimeError where there is no room."""
