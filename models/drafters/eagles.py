"""EAGLE and EAGLE-3, with the options of all who train them.

The layers are Llama's, Qwen3's or Gemma-4's. Sizes come from the tensors' shapes, as config.json
often leaves them out; it is read only for facts that shapes do not show.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from models.drafters.kinds import DrafterDescription, Tap
from models.drafters.published import NORM, Fields, Published
from models.drafters.refusal import DrafterRefused

_AUXILIARY = "eagle_aux_hidden_state_layer_ids"
_IN_A_LAYER = frozenset(
    {f"self_attn.{name}_proj" for name in "qkvo"}
    | {f"mlp.{name}_proj" for name in ("gate", "up", "down")}
    | {"self_attn.q_norm", "self_attn.k_norm", "input_layernorm", "hidden_norm"}
    | {f"{name}_layernorm" for name in ("post_attention", "pre_feedforward", "post_feedforward")}
    | {"layer_scalar"}
)


@dataclass(frozen=True, slots=True)
class EagleLayers:
    """Sizes and options of a network's layers.

    `width` of its states; `windows`: the number of positions that each layer sees, None for all;
    `fused`: whether each layer also reads the embedding. `rotary`: the dimensions of a head that
    turn with the position.
    """

    width: int
    heads: int
    key_value_heads: int
    head_dim: int
    intermediate: int
    epsilon: float
    rope_theta: float
    rope_scaling: Mapping[str, Any] | None
    rotary: int
    longest: int
    windows: tuple[int | None, ...]
    fused: tuple[bool, ...]
    normed_queries: bool
    normed_residual: bool = False


@dataclass(frozen=True, slots=True)
class GemmaLayers:
    """Sizes and options of layers like Gemma-4's, as in `EagleLayers`; every layer reads the
    embedding. `config`: the config.json of a Gemma-4 with as many layers."""

    width: int
    epsilon: float
    config: Mapping[str, Any]
    windows: tuple[int | None, ...]
    fused: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class EagleShape:
    """The sizes and options of the network of an EAGLE or EAGLE-3.

    `read`: the columns of the matrix that takes the states together; if they are not `mixed`, the
    network's own width. `rows` of the output layer, 0 if it borrows the target's; `vocabulary`: the
    number of tokens in config.json. `norm_mixed`: one norm over all states before they are mixed;
    `norm_each`: one for each; `normed_output`: the network continues from its state after the
    final norm. `embedding`: rows of its own, 0 without; `trained_embedding`: whether they differ
    from the target's.
    """

    layers: EagleLayers | GemmaLayers
    read: int
    mixed: bool
    rows: int = 0
    vocabulary: int | None = None
    norm_mixed: bool = False
    norm_each: bool = False
    normed_output: bool = False
    logit_scale: float = 1.0
    soft_cap: float | None = None
    embedding: int = 0
    trained_embedding: bool = False


def read_eagle3(published: Published) -> DrafterDescription:
    key, shift = published.packaging.taps
    taps: tuple[Tap, ...] = published.ids(key, shift=shift) or ()
    if published.table("eagle_config").get("use_aux_hidden_state") is False:
        taps = NORM
    width = published.width(published.matrix("fc.weight"), len(taps) or 3)
    return published.describe(taps=taps, demands=published.demands(width=width))


def read_nvidia(published: Published) -> DrafterDescription:
    """Return the description of an EAGLE-3 drafter of NVIDIA's. Some of them number layers, from 0,
    and some states.

    ModelOpt hooks layers, SGLang adds 1 to them. Lists of layers begin with layer 1, lists of
    states never do: so the first number tells them apart.
    """
    found = read_eagle3(published)
    if found.taps[:1] == (1,) and _AUXILIARY not in published.config:
        taps = tuple(tap + 1 for tap in found.taps if tap != "norm")
        return replace(found, taps=taps)
    return found


def read_eagle(published: Published) -> DrafterDescription:
    """Return the description of an EAGLE-1 or 2, whose weights are alike: one state, and the
    target's own output layer."""
    fused = published.matrix("fc.weight")
    if fused is not None and fused[1] != 2 * fused[0]:
        raise published.contradiction("its fc does not take an embedding and a state of one width")
    width = fused[0] if fused else published.number("hidden_size")
    return published.describe(taps=NORM, demands=published.demands(width=width))


