"""Which drafter a config.json and tensors hold: its kind, its packaging, its description.

Asks the table of packagings. Reads no weights and no files.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from models.architectures import known_to_mlx
from models.drafters import medusa, mtp
from models.drafters.kinds import KINDS, DrafterDescription, DrafterKind
from models.drafters.packagings import PACKAGINGS
from models.drafters.published import OTHER, Published, speculators_kind, table
from models.drafters.refusal import DrafterRefused
from models.errors import Problem
from models.in_words import one_line
from models.safetensors_file import TensorLayout

# Names and keys that drafting networks go by, also of kinds that are not known here: EAGLE, Medusa,
# Hydra, multi-token prediction, IBM's and vLLM's speculators, DFlash, Gemma 4's assistants.
_ANY_NAME = re.compile(r"eagle|medusa|hydra(?!te)|mtp|nextn|specul|draft|dflash|assistant", re.I)
_ANY_KEY = ("draft_vocab_size", "eagle_config", "medusa_num_heads", "speculators_config")


def kind_of(config: Mapping[str, Any], names: Collection[str] = frozenset()) -> DrafterKind | None:
    """Return the kind that config.json and the `names` of tensors show; None if they show none.

    The names that say most are asked first, tensors last: config.json is often a copy of the
    target's.
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
    is_parallel = "mask_hidden" in names or "ptd_token_id" in config  # P-EAGLE's network
    return None if kind in ("eagle-3", "eagle") and is_parallel else kind


def _kind_of_config(config: Mapping[str, Any]) -> DrafterKind | None:
    """Return the kind by names and keys in config.json that no other kind has; None if there are
    none."""
    patterns = [(each.kinds[0], each.architecture, each.model_type) for each in PACKAGINGS]
    patterns += [(kind, each.architecture, each.model_type) for kind, each in KINDS.items()]
    architecture, model_type = _architecture(config), config.get("model_type")
    if architecture and len(architecture) <= 200:
        for kind, pattern, _ in patterns:
            if re.search(pattern, architecture):
                return kind
    if isinstance(model_type, str) and len(model_type) <= 200:
        for kind, _, pattern in patterns:
            if re.fullmatch(pattern, model_type):
                return kind
    if "medusa_num_heads" in config:
        return "medusa"
    return "eagle-3" if "eagle_config" in config else None


def _kind_of_names(config: Mapping[str, Any], names: Collection[str]) -> DrafterKind | None:
    """Return the kind by the names of tensors, for a config.json that is a plain model's; None if
    they show none."""
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
    prefixes = mtp.prefixes(config, names)
    return bool(prefixes) and all(name.startswith(prefixes) for name in names)


def drafts(config: Mapping[str, Any]) -> bool:
    """Whether config.json is a drafting network's: of a kind that is known here, or with names and
    keys that such networks use."""
    kind = kind_of(config)
    if kind not in (None, "model") or any(key in config for key in _ANY_KEY):
        return True
    return any(map(_ANY_NAME.search, names_of(config)))


def names_of(config: Mapping[str, Any]) -> list[str]:
    """Return the model type and the architectures in config.json."""
    architectures = config.get("architectures")
    names = architectures if isinstance(architectures, list) else []
    return [name for name in (config.get("model_type"), *names) if isinstance(name, str)]


def classify(
    config: Mapping[str, Any], tensors: Mapping[str, TensorLayout], *, name: str = "The folder"
) -> DrafterDescription:
    """Return the drafter with this config.json and these tensors; `name` is its name in messages.

    Without tensors config.json alone is believed. Raises Problem for an unknown kind, a
    quantization that cannot be read, or a contradiction between config and tensors.
    """
    kind = kind_of(config, tensors)
    if kind is None:
        raise unknown_kind(config, name)
    return _describe(Published(kind, config, tensors, name))


def classify_inside(
    config: Mapping[str, Any], tensors: Mapping[str, TensorLayout], *, name: str = "The model"
) -> DrafterDescription | None:
    """Return the MTP module among the tensors of the target itself; None if it has none.

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
    """Return the Problem of a folder called `name` that should hold a drafter."""
    kinds = (speculators_kind(config), _architecture(config), config.get("model_type"))
    stated = next((one_line(kind)[:60] for kind in kinds if isinstance(kind, str) and kind), "")
    named = f" ({stated})" if stated else ""
    return Problem(
        f"{name} holds no drafter of a kind that Slipstream knows{named}.",
        f"{OTHER}, or update Slipstream.",
    )


def published_as(
    described: DrafterDescription,
    config: Mapping[str, Any],
    tensors: Mapping[str, TensorLayout],
    *,
    name: str = "The folder",
) -> Published:
    """Return a drafter that was described before, in the spelling of its packaging."""
    found = Published(described.kind, config, tensors, name)
    for packaging in PACKAGINGS:
        if described.kind in packaging.kinds and packaging.name == described.packaging:
            return replace(found, packaging=packaging)
    return found


def _architecture(config: Mapping[str, Any]) -> str | None:
    listed = config.get("architectures")
    return listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], str) else None
