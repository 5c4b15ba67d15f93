"""EAGLE-3, P-EAGLE and EAGLE: networks that others have trained to continue hidden states.

EAGLE-3 (arXiv 2503.01840) mixes the states of some layers; its first layer attends over them beside
the embedding of the token that came next, and it has an output layer of its own, mostly for a part
of the vocabulary. P-EAGLE is the same network with a learnt state for tokens whose own is not there
yet, so that one pass drafts several: see `p_eagle.py`. EAGLE (2401.15077; EAGLE-2, 2406.16858, has
the same weights) mixes the embedding with the state behind the target's final norm, and borrows the
target's output layer.

Options are read from config.json, under all the names that trainers give them; whatever the tensors
tell by their names and shapes is read from those, as config.json often leaves it out. The target's
embedding is borrowed where it was not trained along.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.base import create_attention_mask
from mlx_lm.models.cache import KVCache

from engine.decoder import Decoder
from engine.device import fetch
from engine.drafters import Drafter, DrafterRefused
from engine.drafters.eagle_layers import (
    Fields,
    FusedLayer,
    GemmaShape,
    Shape,
    read_shape,
    unlike_ours,
)
from engine.drafters.p_eagle import MaskDrafter
from engine.drafters.rows import Rows
from engine.drafters.states import Mask, StateDrafter
from engine.drafters.weights import Tensors, columns, fill, read_tensors, refused_as_damaged
from engine.model_parts import embedding, output_layer
from models.drafters.folders import describe_drafter
from models.drafters.kinds import Tap

Borrowed = Callable[[mx.array], mx.array]  # a part of the target's

_MASK_TOKENS = ("mask_token_id", "pard_token", "ptd_token_id")
_UNKNOWN_DEPTH = 8  # how many tokens a P-EAGLE drafts that does not say what it was trained for


class _Layers(nn.Module):
    """The layers, and the embedding where it is its own: what EAGLE-3 and EAGLE have in common."""

    def __init__(self, shape: Shape, embed: Borrowed | int) -> None:
        """`embed`: the target's embedding, or how many rows its own has."""
        super().__init__()
        self.layers = [shape.layer(index) for index in range(len(shape.fused))]
        self._windows = shape.windows
        self._embed = embed
        if isinstance(embed, int):
            self.embed_tokens = nn.Embedding(embed, shape.width)

    def embed(self, tokens: mx.array) -> mx.array:
        """An id that its own embedding does not have is read as its last one."""
        if isinstance(self._embed, int):
            return self.embed_tokens(mx.minimum(tokens, self._embed - 1))
        return self._embed(tokens)

    def through(
        self, embeddings: mx.array, state: mx.array, mask: Mask, cache: list[Any]
    ) -> mx.array:
        """The state behind the last layer."""
        for layer, window, kept in zip(self.layers, self._windows, cache, strict=True):
            seen = create_attention_mask(state, kept, window_size=window) if window else mask
            if isinstance(layer, FusedLayer):
                state = layer(embeddings, state, seen, kept)
            else:
                state = layer(state, seen, kept)
        return state

    def make_cache(self) -> list[KVCache]:
        return [KVCache() for _ in self.layers]


class Eagle3(_Layers):
    """EAGLE-3's network, with the options of all who trained it: a `StateNetwork`.

    `taps` of the target, with states of `target_width`; `rows` of the output layer, which has
    `row_count`. `mixed`: whether the states pass a matrix, or there is one and it is
    as wide as the network's own. `norm_mixed`: one norm over them all before it, `norm_each`: one
    each. `normed_output`: it goes on from its state behind the final norm.
    """

    def __init__(
        self,
        shape: Shape,
        *,
        taps: tuple[Tap, ...],
        target_width: int,
        rows: Rows,
        row_count: int,
        embed: Borrowed | int,
        mixed: bool = True,
        norm_mixed: bool = False,
        norm_each: bool = False,
        normed_output: bool = False,
        logit_scale: float = 1.0,
        soft_cap: float | None = None,
    ) -> None:
        super().__init__(shape, embed)
        self.taps = taps
        together = len(taps) * target_width
        if mixed:
            self.fc = nn.Linear(together, shape.width, bias=False)
        if norm_mixed:
            self.input_norm = nn.RMSNorm(together, eps=shape.epsilon)
        if norm_each:
            self.fc_norm = [nn.RMSNorm(target_width, eps=shape.epsilon) for _ in taps]
        self.norm = nn.RMSNorm(shape.width, eps=shape.epsilon)
        self.lm_head = nn.Linear(shape.width, row_count, bias=False)
        self.rows: Rows | None = rows
        self._normed_output = normed_output
        self._logit_scale, self._soft_cap = logit_scale, soft_cap

    def begin(self, states: mx.array) -> mx.array:
        if "input_norm" in self:
            states = self.input_norm(states.flatten(-2)).reshape(states.shape)
        if "fc_norm" in self:
            normed = [norm(states[..., tap, :]) for tap, norm in enumerate(self.fc_norm)]
            states = mx.stack(normed, axis=-2)
        together = states.flatten(-2)
        return self.fc(together) if "fc" in self else together

    def go_on(self, state: mx.array) -> mx.array:
        return state

    def __call__(self, begun: mx.array, tokens: mx.array, mask: Mask, cache: list[Any]) -> mx.array:
        state = self.through(self.embed(tokens), begun, mask, cache)
        return self.norm(state) if self._normed_output else state

    def logits(self, state: mx.array) -> mx.array:
        logits = self.lm_head(state if self._normed_output else self.norm(state))
        if self._logit_scale != 1.0:
            logits = self._logit_scale * logits
        if self._soft_cap is not None:
            logits = self._soft_cap * mx.tanh(logits / self._soft_cap)
        return logits


