"""A drafter head: a small network that continues the target's hidden states, and its folder.

EAGLE's idea (arXiv 2401.15077, 2503.01840): the target's hidden states of a token, with the token
that came next, predict most of what comes after. One transformer layer turns the two into a state
of its own, from which the next token is read, and which replaces the target's states when the head
continues to draft. The output layer has rows for frequent tokens only (FR-Spec, arXiv 2502.14856),
and may borrow the target's for others that are in the text, as names and rare words come again.

A folder holds `config.json` and `head.safetensors`, 8-bit, with the token ids of the rows.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten
from mlx_lm.models.cache import KVCache
from mlx_lm.models.llama import ModelArgs, TransformerBlock

from engine.core.decoder import Decoder
from engine.core.model_parts import embedding, final_norm, output_rows
from engine.device import backend, fetch
from engine.draft_length import DraftChoice
from engine.drafters import DraftArrays, DrafterRefused
from engine.drafters.rows import Rows
from engine.drafters.states import StateDrafter
from engine.request import Sampling
from models.drafters.folders import DrafterFolder
from models.drafters.kinds import HEAD_MODEL_TYPE, HEAD_WEIGHTS_NAME, Tap
from models.drafters.refusal import refused_as_damaged
from models.errors import Problem
from models.files import replacing, write_text

_BITS, _GROUP_SIZE = 8, 64


@dataclass(frozen=True, slots=True)
class HeadShape:
    """The sizes of a head. `layers`: the target's layers whose states it reads, counted from 1;
    `rows`: the rows of its output layer. The other sizes are a Llama layer's, as mlx-lm names them.
    """

    hidden_size: int
    layers: tuple[int, ...]
    rows: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    rms_norm_eps: float
    rope_theta: float

    @property
    def cache_width(self) -> int:
        """The width of the keys, or of the values, of one position."""
        return self.num_key_value_heads * self.head_dim

    def block(self) -> ModelArgs:
        """Return the configuration of a Llama model of one layer."""
        names = ("layers", "rows")
        sizes = {name: size for name, size in asdict(self).items() if name not in names}
        return ModelArgs(model_type="llama", num_hidden_layers=1, vocab_size=self.rows, **sizes)


class Head(nn.Module):
    """The network of a head. States are (batch, n, hidden size); token embeddings are the target's
    own.

    `moved` (hidden size,), if it `borrows`: learned, and added to the target's rows.
    """

    def __init__(self, shape: HeadShape, *, borrows: bool = True) -> None:
        super().__init__()
        width = shape.hidden_size
        self.fuse = nn.Linear(len(shape.layers) * width, width, bias=False)
        self.carry = nn.Linear(width, width, bias=False)
        self.embed = nn.Linear(width, width, bias=False)
        self.block = TransformerBlock(shape.block())
        self.norm = nn.RMSNorm(width, eps=shape.rms_norm_eps)
        self.output = nn.Linear(width, shape.rows, bias=False)
        if borrows:
            self.moved = mx.zeros((width,))
        self._epsilon = shape.rms_norm_eps

    def begin(self, states: mx.array) -> mx.array:
        """The layer's input from the target's hidden states, (batch, n, layers, hidden size)."""
        return self.fuse(self._normal(states).flatten(-2))

    def go_on(self, state: mx.array) -> mx.array:
        """The layer's input from the head's own states."""
        return self.carry(self._normal(state))

    def __call__(
        self, begun: mx.array, embeddings: mx.array, mask: Any = None, cache: Any = None
    ) -> mx.array:
        """The next state: `begun` for each token, `embeddings` of the token after it."""
        return self.block(begun + self.embed(self._normal(embeddings)), mask, cache)

    def remember(self, begun: mx.array, embeddings: mx.array) -> tuple[mx.array, mx.array]:
        """Return keys and values, (batch, heads, n, width) each, of positions whose state is not
        needed: a fifth of the work."""
        attention = self.block.self_attn
        x = self.block.input_layernorm(begun + self.embed(self._normal(embeddings)))
        by_head = (*x.shape[:-1], attention.n_kv_heads, -1)
        keys = attention.k_proj(x).reshape(by_head).swapaxes(1, 2)
        values = attention.v_proj(x).reshape(by_head).swapaxes(1, 2)
        return attention.rope(keys), values

    @property
    def borrows(self) -> bool:
        """Whether it has learned with rows of the target and its own."""
        return "moved" in self

    def rows(self, lent: mx.array) -> mx.array:
        """Return its own rows and, if it borrows, after them the target's rows `lent`, (more rows,
        hidden size), as it has learned to use them."""
        if not self.borrows:
            return self.output.weight
        return mx.concatenate([self.output.weight, lent + self.moved])

    def logits(self, state: mx.array, borrowed: mx.array | None = None) -> mx.array:
        """Return the logits of the token after the embedded one, (batch, n, rows), and
        after them the `borrowed` rows', (more rows, hidden size)."""
        state = self.norm(state)
        logits: mx.array = self.output(state)
        if borrowed is None:
            return logits
        return mx.concatenate([logits, state @ borrowed.T], axis=-1)

    def _normal(self, x: mx.array) -> mx.array:
        return mx.fast.rms_norm(x, None, self._epsilon)


