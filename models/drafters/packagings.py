"""The table of how drafters are published, and who reads a config.json and tensors by it.

A packaging is one entry of `PACKAGINGS`; listing, fitting, fetching, converting and loading all go
through it. What the entries of a family have in common stands in `blocks.py`, `eagles.py`,
`mtp.py`, `medusa.py` and `assistants.py`. Reads no weights and no files.

Packagings number layers differently. Slipstream's tap k is behind layer k, the first being 1: that
is Hugging Face's hidden_states[k], and what layer k, counted from 0, is given.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from models.architectures import known_to_mlx
from models.drafters import assistants, blocks, eagles, medusa, mtp
from models.drafters.kinds import KINDS, Demands, DrafterDescription, DrafterKind
from models.drafters.published import (
    OTHER,
    Packaging,
    Published,
    behind,
    renamed,
    speculators_kind,
    table,
)
from models.drafters.refusal import DrafterRefused
from models.errors import Problem
from models.in_words import one_line
from models.safetensors_file import TensorLayout

_PARD_TOKENS = 12  # as its authors draft; its config does not say


def _head(published: Published) -> DrafterDescription:
    fingerprint = published.fingerprint()
    if fingerprint is None:
        raise Problem(
            f"{published.called} holds a drafter head that names no target.",
            "Make one: slipstream distil.",
        )
    layers = published.config.get("layers")
    return published.describe(
        taps=tuple(tap for tap in layers if type(tap) is int) if isinstance(layers, list) else (),
        own_embedding=True,
        own_head=True,
        demands=Demands(fingerprint=fingerprint),
        verifier=str(published.config.get("target")),
    )


def _model(published: Published) -> DrafterDescription:
    return published.describe(own_embedding=True, own_head=True, verifier="")


def _pard(published: Published) -> DrafterDescription:
    return replace(_model(published), block=_PARD_TOKENS, predictions=_PARD_TOKENS)


def _pard_mask(published: Published, described: DrafterDescription) -> int:
    return int(published.config["pard_token"])


def _by_speculators(published: Published) -> bool:
    return published.speculators is not None


def _says(*keys: str) -> Callable[[Published], bool]:
    """Whether config.json has one of these keys."""
    return lambda published: any(key in published.config for key in keys)


def _is_of_dflashs_lineage(published: Published) -> bool:
    nested = published.table("dflash_config")
    lends = published.config.get("has_lm_head") is False
    return bool(nested or lends or published.flag("attention_sink_bias"))


_LAYERS = "transformer_layer_config"
_NESTED = "dflash_config"
_AUXILIARY = ("eagle_aux_hidden_state_layer_ids", 0)

_EAGLE3 = Packaging(
    "official",
    ("eagle-3", "p-eagle"),
    eagles.read_eagle3,
    eagles.shape_of,
    tables=(_LAYERS, "model", "eagle_config"),
    names=renamed({"midlayer.": "layers.0."}),
    taps=_AUXILIARY,
)
_DFLASH = Packaging(
    "DeepSpec",
    ("dflash", "dflash2"),
    blocks.read,
    blocks.shape_of,
    names=renamed(
        {  # published without .weight
            f"candidate_selector.{book}_codebook": f"candidate_selector.{book}_codebook.weight"
            for book in ("predecessor", "successor")
        }
    ),
    free_slots=1,
    sees=blocks.rows_before,
)
_DSPARK = Packaging(
    "DeepSpec", ("dspark",), blocks.read, blocks.shape_of, sees=blocks.everything_without_sinks
)
_MTP = Packaging(
    "MLX",
    ("mtp",),
    mtp.read,
    mtp.shape_of,
    is_it=lambda published: mtp.FUSE in published.names,
    tables=("text_config",),
)
_QWEN = {
    "fc.": "fuse.",
    "pre_fc_norm_embedding.": "token_norm.",
    "pre_fc_norm_hidden.": "state_norm.",
    "norm.": "norm.",
    "layers.0.": "layer.",
}
_MIMO = behind(
    r"(model\.)?mtp_layers\.\d+\.",
    "input_proj.weight",
    {
        "input_proj.": "fuse.",
        "token_layernorm.": "token_norm.",
        "hidden_layernorm.": "state_norm.",
        "final_layernorm.": "norm.",
        "": "layer.",
    },
)
_DEEPSEEK = behind(  # behind the last layer; MLX's converters take that apart
    r"(.*\.)?",
    "eh_proj.weight",
    {
        "eh_proj.": "fuse.",
        "enorm.": "token_norm.",
        "hnorm.": "state_norm.",
        "shared_head.norm.": "norm.",
        "shared_head_norm.": "norm.",
        "shared_head.head.": None,
        "embed_tokens.": None,
        "mtp_block.": "layer.",
        "": "layer.",
    },
)

PACKAGINGS = (
    Packaging("Slipstream", ("head",), _head),
    Packaging("mlx-lm", ("model",), _model),
    Packaging("official", ("pard",), _pard, _pard_mask),
    # EAGLE
    replace(_EAGLE3, name="speculators", is_it=_by_speculators),
    replace(_EAGLE3, name="NVIDIA", read=eagles.read_nvidia, is_it=_says("eagle_config")),
    replace(
        _EAGLE3,
        name="DeepSpec",
        is_it=_says("target_layer_ids"),
        taps=("target_layer_ids", 1),
    ),
    _EAGLE3,
    replace(_EAGLE3, kinds=("eagle",), read=eagles.read_eagle),
    # Blocks
    replace(
        _DFLASH,
        name="speculators",
        is_it=_by_speculators,
        tables=(_LAYERS, _NESTED),
        taps=("aux_hidden_state_layer_ids", 0),
        shared_windows=True,
        raw_embedding=True,
    ),
    replace(
        _DFLASH,
        name="transformers",
        kinds=("dflash",),
        architecture=r"MuseGlimmerAssistant",
        model_type=r"muse_glimmer_assistant",
        is_it=lambda published: (
            published.model_type.endswith("_assistant")
            or any("encoder.fc." in name for name in published.tensors)
        ),
        tables=(_NESTED,),
        names=renamed({"encoder.fc.": "fc.", "encoder.output_norm_enc.": "hidden_norm."}),
        sees=blocks.both_sides,
    ),
    replace(_DFLASH, name="z-lab", is_it=_says(_NESTED), tables=(_NESTED,)),
    _DFLASH,
    replace(
        _DSPARK,
        name="speculators",
        is_it=_by_speculators,
        tables=(_LAYERS, _NESTED),
        taps=("aux_hidden_state_layer_ids", 0),
        free_slots=1,
        sees=blocks.where_windows_are_used,
        shared_windows=True,
        raw_embedding=True,
    ),
    replace(
        _DSPARK,
        name="SpecForge",
        is_it=lambda published: published.table(_NESTED).get("projector_type") == "dspark",
        tables=(_NESTED,),
    ),
    replace(
        _DSPARK,
        name="Liquid",
        is_it=lambda published: (
            "target_layer_ids" in published.table(_NESTED)
            and "target_layer_ids" not in published.config
        ),
        tables=(_NESTED,),
    ),
    replace(_DSPARK, name="DFlash lineage", is_it=_is_of_dflashs_lineage, tables=(_NESTED,)),
    _DSPARK,
    # MTP
    replace(_MTP, name="speculators", is_it=_by_speculators, tables=(_LAYERS,), names=_MIMO),
    replace(_MTP, name="Hugging Face", names=behind(r"(.*\.)?mtp\.", "fc.weight", _QWEN)),
    replace(_MTP, names=behind("", "fc.weight", _QWEN)),
    replace(_MTP, name="DeepSeek", names=_DEEPSEEK),
    replace(_MTP, name="MiMo", names=_MIMO),
    replace(_MTP, is_it=lambda published: not published.tensors),
    # Others
    Packaging(
        "transformers",
        ("gemma-4-assistant",),
        assistants.read,
        assistants.shape_of,
        tables=("text_config",),
        names=renamed(
            {"lm_head.weight": None}  # it is the embedding
            | {f"{part}.": f"model.{part}." for part in ("embed_tokens", "layers", "norm")}
        ),
    ),
    Packaging("official", ("medusa",), medusa.read, medusa.shape_of, names=medusa.naming),
)
"""For each kind, the first one that is it counts."""


# Which kind it is


def kind_of(config: Mapping[str, Any], names: Collection[str] = frozenset()) -> DrafterKind | None:
    """The kind that config.json and the `names` of tensors tell; None where they tell none.

    What says most about the packaging is asked first, tensors last: config.json is often a copy of
    the target's.
    """
    model_type = config.get("model_type")
    speculators = speculators_kind(config)
    if speculators is None:
        speculators = table(config, "dflash_config").get("projector_type")
    if model_type == KINDS["head"].model_type:
        return "head"
    if speculators is not None:
        named = {traits.speculators: kind for kind, traits in KINDS.items() if traits.speculators}
        return named.get(speculators) if isinstance(speculators, str) else None
    kind = _kind_of_config(config) or _kind_of_names(config, names)
    if kind is None and isinstance(model_type, str) and known_to_mlx(model_type):
        return "pard" if "pard_token" in config else "model"
    predicts_at_once = "mask_hidden" in names or "ptd_token_id" in config
    return "p-eagle" if kind == "eagle-3" and predicts_at_once else kind


def _kind_of_config(config: Mapping[str, Any]) -> DrafterKind | None:
    """The kind that names and keys in config.json tell which no other kind has."""
    patterns = [(each.kinds[0], each.architecture, each.model_type) for each in PACKAGINGS]
    patterns += [(kind, each.architecture, each.model_type) for kind, each in KINDS.items()]
    architecture, model_type = _architecture(config), config.get("model_type")
    for kind, pattern, _ in patterns:
        if architecture and len(architecture) <= 200 and re.search(pattern, architecture):
            return kind
    for kind, _, pattern in patterns:
        if isinstance(model_type, str) and re.fullmatch(pattern, model_type[:200]):
            return kind
    if "medusa_num_heads" in config:
        return "medusa"
    return "eagle-3" if "eagle_config" in config else None


def _kind_of_names(config: Mapping[str, Any], names: Collection[str]) -> DrafterKind | None:
    """The kind that the names of tensors tell, where config.json is a plain model's."""
    plain = {name.removeprefix("model.") for name in names}

    def begins(*prefixes: str) -> bool:
        return any(name.startswith(prefixes) for name in plain)

    kind: DrafterKind | None = None
    if begins("markov_head."):
        kind = "dspark"
    elif begins("candidate_selector."):
        kind = "dflash2"
    elif begins("midlayer.") or "d2t" in plain:
        kind = "eagle-3"
    elif "pre_projection.weight" in plain:
        kind = "gemma-4-assistant"
    elif "pre_fc_norm_hidden.weight" in plain or _is_all_mtp(config, names):
        kind = "mtp"
    elif medusa.are_heads(names):
        kind = "medusa"
    elif "fc.weight" in plain and "hidden_norm.weight" in plain:
        kind = "dflash"
    elif "fc.weight" in plain and begins("layers.0."):
        kind = "eagle-3" if "norm.weight" in plain else "eagle"
    return kind


