"""DSpark: DFlash with a Markov head, which corrects each slot by the token before it, and a head
that says how sure it is.

Backbone and context are DFlash's, with Qwen3's or Gemma-4's layers. In most packagings the anchor's
row proposes a token, too. Embedding and output layer are copies of the target's or its own.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.decoder import Decoder
from engine.device import fetch
from engine.drafters import DrafterRefused
from engine.drafters.block import Block, BlockDrafter
from engine.drafters.block_folders import (
    SPECULATORS,
    Settings,
    bind,
    depth_of,
    published_names,
    require_fit,
    settings,
    shape_of,
    sliding_layers,
)
from engine.drafters.dflash import BlockShape, BoundNetwork, Confidence, DFlash
from engine.drafters.weights import Tensors, columns, read_tensors, refused_as_damaged
from models.drafters.folders import describe_drafter
from models.drafters.kinds import DrafterDescription

_MARKOV = "markov_head"
_ZERO_CENTRED = 0.5  # norms whose mean is below this are stored without the 1 that is added


class MarkovHead(nn.Module):
    """What the token before a slot adds to the slot's logits, by a matrix of low rank.

    Plainly; through a gate that the slot's state opens; or through a state that runs along the
    block. Each is told by its tensors.
    """

    def __init__(self, tokens: int, rows: int, *, rank: int) -> None:
        super().__init__()
        self.markov_w1 = nn.Embedding(tokens, rank)
        self.markov_w2 = nn.Linear(rank, rows, bias=False)
        self._last, self._rank = tokens - 1, rank

    def begin(self) -> mx.array:
        """The running state before the first slot."""
        return mx.zeros((1, self._rank))

    def embed(self, previous: mx.array) -> mx.array:
        """The token before a slot, (1,): (1, rank)."""
        return self.markov_w1(mx.minimum(previous, self._last))

    def __call__(
        self, word: mx.array, state: mx.array, running: mx.array
    ) -> tuple[mx.array, mx.array]:
        """(what is added to the logits, (1, rows); the next running state, (1, rank)).

        `word`: the embedded token before the slot, `state`: the slot's, (1, width).
        """
        return self.markov_w2(word), running


class GatedMarkovHead(MarkovHead):
    """See `MarkovHead`."""

    def __init__(self, tokens: int, rows: int, *, rank: int, width: int) -> None:
        super().__init__(tokens, rows, rank=rank)
        self.gate_proj = nn.Linear(width + rank, rank)

    def __call__(
        self, word: mx.array, state: mx.array, running: mx.array
    ) -> tuple[mx.array, mx.array]:
        gate = mx.sigmoid(self.gate_proj(mx.concatenate([state, word], axis=-1)))
        return self.markov_w2(gate * word), running


class RecurrentMarkovHead(MarkovHead):
    """See `MarkovHead`."""

    def __init__(self, tokens: int, rows: int, *, rank: int, width: int) -> None:
        super().__init__(tokens, rows, rank=rank)
        self.joint_proj = nn.Linear(2 * rank + width, 3 * rank)

    def __call__(
        self, word: mx.array, state: mx.array, running: mx.array
    ) -> tuple[mx.array, mx.array]:
        joint = self.joint_proj(mx.concatenate([running.astype(word.dtype), word, state], axis=-1))
        gate, candidate, out = mx.split(joint, 3, axis=-1)
        gate = mx.sigmoid(gate)
        running = gate * running + (1.0 - gate) * mx.tanh(candidate)
        return self.markov_w2(mx.tanh(out)), running


class ConfidenceHead(nn.Module):
    """How likely a slot's token is to be accepted, from its state, and from the token before it
    where `width` has room for it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width, 1)
        self._width = width

    def __call__(self, features: mx.array) -> mx.array:
        """`features`, (1, ...): the state, then the embedded token."""
        return mx.sigmoid(self.proj(features[:, : self._width]).astype(mx.float32))[:, 0]


class DSpark(DFlash):
    """See above; without its embedding and output layer."""

    def __init__(
        self, shape: BlockShape, markov: MarkovHead | None, confidence: ConfidenceHead | None
    ) -> None:
        super().__init__(shape)
        if markov is not None:
            self.markov_head = markov
        if confidence is not None:
            self.confidence_head = confidence

    def slots(self, states: mx.array, logits: mx.array) -> Block:
        return MarkovSlots(states, logits, self.get("markov_head"), self.get("confidence_head"))


class MarkovSlots:
    """Slots whose logits depend on the token before each."""

    def __init__(
        self,
        states: mx.array,
        logits: mx.array,
        markov: MarkovHead | None,
        confidence: ConfidenceHead | None,
    ) -> None:
        self._states, self._logits = states, logits
        self._markov, self._head = markov, confidence
        self._slot = -1
        self._features = states[:0]
        if markov is not None:
            self._running = markov.begin()

    @property
    def confidence(self) -> Confidence | None:
        return None if self._head is None else self._confidence

    def read(self, previous: mx.array) -> mx.array:
        self._slot += 1
        here = slice(self._slot, self._slot + 1)
        state, logits = self._states[here], self._logits[here]
        self._features = state
        if self._markov is None:
            return logits
        word = self._markov.embed(previous)
        self._features = mx.concatenate([state, word.astype(state.dtype)], axis=-1)
        added, self._running = self._markov(word, state, self._running)
        return logits + added.astype(mx.float32)

    def _confidence(self, token: mx.array) -> mx.array:
        assert self._head is not None
        return self._head(self._features)


