"""How drafters are published: what config.json and the names and shapes of tensors say about one.

Knows by what each packaging is told apart, how it spells its keys and tensors, and how it numbers
the target's layers. Reads no weights and no files.

Packagings number layers differently. Slipstream's tap k is behind layer k, the first being 1: that
is Hugging Face's hidden_states[k], and what layer k, counted from 0, is given.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from models.architectures import known_to_mlx
from models.drafters.kinds import (
    HEAD_MODEL_TYPE,
    Demands,
    DrafterDescription,
    DrafterKind,
    Packaging,
    Tap,
    network_config,
)
from models.errors import Problem
from models.in_words import one_line
from models.model_folder import MOST_LAYERS
from models.safetensors_file import TensorLayout

_BY_SPECULATORS: Mapping[str, DrafterKind] = MappingProxyType(
    {
        "eagle3": "eagle-3",
        "peagle": "p-eagle",
        "mtp": "mtp",
        "dflash": "dflash",
        "dflash2": "dflash2",
        "dspark": "dspark",
    }
)
_BY_ARCHITECTURE: tuple[tuple[str, DrafterKind], ...] = (
    (r"DSpark", "dspark"),
    (r"DFlash2", "dflash2"),
    (r"DFlash|MuseGlimmerAssistant", "dflash"),
    (r"P-?[Ee]agle", "p-eagle"),
    (r"Eagle-?3", "eagle-3"),
    (r"Eagle(?!\w*VL)", "eagle"),
    (r"Gemma4\w*Assistant", "gemma-4-assistant"),
    (r"Medusa", "medusa"),
    (r"MTP", "mtp"),
)
_BY_MODEL_TYPE: tuple[tuple[str, DrafterKind], ...] = (
    (r"(\w+_)?dspark", "dspark"),
    (r"(\w+_)?dflash2", "dflash2"),
    (r"(\w+_)?dflash|muse_glimmer_assistant", "dflash"),
    (r"p_?eagle", "p-eagle"),
    (r"eagle_?3", "eagle-3"),
    (r"eagle", "eagle"),
    (r"gemma4(_unified)?_assistant", "gemma-4-assistant"),
    (r"medusa", "medusa"),
    (r"\w+_mtp", "mtp"),
)
_MEDUSA_ROWS = re.compile(r"(?:medusa_head\.)?(\d+)\.\d+\.weight")
_MTP_TRUNKS = ("", "model.", "language_model.", "model.language_model.")
_PARD_TOKENS = 12  # as its authors draft; its config does not say
_FOREIGN_WEIGHTS = re.compile(
    r"\.(qweight|qzeros|weight_packed|weight_scale(_inv|_2)?|input_scale|absmax|SCB)$"
)
_MLX_MODES = ("affine", "mxfp4", "mxfp8", "nvfp4")
_LARGEST = 1 << 26
_OTHER = "Choose another drafter"


def kind_of(config: Mapping[str, Any], names: Collection[str] = frozenset()) -> DrafterKind | None:
    """The kind that config.json and the `names` of tensors tell; None where they tell none.

    What says most about the packaging is asked first, tensors last: config.json is often a copy of
    the target's.
    """
    model_type = config.get("model_type")
    if model_type == HEAD_MODEL_TYPE:
        return "head"
    speculators = _speculators_type(config)
    if speculators is not None:
        return _BY_SPECULATORS.get(speculators)
    projector = _table(config, "dflash_config").get("projector_type")
    if projector is not None:
        return _BY_SPECULATORS.get(projector) if isinstance(projector, str) else None
    kind = (
        _first(_BY_ARCHITECTURE, _architecture(config), re.search)
        or _first(_BY_MODEL_TYPE, model_type, re.fullmatch)
        or _kind_of_keys(config)
        or _kind_of_names(config, names)
    )
    if kind is None and isinstance(model_type, str) and known_to_mlx(model_type):
        return "pard" if "pard_token" in config else "model"
    predicts_at_once = "mask_hidden" in names or "ptd_token_id" in config
    return "p-eagle" if kind == "eagle-3" and predicts_at_once else kind


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
    found = _Drafter(kind, config, tensors, name)
    if kind not in ("head", "model", "pard"):
        found.refuse_unreadable()
    return found.describe()


def unknown_kind(config: Mapping[str, Any], name: str) -> Problem:
    """The Problem of a folder called `name` that should hold a drafter."""
    return Problem(
        f"{name} holds no drafter of a kind that Slipstream knows{_told_kind(config)}.",
        f"{_OTHER}, or update Slipstream.",
    )


def classify_inside(
    config: Mapping[str, Any], tensors: Mapping[str, TensorLayout], *, name: str = "The model"
) -> DrafterDescription | None:
    """The MTP module among the tensors of the target itself; None where it has none.

    Raises Problem as `classify`.
    """
    prefixes = mtp_prefixes(config, tensors)
    if not prefixes:
        return None
    own = {key: layout for key, layout in tensors.items() if key.startswith(prefixes)}
    found = _Drafter("mtp", config, own, name)
    found.refuse_unreadable()
    return found.describe(prefixes)


def module_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config.json of an MTP module that is taken out of the model with this one."""
    own = {key: value for key, value in config.items() if key != "architectures"}
    return own | {"model_type": f"{config.get('model_type')}_mtp"}