@dataclass(frozen=True, slots=True)
class BoundHead:
    """A head with what binds it to its target: `kept` (rows,), the token id of each row."""

    head: Head
    shape: HeadShape
    kept: mx.array


class HeadNetwork:
    """A head as a `StateNetwork`, for a target `model`."""

    def __init__(self, bound: BoundHead, model: nn.Module, *, vocabulary: int) -> None:
        self.taps: tuple[Tap, ...] = bound.shape.layers
        self.begin, self.go_on, self.logits = bound.head.begin, bound.head.go_on, bound.head.logits
        self._head, self._embed, self._model = bound.head, embedding(model), model
        (kept,) = fetch(bound.kept)
        self.rows = Rows(vocabulary, kept)

    def __call__(self, begun: mx.array, tokens: mx.array, mask: Any, cache: list[Any]) -> mx.array:
        return self._head(begun, self._embed(tokens), mask, cache[0])

    def borrowed(self, tokens: list[int]) -> mx.array | None:
        """Rows for tokens that the head has none for, (tokens, hidden size)."""
        if not tokens or not self._head.borrows:
            return None
        rows = output_rows(self._model, mx.array(tokens, dtype=mx.int32))
        return rows.astype(self._head.moved.dtype) + self._head.moved

    def make_cache(self) -> list[KVCache]:
        return [KVCache()]


class HeadDrafter(StateDrafter):
    """Drafts for `target` with a head: tokens that are frequent, and tokens that are in the
    text."""

    def __init__(self, target: Decoder, network: HeadNetwork, *, name: str = "head") -> None:
        super().__init__(target, network, name=name)
        self._head = network
        self._met = 0  # tokens of the text that were looked at
        self._borrowed: mx.array | None = None  # rows of tokens that the head has none for

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        new = self._rows.missing(tokens[self._met :])
        if (rows := self._head.borrowed(new)) is not None:
            before = [] if self._borrowed is None else [self._borrowed]
            self._borrowed = mx.concatenate([*before, rows])
            self._rows = self._rows.and_of(new)
        self._met = len(tokens)
        return super().propose(tokens, choice, sampling, key)

    def rewind(self, length: int) -> None:
        super().rewind(length)
        if length < self._met:  # so that its drafts depend on this text alone
            self._rows, self._met, self._borrowed = self._head.rows, 0, None

    def _logits(self, state: mx.array) -> mx.array:
        return self._head.logits(state, self._borrowed)


def head_drafter(target: Decoder, bound: BoundHead) -> HeadDrafter:
    """Return a drafter with this head, for its target."""
    return HeadDrafter(target, HeadNetwork(bound, target.model, vocabulary=target.vocabulary))


