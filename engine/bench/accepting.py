"""What judging a draft costs by itself: it happens within a pass, where no clock can see it.

The engine's own loop runs on models that answer at once with logits that are there already. What
it then calls verifying is acceptance: the sampler chain, the rule, the replacement's draw. Told
apart from a pass this way it is an estimate, and the report says so.
"""

import statistics
from dataclasses import dataclass
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

from engine.decoder import Decoder
from engine.draft_length.policy import Fixed
from engine.drafters.model import ModelDrafter
from engine.request import Sampling
from engine.speculate import RoundVerdict, Rule, Task, speculate

_LENGTHS = (1, 8)  # of drafts, for a line through both
_ROUNDS = 12
_WARM_UP = 3


@dataclass(frozen=True, slots=True)
class AcceptCost:
    """Seconds to judge a round at this temperature: some for each, and some for each row."""

    temperature: float
    round_seconds: float
    row_seconds: float

    def seconds(self, *, rounds: int, rows: int) -> float:
        """For so many rounds with so many rows in all."""
        return rounds * self.round_seconds + rows * self.row_seconds


class _AnswersAtOnce:
    """A model without layers: row i of any pass is row i of what it was given."""

    def __init__(self, logits: mx.array) -> None:
        self._logits = logits
        self.layers: list[Any] = []

    def __call__(self, tokens: mx.array, cache: object = None) -> mx.array:
        return self._logits[None, : tokens.shape[1]]


def accept_cost(*, vocabulary: int, temperature: float, rule: Rule, dtype: mx.Dtype) -> AcceptCost:
    """Measured on logits of this `dtype` and width."""
    logits = mx.random.normal((max(_LENGTHS) + 2, vocabulary), key=mx.random.key(0)).astype(dtype)
    mx.eval(logits)
    sampling = Sampling(temperature=temperature, seed=0)
    times = [_round_seconds(logits, length, sampling, rule) for length in _LENGTHS]
    row = max(0.0, times[1] - times[0]) / (_LENGTHS[1] - _LENGTHS[0])
    return AcceptCost(temperature, max(0.0, times[0] - (_LENGTHS[0] + 1) * row), row)


def _round_seconds(logits: mx.array, length: int, sampling: Sampling, rule: Rule) -> float:
    model = cast(nn.Module, _AnswersAtOnce(logits))
    target = Decoder(model)
    drafter = ModelDrafter(Decoder(model), vocabulary=target.vocabulary)
    task = Task(
        sampling=sampling,
        seed=0,
        max_tokens=_ROUNDS * (length + 1),
        ends=frozenset(),
        accept=rule,
    )
    seconds = [
        item.verify_seconds
        for item in speculate(target, drafter, Fixed(length), [0, 0], task)
        if isinstance(item, RoundVerdict) and len(item.p) == length
    ]
    return statistics.median(seconds[_WARM_UP:] or seconds)