def load_dspark(folder: Path, config: Mapping[str, Any], target: Decoder) -> BlockDrafter:
    """The DSpark drafter in `folder`. Raises `Problem`."""
    return BlockDrafter(target, dspark_network(folder, config, target), name="DSpark")


def dspark_network(folder: Path, config: Mapping[str, Any], target: Decoder) -> BoundNetwork:
    """Its network. Raises `Problem`."""
    described = describe_drafter(folder).description
    tensors = published_names(read_tensors(folder))
    with refused_as_damaged(folder):
        said = settings(config)
        if said.get("log_snr_conditioning"):
            raise DrafterRefused(
                "unsupported",
                f"The drafter in {folder} reads how noisy its tokens are (log SNR conditioning).",
                "Choose another drafter.",
            )
        shape = _shape(described, said, tensors)
        require_fit(said, shape, target)
        network = DSpark(shape, _markov(said, shape, tensors), _confidence(said, tensors))
        if _zero_centred(said, tensors):
            tensors |= {name: tensors[name] + 1.0 for name in _norms(tensors)}
        return bind(network, shape, tensors, said=said, target=target, folder=folder)


def _shape(described: DrafterDescription, said: Settings, tensors: Tensors) -> BlockShape:
    """The sizes. Most of the config is a copy of the target's: what it says of windows and of
    partly rotated heads holds only for the packagings that mean it."""
    depth = depth_of(tensors)
    windows, causal = _seen(said, tensors, depth)
    shape = shape_of(described, said, tensors, windows=windows, causal=causal)
    if shape.gated or _zero_centred(said, tensors):  # as Qwen3.5 has it
        scaling = said.get("rope_parameters") or {}
        dims = int(shape.head_dim * float(scaling.get("partial_rotary_factor", 1.0)))
        return replace(shape, rotation=replace(shape.rotation, dims=dims))
    return shape


def _seen(said: Settings, tensors: Tensors, depth: int) -> tuple[list[int | None], list[bool]]:
    """By layer, how far a row sees, and whether it sees those before it only.

    Everything, unless it is of the lineage of DFlash's sliding layers.
    """
    if SPECULATORS in said:
        sliding = sliding_layers(said, depth)
        window = said.get("sliding_window") if said.get("use_sliding_window") else None
        if window is None or not any(sliding):
            return [None] * depth, [False] * depth
        causal = not said.get("sliding_window_non_causal")
        return [int(window) if each else None for each in sliding], [
            each and causal for each in sliding
        ]
    causal = bool(said.get("dflash_query_causal") or said.get("causal"))
    sinks = "layers.0.self_attn.attention_sink_bias" in tensors
    if not causal and not sinks:
        return [None] * depth, [False] * depth
    window = said.get("sliding_window")
    if said.get("use_swa"):
        window = window or said.get("swa_window_size")
    return [int(window) if window else None] * depth, [causal] * depth


def _markov(said: Settings, shape: BlockShape, tensors: Tensors) -> MarkovHead | None:
    if f"{_MARKOV}.markov_w1.weight" not in tensors:
        return None
    tokens = tensors[f"{_MARKOV}.markov_w1.weight"].shape[0]
    rows = tensors[f"{_MARKOV}.markov_w2.weight"].shape[0]
    rank = columns(tensors, f"{_MARKOV}.markov_w1", said)
    if f"{_MARKOV}.gate_proj.weight" in tensors:
        return GatedMarkovHead(tokens, rows, rank=rank, width=shape.hidden_size)
    if f"{_MARKOV}.joint_proj.weight" in tensors:
        return RecurrentMarkovHead(tokens, rows, rank=rank, width=shape.hidden_size)
    return MarkovHead(tokens, rows, rank=rank)


def _confidence(said: Settings, tensors: Tensors) -> ConfidenceHead | None:
    if "confidence_head.proj.weight" not in tensors:
        return None
    return ConfidenceHead(columns(tensors, "confidence_head.proj", said))


def _zero_centred(said: Settings, tensors: Tensors) -> bool:
    """Whether norms are stored without the 1 that is added to them, as Qwen3.5's are."""
    if not str(said.get("model_type", "")).startswith(("qwen3_5", "qwen3_next")):
        return False
    norms = [tensors[name].astype(mx.float32) for name in _norms(tensors)]
    (mean,) = fetch(mx.mean(mx.concatenate(norms)))
    return bool(mean < _ZERO_CENTRED)


def _norms(tensors: Tensors) -> list[str]:
    return [name for name in tensors if name.endswith("norm.weight") and tensors[name].ndim == 1]