def had_module(config: Mapping[str, Any]) -> bool:
    """Whether a model with this config.json was published with an MTP module of its own."""
    keys = ("mtp_num_hidden_layers", "num_nextn_predict_layers")
    return _number(_text(config), *keys, most=MOST_LAYERS) is not None


def mtp_prefixes(config: Mapping[str, Any], names: Collection[str]) -> tuple[str, ...]:
    """How the names of MTP tensors among a whole model's begin; none where it has no such module.

    They have a branch of their own (Qwen, MiMo), or are the layers behind the last (DeepSeek, GLM).
    """
    found = [
        prefix
        for trunk in _MTP_TRUNKS
        for prefix in (f"{trunk}mtp.", f"{trunk}mtp_layers.")
        if any(name.startswith(prefix) for name in names)
    ]
    if found:
        return tuple(found)
    depth = _number(_text(config), "num_hidden_layers", most=MOST_LAYERS)
    more = _number(_text(config), "num_nextn_predict_layers", most=MOST_LAYERS) or 0
    layers = [f"model.layers.{(depth or 0) + i}." for i in range(more)] if depth else []
    return tuple(prefix for prefix in layers if f"{prefix}eh_proj.weight" in names)


@dataclass(frozen=True)
class _Drafter:
    """A drafter of a known kind, whose description is being read."""

    kind: DrafterKind
    config: Mapping[str, Any]
    tensors: Mapping[str, TensorLayout]
    called: str

    def describe(self, prefixes: tuple[str, ...] = ()) -> DrafterDescription:
        readers: dict[DrafterKind, Callable[[], DrafterDescription]] = {
            "head": self._head,
            "model": self._model,
            "pard": self._pard,
            "eagle-3": self._eagle3,
            "p-eagle": self._eagle3,
            "eagle": self._eagle,
            "mtp": lambda: self._mtp(prefixes),
            "gemma-4-assistant": self._gemma4_assistant,
            "dflash": self._dflash,
            "dflash2": self._dflash,
            "dspark": self._dspark,
            "medusa": self._medusa,
        }
        return readers[self.kind]()

    def refuse_unreadable(self) -> None:
        """Raises Problem where the weights are quantized in another way than MLX's."""
        for key in ("quantization", "quantization_config", "compression_config"):
            for table in (self.config, self._layer_config):
                settings = table.get(key)
                if settings and not _is_readable(settings):
                    method = settings.get("quant_method") if isinstance(settings, dict) else None
                    self._refuse_quantized(method if isinstance(method, str) else "")
        if any(_FOREIGN_WEIGHTS.search(name) for name in self.tensors):
            self._refuse_quantized("")
        packed = any(name.endswith(".scales") for name in self.tensors)
        if packed and self._quantization is None:
            why = "its weights are packed, and it does not say in how many bits"
            raise self._contradiction(why)

    def _refuse_quantized(self, method: str) -> None:
        named = f" ({one_line(method)[:40]})" if method else ""
        raise Problem(
            f"{self.called} is quantized in a way that cannot be read{named}.",
            "Use a version with 16-bit weights, or one that was quantized for MLX.",
        )

    def _contradiction(self, why: str) -> Problem:
        return Problem(
            f"The config.json of {self.called} does not fit its weights: {why}.",
            "Fetch the drafter again, or choose another.",
        )

    # The config's tables and the tensors, whose names may begin with the trunk's.

    @cached_property
    def _layer_config(self) -> Mapping[str, Any]:
        """The table with the sizes of its layers."""
        return network_config(self.config)

    @cached_property
    def _dflash_config(self) -> Mapping[str, Any]:
        return _table(self.config, "dflash_config")

    @cached_property
    def _is_speculators(self) -> bool:
        return _speculators_type(self.config) is not None

    @cached_property
    def _quantization(self) -> Mapping[str, Any] | None:
        for key in ("quantization", "quantization_config"):
            for table in (self.config, self._layer_config):
                settings = table.get(key)
                if isinstance(settings, Mapping) and _is_readable(settings):
                    return settings
        return None

    @cached_property
    def _named(self) -> Mapping[str, str]:
        """The tensors' names in the files, by their names without the trunk's."""
        trunks = sorted(_MTP_TRUNKS, key=len, reverse=True)
        return {
            name.removeprefix(next(trunk for trunk in trunks if name.startswith(trunk))): name
            for name in self.tensors
        }

    def _has(self, *names: str) -> bool:
        return any(name in self._named for name in names)

    def _shape(self, *names: str) -> tuple[int, int] | None:
        """Rows and columns of the first matrix of these names, as they are once unpacked."""
        for name in names:
            layout = self.tensors.get(self._named.get(name, ""))
            if layout is not None and len(layout.shape) == 2:
                return layout.shape[0], self._columns(name, layout)
        return None

    def _columns(self, name: str, layout: TensorLayout) -> int:
        base = name.removesuffix(".weight")
        scales = self.tensors.get(self._named.get(f"{base}.scales", ""))
        if scales is None or self._quantization is None or len(scales.shape) != 2:
            return layout.shape[1]
        own = self._quantization.get(self._named[name].removesuffix(".weight"))
        settings = own if isinstance(own, Mapping) else self._quantization
        return scales.shape[1] * (_number(settings, "group_size") or 64)

    def _vocabulary(self) -> int | None:
        """The rows of the target's output layer."""
        mask = self.tensors.get(self._named.get("t2d", ""))
        if mask is not None and len(mask.shape) == 1:
            return mask.shape[0]
        return self._number("vocab_size")

    def _number(self, *keys: str) -> int | None:
        """The first positive whole number under these keys, in the inner tables first."""
        for table in (self._dflash_config, self._layer_config, self.config):
            found = _number(table, *keys)
            if found is not None:
                return found
        return None

    def _flag(self, key: str) -> bool | None:
        for table in (self._dflash_config, self.config):
            if isinstance(table.get(key), bool):
                return bool(table[key])
        return None

    def _ids(self, key: str, *, shift: int, least: int = 0) -> tuple[int, ...] | None:
        """The layers under `key` in any table as taps; None where there are none."""
        for table in (self.config, self._dflash_config, _table(self.config, "eagle_config")):
            listed = table.get(key)
            if listed is None:
                continue
            sound = isinstance(listed, list) and all(
                type(each) is int and least <= each <= MOST_LAYERS for each in listed
            )
            if not sound or not listed:
                raise Problem(
                    f"The config.json of {self.called} names layers that cannot be.",
                    f"Fetch the drafter again, or {_OTHER.lower()}.",
                )
            return tuple(each + shift for each in listed)
        return None

    def _proposed(self) -> int | None:
        """How many tokens speculators' config proposes at a time."""
        methods = _table(self.config, "speculators_config").get("proposal_methods")
        first = methods[0] if isinstance(methods, list) and methods else None
        return _number(first, "speculative_tokens") if isinstance(first, Mapping) else None

    def _fingerprint(self) -> str | None:
        """Of the target's weights, which those say that were distilled here."""
        told = self.config.get("target_fingerprint")
        return told if isinstance(told, str) else None

    def _verifier(self) -> str:
        told = _table(_table(self.config, "speculators_config"), "verifier").get("name_or_path")
        told = told or self.config.get("base_model_name_or_path")
        return one_line(told)[:100] if isinstance(told, str) else ""

    def _width(self, fused: tuple[int, int] | None, taps: int) -> int | None:
        """The width of the target's states, of which the `fused` matrix takes `taps` at once."""
        told = self._number("target_hidden_size", "backbone_hidden_size")
        if fused is None or not taps:
            return told or self._number("hidden_size")
        if fused[1] % taps or told not in (None, fused[1] // taps):
            raise self._contradiction(
                f"it takes {taps} states of the target together, which would be of "
                f"{fused[1] / taps:,.1f} numbers each"
            )
        return fused[1] // taps

    # The kinds.

    def _head(self) -> DrafterDescription:
        fingerprint = self.config.get("target_fingerprint")
        if not isinstance(fingerprint, str):
            raise Problem(
                f"{self.called} holds a drafter head that names no target.",
                "Make one: slipstream distil.",
            )
        layers = self.config.get("layers")
        taps = [tap for tap in layers if type(tap) is int] if isinstance(layers, list) else []
        return DrafterDescription(
            "head",
            "Slipstream",
            taps=tuple(taps),
            own_embedding=True,
            own_head=True,
            demands=Demands(fingerprint=fingerprint),
            verifier=str(self.config.get("target")),
        )

    def _model(self) -> DrafterDescription:
        return DrafterDescription("model", "mlx-lm", own_embedding=True, own_head=True)

    def _pard(self) -> DrafterDescription:
        return DrafterDescription(
            "pard",
            "official",
            block=_PARD_TOKENS,
            predictions=_PARD_TOKENS,
            own_embedding=True,
            own_head=True,
        )

    def _eagle3(self) -> DrafterDescription:
        """EAGLE-3, and P-EAGLE, which adds what stands for states that are not there yet.

        In `eagle_config` some count the layers from 0 (ModelOpt hooks those, SGLang adds 1), some
        the states. The former begin with layer 1, the latter never do: so SGLang tells them apart.
        """
        numbered = self._ids("target_layer_ids", shift=1, least=-1)
        auxiliary = self._ids("eagle_aux_hidden_state_layer_ids", shift=0) or ()
        if auxiliary[:1] == (1,) and "eagle_aux_hidden_state_layer_ids" not in self.config:
            auxiliary = tuple(layer + 1 for layer in auxiliary)
        taps: tuple[Tap, ...] = numbered or auxiliary
        packaging: Packaging = "DeepSpec" if numbered else "official"
        if self._is_speculators:
            packaging = "speculators"
        elif "eagle_config" in self.config:
            packaging = "NVIDIA"
        if _table(self.config, "eagle_config").get("use_aux_hidden_state") is False:
            taps = ("norm",)
        rounds = self._proposed() or 0 if self.kind == "p-eagle" else 0
        return DrafterDescription(
            self.kind,
            packaging,
            taps=taps,
            block=rounds,
            predictions=rounds,
            own_embedding=self._has("embed_tokens.weight"),
            own_head=self._has("lm_head.weight"),
            demands=Demands(
                width=self._width(self._shape("fc.weight"), len(taps) or 3),
                vocabulary=self._vocabulary(),
            ),
            verifier=self._verifier(),
        )

    def _eagle(self) -> DrafterDescription:
        """EAGLE-1 and 2, whose weights are alike: one state, and the target's own output layer."""
        fused = self._shape("fc.weight")
        if fused is not None and fused[1] != 2 * fused[0]:
            raise self._contradiction("its fc does not take an embedding and a state of one width")
        return DrafterDescription(
            "eagle",
            "official",
            taps=("norm",),
            own_embedding=self._has("embed_tokens.weight"),
            own_head=self._has("lm_head.weight"),
            demands=Demands(
                width=fused[0] if fused else self._number("hidden_size"),
                vocabulary=self._vocabulary(),
            ),
        )

    def _mtp(self, prefixes: tuple[str, ...]) -> DrafterDescription:
        packaging, fused = self._mtp_layout()
        if fused is not None and fused[1] != 2 * fused[0]:
            raise self._contradiction("it does not take an embedding and a state of one width")
        depth = _number(_text(self.config), "num_hidden_layers", most=MOST_LAYERS)
        return DrafterDescription(
            "mtp",
            packaging,
            taps=("norm",),
            own_embedding=any("embed_tokens" in name for name in self.tensors),
            own_head=any("shared_head.head." in name for name in self.tensors),
            demands=Demands(
                width=fused[0] if fused else self._number("hidden_size"),
                # A sidecar has the target's whole text_config; others may have their own depth.
                layers=depth if packaging == "MLX" and "text_config" in self.config else None,
                vocabulary=self._vocabulary(),
            ),
            verifier=self._verifier(),
            prefixes=prefixes,
        )

    def _mtp_layout(self) -> tuple[Packaging, tuple[int, int] | None]:
        """The spelling, and the matrix that takes the embedding and the state together."""
        depths = {
            int(found[1])
            for name in self._named
            if (found := re.fullmatch(r"(?:layers|mtp_layers)\.(\d{1,4})\..+", name))
        }
        first = min(depths, default=0)
        behind, branch = f"layers.{first}.eh_proj.weight", f"mtp_layers.{first}.input_proj.weight"
        if self._is_speculators:
            return "speculators", self._shape(branch)
        if self._has("mtp.fc.weight"):
            return "Hugging Face", self._shape("mtp.fc.weight")
        if self._has("fc.weight"):
            return "MLX", self._shape("fc.weight")
        if self._has(behind, "eh_proj.weight"):
            return "DeepSeek", self._shape(behind, "eh_proj.weight")
        if self._has(branch):
            return "MiMo", self._shape(branch)
        if not self.tensors:
            return "MLX", None
        raise Problem(
            f"{self.called} holds an MTP module of a layout that Slipstream does not know.",
            f"{_OTHER}, or update Slipstream.",
        )

    def _gemma4_assistant(self) -> DrafterDescription:
        """It reads the keys and values of the target's last layers; its embedding is its head."""
        fused = self._shape("pre_projection.weight")
        return DrafterDescription(
            "gemma-4-assistant",
            "transformers",
            taps=("norm",),
            own_head=self._has("embed_tokens.weight", "lm_head.weight"),
            demands=Demands(width=self._width(fused, 2), vocabulary=self._vocabulary()),
        )

    def _dflash(self) -> DrafterDescription:
        packaging: Packaging = "DeepSpec"
        if self._is_speculators:
            packaging = "speculators"
        elif self._has("encoder.fc.weight") or _first(
            ((r".*_assistant", "dflash"),), self.config.get("model_type"), re.fullmatch
        ):
            packaging = "transformers"
        elif self._dflash_config:
            packaging = "z-lab"
        return self._block_drafter(packaging, reserved=1)

    def _dspark(self) -> DrafterDescription:
        nested = self._dflash_config
        if self._is_speculators:
            return self._block_drafter("speculators", reserved=1)
        if nested.get("projector_type") == "dspark":
            return self._block_drafter("SpecForge", reserved=0)
        if "target_layer_ids" in nested and "target_layer_ids" not in self.config:
            return self._block_drafter("Liquid", reserved=0)
        lends = self.config.get("has_lm_head") is False or self._flag("attention_sink_bias")
        return self._block_drafter("DFlash lineage" if nested or lends else "DeepSpec", reserved=0)

    def _block_drafter(self, packaging: Packaging, *, reserved: int) -> DrafterDescription:
        """A drafter of a block; `reserved` slots predict nothing where config.json is silent."""
        block, depth = self._number("block_size"), self._number("num_target_layers")
        anchored, proposed = self._flag("sample_from_anchor"), self._proposed()
        if block is not None and proposed in (block, block - 1):
            reserved = block - proposed  # what a published config proposes settles it
        elif anchored is not None:
            reserved = 0 if anchored else 1
        taps = self._ids("target_layer_ids", shift=1, least=-1)
        if packaging == "speculators":
            taps = self._ids("aux_hidden_state_layer_ids", shift=0)
        if taps is None and depth is not None and depth <= MOST_LAYERS:
            taps = _spread(self._number("num_hidden_layers") or 1, depth)
        if block is None or taps is None:
            missing = "the size of its block" if block is None else "the target's layers it reads"
            raise Problem(
                f"The config.json of {self.called} does not say {missing}.",
                f"Fetch the drafter again, or {_OTHER.lower()}.",
            )
        fused = self._shape("fc.weight", "encoder.fc.weight")
        return DrafterDescription(
            self.kind,
            packaging,
            taps=taps,
            block=block,
            predictions=max(block - reserved, 0),
            own_embedding=self._has("embed_tokens.weight"),
            own_head=self._has("lm_head.weight"),
            demands=Demands(
                width=self._width(fused, len(taps)),
                layers=depth,
                vocabulary=self._vocabulary(),
                fingerprint=self._fingerprint(),
            ),
            verifier=self._verifier(),
        )

    def _medusa(self) -> DrafterDescription:
        """Heads by the tensors: published configs state fewer of them than there are."""
        rows = {
            int(found[1]): (layout.shape[0], self._columns(name, layout))
            for name, layout in self.tensors.items()
            if (found := _MEDUSA_ROWS.fullmatch(name)) and len(layout.shape) == 2
        }
        heads = len(rows) or self._number("medusa_num_heads")
        if not heads or sorted(rows) != list(range(len(rows))) or len(set(rows.values())) > 1:
            raise self._contradiction("its heads are not numbered, or not of one size")
        first, reduced = rows.get(0), "d2t" in self.tensors
        return DrafterDescription(
            "medusa",
            "official",
            taps=("norm",),
            block=heads,
            predictions=heads,
            own_head=True,
            demands=Demands(
                width=first[1] if first else self._number("hidden_size"),
                vocabulary=first[0] if first and not reduced else self._number("vocab_size"),
                fingerprint=self._fingerprint(),
            ),
            verifier=self._verifier(),
        )


def _kind_of_keys(config: Mapping[str, Any]) -> DrafterKind | None:
    """The kind that keys of config.json tell which no other kind has."""
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
    elif names and all(_MEDUSA_ROWS.fullmatch(name) or ".linear." in name for name in names):
        kind = "medusa"
    elif "fc.weight" in plain and "hidden_norm.weight" in plain:
        kind = "dflash"
    elif "fc.weight" in plain and begins("layers.0."):
        kind = "eagle-3" if "norm.weight" in plain else "eagle"
    return kind


def _is_all_mtp(config: Mapping[str, Any], names: Collection[str]) -> bool:
    """Whether there is nothing but an MTP module, taken out of a whole model."""
    prefixes = mtp_prefixes(config, names)
    return bool(prefixes) and all(name.startswith(prefixes) for name in names)


def _spread(count: int, depth: int) -> tuple[int, ...]:
    """DFlash's own choice of taps: evenly over the layers 1 to depth - 3, counted from 0."""
    if count == 1:
        return (depth // 2 + 1,)
    return tuple(round(1 + i * (depth - 4) / (count - 1)) + 1 for i in range(count))


def _speculators_type(config: Mapping[str, Any]) -> str | None:
    told = config.get("speculators_model_type")
    if told is None:
        told = _table(config, "speculators_config").get("algorithm")
    return told if isinstance(told, str) or told is None else ""


def _architecture(config: Mapping[str, Any]) -> str | None:
    listed = config.get("architectures")
    return listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], str) else None