def shape_of(published: Published, described: DrafterDescription) -> EagleShape:
    """Return the shape that the network is built by. Raises KeyError, ValueError and the like, and
    `DrafterRefused` if it has layers of another architecture."""
    if strange := _unlike_ours(published.names):
        raise DrafterRefused(
            "unsupported",
            f"{published.called} has layers of an architecture that is not read: {strange}.",
            "Choose another drafter for this target.",
        )
    said, layers = published.fields, _layers(published)
    embedding = published.rows("embed_tokens.weight") if described.own_embedding else 0
    mixed = published.has("fc.weight")
    read = published.columns("fc.weight") if mixed else layers.width
    if described.kind == "eagle":
        return EagleShape(layers, read, True, embedding=embedding)
    return EagleShape(
        layers,
        read,
        mixed,
        rows=published.rows("lm_head.weight"),
        vocabulary=said.get("vocab_size"),
        norm_mixed=bool(said.get("norm_before_fc", False)),
        norm_each=bool(said.get("fc_norm", False)),
        normed_output=bool(said.get("norm_output", False)),
        logit_scale=float(said.get("logit_scale", 1.0)),
        soft_cap=said.get("final_logit_softcapping") if isinstance(layers, GemmaLayers) else None,
        embedding=embedding,
        trained_embedding=said.get("embed_requires_grad") is True,
    )


def _unlike_ours(names: Iterable[str]) -> str:
    """Return the first of the tensors' `names` that no layer here has; empty if all are known."""
    for name in names:
        _, layer, part = name.partition("layers.")
        inside = part.partition(".")[2]
        if layer and (inside.rpartition(".")[0] or inside) not in _IN_A_LAYER:
            return name
    return ""


def _layers(published: Published) -> EagleLayers | GemmaLayers:
    said, count = published.fields, published.depth()
    width = published.rows("layers.0.post_attention_layernorm.weight")
    epsilon = float(said.get("rms_norm_eps", 1e-6))
    if published.has("layers.0.pre_feedforward_layernorm.weight"):
        plain = {"num_hidden_layers": count, "layer_types": ["full_attention"] * count}
        plain |= {"num_kv_shared_layers": 0, "hidden_size_per_layer_input": 0}
        config = {**said, **plain, "use_double_wide_mlp": False}
        return GemmaLayers(width, epsilon, config, (None,) * count, (True,) * count)
    normed = published.has("layers.0.self_attn.q_norm.weight")
    if "head_dim" in said:
        head_dim = int(said["head_dim"])
    elif normed:
        head_dim = published.rows("layers.0.self_attn.q_norm.weight")
    else:
        head_dim = width // int(said["num_attention_heads"])
    rope = _rope(said)
    return EagleLayers(
        width=width,
        heads=published.rows("layers.0.self_attn.q_proj.weight") // head_dim,
        key_value_heads=published.rows("layers.0.self_attn.k_proj.weight") // head_dim,
        head_dim=head_dim,
        intermediate=published.rows("layers.0.mlp.gate_proj.weight"),
        epsilon=epsilon,
        rope_theta=float(said.get("rope_theta", rope.get("rope_theta", 10_000.0))),
        rope_scaling=rope if rope.get("rope_type", rope.get("type")) else None,
        rotary=int(head_dim * float(rope.get("partial_rotary_factor", 1.0))),
        longest=int(said.get("max_position_embeddings", 2048)),
        windows=tuple(_window(said, layer) for layer in range(count)),
        fused=tuple(published.has(f"layers.{i}.hidden_norm.weight") for i in range(count)),
        normed_queries=normed,
        normed_residual=bool(said.get("norm_before_residual", False)),
    )


def _rope(said: Fields) -> Mapping[str, Any]:
    """Return the scaling of positions. If each kind of layer has its own, return the sliding
    layers' scaling."""
    rope: Mapping[str, Any] = said.get("rope_scaling") or said.get("rope_parameters") or {}
    return rope.get("sliding_attention") or rope.get("full_attention") or rope


def _window(said: Fields, layer: int) -> int | None:
    kinds = said.get("layer_types") or []
    slides = layer < len(kinds) and kinds[layer] == "sliding_attention"
    if not slides or said.get("use_sliding_window") is False:
        return None
    return int(said["sliding_window"])
