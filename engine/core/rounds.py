"""The values of a round: the answer to write, the pass that is asked for, draft and verdict."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Protocol

import mlx.core as mx

from engine.core.batch import read_together
from engine.core.decoder import Decoder
from engine.core.round_clock import RoundClock
from engine.draft_length import Reason
from engine.request import Sampling
from engine.tree import Tree

NO_LIMIT = sys.maxsize


class Constraint(Protocol):
    """The rules for one answer: of a grammar (`engine.core.grammar`), or also of its reasoning
    (`engine.conversation.thought`).

    `forcing`: whether tokens may be forced after the next one. `room`: the tokens that can be
    written until some are forced at a known place.
    """

    forcing: bool
    room: int

    def forced(self, most: int) -> list[int]:
        """Up to `most` tokens that are forced next."""

    def allowed(self, drafted: list[int]) -> int:
        """The length of the longest prefix of `drafted` that the grammar allows."""

    def masks(self, drafted: list[int]) -> mx.array | None:
        """Truth values, (len(drafted) + 1, vocabulary): the tokens that are allowed after each
        prefix of a draft, the empty one first. None if all are, everywhere."""

    def commit(self, tokens: list[int]) -> None:
        """Take `tokens` as committed."""


class Unconstrained:
    """Allows every token."""

    forcing = False
    room = NO_LIMIT

    def forced(self, most: int) -> list[int]:
        return []

    def allowed(self, drafted: list[int]) -> int:
        return len(drafted)

    def masks(self, drafted: list[int]) -> mx.array | None:
        return None

    def commit(self, tokens: list[int]) -> None:
        pass


@dataclass(slots=True)
class Company:
    """The other answers that are written at the same time. The scheduler changes it while the loop
    runs.

    `in_turns`: nothing may be under way while others have their turn. `others`: the number of other
    answers that share the target's passes.
    """

    in_turns: bool = False
    others: int = 0


@dataclass(frozen=True, slots=True)
class Task:
    """An answer to write: at most `max_tokens` tokens, up to a token of `ends`.

    `logprobs`: as in `engine.request.Request`. `clock`: gives the seconds of the rounds; it may
    stop while the answer waits for its turn.
    """

    sampling: Sampling
    seed: int
    max_tokens: int
    ends: frozenset[int]
    constraint: Constraint = field(default_factory=Unconstrained)
    logprobs: int | None = None
    company: Company = field(default_factory=Company)
    clock: Callable[[], float] = lambda: perf_counter()  # looked up at each call, for tests


@dataclass(slots=True)
class Pass:
    """Asks for a pass of the target over `tokens`. The loop goes on once `logits` are set.

    `clock`: of the round. `tree`: the shape of `tokens`; None for a chain. The scheduler of several
    loops sets the rest. Of a shared pass, `others`: the number of other loops in it; `rows`: all
    its rows.
    """

    tokens: mx.array
    clock: RoundClock
    tree: Tree | None = None
    logits: mx.array | None = None
    rows: int = 0
    others: int = 0

    def make(self, target: Decoder) -> None:
        """Make a pass of its own. On a GPU its first layers are under way then."""
        with self.clock.building():
            (self.logits,) = read_together([target], [self.tokens], [self.tree])
        target.begin(self.logits)


@dataclass(frozen=True, slots=True)
class RoundDraft:
    """A round's draft before it is verified: token ids, and the drafter's probability of each.

    `confidence`: the drafter's estimate of each token's chance to be accepted; empty if q is the
    only one. `parents`: of a tree, see `engine.tree`; empty for a chain. `source` as in
    `DraftArrays`.
    """

    tokens: list[int]
    q: list[float]
    drafter: str
    confidence: list[float] = field(default_factory=list)
    parents: tuple[int, ...] = ()
    source: int | None = None


@dataclass(frozen=True, slots=True)
class Logprob:
    """A committed token's log probability, and the likeliest tokens in its place with theirs."""

    own: float
    top: list[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class RoundVerdict:
    """A round's verdict: the drafted tokens on `path` are accepted, `own` is the target's.

    `path` has the numbers of tokens; of a chain, the first ones. `p` and `chance` have one entry
    per drafted token. `own` is None if an accepted token ended the text; `own_p` is its
    probability. `committed`: the accepted tokens and `own`. `logprobs`, where they are asked for,
    has one entry per committed token. `parents` as in `RoundDraft`. `edge` as in `MeasuredRound`.
    """

    path: tuple[int, ...]
    own: int | None
    committed: list[int]
    p: list[float]
    chance: list[float]
    own_p: float
    draft_seconds: float
    verify_seconds: float
    reason: Reason
    logprobs: list[Logprob] = field(default_factory=list)
    parents: tuple[int, ...] = ()
    edge: bool = False

    @property
    def accepted(self) -> int:
        """The number of accepted tokens."""
        return len(self.path)


@dataclass(frozen=True, slots=True)
class RoundForced:
    """A round without draft or pass: only the `committed` tokens are allowed.

    `with_logprobs`: whether log probabilities are asked for; each is 0.
    """

    committed: list[int]
    with_logprobs: bool


Round = RoundDraft | RoundVerdict | RoundForced
