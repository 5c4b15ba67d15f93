"""A drafter as it was published: config.json, and the names and shapes of its tensors.

Reads both by the spelling of one publisher, so that callers know only our keys and names.
Reads no weights and no files.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from models.drafters.kinds import Demands, DrafterDescription, DrafterKind, Tap
from models.drafters.refusal import DrafterRefused
from models.in_words import one_line
from models.model_folder import MOST_LAYERS
from models.safetensors_file import TensorLayout

TRUNKS = ("model.language_model.", "language_model.", "model.")
OTHER = "Choose another drafter"
_FOREIGN_WEIGHTS = re.compile(
    r"\.(qweight|qzeros|weight_packed|weight_scale(_inv|_2)?|input_scale|absmax|SCB)$"
)
_MLX_MODES = ("affine", "mxfp4", "mxfp8", "nvfp4")
_LARGEST = 1 << 26

Fields = Mapping[str, Any]
Seen = tuple[tuple[int | None, ...], tuple[bool, ...]]
"""By layer, how far a row sees, None for everything, and whether it sees only those before it."""
Naming = Callable[[Collection[str]], Mapping[str, str]]
"""From the names of published tensors to those names by our networks' names."""


def renamed(beginnings: Mapping[str, str | None]) -> Naming:
    """Return a naming by a table of beginnings: published, without the trunk's, to ours.

    A key without a dot at its end is a whole name. None leaves a tensor out. The first beginning
    that fits counts. Example: {"midlayer.": "layers.0.", "t2d": None}.
    """

    def naming(names: Collection[str]) -> Mapping[str, str]:
        found = {}
        for name in names:
            trunk = next((trunk for trunk in TRUNKS if name.startswith(trunk)), "")
            ours = _ours(name.removeprefix(trunk), beginnings)
            if ours is not None:
                found[ours] = name
        return found

    return naming


def behind(root: str, mark: str, beginnings: Mapping[str, str | None]) -> Naming:
    """Return a naming as `renamed` does, for a module among other tensors. Its names begin with a
    match of the pattern `root`, which the name `mark` follows in one of them. Of several modules
    the first counts."""
    marked = re.compile(f"(?:{root}){re.escape(mark)}")

    def naming(names: Collection[str]) -> Mapping[str, str]:
        found = sorted(filter(marked.fullmatch, names), key=lambda name: (len(name), name))
        if not found:
            return {}
        before = found[0].removesuffix(mark)
        inside = {name: name.removeprefix(before) for name in names if name.startswith(before)}
        named = ((_ours(plain, beginnings), name) for name, plain in inside.items())
        return {ours: name for ours, name in named if ours is not None}

    return naming


def _ours(name: str, beginnings: Mapping[str, str | None]) -> str | None:
    if name.startswith("verifier_") or "rotary_emb." in name:  # the target's; computed
        return None
    for theirs, ours in beginnings.items():
        begins = name.startswith(theirs) and (not theirs or theirs.endswith("."))
        if begins or name == theirs:
            return ours and ours + name.removeprefix(theirs)
    return name


_AS_PUBLISHED = renamed({})
_NEVER = r"(?!)"


@dataclass(frozen=True, slots=True)
class Packaging:
    """An entry of the table: the files in which a publisher writes drafters of some `kinds`.

    `is_it`: whether a drafter of such a kind is in this packaging. `read` makes the description,
    `network` the shape that the engine builds the network by.

    `architecture` and `model_type`: patterns of names that show its first kind, if the kind's own
    do not. `tables`: keys of config.json whose tables count as part of it; the last table with a
    key counts most. `names` of tensors. `taps`: the key of the layers whose states it reads, and
    the number that is added to each for ours.

    Of block drafters `free_slots`: the number of slots that propose nothing, if config.json does
    not say; `sees`: the rows that a row sees, by layer, from the number of layers;
    `shared_windows`: whether all rows of a block see the window before the block; `raw_embedding`:
    whether it was trained with a copy of the target's table alone.
    """

    name: str
    kinds: tuple[DrafterKind, ...]
    read: Callable[["Published"], DrafterDescription]
    network: Callable[["Published", DrafterDescription], Any] | None = None
    is_it: Callable[["Published"], bool] = lambda published: True
    architecture: str = _NEVER
    model_type: str = _NEVER
    tables: tuple[str, ...] = ()
    names: Naming = _AS_PUBLISHED
    taps: tuple[str, int] = ("target_layer_ids", 1)
    free_slots: int = 0
    sees: Callable[["Published", int], Seen] = lambda published, depth: (
        (None,) * depth,
        (False,) * depth,
    )
    shared_windows: bool = False
    raw_embedding: bool = False


