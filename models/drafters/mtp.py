"""MTP modules: among a target's tensors, in files of their own, or taken out by converters."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from models.drafters.kinds import DrafterDescription
from models.drafters.published import NORM, TRUNKS, Fields, Published, number, table
from models.drafters.refusal import DrafterRefused
from models.model_folder import MOST_LAYERS

FUSE = "fuse.weight"


@dataclass(frozen=True, slots=True)
class MtpShape:
    """The size that a module is built by, with its target: the `width` of the states it reads."""

    width: int


def read(published: Published) -> DrafterDescription:
    fused = published.matrix(FUSE)
    if fused is not None and fused[1] != 2 * fused[0]:
        raise published.contradiction("it does not take an embedding and a state of one width")
    # A sidecar has the target's whole text_config; others may have their own depth.
    is_sidecar = published.packaging.name == "MLX" and "text_config" in published.config
    depth = number(_text(published.config), "num_hidden_layers", most=MOST_LAYERS)
    return published.describe(
        taps=NORM,
        own_embedding=any("embed_tokens" in name for name in published.tensors),
        own_head=any("shared_head.head." in name for name in published.tensors),
        demands=published.demands(
            width=fused[0] if fused else published.number("hidden_size"),
            layers=depth if is_sidecar else None,
        ),
    )


def shape_of(published: Published, described: DrafterDescription) -> MtpShape:
    """Return the sizes of the module. Raises KeyError, IndexError, `DrafterRefused`."""
    if published.fields.get("mtp_use_dedicated_embeddings"):
        raise DrafterRefused(
            "unsupported",
            f"The MTP module in {published.called} has an embedding of its own.",
            "Choose a module that shares its target's embedding.",
        )
    published.layout(FUSE)
    return MtpShape(published.rows("norm.weight"))


def module_config(config: Fields) -> dict[str, Any]:
    """The config.json of a module that is taken out of the model with this one."""
    own = {key: value for key, value in config.items() if key != "architectures"}
    return own | {"model_type": f"{config.get('model_type')}_mtp"}


def had_module(config: Fields) -> bool:
    """Whether a model with this config.json was published with a module of its own."""
    keys = ("mtp_num_hidden_layers", "num_nextn_predict_layers")
    return number(_text(config), *keys, most=MOST_LAYERS) is not None


def prefixes(config: Fields, names: Collection[str]) -> tuple[str, ...]:
    """Return the beginnings of the names of a module's tensors in a whole model, if it has any.

    They have a branch of their own (Qwen, MiMo), or are the layers after the last (DeepSeek, GLM).
    """
    found = [
        prefix
        for trunk in ("", *reversed(TRUNKS))
        for prefix in (f"{trunk}mtp.", f"{trunk}mtp_layers.")
        if any(name.startswith(prefix) for name in names)
    ]
    if found:
        return tuple(found)
    depth = number(_text(config), "num_hidden_layers", most=MOST_LAYERS)
    more = number(_text(config), "num_nextn_predict_layers", most=MOST_LAYERS) or 0
    layers = [f"model.layers.{(depth or 0) + i}." for i in range(more)] if depth else []
    return tuple(prefix for prefix in layers if f"{prefix}eh_proj.weight" in names)


def _text(config: Fields) -> Fields:
    """Return the table with the sizes of the text model: `text_config` if there is one, or else all
    of the config."""
    return table(config, "text_config") or config