def _is_all_mtp(config: Mapping[str, Any], names: Collection[str]) -> bool:
    """Whether there is nothing but an MTP module, taken out of a whole model."""
    prefixes = mtp.prefixes(config, names)
    return bool(prefixes) and all(name.startswith(prefixes) for name in names)


_UNKNOWN = re.compile(r"eagle|medusa|hydra(?!te)|mtp|nextn|specul|draft|dflash|assistant", re.I)
_UNKNOWN_KEYS = ("draft_vocab_size", "eagle_config", "medusa_num_heads", "speculators_config")


def drafts(config: Mapping[str, Any]) -> bool:
    """Whether config.json is a drafting network's, be it of a kind that is known here or by names
    and keys that such networks go by."""
    kind = kind_of(config)
    if kind not in (None, "model") or any(key in config for key in _UNKNOWN_KEYS):
        return True
    architectures = config.get("architectures")
    names = architectures if isinstance(architectures, list) else []
    return any(
        _UNKNOWN.search(name)
        for name in (config.get("model_type"), *names)
        if isinstance(name, str)
    )


# What it is


def classify(
    config: Mapping[str, Any], tensors: Mapping[str, TensorLayout], *, name: str = "The folder"
) -> DrafterDescription:
    """The drafter with this config.json and these tensors; `name` is what messages call it.

    Without tensors config.json alone is believed. Raises Problem where it is of no known kind, is
    quantized in a way that cannot be read, or where config and tensors contradict each other.
    """
    kind = kind_of(config, tensors)
    if kind is None:
        raise unknown_kind(config, name)
    return _describe(Published(kind, config, tensors, name))