AS_IT_IS = Packaging(
    "",
    (),
    lambda published: published.describe(),
    tables=("transformer_layer_config", "text_config"),
)
"""The spelling by which a packaging is looked for."""


@dataclass(frozen=True)
class Published:
    """A drafter of a known kind, in the spelling of a packaging. `called`: its name in messages."""

    kind: DrafterKind
    config: Fields
    tensors: Mapping[str, TensorLayout]
    called: str
    packaging: Packaging = field(default=AS_IT_IS)

    def refuse_unreadable(self) -> None:
        """Raise `DrafterRefused` if the weights are quantized in a way that is not MLX's, or packed
        in a way that config.json does not state."""
        for key in ("quantization", "quantization_config", "compression_config"):
            for place in (self.config, self.fields):
                settings = place.get(key)
                if settings and not _is_readable(settings):
                    method = settings.get("quant_method") if isinstance(settings, dict) else None
                    self._refuse_quantized(method if isinstance(method, str) else "")
        if any(_FOREIGN_WEIGHTS.search(name) for name in self.tensors):
            self._refuse_quantized("")
        if self.quantization is None and any(name.endswith(".scales") for name in self.tensors):
            why = "its weights are packed, and it does not say in how many bits"
            raise self.contradiction(why)

    def _refuse_quantized(self, method: str) -> None:
        named = f" ({one_line(method)[:40]})" if method else ""
        raise DrafterRefused(
            "unsupported",
            f"{self.called} is quantized in a way that cannot be read{named}.",
            "Use a version with 16-bit weights, or a version quantized for MLX.",
        )

    def contradiction(self, why: str) -> DrafterRefused:
        return DrafterRefused(
            "damaged",
            f"The config.json of {self.called} does not fit its weights: {why}.",
            "Fetch the drafter again, or choose another.",
        )

    def silence(self, missing: str) -> DrafterRefused:
        return DrafterRefused(
            "damaged",
            f"The config.json of {self.called} does not say {missing}.",
            f"Fetch the drafter again, or {OTHER.lower()}.",
        )

    # config.json

    @cached_property
    def fields(self) -> Fields:
        """config.json in one table, without its null fields."""
        merged: dict[str, Any] = {}
        for place in (self.config, *map(self.table, self.packaging.tables)):
            merged |= {key: value for key, value in place.items() if value is not None}
        return MappingProxyType(merged)

    def table(self, key: str) -> Fields:
        return table(self.config, key)

    @property
    def model_type(self) -> str:
        """The architecture of its layers; empty if config.json does not name it."""
        return str(self.fields.get("model_type", ""))

    def number(self, *keys: str) -> int | None:
        """Return the first positive whole number under these keys; None if there is none."""
        return number(self.fields, *keys)

    def flag(self, key: str) -> bool | None:
        """Return the truth value under `key` in config.json; None for anything else."""
        value = self.fields.get(key)
        return value if isinstance(value, bool) else None

    def ids(self, key: str, *, shift: int) -> tuple[int, ...] | None:
        """Return the layers under `key`, as taps; None without any. A list at the top of
        config.json counts before an inner table's. Raises `DrafterRefused` for impossible
        layers."""
        listed = self.config.get(key) or self.fields.get(key)
        if listed is None:
            return None
        sound = isinstance(listed, list) and all(
            type(each) is int and 0 <= each + shift <= MOST_LAYERS + shift for each in listed
        )
        if not sound or not listed:
            raise DrafterRefused(
                "damaged",
                f"The config.json of {self.called} names layers that cannot be.",
                f"Fetch the drafter again, or {OTHER.lower()}.",
            )
        return tuple(each + shift for each in listed)

    @cached_property
    def speculators(self) -> str | None:
        """Its kind as speculators names it: see `speculators_kind`."""
        return speculators_kind(self.config)

    def proposed(self) -> int | None:
        """Return the number of tokens that a draft has by speculators' config; None if it does not
        say."""
        methods = self.table("speculators_config").get("proposal_methods")
        first = methods[0] if isinstance(methods, list) and methods else None
        return number(first, "speculative_tokens") if isinstance(first, Mapping) else None

    def fingerprint(self) -> str | None:
        """Return the fingerprint of the target's weights, which only drafters distilled here
        have."""
        value = self.config.get("target_fingerprint")
        return value if isinstance(value, str) else None

    def verifier(self) -> str:
        """Return the name of the target that it was trained with; empty if config.json does not
        name it."""
        name = table(self.table("speculators_config"), "verifier").get("name_or_path")
        name = name or self.config.get("base_model_name_or_path")
        return one_line(name)[:100] if isinstance(name, str) else ""

    # Tensors, by our names

    @cached_property
    def names(self) -> Mapping[str, str]:
        """From our network's names of the tensors to their names in the files."""
        return self.packaging.names(self.tensors)

    def has(self, *names: str) -> bool:
        return any(name in self.names for name in names)

    def layout(self, name: str) -> TensorLayout:
        """Return the layout of the tensor of this name. Raises KeyError."""
        if name not in self.names:
            raise KeyError(name)
        return self.tensors[self.names[name]]

    def rows(self, name: str) -> int:
        """Return the rows of the tensor or vector of this name. Raises KeyError, IndexError."""
        return self.layout(name).shape[0]

    def columns(self, name: str) -> int:
        """Return the columns of the matrix of this name, unpacked. Raises KeyError, IndexError."""
        base = name.removesuffix(".weight")
        if not self.has(f"{base}.scales") or self.quantization is None:
            return self.layout(name).shape[1]
        own = self.quantization.get(self.names[name].removesuffix(".weight"))
        settings = own if isinstance(own, Mapping) else self.quantization
        return self.layout(f"{base}.scales").shape[1] * (number(settings, "group_size") or 64)

    def matrix(self, name: str) -> tuple[int, int] | None:
        """Return the rows and columns of a matrix, unpacked; None if it is missing."""
        if not self.has(name) or len(self.layout(name).shape) != 2:
            return None
        scales = self.names.get(f"{name.removesuffix('.weight')}.scales", "")
        if scales and len(self.tensors[scales].shape) != 2:
            return self.layout(name).shape[0], self.layout(name).shape[1]
        return self.rows(name), self.columns(name)

    def depth(self) -> int:
        """Return the number of layers. Raises ValueError without any."""
        return 1 + max(int(name.split(".")[1]) for name in self.names if name.startswith("layers."))

    @cached_property
    def quantization(self) -> Fields | None:
        """The way in which matrices are packed; None if they are not, or not in MLX's way."""
        for key in ("quantization", "quantization_config"):
            for place in (self.config, self.fields):
                settings = place.get(key)
                if isinstance(settings, Mapping) and _is_readable(settings):
                    return settings
        return None

    # What descriptions have in common

    def demands(self, *, width: int | None, layers: int | None = None) -> Demands:
        return Demands(width, layers, self.vocabulary(), self.fingerprint())

    def vocabulary(self) -> int | None:
        """Return the number of rows of the target's output layer; None if not known."""
        if self.has("t2d") and len(self.layout("t2d").shape) == 1:
            return self.rows("t2d")
        return self.number("vocab_size")

    def width(self, fused: tuple[int, int] | None, taps: int) -> int | None:
        """Return the width of the target's states; None if not known. `fused`: the shape of the
        matrix that takes `taps` of them together, if there is one. Raises `DrafterRefused` for a
        contradiction."""
        width = self.number("target_hidden_size", "backbone_hidden_size")
        if fused is None or not taps:
            return width or self.number("hidden_size")
        if fused[1] % taps or width not in (None, fused[1] // taps):
            raise self.contradiction(
                f"it takes {taps} states of the target together, which would be of "
                f"{fused[1] / taps:,.1f} numbers each"
            )
        return fused[1] // taps

    def describe(self, **known: Any) -> DrafterDescription:
        """Return a description with the `known` fields, and the fields that all kinds share."""
        common: dict[str, Any] = {
            "own_embedding": self.has("embed_tokens.weight"),
            "own_head": self.has("lm_head.weight"),
            "verifier": self.verifier(),
        }
        return DrafterDescription(self.kind, self.packaging.name, **common | known)


NORM: tuple[Tap, ...] = ("norm",)


def speculators_kind(config: Fields) -> str | None:
    """Return the kind by its name in speculators; "" if the name is not text, None if speculators
    did not write the config."""
    kind = config.get("speculators_model_type")
    if kind is None:
        kind = table(config, "speculators_config").get("algorithm")
    return kind if isinstance(kind, str) or kind is None else ""


def table(config: Fields, key: str) -> Fields:
    found = config.get(key)
    return found if isinstance(found, Mapping) else {}


def number(config: Fields, *keys: str, most: int = _LARGEST) -> int | None:
    """The first positive whole number under these keys, at most `most`."""
    for key in keys:
        value = config.get(key)
        if type(value) is int and 0 < value <= most:
            return value
    return None


def _is_readable(settings: object) -> bool:
    """Whether these settings are of MLX's own quantization."""
    if not isinstance(settings, Mapping) or "quant_method" in settings:
        return False
    mode = settings.get("mode", "affine")
    return number(settings, "bits", most=8) is not None and mode in _MLX_MODES
