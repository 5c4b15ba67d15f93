"""The kinds of drafters, what each reads of the target, and whether it fits that target.

A description is made by `models.drafters.reading`. Knows no files, and no spellings.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from models.memory.shape import read_shape
from models.records import KIND_NAMES as KIND_NAMES
from models.records import DrafterKind as DrafterKind

HEAD_MODEL_TYPE = "slipstream-head"
HEAD_WEIGHTS_NAME = "head.safetensors"
_NEVER = r"(?!)"

Tap = int | Literal["norm"]
"""Where hidden states are read: after layer 1, 2, ...; 0: what the first layer is given, which is
the embedding as the target scales it; "norm": after the final norm."""


@dataclass(frozen=True, slots=True)
class KindTraits:
    """The names of a kind of drafters, and the share of a conversation that they keep.

    Patterns: `architecture` is found in the first of config.json's architectures, `model_type`
    matches all of its model_type. `speculators`: its name in the configs of that library. `keeps`:
    the positions whose keys and values it holds. `own_depth`: whether the number of layers in
    config.json is its own; if not, it has one layer, and config.json may be a copy of the target's.
    """

    architecture: str
    model_type: str
    speculators: str = ""
    keeps: Literal["all", "newest", "none"] = "all"
    own_depth: bool = False


KINDS: Mapping[DrafterKind, KindTraits] = MappingProxyType(
    {
        "dspark": KindTraits(r"DSpark", r"(\w+_)?dspark", "dspark", "newest", True),
        "dflash2": KindTraits(r"DFlash2", r"(\w+_)?dflash2", "dflash2", "newest", True),
        "dflash": KindTraits(r"DFlash", r"(\w+_)?dflash", "dflash", "newest", True),
        "eagle-3": KindTraits(r"Eagle-?3", r"eagle_?3", "eagle3", own_depth=True),
        "eagle": KindTraits(r"Eagle(?!\w*VL)", r"eagle", own_depth=True),
        "gemma-4-assistant": KindTraits(
            r"Gemma4\w*Assistant", r"gemma4(_unified)?_assistant", keeps="none"
        ),
        "medusa": KindTraits(r"Medusa", r"medusa", keeps="none"),
        "mtp": KindTraits(r"MTP", r"\w+_mtp", "mtp"),
        "head": KindTraits(_NEVER, HEAD_MODEL_TYPE),
        "pard": KindTraits(_NEVER, _NEVER),
        "model": KindTraits(_NEVER, _NEVER),
    }
)
"""In the order in which their names are looked for."""


@dataclass(frozen=True, slots=True)
class Demands:
    """The sizes and the fingerprint of weights that the target must have; None allows any.

    `width` is of its hidden states, `vocabulary` the rows of its output layer.
    """

    width: int | None = None
    layers: int | None = None
    vocabulary: int | None = None
    fingerprint: str | None = None

    def misfit(self, width: int, *, layers: int, vocabulary: int) -> str:
        """Return why a target of these sizes cannot be used, as a sentence; empty if it can."""
        if self.width not in (None, width):
            return (
                f"It reads hidden states of {self.width:,} numbers, "
                f"and the target's have {width:,}."
            )
        if self.vocabulary not in (None, vocabulary):
            return (
                f"It was made for a vocabulary of {self.vocabulary:,} tokens, "
                f"and the target's has {vocabulary:,}."
            )
        if self.layers not in (None, layers):
            return (
                f"It was made for a target of {self.layers:,} layers, and this one has {layers:,}."
            )
        return ""


@dataclass(frozen=True, slots=True)
class DrafterDescription:
    """A drafter, as its files describe it.

    `packaging`: the name of its spelling of config keys and tensors. `taps`: the target's states
    that it reads, in Slipstream's numbers; empty if they depend on the target's depth: see
    `taps_for`. `block`: the slots of its one pass, 0 if it drafts token by token; `predictions`:
    the number of slots that propose a token. `own_embedding` and `own_head`: whether it brings its
    own, or borrows the target's. `verifier`: the name of the target that it was trained with, for
    people. `prefixes`: the beginnings of its tensors' names if the files hold others too; empty if
    all are its own.
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
        return KIND_NAMES[self.kind]

    @property
    def is_whole_model(self) -> bool:
        """Whether it is a language model with a tokenizer of its own."""
        return self.kind in ("model", "pard")

    def taps_for(self, layers: int) -> tuple[Tap, ...]:
        """Return the taps in a target of `layers` layers: by default EAGLE-3's own choice.

        EAGLE's code (cnets.py) names them by the layers, counted from 0, that are given the states.
        """
        if self.taps or self.kind != "eagle-3":
            return self.taps
        return 2, layers // 2, layers - 3


def check(
    drafter: DrafterDescription, target: Mapping[str, Any], *, fingerprint: str | None = None
) -> str:
    """Return why `drafter` cannot draft for the target with this config.json, as a sentence; empty
    if its sizes fit. `fingerprint`: of the target's weights, compared if given.

    The names of targets are not compared: see `verifier_note`. Tokens of whole models are compared
    elsewhere. Raises Problem if the target's config does not state its sizes.
    """
    shape, asked = read_shape(target), drafter.demands
    depth = len(shape.layers)
    if misfit := asked.misfit(shape.hidden_size, layers=depth, vocabulary=shape.vocabulary):
        return misfit
    for tap in drafter.taps_for(depth):
        if tap != "norm" and not 0 <= tap <= depth:
            return f"It reads the state after layer {tap:,}, and the target has {depth:,} layers."
    if None not in (fingerprint, asked.fingerprint) and fingerprint != asked.fingerprint:
        return f"It was trained for other weights, of {drafter.verifier}."
    return ""


def verifier_note(drafter: DrafterDescription, target: str) -> str:
    """Return a warning if config.json names another target than `target`; empty if it does not.

    Fine-tuned targets have other names and the same sizes, so this does not refuse a drafter.
    """
    trained, given = plain_name(drafter.verifier), plain_name(target)
    if not trained or not given or trained in given or given in trained:
        return ""
    return f"it was trained with {drafter.verifier}, so fewer of its tokens may be accepted"


def plain_name(name: str) -> str:
    """Return a model's name in small letters, without its owner, its number type and its bits."""
    last = name.rstrip("/").rpartition("/")[2].lower()
    return re.sub(r"[-_](mlx|bf16|fp16|fp8|mxfp\d|nvfp4|q\d|\d+[-_]?bit|qat)\b.*", "", last)