def _first(
    table: Sequence[tuple[str, DrafterKind]],
    text: object,
    matches: Callable[[str, str], re.Match[str] | None],
) -> DrafterKind | None:
    if not isinstance(text, str) or len(text) > 200:
        return None
    return next((kind for pattern, kind in table if matches(pattern, text)), None)


def _told_kind(config: Mapping[str, Any]) -> str:
    """What config.json calls it, in brackets."""
    told = (_speculators_type(config), _architecture(config), config.get("model_type"))
    named = next((one_line(each)[:60] for each in told if isinstance(each, str) and each), "")
    return f" ({named})" if named else ""


def _is_readable(settings: object) -> bool:
    """Whether these settings are of MLX's own quantization."""
    if not isinstance(settings, Mapping) or "quant_method" in settings:
        return False
    mode = settings.get("mode", "affine")
    return _number(settings, "bits", most=8) is not None and mode in _MLX_MODES


def _text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table with the sizes of the text model: of its own, or the config itself."""
    return _table(config, "text_config") or config


def _table(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = config.get(key)
    return found if isinstance(found, Mapping) else {}


def _number(table: Mapping[str, Any], *keys: str, most: int = _LARGEST) -> int | None:
    for key in keys:
        value = table.get(key)
        if type(value) is int and 0 < value <= most:
            return value
    return None