def classify_inside(
    config: Mapping[str, Any], tensors: Mapping[str, TensorLayout], *, name: str = "The model"
) -> DrafterDescription | None:
    """The MTP module among the tensors of the target itself; None where it has none.

    Raises Problem as `classify`.
    """
    prefixes = mtp.prefixes(config, tensors)
    if not prefixes:
        return None
    own = {key: layout for key, layout in tensors.items() if key.startswith(prefixes)}
    return replace(_describe(Published("mtp", config, own, name)), prefixes=prefixes)


def _describe(found: Published) -> DrafterDescription:
    if found.kind not in ("head", "model", "pard"):
        found.refuse_unreadable()
    for packaging in PACKAGINGS:
        if found.kind in packaging.kinds:
            spelled = replace(found, packaging=packaging)
            if packaging.is_it(spelled):
                return packaging.read(spelled)
    raise DrafterRefused(
        "unsupported",
        f"{found.called} holds a drafter of a layout that Slipstream does not know.",
        f"{OTHER}, or update Slipstream.",
    )


def unknown_kind(config: Mapping[str, Any], name: str) -> Problem:
    """The Problem of a folder called `name` that should hold a drafter."""
    return Problem(
        f"{name} holds no drafter of a kind that Slipstream knows{_told_kind(config)}.",
        f"{OTHER}, or update Slipstream.",
    )


def published_as(
    described: DrafterDescription,
    config: Mapping[str, Any],
    tensors: Mapping[str, TensorLayout],
    *,
    name: str = "The folder",
) -> Published:
    """A drafter that was described before, in the spelling of its packaging."""
    found = Published(described.kind, config, tensors, name)
    for packaging in PACKAGINGS:
        if described.kind in packaging.kinds and packaging.name == described.packaging:
            return replace(found, packaging=packaging)
    return found


def _architecture(config: Mapping[str, Any]) -> str | None:
    listed = config.get("architectures")
    return listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], str) else None


def _told_kind(config: Mapping[str, Any]) -> str:
    """What config.json calls it, in brackets."""
    told = (speculators_kind(config), _architecture(config), config.get("model_type"))
    named = next((one_line(each)[:60] for each in told if isinstance(each, str) and each), "")
    return f" ({named})" if named else ""