def shape_for(model: nn.Module, *, rows: int) -> HeadShape:
    """Return the shape of a head as wide as the target `model`, which reads three of its layers."""
    arguments = getattr(model, "args", None)
    depth = len(model.layers)
    width = embedding(model)(mx.zeros((1,), dtype=mx.int32)).shape[-1]
    heads = getattr(arguments, "num_attention_heads", None) or max(1, width // 64)
    head_dim = getattr(arguments, "head_dim", None) or width // heads
    return HeadShape(
        hidden_size=width,
        layers=tuple(sorted({max(1, depth // 3), max(1, 2 * depth // 3), depth})),
        rows=rows,
        num_attention_heads=heads,
        num_key_value_heads=getattr(arguments, "num_key_value_heads", None) or heads,
        head_dim=head_dim,
        intermediate_size=getattr(arguments, "intermediate_size", None) or 4 * width,
        rms_norm_eps=1e-5,
        rope_theta=float(getattr(arguments, "rope_theta", None) or 10000.0),
    )


def new_head(model: nn.Module, shape: HeadShape, kept: mx.array) -> BoundHead:
    """An untrained head that starts close to the target: its output rows, its last state."""
    head, width = Head(shape), shape.hidden_size
    scale, own = 0.3, mx.eye(width)
    last = mx.concatenate([mx.zeros((width, (len(shape.layers) - 1) * width)), own], axis=1)
    head.fuse.weight = scale * head.fuse.weight + last
    head.carry.weight = scale * head.carry.weight + own
    head.embed.weight = scale * head.embed.weight
    head.block.self_attn.o_proj.weight = mx.zeros_like(head.block.self_attn.o_proj.weight)
    head.block.mlp.down_proj.weight = mx.zeros_like(head.block.mlp.down_proj.weight)
    head.output.weight = output_rows(model, kept).astype(mx.float32)
    with suppress(Problem):
        norm = final_norm(model)
        if isinstance(norm, nn.RMSNorm):  # others mean something else by their weight
            head.norm.weight = norm.weight.astype(mx.float32)
    mx.eval(head.parameters())
    return BoundHead(head, shape, kept)


def save_head(bound: BoundHead, folder: Path, *, target: str, fingerprint: str) -> None:
    """Write `folder`, 8-bit, or leave it as it was. `target`: its name, to be shown;
    `fingerprint` identifies it. Raises OSError or RuntimeError if the disk is full."""
    weights = _packed(bound.head) | {"kept": bound.kept.astype(mx.int32)}
    config = {"model_type": HEAD_MODEL_TYPE, "target": target, "target_fingerprint": fingerprint}
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / HEAD_WEIGHTS_NAME) as partial:
        mx.save_safetensors(str(partial), weights)
    write_text(folder / "config.json", json.dumps(config | asdict(bound.shape), indent=2) + "\n")


def _packed(head: Head) -> dict[str, mx.array]:
    """The weights of a head: 8-bit matrices of linear layers whose rows are whole groups, all else
    16-bit."""
    parameters: dict[str, mx.array] = dict(tree_flatten(head.parameters()))
    tensors = {name: array.astype(mx.float16) for name, array in parameters.items()}
    for path, module in head.named_modules():
        if _is_packed(module):
            parts = mx.quantize(tensors[f"{path}.weight"], group_size=_GROUP_SIZE, bits=_BITS)
            for part, array in zip(("weight", "scales", "biases"), parts, strict=True):
                tensors[f"{path}.{part}"] = array
    return tensors


def _is_packed(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) and module.weight.shape[1] % _GROUP_SIZE == 0


def load_head(
    folder: DrafterFolder, *, fingerprint: str, vocabulary: int, like: mx.Dtype
) -> BoundHead:
    """Load the head of the target with this fingerprint and this many tokens. `like`: the number
    type of the target's states, see `number_type`.

    Raises `Problem` if it was made for another target, or is damaged.
    """
    if folder.description.demands.fingerprint != fingerprint:
        raise other_weights(folder, fingerprint)
    with refused_as_damaged(folder.path):
        bound = _read(folder, like)
        (ids,) = fetch(bound.kept)
        if bound.kept.shape != (bound.shape.rows,) or len(set(ids)) != len(ids):
            raise ValueError("its vocabulary map does not fit its rows")
        if min(ids) < 0 or max(ids) >= vocabulary:
            raise ValueError("it has tokens that the target does not have")
    return bound


def other_weights(folder: DrafterFolder, fingerprint: str) -> DrafterRefused:
    """The refusal of a drafter that was distilled for another target than `fingerprint`'s."""
    return DrafterRefused(
        "other target",
        f"The drafter {folder.name} was distilled for {folder.description.verifier} "
        f"(weights {folder.description.demands.fingerprint}), and the target's are {fingerprint}.",
        "Choose its own target, or distil one for this target: slipstream distil.",
    )


def _read(folder: DrafterFolder, like: mx.Dtype) -> BoundHead:
    fields = {name: folder.config[name] for name in HeadShape.__dataclass_fields__}
    shape = HeadShape(**fields | {"layers": tuple(fields["layers"])})
    weights: Any = mx.load(str(folder.path / HEAD_WEIGHTS_NAME))
    head = Head(shape, borrows="moved" in weights)
    nn.quantize(
        head,
        group_size=_GROUP_SIZE,
        bits=_BITS,
        class_predicate=lambda _, module: _is_packed(module),
    )
    kept = weights.pop("kept")
    head.load_weights(list(weights.items()))
    backend().prepare(head, like=like)
    backend().narrow(head)
    return BoundHead(head, shape, kept)
