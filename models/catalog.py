"""The catalog: pairs worth having, by the memory that they are meant for, and which suits here.

Reads resources/catalog.json, checks all of it, and says of each pair whether it has room on a
machine. Knows nothing of how a model is fetched, and asks nobody: names on the hub and sizes are
as good as the evidence that the catalog states for each.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from models.errors import Problem
from models.files import read_json_object
from models.memory.fit import DEFAULT_CONTEXT, fit
from models.memory.machine import Machine
from models.memory.model_size import ModelSize
from models.memory.parameters import Parameters, count_parameters
from models.memory.shape import read_shape
from models.records import Fit, Installed, Offer
from models.starter import STARTER

VERSION = 1
MEMORY_CLASSES_GB = (8, 16, 24, 36, 48, 64, 128)
DRAFTER_KINDS = ("model", "lookup", "head", "early-exit")
MAXIMUM_CATALOG_BYTES = 2_000_000
LEAVES_ROOM = 0.85  # of what is available: a pair that fills it leaves none for a longer context
SPARE_DISK_BYTES = 1_000_000_000

_PATH = Path(__file__).parent.parent / "resources" / "catalog.json"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_MOST_BYTES = 10**13
_MOST_TOKENS = 1 << 24
_MODEL_FIELDS = {
    "family", "weights_bytes", "download_bytes", "licence", "context", "verified", "source",
    "config",
}  # fmt: skip
_PAIR_FIELDS = {
    "target", "drafter", "memory_class_gb", "quality", "good_for", "drafter_kinds",
}  # fmt: skip


@dataclass(frozen=True)
class CatalogModel:
    """A model that a pair is made of.

    `name` is its hub id, or the starter's name. `verified`: name and size were found in public;
    `source` says where. `config` is what memory depends on of its config.json.
    """

    name: str
    family: str
    weights_bytes: int
    download_bytes: int
    licence: str
    context: int
    verified: bool
    source: str
    config: Mapping[str, Any]

    @cached_property
    def parameters(self) -> Parameters | None:
        """How many weights it has."""
        return count_parameters(self.config)

    @property
    def size(self) -> ModelSize:
        """As far as memory goes."""
        values = self.parameters.total if self.parameters else 0
        return ModelSize(self.name, self.weights_bytes, self.config, values=values)


@dataclass(frozen=True)
class CatalogPair:
    """A target, and the model that drafts for it, None where others do.

    `quality` orders pairs by how good the answers are, most of all by size; higher is better.
    """

    target: CatalogModel
    drafter: CatalogModel | None
    memory_class_gb: int
    quality: int
    good_for: str
    drafter_kinds: tuple[str, ...]

    @property
    def models(self) -> tuple[CatalogModel, ...]:
        return (self.target,) if self.drafter is None else (self.target, self.drafter)


@dataclass(frozen=True)
class Catalog:
    """All models by name, and the pairs made of them; the starter pair is among those."""

    models: Mapping[str, CatalogModel]
    pairs: tuple[CatalogPair, ...]


def load_catalog(path: Path | None = None) -> Catalog:
    """The catalog at `path`, else the one that comes along. Raises Problem unless it is sound."""
    path = _PATH if path is None else path
    document = read_json_object(path, maximum_bytes=MAXIMUM_CATALOG_BYTES)
    version = document.get("version")
    if type(version) is int and version > VERSION:
        raise Problem(
            f"{path} is a catalog of version {min(version, 10**9)}, newer than this program.",
            "Update Slipstream, or use the catalog that came with it.",
        )
    check = _Check(path)
    if type(version) is not int or version != VERSION:
        check.refuse("its version", version)
    check.fields("the catalog", document, {"version", "models", "pairs"})
    listed, pairs = document["models"], document["pairs"]
    if not isinstance(listed, dict) or not isinstance(pairs, list):
        check.refuse("its list of models or pairs", None)
    models = {name: check.model(name, entry) for name, entry in listed.items()}
    catalog = Catalog(models, tuple(check.pair(entry, models) for entry in pairs))
    names = [tuple(model.name for model in pair.models) for pair in catalog.pairs]
    if len(set(names)) < len(names):
        check.refuse("a pair that is listed twice", None)
    if (STARTER.name,) not in names:
        check.refuse("the starter pair, which is not listed", None)
    return catalog


def offers(
    catalog: Catalog,
    *,
    machine: Machine,
    installed: Sequence[Installed] = (),
    context: int = DEFAULT_CONTEXT,
    free_bytes: int | None = None,
) -> list[Offer]:
    """Every pair as this machine sees it: the recommended one first, then the best that fit.

    `context`, in tokens, is what must have room beside the weights; `free_bytes`, on the disk,
    where that is known. Exactly one is recommended: of those with a drafter of their own that
    leave room, the best; the starter pair where there is none.
    """
    here = {model.name for model in installed if not model.problem}
    seen = [_see(pair, machine, here, context, free_bytes) for pair in catalog.pairs]
    best = _recommended(seen, machine)
    seen.sort(key=lambda each: (each is not best, bool(each.offer.reason), -each.pair.quality))
    return [replace(each.offer, recommended=each is best) for each in seen]


@dataclass(frozen=True)
class _Seen:
    pair: CatalogPair
    fit: Fit
    offer: Offer


def _see(
    pair: CatalogPair,
    machine: Machine,
    here: Collection[str],
    context: int,
    free_bytes: int | None,
) -> _Seen:
    """What is to be said of one pair; whether it is recommended is not known yet."""
    missing = [model for model in pair.models if model.name not in here]
    download_bytes = sum(model.download_bytes for model in missing)
    drafter = pair.drafter.size if pair.drafter else None
    asked = min(max(context, 1), pair.target.context)
    needed = fit(pair.target.size, drafter, context=asked, machine=machine)
    reason = "" if needed.fits else needed.reason
    if missing and not reason and free_bytes is not None:
        reason = _no_room_on_disk(download_bytes + SPARE_DISK_BYTES, free_bytes)
    offer = Offer(
        target=pair.target.name,
        drafter=pair.drafter.name if pair.drafter else "",
        family=pair.target.family,
        good_for=pair.good_for,
        licence=pair.target.licence,
        context=pair.target.context,
        memory_class_gb=pair.memory_class_gb,
        drafter_kinds=pair.drafter_kinds,
        download_bytes=download_bytes,
        needed_bytes=needed.needed_bytes,
        available_bytes=needed.available_bytes,
        installed=not missing,
        recommended=False,
        verified=all(model.verified for model in pair.models),
        reason=reason,
    )
    return _Seen(pair, needed, offer)


def _no_room_on_disk(needed_bytes: int, free_bytes: int) -> str:
    if needed_bytes <= free_bytes:
        return ""
    return (
        f"The download needs {needed_bytes / 1e9:.1f} GB of disk, "
        f"and {free_bytes / 1e9:.1f} GB are free."
    )


def _recommended(seen: Sequence[_Seen], machine: Machine) -> _Seen:
    """The best pair that leaves room; of equals the one that is here already."""
    roomy = [
        each
        for each in seen
        if not each.offer.reason
        and each.pair.drafter is not None
        and each.fit.needed_bytes <= LEAVES_ROOM * each.fit.available_bytes
        and each.pair.memory_class_gb * 10**9 <= machine.memory_bytes
        and (machine.unified or _expanded(each))
    ]
    if not roomy:
        return next(each for each in seen if each.pair.target.name == STARTER.name)
    return max(roomy, key=lambda each: (each.pair.quality, each.offer.installed))


def _expanded(each: _Seen) -> bool:
    """Whether a CPU holds the target as float32: with quantized weights drafting never pays."""
    return each.fit.weights_bytes > each.pair.target.weights_bytes


class _Check:
    """Believes nothing that stands in the file at `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def model(self, name: str, entry: Any) -> CatalogModel:
        where = f"model {name[:80]!r}"
        if name != STARTER.name and _NAME.fullmatch(name) is None:
            self.refuse("the name of a model", name)
        self.fields(where, entry, _MODEL_FIELDS)
        weights = self.number(f"{where}: weights_bytes", entry["weights_bytes"], most=_MOST_BYTES)
        download = self.number(
            f"{where}: download_bytes", entry["download_bytes"], most=_MOST_BYTES
        )
        if download < weights:
            self.refuse(f"{where}: download_bytes, less than its weights", download)
        config = entry["config"]
        if type(entry["verified"]) is not bool:
            self.refuse(f"{where}: verified", entry["verified"])
        if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
            self.refuse(f"{where}: config", config)
        try:
            read_shape(config)
        except Problem as problem:
            self.refuse(f"{where}: config ({problem.message})", None)
        return CatalogModel(
            name=name,
            family=self.text(f"{where}: family", entry["family"]),
            weights_bytes=weights,
            download_bytes=download,
            licence=self.text(f"{where}: licence", entry["licence"]),
            context=self.number(f"{where}: context", entry["context"], most=_MOST_TOKENS),
            verified=entry["verified"],
            source=self.text(f"{where}: source", entry["source"]),
            config=config,
        )

    def pair(self, entry: Any, models: Mapping[str, CatalogModel]) -> CatalogPair:
        self.fields("a pair", entry, _PAIR_FIELDS)
        target, drafter, kinds = entry["target"], entry["drafter"], entry["drafter_kinds"]
        where = f"pair {str(target)[:80]!r}"
        for name in (target, drafter):
            if not isinstance(name, str) or (name not in models and not (name == drafter == "")):
                self.refuse(f"{where}: a model", name)
        if target == drafter:
            self.refuse(f"{where}: its drafter", drafter)
        if entry["memory_class_gb"] not in MEMORY_CLASSES_GB:
            self.refuse(f"{where}: memory_class_gb", entry["memory_class_gb"])
        known = isinstance(kinds, list) and all(kind in DRAFTER_KINDS for kind in kinds)
        if not known or len(set(kinds)) < len(kinds) or ("model" in kinds) != bool(drafter):
            self.refuse(f"{where}: drafter_kinds", kinds)
        return CatalogPair(
            target=models[target],
            drafter=models[drafter] if drafter else None,
            memory_class_gb=self.number(where, entry["memory_class_gb"], most=1024),
            quality=self.number(f"{where}: quality", entry["quality"], most=1000),
            good_for=self.text(f"{where}: good_for", entry["good_for"]),
            drafter_kinds=tuple(kinds),
        )

    def fields(self, what: str, entry: Any, wanted: Collection[str]) -> None:
        if not isinstance(entry, dict) or entry.keys() != set(wanted):
            names = sorted(entry) if isinstance(entry, dict) else entry
            self.refuse(f"the fields of {what}", names)

    def number(self, what: str, value: Any, *, most: int) -> int:
        if type(value) is not int or not 0 < value <= most:
            self.refuse(what, value)
        return value

    def text(self, what: str, value: Any) -> str:
        if not isinstance(value, str) or not 0 < len(value) <= 200 or not value.isprintable():
            self.refuse(what, value)
        return value

    def refuse(self, what: str, value: Any) -> NoReturn:
        said = "" if value is None else f": {ascii(value)[:80]}"
        raise Problem(
            f"The catalog {self._path} is not usable, because of {what}{said}.",
            "Install Slipstream again, or use the catalog that came with it.",
        )
