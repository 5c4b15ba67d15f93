"""What kind of drafter a folder holds, from config.json and the names and shapes of its tensors.

Knows how drafters are published: by what each packaging is told apart, how it numbers the target's
layers, and what it demands of the target. Reads no weights and no files, and builds no networks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from models.architectures import known_to_mlx
from models.errors import Problem
from models.safetensors_file import TensorLayout

HEAD_MODEL_TYPE = "slipstream-head"
HEAD_WEIGHTS_NAME = "head.safetensors"

DrafterKind = Literal[
    "head",
    "model",
    "eagle-3",
    "eagle",
    "p-eagle",
    "mtp",
    "gemma-4-assistant",
    "dflash",
    "dflash2",
    "dspark",
    "pard",
    "medusa",
]
KIND_NAMES: Mapping[DrafterKind, str] = MappingProxyType(
    {
        "head": "Head",
        "model": "Model",
        "eagle-3": "EAGLE-3",
        "eagle": "EAGLE",
        "p-eagle": "P-EAGLE",
        "mtp": "MTP",
        "gemma-4-assistant": "Gemma-4 assistant",
        "dflash": "DFlash",
        "dflash2": "DFlash2",
        "dspark": "DSpark",
        "pard": "PARD",
        "medusa": "Medusa",
    }
)
Tap = int | Literal["norm"]
"""Where hidden states are read: behind layer 1, 2, ...; 0: what the first layer is given, which is
the embedding as the target scales it; "norm": behind the final norm."""


@dataclass(frozen=True, slots=True)
class Demands:
    """What the target must be: its sizes, and the fingerprint of its weights; None asks for none.

    `width` is of its hidden states, `vocabulary` the rows of its output layer.
    """

    width: int | None = None
    layers: int | None = None
    vocabulary: int | None = None
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class DrafterDescription:
    """A drafter, as its files describe it.

    `packaging`: whose spelling of config keys and tensor names it is. `taps`: the target's states
    that it reads, in Slipstream's numbers; empty where they depend on the target's depth, or there
    are none: `taps_for` has them all. `block`: the slots of its one pass, 0 where it drafts token
    by token; `predictions`: how many of them propose a token. `own_embedding` and `own_head`:
    whether it has its own, or borrows the target's. `verifier` names the target that it was trained
    with, for people. `prefixes`: how the names of its tensors begin, where the files hold others
    too; empty where all are its own.
    """

    kind: DrafterKind
    packaging: str
    taps: tuple[Tap, ...] = ()
    block: int = 0
    predictions: int = 0
    own_embedding: bool = False
    own_head: bool = False
    demands: Demands = field(default_factory=Demands)
    verifier: str = ""
    prefixes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The kind, for people."""
        return KIND_NAMES[self.kind]

    @property
    def is_whole_model(self) -> bool:
        """Whether it writes text by itself, and has the tokens of its own tokenizer."""
        return self.kind in ("model", "pard")


def kind_of(config: Mapping[str, Any], names: frozenset[str] = frozenset()) -> DrafterKind | None:
    """The kind that config.json and the `names` of tensors tell; None where they tell none."""
    model_type = config.get("model_type")
    if model_type == HEAD_MODEL_TYPE:
        return "head"
    return "model" if isinstance(model_type, str) and known_to_mlx(model_type) else None


def classify(
    config: Mapping[str, Any], tensors: Mapping[str, TensorLayout], *, name: str = "The folder"
) -> DrafterDescription:
    """The drafter with this config.json and these tensors; `name` is what messages call it.

    Raises Problem where it is of no known kind, or its config and tensors contradict each other.
    """
    kind = kind_of(config, frozenset(tensors))
    if kind == "head":
        return _head(config, name)
    if kind == "model":
        return DrafterDescription("model", "mlx-lm", own_embedding=True, own_head=True)
    raise Problem(
        f"{name} holds no drafter of a kind that Slipstream knows.",
        "Choose another drafter, or update Slipstream.",
    )


def _head(config: Mapping[str, Any], name: str) -> DrafterDescription:
    fingerprint, layers = config.get("target_fingerprint"), config.get("layers")
    if not isinstance(fingerprint, str):
        raise Problem(
            f"{name} holds a drafter head that names no target.", "Make one: slipstream distil."
        )
    taps = layers if isinstance(layers, list) else []
    return DrafterDescription(
        "head",
        "Slipstream",
        taps=tuple(tap for tap in taps if type(tap) is int),
        own_embedding=True,
        own_head=True,
        demands=Demands(fingerprint=fingerprint),
        verifier=str(config.get("target")),
    )
