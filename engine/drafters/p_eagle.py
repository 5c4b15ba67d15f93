"""P-EAGLE's way to draft: several tokens from one pass over masked slots.

The slot behind the newest token reads what an EAGLE-3 reads; those behind it read a learnt state
and a mask, in place of the state and the token that are not there yet. So no token's law depends on
the drafted tokens before it, but for the sampler chain's penalties.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import mlx.core as mx

from engine.core.decoder import Decoder
from engine.draft_length import LONGEST, DraftCandidate
from engine.drafters.levels import ReadLevel, by_depth
from engine.drafters.states import StateDrafter, StateNetwork
from models.limits import PREFILL_ROWS


class MaskNetwork(StateNetwork, Protocol):
    """A `StateNetwork` that can also read slots whose state is not known."""

    mask_token: int
    most: int

    def masked(self, count: int) -> mx.array:
        """Return the states that stand for `count` unknown ones, (1, count, w)."""


class MaskDrafter(StateDrafter):
    """Drafts for `target` in one pass, as many tokens as the network was trained for."""

    def __init__(self, target: Decoder, network: MaskNetwork, *, name: str) -> None:
        super().__init__(target, network, name=name)
        self._masks = network
        self._most = min(network.most, LONGEST)

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        (candidate,) = super().candidates(tokens)
        return (replace(candidate, most=self._most),)

    def _reader(self, tokens: list[int], length: int) -> Callable[[mx.array], mx.array]:
        slots = iter(self._network.logits(self._read_ahead(tokens, length))[0][:, None])
        return lambda latest: next(slots)

    def _level_reader(self, tokens: list[int], length: int) -> ReadLevel:
        slots = self._network.logits(self._read_ahead(tokens, length))[0][:, None]
        return by_depth(lambda depth: slots[depth])

    def _read_ahead(self, tokens: list[int], length: int) -> mx.array:
        """Read the committed tokens and masks behind them; returns the last `length` states.

        The state of a token that the target has not read is masked too.
        """
        while min(len(tokens) - 1, self._states.end) - self._next_position() > PREFILL_ROWS:
            self._read_target(tokens, rows=PREFILL_ROWS)
        start, masks = self._next_position(), [self._masks.mask_token] * (length - 1)
        end = min(len(tokens) - 1, self._states.end)
        unknown = len(tokens) - 1 - end + len(masks)
        begun = self._network.begin(self._states.between(start, end)[None])
        if unknown:
            begun = mx.concatenate([begun, self._masks.masked(unknown)], axis=1)
        after = mx.array([tokens[start + 1 :] + masks])
        states = self._network(begun, after, "causal" if after.size > 1 else None, self._cache)
        self._read += end - start
        return states[:, -length:]