class PEagle(Eagle3):
    """P-EAGLE's network: a `MaskNetwork`. `mask_token` stands for a token that is not known; a pass
    drafts `most` tokens, for which it was trained."""

    def __init__(self, shape: Shape, *, mask_token: int, most: int, **options: Any) -> None:
        super().__init__(shape, **options)
        self.mask_token, self.most = mask_token, most
        self._per_tap = (len(self.taps), options["target_width"])
        self.mask_hidden = mx.zeros((1, 1, self._per_tap[0] * self._per_tap[1]))

    def masked(self, count: int) -> mx.array:
        learnt = self.mask_hidden.reshape(1, 1, *self._per_tap)
        return mx.repeat(self.begin(learnt), count, axis=1)


class Eagle(_Layers):
    """The network of EAGLE and EAGLE-2: a `StateNetwork`. `output`: the target's output layer."""

    taps: tuple[Tap, ...] = ("norm",)
    rows: Rows | None = None

    def __init__(
        self,
        shape: Shape,
        *,
        target_width: int,
        embed: Borrowed | int,
        output: Borrowed,
    ) -> None:
        super().__init__(shape, embed)
        self.fc = nn.Linear(shape.width + target_width, shape.width, bias=False)
        self.layers[0].input_layernorm = nn.Identity()
        self._output = output

    def begin(self, states: mx.array) -> mx.array:
        return states[..., 0, :]

    def go_on(self, state: mx.array) -> mx.array:
        return state

    def __call__(self, begun: mx.array, tokens: mx.array, mask: Mask, cache: list[Any]) -> mx.array:
        embeddings = self.embed(tokens)
        mixed = self.fc(mx.concatenate([embeddings, begun], axis=-1))
        return self.through(embeddings, mixed, mask, cache)

    def logits(self, state: mx.array) -> mx.array:
        return self._output(state)


def load_eagle(folder: Path, config: Mapping[str, Any], target: Decoder) -> Drafter:
    """The drafter in `folder`, with this config.json, for `target`. Raises `Problem`."""
    network = load_network(folder, config, target)
    if isinstance(network, PEagle):
        return MaskDrafter(target, network, name="P-EAGLE")
    name = "EAGLE-3" if isinstance(network, Eagle3) else "EAGLE"
    return StateDrafter(target, network, name=name)


def load_network(folder: Path, config: Mapping[str, Any], target: Decoder) -> Eagle3 | Eagle:
    """Its network. Raises `Problem`."""
    drafter = describe_drafter(folder).description
    tensors = _named_as_ours(read_tensors(folder))
    if strange := unlike_ours(tensors):
        raise DrafterRefused(
            "unsupported",
            f"The drafter in {folder} has layers of an architecture that is not read: {strange}.",
            "Choose another drafter for this target.",
        )
    with refused_as_damaged(folder):
        fields = _fields(config)
        shape = read_shape(fields, tensors)
        network: Eagle3 | Eagle
        if drafter.kind == "eagle":
            network = _eagle(shape, fields, tensors, target)
        else:
            taps = drafter.taps_for(target.depth)
            options = _eagle3_options(shape, fields, tensors, target, taps)
            if drafter.kind == "p-eagle":
                masks = [int(fields[key]) for key in _MASK_TOKENS if key in fields]
                if not masks:
                    raise ValueError("it does not say which token is its mask")
                most = drafter.predictions or _UNKNOWN_DEPTH
                network = PEagle(shape, mask_token=masks[0], most=most, **options)
            else:
                network = Eagle3(shape, **options)
        fill(network, _parameters(network, tensors), target.model)
        _try_out(network, target)
    return network


def _try_out(network: Eagle3 | Eagle, target: Decoder) -> None:
    """Raises what sizes that do not fit each other raise; nothing is computed."""
    states = mx.zeros((1, 1, len(network.taps), _width(target)))
    token = mx.zeros((1, 1), dtype=mx.int32)
    state = network(network.begin(states), token, None, network.make_cache())
    network.logits(network(network.go_on(state), token, None, network.make_cache()))


def _named_as_ours(tensors: Tensors) -> Tensors:
    """By the names of our modules. The official first layer is the `midlayer`."""
    return {
        name.removeprefix("model.").replace("midlayer.", "layers.0."): tensor
        for name, tensor in tensors.items()
        if "rotary_emb." not in name
    }


