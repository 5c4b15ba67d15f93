"""Drafters of a block of tokens in one pass: DFlash, DFlash2 and DSpark, in all packagings.

Sizes come from the tensors. config.json is often a copy of the target's, and is read only for facts
that tensors do not show: the tapped layers, how far a row sees, how positions are rotated.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from models.drafters.kinds import DrafterDescription, Tap
from models.drafters.published import Published, Seen
from models.drafters.refusal import DrafterRefused
from models.model_folder import MOST_LAYERS

_MOST_ROWS = 256  # of a block; published ones have 16 at most
_FIRST = "layers.0.self_attn"
_MARKOV = "markov_head"
_SELECTOR = "candidate_selector"


@dataclass(frozen=True, slots=True)
class Rotation:
    """The rotation of positions: of the first `dims` of a head; `scaling` as mlx-lm reads it."""

    dims: int
    base: float
    scaling: Mapping[str, Any] | None = None
    interleaved: bool = False
    longest: int = 32768


@dataclass(frozen=True, slots=True)
class SelectorShape:
    """The sizes of DFlash2's additions: convolutions that reach over `reach` rows, with a kernel
    for each `group` of channels, and a choice among `candidates` tokens by codebooks."""

    reach: int
    group: int
    rank: int
    candidates: int
    vocabulary: int


@dataclass(frozen=True, slots=True)
class MarkovShape:
    """The sizes of DSpark's addition to a slot's logits: `tokens` embeddings of `rank` numbers, and
    `rows` logits. `form`: added plainly, through a gate, or through a state that runs along the
    block."""

    form: Literal["plain", "gated", "recurrent"]
    tokens: int
    rows: int
    rank: int


@dataclass(frozen=True, slots=True)
class BlockShape:
    """The sizes of a block drafter.

    `taps`: the layers whose states it reads. By layer, `windows`: the number of positions that a
    row sees, itself included, None for all; `causal`: whether a row sees only those before it.
    `block_size`: rows; each row from `first_slot` on proposes a token. `gated`: queries come
    with a gate; `tied_values`: values are made of the keys' projection; `gemma`: norms, activation
    and scale are Gemma-4's; `sinks`: attention may go nowhere; `shared_windows`: all rows of a
    block see the window before the block.

    `embedding` and `output`: rows and columns of its own, None if it borrows the target's;
    `embedding_scale`: the factor for embeddings, None for the target's own; `soft_cap` of its
    logits. `centred`: the rotation if its norms turn out to be stored without the 1 that is added
    to them; None if they never are. `selector`, `markov` and `confidence` (the columns of the
    matrix that says how sure it is): None or 0 without such a part.
    """

    hidden_size: int
    target_width: int
    taps: tuple[Tap, ...]
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    rms_norm_eps: float
    rotation: Rotation
    windows: tuple[int | None, ...]
    causal: tuple[bool, ...]
    block_size: int
    mask_token: int
    first_slot: int = 1
    gated: bool = False
    tied_values: bool = False
    biased: bool = False
    sinks: bool = False
    gemma: bool = False
    shared_windows: bool = False
    embedding: tuple[int, int] | None = None
    output: tuple[int, int] | None = None
    embedding_scale: float | None = None
    soft_cap: float | None = None
    centred: Rotation | None = None
    selector: SelectorShape | None = None
    markov: MarkovShape | None = None
    confidence: int = 0

    @property
    def most(self) -> int:
        return self.block_size - self.first_slot

    def rows(self, length: int) -> int:
        """Return the number of a block's rows to read for `length` tokens: not all of them if every
        layer is causal, as no row then sees those after it."""
        return self.first_slot + length if all(self.causal) else self.block_size


def read(published: Published) -> DrafterDescription:
    """Return the description of a block drafter. Raises `Problem`."""
    block, depth = published.number("block_size"), published.number("num_target_layers")
    free, proposed = published.packaging.free_slots, published.proposed()
    if block is not None and proposed in (block, block - 1):
        free = block - proposed  # what a published config proposes settles it
    elif (anchored := published.flag("sample_from_anchor")) is not None:
        free = 0 if anchored else 1
    (key, shift), own = published.packaging.taps, published.packaging.name == "z-lab"
    taps = published.ids(key, shift=shift)
    if taps is None and own and depth is not None and depth <= MOST_LAYERS:
        # Its own code chooses so; the choice of others is not known.
        taps = _spread(published.number("num_hidden_layers") or 1, depth)
    if block is None:
        raise published.silence("the size of its block")
    if taps is None:
        raise published.silence("the target's layers it reads")
    width = published.width(published.matrix("fc.weight"), len(taps))
    return published.describe(
        taps=taps,
        block=block,
        predictions=max(block - free, 0),
        demands=published.demands(width=width, layers=depth),
    )


def _spread(count: int, depth: int) -> tuple[int, ...]:
    """Return z-lab's default taps: evenly over the layers 1 to depth - 3, counted from 0."""
    if count == 1:
        return (depth // 2 + 1,)
    return tuple(round(1 + i * (depth - 4) / (count - 1)) + 1 for i in range(count))


def shape_of(published: Published, described: DrafterDescription) -> BlockShape:
    """Return the shape that the network is built by. Raises KeyError, ValueError and the like, and
    `DrafterRefused` if it has parts that are not known here."""
    if published.fields.get("log_snr_conditioning"):
        raise DrafterRefused(
            "unsupported",
            f"{published.called} reads how noisy its tokens are (log SNR conditioning).",
            "Choose another drafter.",
        )
    said, dim = published.fields, published.rows(f"{_FIRST}.q_norm.weight")
    if described.predictions < 1 or described.block > _MOST_ROWS:
        raise ValueError(f"its block has {described.block} rows")
    heads, depth = published.columns(f"{_FIRST}.o_proj.weight") // dim, published.depth()
    gated = published.rows(f"{_FIRST}.q_proj.weight") == 2 * heads * dim
    windows, causal = published.packaging.sees(published, depth)
    rotation = rotation_of(said, dim)
    scaling = said.get("rope_parameters") or {}
    partly = rotation_of(said, int(dim * float(scaling.get("partial_rotary_factor", 1.0))))
    dspark = described.kind == "dspark"
    like_qwen = dspark and published.model_type.startswith(("qwen3_5", "qwen3_next"))
    return BlockShape(
        hidden_size=published.rows("fc.weight"),
        target_width=published.columns("fc.weight") // len(described.taps),
        taps=described.taps,
        num_attention_heads=heads,
        num_key_value_heads=published.rows(f"{_FIRST}.k_proj.weight") // dim,
        head_dim=dim,
        intermediate_size=published.rows("layers.0.mlp.gate_proj.weight"),
        rms_norm_eps=float(said.get("rms_norm_eps", 1e-6)),
        # Most of a config is a copy of the target's: partly rotated heads come with a gate.
        rotation=partly if dspark and gated else rotation,
        windows=windows,
        causal=causal,
        block_size=described.block,
        mask_token=int(said["mask_token_id"]),
        first_slot=described.block - described.predictions,
        gated=gated,
        tied_values=not published.has(f"{_FIRST}.v_proj.weight"),
        biased=published.has(f"{_FIRST}.q_proj.bias"),
        sinks=published.has(f"{_FIRST}.attention_sink_bias"),
        gemma=published.has("layers.0.layer_scalar"),
        shared_windows=published.packaging.shared_windows,
        embedding=_sizes(published, "embed_tokens.weight"),
        output=_sizes(published, "lm_head.weight"),
        embedding_scale=_embedding_scale(published),
        soft_cap=said.get("final_logit_softcapping"),
        centred=partly if like_qwen else None,
        selector=_selector(published) if described.kind == "dflash2" else None,
        markov=_markov(published) if dspark else None,
        confidence=published.columns("confidence_head.proj.weight")
        if dspark and published.has("confidence_head.proj.weight")
        else 0,
    )


def _sizes(published: Published, name: str) -> tuple[int, int] | None:
    return (published.rows(name), published.columns(name)) if published.has(name) else None


def _embedding_scale(published: Published) -> float | None:
    if "input_embedding_scale" in published.fields:
        return float(published.fields["input_embedding_scale"])
    if published.has("embed_tokens.weight"):
        gemma = published.has("layers.0.layer_scalar")
        return float(published.rows("fc.weight") ** 0.5) if gemma else 1.0
    return 1.0 if published.packaging.raw_embedding else None


def _selector(published: Published) -> SelectorShape:
    _, reach, width = published.layout("layers.0.attention_conv.base_kernel").shape
    kernels = published.rows("layers.0.attention_conv.kernel_projection.weight")
    return SelectorShape(
        reach=reach,
        group=width // (kernels // (2 * reach)),
        rank=published.rows(f"{_SELECTOR}.hidden_projection.weight"),
        candidates=int(published.fields["selector_top_k"]),
        vocabulary=published.rows(f"{_SELECTOR}.predecessor_codebook.weight"),
    )


def _markov(published: Published) -> MarkovShape | None:
    if not published.has(f"{_MARKOV}.markov_w1.weight"):
        return None
    gated = published.has(f"{_MARKOV}.gate_proj.weight")
    recurrent = published.has(f"{_MARKOV}.joint_proj.weight")
    return MarkovShape(
        form="gated" if gated else "recurrent" if recurrent else "plain",
        tokens=published.rows(f"{_MARKOV}.markov_w1.weight"),
        rows=published.rows(f"{_MARKOV}.markov_w2.weight"),
        rank=published.columns(f"{_MARKOV}.markov_w1.weight"),
    )


def rotation_of(said: Mapping[str, Any], dims: int) -> Rotation:
    """Return the rotation that Qwen3's own code reads from config.json."""
    scaling: dict[str, Any] = said.get("rope_parameters") or said.get("rope_scaling") or {}
    scaling = scaling.get("full_attention", scaling)  # of a Gemma
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    base = scaling.get("rope_theta") or said.get("rope_theta") or 10000.0
    longest = int(said.get("max_position_embeddings") or 32768)
    if kind == "yarn":
        scaling = {"original_max_position_embeddings": longest} | scaling
    return Rotation(
        dims=dims,
        base=float(base),
        scaling=None if kind in ("default", "mrope") else {**scaling, "rope_type": kind},
        interleaved=said.get("rope_is_neox_style") is False,
        longest=longest,
    )


# What the rows of a block see, by packaging


def rows_before(published: Published, depth: int) -> Seen:
    """Return for each layer of a DFlash its window, and whether a row sees only the block's rows
    before it. Sliding layers do, unless config.json decides it for all layers."""
    said, sliding = published.fields, _sliding(published, depth)
    window = int(said["sliding_window"]) if any(sliding) else None
    causal = sliding
    if said.get("sliding_window_non_causal"):
        causal = (False,) * depth
    for name in ("is_causal", "causal", "dflash_query_causal"):
        if said.get(name) is not None:
            causal = (bool(said[name]),) * depth
    return tuple(window if slides else None for slides in sliding), causal


def both_sides(published: Published, depth: int) -> Seen:
    """Return as `rows_before`, for a DFlash of transformers: a row sees the block on both sides,
    and the window counts its distance to other rows."""
    if not any(sliding := _sliding(published, depth)):
        return rows_before(published, depth)
    window = int(published.fields["sliding_window"]) + 1
    return tuple(window if slides else None for slides in sliding), (False,) * depth


def where_windows_are_used(published: Published, depth: int) -> Seen:
    """Return as `rows_before`, for a DSpark by speculators: a row sees everything, unless
    config.json says that windows are used."""
    said, sliding = published.fields, _sliding(published, depth)
    window = said.get("sliding_window") if said.get("use_sliding_window") else None
    if window is None or not any(sliding):
        return (None,) * depth, (False,) * depth
    causal = not said.get("sliding_window_non_causal")
    windows = tuple(int(window) if each else None for each in sliding)
    return windows, tuple(each and causal for each in sliding)


def everything_without_sinks(published: Published, depth: int) -> Seen:
    """Return as `rows_before`, for a DSpark: a row sees everything, unless the network descends
    from DFlash's sliding layers, which have attention sinks."""
    said = published.fields
    causal = bool(said.get("dflash_query_causal") or said.get("causal"))
    if not causal and not published.has(f"{_FIRST}.attention_sink_bias"):
        return (None,) * depth, (False,) * depth
    window = said.get("sliding_window")
    if said.get("use_swa"):
        window = window or said.get("swa_window_size")
    return (int(window) if window else None,) * depth, (causal,) * depth


def _sliding(published: Published, depth: int) -> tuple[bool, ...]:
    """Return for each layer whether it sees only a window. The target's list may be longer."""
    kinds = published.fields.get("layer_types") or ["full_attention"] * depth
    if len(kinds) < depth:
        raise ValueError("layer_types")
    return tuple(kind == "sliding_attention" for kind in kinds[:depth])
