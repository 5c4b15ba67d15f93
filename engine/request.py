"""A request: a chat, how tokens are chosen, where the answer ends. Knows no MLX.

Values are checked when a request is made: one that is out of range raises a `Problem`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from models.errors import Problem

Role = Literal["system", "user", "assistant"]
Overflow = Literal["stop", "rolling", "middle"]
"""What becomes of a conversation that is longer than the model's context: it is refused; its oldest
turns are not read; its first turn is read, and those behind it are not."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a chat."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen. Temperature 0 is greedy; 0 or 1 switches a filter off.

    `penalty_window` is how many of the latest tokens, prompt included, the penalties look at.
    `repetition_penalty` divides (CTRL, arXiv 1909.05858), the other two subtract (OpenAI).
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_window: int = 64
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None

    def __post_init__(self) -> None:
        limits: list[tuple[str, float, float, float]] = [
            ("temperature", self.temperature, 0.0, 100.0),
            ("top_k", self.top_k, 0, math.inf),
            ("top_p", self.top_p, 0.0, 1.0),
            ("min_p", self.min_p, 0.0, 1.0),
            ("repetition_penalty", self.repetition_penalty, 0.01, 100.0),
            ("presence_penalty", self.presence_penalty, -100.0, 100.0),
            ("frequency_penalty", self.frequency_penalty, -100.0, 100.0),
            ("penalty_window", self.penalty_window, 1, 1 << 20),
        ]
        for name, value, low, high in limits:
            if not low <= value <= high:
                raise Problem(f"{name} is {value}.", f"Choose a value from {low:g} to {high:g}.")
        if 0.0 < self.temperature < 0.001:
            raise Problem(f"temperature is {self.temperature}.", "Choose 0 (greedy) or 0.001 up.")
        if not isinstance(self.top_k, int) or not isinstance(self.penalty_window, int):
            raise Problem("top_k or penalty_window is not whole.", "Choose whole numbers.")
        for token, bias in self.logit_bias.items():
            if token < 0 or not math.isfinite(bias):
                raise Problem(
                    f"logit_bias has {token}: {bias}.", "Give token ids from 0 finite numbers."
                )
        if self.seed is not None and not 0 <= self.seed < 1 << 64:
            raise Problem(f"The seed is {self.seed}.", "Choose one from 0 to 2^64 - 1.")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0

    @property
    def filters(self) -> bool:
        return self.top_k > 0 or 0.0 < self.top_p < 1.0 or self.min_p > 0.0

    @property
    def penalizes(self) -> bool:
        return (
            self.repetition_penalty != 1.0
            or self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
        )


BALANCED = Sampling(temperature=0.7, top_p=0.9)
"""Some variety, nothing far-fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How to answer. `stops`: texts that end the answer and are not part of it.

    A `sampling` of None is the model's own default: see `engine.default_sampling`. `overflow` says
    what is left out of a conversation that is too long: see `engine.overflow`.
    """

    sampling: Sampling | None = field(default_factory=Sampling)
    max_tokens: int = 512
    stops: tuple[str, ...] = ()
    overflow: Overflow = "stop"

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise Problem(f"max_tokens is {self.max_tokens}.", "Give 1 or more.")
        try:
            "".join(self.stops).encode()
        except UnicodeEncodeError:
            raise Problem(
                "A stop text holds half a character.", "Give both halves of a surrogate pair."
            ) from None
