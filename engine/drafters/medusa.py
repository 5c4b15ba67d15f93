"""Medusa's heads: each predicts one of the next tokens from the target's last state alone.

A head (arXiv 2401.10774, Medusa-1) is a residual layer or several, and an output layer of its own.
It reads the state behind the target's final norm at the newest position that the target has read.
The target's own output layer predicts the token after that position; the first head predicts the
one after that, and so on. A head does not see the tokens that the heads before it have proposed:
the law that a draft is drawn from is a product. There is no attention and no cache, so there is
nothing to read in advance or to take back.

Medusa's own acceptance by a typical probability changes the target's distribution; it is not used.

A folder holds config.json and `medusa_lm_head.safetensors`. Heads that the laboratory distilled
have output rows for some tokens only (FR-Spec, arXiv 2502.14856): the token of row r is r + d2t[r].
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.decoder import Decoder
from engine.device import fetch
from engine.draft_length import DraftCandidate, DraftChoice
from engine.drafters import DraftArrays, Drafter, DrafterRefused
from engine.drafters.chain import draft_chain
from engine.drafters.levels import ALTERNATIVES, by_depth, draft_tree
from engine.drafters.rows import Rows
from engine.drafters.weights import (
    Tensors,
    columns,
    damaged,
    fill,
    read_tensors,
    refused_as_damaged,
)
from engine.model_parts import embedding
from engine.request import Sampling

MEDUSA_WEIGHTS_NAME = "medusa_lm_head.safetensors"
_OUTPUT = re.compile(r"(\d+)\.(\d+)\.weight")  # of a head; its number, and that of its layer
_BLOCK = re.compile(r"(\d+)\.(\d+)\.linear\.(weight|bias|scales|biases)")


@dataclass(frozen=True, slots=True)
class MedusaShape:
    """The sizes: `heads`, each with `layers` residual ones, and `rows` of each output layer."""

    hidden_size: int
    heads: int
    layers: int
    rows: int


class ResidualLayer(nn.Module):
    """What a head makes of a state before it predicts: at first nothing."""

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

    def residual(self, states: mx.array) -> mx.array:
        """The states (..., width) that the output layer reads."""
        for block in self.blocks:
            states = block(states)
        return states

    def __call__(self, states: mx.array) -> mx.array:
        """(..., width) to logits (..., rows)."""
        return self.output(self.residual(states))


class MedusaHeads(nn.Module):
    """All heads of a target: `heads[k]` predicts the token k + 2 places behind the state's."""

    def __init__(self, shape: MedusaShape) -> None:
        super().__init__()
        self.heads = [MedusaHead(shape) for _ in range(shape.heads)]


class MedusaDrafter(Drafter):
    """Drafts for `target`, whose states behind its final norm are recorded from now on.

    `rows` of its output; None where each of the target's tokens has its own.
    """

    name = "Medusa"

    def __init__(self, target: Decoder, network: MedusaHeads, *, rows: Rows | None = None) -> None:
        self._network, self._heads = network, network.heads
        self._rows = rows or Rows(target.vocabulary)
        self._states = target.record(("norm",))

    def beside(self, target: Decoder) -> Drafter:
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
            draft = partial(draft_tree, read)
        else:
            choice, heads = choice.within(len(left)), iter(left)
            draft = partial(draft_chain, lambda _: _logits(next(heads), state), unread=tokens[-1:])
        return draft(
            tokens=tokens,
            choice=choice,
            rows=self._rows,
            sampling=sampling,
            key=key,
            drafter=self.name,
        )

    def _end(self, tokens: list[int]) -> int:
        """Behind the newest position whose state is used; that of the newest token is not needed,
        as the target itself predicts from it."""
        return min(len(tokens) - 1, self._states.end)

    def _left(self, tokens: list[int]) -> list[MedusaHead]:
        """The heads that predict tokens which are not committed yet."""
        end = self._end(tokens)
        if end <= self._states.first:
            return []
        return self._heads[len(tokens) - 1 - end :]


def _logits(head: MedusaHead, state: mx.array) -> mx.array:
    return head(state).astype(mx.float32)


def load_medusa(folder: Path, config: Mapping[str, Any], target: Decoder) -> MedusaDrafter:
    """The Medusa heads in `folder`. Raises `Problem`."""
    published = read_tensors(folder)
    offsets = published.pop("d2t", None)
    with refused_as_damaged(folder):
        shape, tensors = _ours(published, config)
    _require_fit(shape, target, reduced=offsets is not None)
    rows = None if offsets is None else _rows(offsets, shape, target, folder)
    network = MedusaHeads(shape)
    with refused_as_damaged(folder):
        fill(network, tensors, target.model)
    return MedusaDrafter(target, network, rows=rows)


def _ours(published: Tensors, config: Mapping[str, Any]) -> tuple[MedusaShape, Tensors]:
    """The sizes, and the tensors by the names that the network has for them.

    The residual layers of a head are one module in the published code, called several times; files
    may have it once or several times. Raises LookupError, ValueError.
    """
    by_name = {name.removeprefix("medusa_head."): array for name, array in published.items()}
    outputs = [match for name in by_name if (match := _OUTPUT.fullmatch(name))]
    heads = sorted({int(match[1]) for match in outputs})
    depths = {int(match[2]) for match in outputs}
    if heads != list(range(len(heads))) or len(depths) != 1 or len(outputs) != len(heads):
        raise ValueError("its tensors are not those of Medusa heads")
    (layers,) = depths
    tensors: Tensors = {}
    for name, array in by_name.items():
        if block := _BLOCK.fullmatch(name):
            head, index, part = block.groups()
            tensors[f"heads.{head}.blocks.{index}.linear.{part}"] = array
        else:
            head, _, part = name.split(".")
            tensors[f"heads.{head}.output.{part}"] = array
    for head in heads:
        for index in range(1, layers):
            for part in ("weight", "bias", "scales", "biases"):
                first = tensors.get(f"heads.{head}.blocks.0.linear.{part}")
                if first is not None:
                    tensors.setdefault(f"heads.{head}.blocks.{index}.linear.{part}", first)
    output = "heads.0.output"
    rows, width = tensors[f"{output}.weight"].shape[0], columns(tensors, output, config)
    return MedusaShape(width, len(heads), layers, rows), tensors


def _require_fit(shape: MedusaShape, target: Decoder, *, reduced: bool) -> None:
    """Raises `DrafterRefused` where the sizes are not those of `target`."""
    width = embedding(target.model)(mx.zeros((1,), dtype=mx.int32)).shape[-1]
    for what, its, ours in (
        ("states of width", shape.hidden_size, width),
        ("tokens", target.vocabulary if reduced else shape.rows, target.vocabulary),
    ):
        if its != ours:
            raise DrafterRefused(
                "other target",
                f"The drafter was trained for a target with {its} {what}, and this one has {ours}.",
                "Choose a drafter that was trained for this target.",
            )


def _rows(offsets: mx.array, shape: MedusaShape, target: Decoder, folder: Path) -> Rows:
    """`offsets` has how far each row's token is from it."""
    (ids,) = fetch(offsets + mx.arange(offsets.size))
    fits = len(ids) == len(set(ids)) == shape.rows and 0 <= min(ids) <= max(ids)
    if not fits or max(ids) >= target.vocabulary:
        raise damaged(folder, "its vocabulary map does not fit the target")
    return Rows(target.vocabulary, ids)
