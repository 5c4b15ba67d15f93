"""Medusa's heads: each predicts one of the next tokens from the target's last state alone.

A head (arXiv 2401.10774, Medusa-1) is a residual layer or several, and an output layer of its own.
It reads the state after the target's final norm at the newest position that the target has read.
The target's own output layer predicts the token after that position; the first head predicts the
one after that, and so on. A head does not see the tokens that the heads before it have proposed:
the law that a draft is drawn from is a product. Without attention and caches it has
nothing to read in advance or to take back.

Medusa's own acceptance by a typical probability changes the target's distribution; it is not used.

A folder holds config.json and `medusa_lm_head.safetensors`. Heads that the laboratory distilled
have output rows for some tokens only (FR-Spec, arXiv 2502.14856): the token of row r is r + d2t[r].
"""

from collections.abc import Sequence
from dataclasses import replace

import mlx.core as mx
import mlx.nn as nn

from engine.core.decoder import Decoder
from engine.draft_length import DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter
from engine.drafters.chain import DraftRequest, draft_chain
from engine.drafters.levels import ALTERNATIVES, by_depth, draft_tree
from engine.drafters.rows import Rows
from engine.drafters.weights import fill, read_tensors, require_fit, take_kept
from engine.request import Sampling
from models.drafters.folders import DrafterFolder
from models.drafters.medusa import MedusaShape
from models.drafters.refusal import refused_as_damaged


class ResidualLayer(nn.Module):
    """Changes a state before a head predicts from it. Untrained, it changes nothing."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.linear.weight = mx.zeros_like(self.linear.weight)
        self.linear.bias = mx.zeros_like(self.linear.bias)

    def __call__(self, x: mx.array) -> mx.array:
        return x + nn.silu(self.linear(x))


class MedusaHead(nn.Module):
    """Predicts the token at one distance."""

    def __init__(self, shape: MedusaShape) -> None:
        super().__init__()
        self.blocks = [ResidualLayer(shape.hidden_size) for _ in range(shape.layers)]
        self.output = nn.Linear(shape.hidden_size, shape.rows, bias=False)

    def __call__(self, states: mx.array) -> mx.array:
        """(..., width) to logits (..., rows)."""
        for block in self.blocks:
            states = block(states)
        return self.output(states)


class MedusaHeads(nn.Module):
    """All heads of a target: `heads[k]` predicts the token k + 2 places after the state's."""

    def __init__(self, shape: MedusaShape) -> None:
        super().__init__()
        self.heads = [MedusaHead(shape) for _ in range(shape.heads)]


class MedusaDrafter(Drafter):
    """Drafts with Medusa heads for `target`. From now on it records the target's states after the
    final norm.

    `rows`: the token of each output row; None if every token of the target has a row of its own.
    """

    name = "Medusa"

    def __init__(self, target: Decoder, network: MedusaHeads, *, rows: Rows | None = None) -> None:
        self._network, self._heads = network, network.heads
        self._rows = rows or Rows(target.vocabulary)
        self._states = target.record(("norm",))

    def fork(self, target: Decoder) -> Drafter:
        return MedusaDrafter(target, self._network, rows=self._rows)

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        left = len(self._left(tokens))
        return (DraftCandidate(self.name, left, alternatives=ALTERNATIVES),) if left else ()

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        left = self._left(tokens)
        if not left:
            return None
        end = self._end(tokens)
        state = self._states.between(end - 1, end)[0]  # (1, width)
        if choice.tree is not None:
            choice = replace(choice, tree=choice.tree.no_higher(len(left)))
            read = by_depth(lambda depth: _logits(left[depth], state))
            asked = DraftRequest(tokens, choice, sampling, key, self._rows, self.name)
            return draft_tree(read, asked)
        choice, heads = choice.within(len(left)), iter(left)
        asked = DraftRequest(tokens, choice, sampling, key, self._rows, self.name)
        return draft_chain(lambda _: _logits(next(heads), state), asked, unread=tokens[-1:])

    def _end(self, tokens: list[int]) -> int:
        """Return the position after the newest state that is used. The newest token's own state is
        not: the target itself predicts from it."""
        return min(len(tokens) - 1, self._states.end)

    def _left(self, tokens: list[int]) -> list[MedusaHead]:
        """Return the heads that predict tokens which are not committed yet."""
        end = self._end(tokens)
        if end <= self._states.first:
            return []
        return self._heads[len(tokens) - 1 - end :]


def _logits(head: MedusaHead, state: mx.array) -> mx.array:
    return head(state).astype(mx.float32)


def load_medusa(folder: DrafterFolder, target: Decoder) -> MedusaDrafter:
    """The Medusa heads in `folder`. Raises `Problem`."""
    shape: MedusaShape = folder.network
    require_fit(folder, target)
    tensors, network = read_tensors(folder), MedusaHeads(shape)
    with refused_as_damaged(folder.path):
        kept = take_kept(tensors, rows=shape.rows)
        rows = None if kept is None else Rows(target.vocabulary, kept)
        fill(network, tensors, target.model, bits=folder.held_bits)
    return MedusaDrafter(target, network, rows=rows)
