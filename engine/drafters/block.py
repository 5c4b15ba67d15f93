"""Drafts a block of tokens in one pass (DFlash, arXiv 2602.06036, DFlash2, DSpark).

A network keeps keys and values of the target's hidden states of all committed tokens but the
newest: the context. The newest token is the anchor; it and mask tokens after it are the slots of
a block, read in one pass that sees the context and itself, and leaves no trace in it. Then tokens
are drawn from slot to slot, each slot corrected by the token before it where the network can do so.
To take tokens back is to cut the context.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from engine.core.cache import copy_of
from engine.core.decoder import Decoder
from engine.device import wait
from engine.draft_length import DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter
from engine.drafters.chain import draft_chain
from engine.drafters.rows import Rows
from engine.request import Sampling
from models.drafters.kinds import Tap
from models.limits import PREFILL_ROWS, SPARE_CONTEXT


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

    def beside(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Return the shown context's keys and values, then the block's own, which are not kept."""
        first = max(self._held.offset - self._shown, 0)
        all_keys, all_values = self._held.update_and_fetch(keys, values)
        self._held.trim(keys.shape[2])
        return all_keys[..., first:, :], all_values[..., first:, :]

    def cut(self, positions: int) -> None:
        """Forget the newest `positions`."""
        self._held.trim(positions)


class Block(Protocol):
    """The slots of a block that was read, of which tokens are drawn one after the other."""

    @property
    def confidence(self) -> Callable[[mx.array], mx.array] | None:
        """Return the network's own estimate that the token drawn last is accepted: (1,) to (1,).

        None if the network makes no estimate."""

    def read(self, previous: mx.array) -> mx.array:
        """Return the next slot's logits, (1, rows), after the token `previous`, (1,)."""


class BlockNetwork(Protocol):
    """A network that drafts blocks for one target.

    Attributes: `taps`, which of the target's states it reads; `most`, tokens a block can propose;
    `rows` of its output, None if each of the target's tokens has its own.
    """

    @property
    def taps(self) -> tuple[Tap, ...]: ...

    @property
    def most(self) -> int: ...

    @property
    def rows(self) -> Rows | None: ...

    def make_cache(self) -> list[ContextCache]:
        """Return empty caches, one for each layer."""

    def extend(self, states: mx.array, position: int, cache: list[ContextCache]) -> None:
        """Append the target's states, (1, n, taps, width), from `position` on to the context."""

    def block(self, anchor: int, length: int, position: int, cache: list[ContextCache]) -> Block:
        """Return the block of `length` slots after the token `anchor`, which is at `position`."""


class BlockDrafter(Drafter):
    """Drafts for `target`, whose hidden states are recorded from now on."""

    def __init__(self, target: Decoder, network: BlockNetwork, *, name: str) -> None:
        self.name = name
        self._network = network
        self._states = target.record(network.taps)
        self._rows = network.rows or Rows(target.vocabulary)
        self._cache = network.make_cache()
        self._first = self._end = 0  # the positions in the context

    def beside(self, target: Decoder) -> Drafter:
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
        return draft_chain(
            block.read,
            unread=tokens[-1:],
            tokens=tokens,
            choice=choice,
            rows=self._rows,
            sampling=sampling,
            key=key,
            drafter=self.name,
            confidence=block.confidence,
        )

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
