"""Drafters propose the next tokens of the target: one file each, with one small protocol.

A drafter sees the committed tokens, proposes a few more, and learns which were accepted. It
may be arbitrarily wrong: acceptance makes the text the target's own. For that to be exact, it must
give each drafted token together with the distribution that it was drawn from.

A draft is a chain, or a tree with alternatives (`engine.tree`). A drafter that reads the target's
hidden states gets them from `Decoder.record`, not through this protocol.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import mlx.core as mx

from engine.core.decoder import Decoder
from engine.draft_length import DraftCandidate, DraftChoice
from engine.request import Sampling
from engine.tree import Tree
from models.drafters.refusal import DrafterRefused as DrafterRefused


@dataclass(frozen=True, slots=True)
class DraftArrays:
    """A draft, as arrays that are still on the device.

    `tokens`: (n,) int32, n >= 1. `q`: (n,) float32, the probability of each, to be shown.
    `distributions`: (n, target's vocabulary), the distribution that each was drawn from, after the
    sampler chain. Alternatives are drawn without replacement, so a later one gives those before it
    probability 0. None if the drafter was certain (q = 1). Not used at temperature 0.

    `tree`: the shape of the draft; None for a chain. `drafter`: its name. `match`: the number of
    tokens that matched, if it copies. `confidence`: (n,), the drafter's own estimate of each
    token's chance to be accepted; None if q is its only estimate. `copied`: the ids of the tokens,
    if they were copied and the drafter is certain; otherwise empty. `source`: the place in the
    committed tokens that the first path was copied from; None if it was copied from anywhere else.
    """

    tokens: mx.array
    q: mx.array
    distributions: mx.array | None
    drafter: str
    match: int = 0
    confidence: mx.array | None = None
    copied: tuple[int, ...] = ()
    tree: Tree | None = None
    source: int | None = None

    @property
    def shape(self) -> Tree:
        """The shape of the draft: a tree, or a chain as a tree with one path."""
        return self.tree or Tree.chain(self.tokens.size)

    def first(self, count: int) -> "DraftArrays":
        """Return the first `count` tokens of a copied draft."""
        return replace(
            self,
            tokens=self.tokens[:count],
            q=self.q[:count],
            copied=self.copied[:count],
            tree=self.tree and self.tree.first(count),
        )

    @property
    def shown(self) -> tuple[mx.array, ...]:
        """The arrays that are shown before the verdict: tokens, q and, if there is one, confidence.
        All are attributes: an array made here would not be under way when the others are."""
        held = self.tokens, self.q
        return held if self.confidence is None else (*held, self.confidence)


class Drafter(Protocol):
    """Sees the committed tokens, proposes more, and learns the verdict.

    A new kind has `candidates`, `propose` and `fork`. The other methods do nothing here, for
    kinds that need no more: many look at `tokens` in `propose` alone.

    In each round the loop calls `candidates`, `propose`, `learn` and `accept` in this order, in a
    plain one `candidates` and `learn`. `rewind` may come between any two calls.

    Attributes: `name`, one word, shown to people; `learns`, how many of the target's likeliest
    tokens `learn` gets for each row of a pass; `dropped`, the names of drafters that were switched
    off, because they computed NaN or infinity.
    """

    name: str
    learns: int = 0
    dropped: frozenset[str] = frozenset()

    # See

    def leave_out(self, skippable: Callable[[], Sequence[range]]) -> None:
        """Called before each prompt. `skippable` finds the tokens that no drafter can read: the
        rows of pictures. Only a drafter that is a whole model calls it."""
        return None

    def prepare(self, tokens: list[int]) -> Iterator[int]:
        """Read a prompt, in steps short enough to cancel between. Yields the tokens read so far."""
        return iter(())

    def rewind(self, length: int) -> None:
        """Forget all but the first `length` committed tokens."""
        return None

    def fork(self, target: Decoder) -> "Drafter":
        """Return a drafter with the same weights for another conversation, which `target` reads.
        If `target` has read something, it is a copy of this one's target: a drafter that reads much
        then returns a copy of itself, so that it does not read that again."""

    # Propose

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        """Return the drafts that are possible after the committed `tokens`, without asking the
        device."""

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        """Draft up to `choice.length` tokens after `tokens`; None if there is nothing to
        propose."""

    # Learn

    def learn(self, tokens: list[int], likeliest: list[list[int]]) -> None:
        """Learn from a pass of the target over `tokens`: committed ones, then the last draft, if
        any. `likeliest` has the `learns` likeliest tokens after each of them."""
        return None

    def accept(self, path: Sequence[int]) -> None:
        """Note that the tokens of the last draft with the numbers in `path` were accepted, in this
        order."""
        return None


class NoDrafter(Drafter):
    """Proposes nothing: plain decoding, the baseline."""

    name = "none"

    def fork(self, target: Decoder) -> Drafter:
        return self

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        return ()

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        return None