def _parameters(network: _Layers, tensors: Tensors) -> Tensors:
    """Those that belong into `network`: files also hold the map between the vocabularies, and parts
    of the target's."""
    besides = ["t2d", "d2t", "verifier_"]
    if "embed_tokens" not in network:
        besides.append("embed_tokens.")
    if "lm_head" not in network:
        besides.append("lm_head.")
    return {name: tensor for name, tensor in tensors.items() if not name.startswith(tuple(besides))}


def _fields(config: Mapping[str, Any]) -> Fields:
    """The options, wherever in config.json they are. What is null is as if it were not there."""
    places = (config, config.get("transformer_layer_config"), config.get("model"))
    merged: dict[str, Any] = {}
    for place in (*places, config.get("eagle_config")):
        if isinstance(place, Mapping):
            merged |= {key: value for key, value in place.items() if value is not None}
    return merged


def _eagle3_options(
    shape: Shape, fields: Fields, tensors: Tensors, target: Decoder, taps: tuple[Tap, ...]
) -> dict[str, Any]:
    """What an `Eagle3` is made with, besides the shape of its layers."""
    target_width = _width(target)
    mixed = "fc.weight" in tensors
    read = columns(tensors, "fc", fields) if mixed else shape.width
    if read != len(taps) * target_width:
        raise _misfit(
            f"The drafter reads {len(taps)} states of {read / len(taps):g} numbers each, "
            f"and the target's have {target_width}."
        )
    kept = _kept(fields, tensors, vocabulary=target.vocabulary)
    own = "mask_hidden" in tensors or fields.get("embed_requires_grad") is True
    is_gemma = isinstance(shape, GemmaShape)
    scale = shape.width**0.5 if is_gemma else 1.0
    return {
        "taps": taps,
        "target_width": target_width,
        "rows": Rows(target.vocabulary, kept),
        "row_count": tensors["lm_head.weight"].shape[0],
        "embed": _embed(shape, tensors, target, own=own, scale=scale),
        "mixed": mixed,
        "norm_mixed": bool(fields.get("norm_before_fc", False)),
        "norm_each": bool(fields.get("fc_norm", False)),
        "normed_output": bool(fields.get("norm_output", False)),
        "logit_scale": float(fields.get("logit_scale", 1.0)),
        "soft_cap": fields.get("final_logit_softcapping") if is_gemma else None,
    }


def _eagle(shape: Shape, fields: Fields, tensors: Tensors, target: Decoder) -> Eagle:
    target_width = _width(target)
    read = columns(tensors, "fc", fields) - shape.width
    if read != target_width or shape.width != target_width:
        raise _misfit(
            f"The drafter reads states of {read} numbers, and the target's have {target_width}."
        )
    embed = _embed(shape, tensors, target, own=False)
    return Eagle(shape, target_width=target_width, embed=embed, output=output_layer(target.model))


def _width(target: Decoder) -> int:
    """Of the target's states."""
    return int(embedding(target.model)(mx.zeros((1,), dtype=mx.int32)).shape[-1])


def _embed(
    shape: Shape, tensors: Tensors, target: Decoder, *, own: bool, scale: float = 1.0
) -> Borrowed | int:
    """The target's embedding, times `scale`, or the rows of the drafter's, where it was trained
    with its `own` or is not as wide as the target."""
    if "embed_tokens.weight" in tensors and (own or shape.width != _width(target)):
        return tensors["embed_tokens.weight"].shape[0]
    if shape.width != _width(target):
        raise _misfit(
            f"The drafter borrows an embedding of {shape.width} numbers for each token, "
            f"and the target's has {_width(target)}."
        )
    borrowed = embedding(target.model)
    return lambda tokens: scale * borrowed(tokens)  # a module would become a part of this one


def _kept(fields: Fields, tensors: Tensors, *, vocabulary: int) -> list[int] | None:
    """The token of each row of the output layer; None where row i stands for token i."""
    rows = tensors["lm_head.weight"].shape[0]
    if "d2t" in tensors:
        (kept,) = fetch(tensors["d2t"].astype(mx.int32) + mx.arange(rows))
    elif "t2d" in tensors:
        (known,) = fetch(tensors["t2d"])
        kept = [token for token, is_known in enumerate(known) if is_known]
    elif rows == fields.get("vocab_size", rows):
        return None
    else:
        raise ValueError(f"it has {rows} tokens, and does not say which")
    if len(kept) != rows or len(set(kept)) != rows or min(kept) < 0:
        raise ValueError("its vocabulary map does not fit its rows")
    if max(kept) >= vocabulary:
        raise _misfit(
            f"The drafter proposes the token {max(kept)}, and the target has {vocabulary} tokens."
        )
    return kept


def _misfit(message: str) -> DrafterRefused:
    remedy = "Choose a drafter that was trained for this target."
    return DrafterRefused("other target", message, remedy)
