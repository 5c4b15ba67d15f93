"""The table of how drafters are published.

A packaging is one entry of `PACKAGINGS`: listing, weighing, fetching, converting and loading all go
by it, through `models.drafters.reading`. The common parts of a family's entries are in
`blocks.py`, `eagles.py`, `mtp.py`, `medusa.py` and `assistants.py`. Reads no weights and no files.

Packagings number layers differently. Slipstream's tap k is after layer k, the first being 1: that
is Hugging Face's hidden_states[k], and what layer k, counted from 0, is given.
"""

from collections.abc import Callable
from dataclasses import replace

from models.drafters import assistants, blocks, eagles, medusa, mtp
from models.drafters.kinds import Demands, DrafterDescription
from models.drafters.published import (
    Packaging,
    Published,
    behind,
    renamed,
)
from models.errors import Problem

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
    ("eagle-3",),
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
_DEEPSEEK = behind(  # after the last layer; MLX's converters take that apart
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
    replace(_MTP, is_it=lambda published: not published.tensors),  # config.json alone
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
"""For each kind, the first match counts."""
