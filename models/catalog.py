"""The catalog: recommended pairs by the memory that they are meant for, and which suits here.

Reads resources/catalog.json, and says of each pair whether it has room on a machine. Knows nothing
of downloads, and uses no network: names on the hub and sizes are as good as the evidence that the
catalog states for each. Its tests check that the catalog that ships is consistent.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from models import in_words
from models.drafters.kinds import DrafterKind, plain_name
from models.errors import Problem
from models.files import read_json_object
from models.memory.fit import DEFAULT_CONTEXT, fit
from models.memory.machine import Machine
from models.memory.model_size import ModelSize
from models.memory.parameters import Parameters, count_parameters
from models.memory.shares import plan
from models.records import Fit, Installed, PairOffer
from models.starter import STARTER
from models.typed_json import decode

VERSION = 1
MAXIMUM_CATALOG_BYTES = 2_000_000
LEAVES_ROOM = 0.85  # of the available memory, so that the context can grow
SPARE_DISK_BYTES = 1_000_000_000

_PATH = Path(__file__).parent.parent / "resources" / "catalog.json"
_MOST_BYTES = 10**13
_MOST_TOKENS = 1 << 24
_MOST_MEMORY_GB = 1 << 20


@dataclass(frozen=True)
class CatalogModel:
    """A model that a pair is made of.

    `name` is its hub id, or the starter's name. `download_bytes` may be fewer than `weights_bytes`:
    the starter comes in an archive. `verified`: name and size were looked up in public;
    `source` says where. `config` has those fields of config.json on which memory depends.
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

    def __post_init__(self) -> None:
        sizes = (self.weights_bytes, self.download_bytes)
        if not all(0 < size <= _MOST_BYTES for size in sizes):
            raise ValueError(f"the size of {self.name[:80]!r} cannot be")
        if not 0 < self.context <= _MOST_TOKENS:
            raise ValueError(f"the context of {self.name[:80]!r} cannot be")

    @cached_property
    def parameters(self) -> Parameters | None:
        """Its numbers of weights; None where the config does not give them."""
        return count_parameters(self.config)

    @property
    def size(self) -> ModelSize:
        """Its sizes, for reckoning memory."""
        values = self.parameters.total if self.parameters else 0
        return ModelSize(self.name, self.weights_bytes, self.config, values=values)


@dataclass(frozen=True)
class CatalogPair:
    """A target and its drafting model; None where it needs none.

    `quality` orders pairs by the quality of the answers, mainly by size; higher is better.
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
class CatalogDrafter:
    """A drafter that others have trained, as it was found named in public; none was fetched.

    `name` is its hub id, with a file for a part of a repository. `targets` are plain names (see
    `plain_name`) of the models that it was trained for. `size_bytes` is 0 and `licence` empty where
    not known. `reason` says why it cannot be used; empty where nothing speaks against it.
    """

    name: str
    kind: DrafterKind
    targets: tuple[str, ...]
    size_bytes: int = 0
    licence: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.size_bytes <= _MOST_BYTES:
            raise ValueError(f"the size of {self.name[:80]!r} cannot be")

    def suits(self, target: str) -> bool:
        """Whether it was trained for the target of that name, or for what that was made from."""
        given = plain_name(target)
        return any(given == each or given.startswith(f"{each}-") for each in self.targets)


@dataclass(frozen=True)
class Catalog:
    """All models by name, and the pairs made of them; the starter pair is among those.

    `drafters` are those that others have trained, best known first.
    """

    models: Mapping[str, CatalogModel]
    pairs: tuple[CatalogPair, ...]
    drafters: tuple[CatalogDrafter, ...] = ()

    def drafters_for(self, target: str) -> list[CatalogDrafter]:
        """Those for the target of that name."""
        return [drafter for drafter in self.drafters if drafter.suits(target)]


@dataclass(frozen=True)
class _PairEntry:
    """A pair as the file has it: models by their names, an empty name for no drafter."""

    target: str
    drafter: str
    memory_class_gb: int
    quality: int
    good_for: str
    drafter_kinds: tuple[Literal["model", "lookup", "head", "early-exit"], ...]

    def __post_init__(self) -> None:
        if not 0 < self.memory_class_gb <= _MOST_MEMORY_GB:
            raise ValueError(f"the memory_class_gb of {self.target[:80]!r} cannot be")


@dataclass(frozen=True)
class _CatalogFile:
    version: int
    models: dict[str, dict[str, Any]]
    pairs: tuple[_PairEntry, ...]
    drafters: tuple[CatalogDrafter, ...] = ()


def load_catalog(path: Path | None = None) -> Catalog:
    """The catalog at `path`, else the one that ships. Raises Problem where it cannot be read."""
    path = _PATH if path is None else path
    document = read_json_object(path, maximum_bytes=MAXIMUM_CATALOG_BYTES)
    version = document.get("version")
    if type(version) is int and version > VERSION:
        raise Problem(
            f"{path} is a catalog of version {min(version, 10**9)}, newer than this program.",
            "Update Slipstream, or use the catalog that came with it.",
        )
    try:
        file = decode(_CatalogFile, document, place="catalog")
        models = {
            name: decode(CatalogModel, entry | {"name": name}, place=f"model {name[:80]!r}")
            for name, entry in file.models.items()
        }
        pairs = tuple(_joined(entry, models) for entry in file.pairs)
        catalog = Catalog(models, pairs, file.drafters)
        if version != VERSION or (STARTER.name,) not in map(_names, catalog.pairs):
            raise ValueError("its version is not known, or the starter pair is not listed")
    except (ValueError, LookupError) as error:
        raise Problem(
            f"The catalog {path} is not usable: {str(error)[:300].rstrip('.')}.",
            "Install Slipstream again, or use the catalog that came with it.",
        ) from error
    return catalog


def _joined(entry: _PairEntry, models: Mapping[str, CatalogModel]) -> CatalogPair:
    return CatalogPair(
        target=models[entry.target],
        drafter=models[entry.drafter] if entry.drafter else None,
        memory_class_gb=entry.memory_class_gb,
        quality=entry.quality,
        good_for=entry.good_for,
        drafter_kinds=entry.drafter_kinds,
    )


def _names(pair: CatalogPair) -> tuple[str, ...]:
    return tuple(model.name for model in pair.models)


def offers(
    catalog: Catalog,
    *,
    machine: Machine,
    installed: Sequence[Installed] = (),
    context: int = DEFAULT_CONTEXT,
    free_bytes: int | None = None,
    macs: Sequence[Machine] = (),
) -> list[PairOffer]:
    """Every pair as this machine sees it: the recommended one first, then the best that fit.

    All are computed at one `context`, in tokens, so that their memory can be compared; it must fit
    beside the weights. `free_bytes`, on the disk, where known. `macs`: those that could hold a
    target together, this one first.
    Exactly one is recommended: the best with a drafter of its own that leaves room while no other
    program is busy, else the starter pair. On the CPU its weights are expanded: drafting never
    pays with quantized ones.
    """
    here = {model.name for model in installed if not model.problem}
    seen = [
        _see(pair, machine, here, context, free_bytes, catalog.drafters_for(pair.target.name))
        for pair in catalog.pairs
    ]
    seen = [each if each.fit.fits else _together(each, macs, free_bytes) for each in seen]
    best = _recommended(seen, machine, free_bytes)

    def order(each: _Seen) -> tuple[bool, bool, bool, float]:
        offer = each.offer
        return each is not best, bool(offer.reason), bool(offer.caution), -each.pair.quality

    seen.sort(key=order)
    return [replace(each.offer, recommended=each is best) for each in seen]


@dataclass(frozen=True)
class _Seen:
    """`fit` is at the moment, `usual` while no other program is busy."""

    pair: CatalogPair
    fit: Fit
    usual: Fit
    offer: PairOffer


def _see(
    pair: CatalogPair,
    machine: Machine,
    here: Collection[str],
    context: int,
    free_bytes: int | None,
    published: Sequence[CatalogDrafter],
) -> _Seen:
    """The offer of one pair, before one is recommended."""
    missing = [model for model in pair.models if model.name not in here]
    download_bytes = sum(model.download_bytes for model in missing)
    drafter = pair.drafter.size if pair.drafter else None
    asked = min(max(context, 1), pair.target.context)
    needed = fit(pair.target.size, drafter, context=asked, machine=machine)
    usual = fit(pair.target.size, drafter, context=asked, machine=machine.usual)
    reason = "" if needed.fits else needed.reason
    reason = reason or _no_room_on_disk(download_bytes, free_bytes)
    offer = PairOffer(
        target=pair.target.name,
        drafter=pair.drafter.name if pair.drafter else "",
        family=pair.target.family,
        good_for=pair.good_for,
        licence=pair.target.licence,
        context=pair.target.context,
        memory_class_gb=pair.memory_class_gb,
        drafter_kinds=_kinds(pair, published),
        download_bytes=download_bytes,
        needed_bytes=needed.needed_bytes,
        available_bytes=needed.available_bytes,
        installed=not missing,
        recommended=False,
        verified=all(model.verified for model in pair.models),
        reason=reason,
        needed_context=needed.context,
        largest_context=needed.largest_context,
        expanded=needed.weights_bytes > pair.target.weights_bytes,
        caution=_caution(pair, needed, machine) if needed.fits else "",
    )
    return _Seen(pair, needed, usual, offer)


def _together(alone: _Seen, macs: Sequence[Machine], free_bytes: int | None) -> _Seen:
    """A pair that does not fit this machine, as several see it."""
    drafter = alone.pair.drafter.size if alone.pair.drafter else None
    if len(macs) < 2:
        return alone
    try:
        made = plan(alone.pair.target.size, macs, drafter=drafter, context=alone.fit.context)
    except Problem:
        return alone
    if not made.fits_all:
        return alone
    offer = replace(
        alone.offer,
        reason=_no_room_on_disk(alone.offer.download_bytes, free_bytes),
        needed_bytes=sum(fit.needed_bytes for fit in made.fits),
        available_bytes=sum(fit.available_bytes for fit in made.fits),
        largest_context=min(fit.largest_context for fit in made.fits),
        expanded=made.expand,
        macs=len(macs),
    )
    return replace(alone, offer=offer)


def _kinds(pair: CatalogPair, published: Sequence[CatalogDrafter]) -> tuple[str, ...]:
    """All ways to draft for the target: the pair's own, and what others have trained for it."""
    usable = (drafter.kind for drafter in published if not drafter.reason)
    return tuple(dict.fromkeys((*pair.drafter_kinds, *usable)))


def _is_meant_for(pair: CatalogPair, machine: Machine) -> bool:
    """Whether a machine has the memory; what the system keeps for itself is not missed."""
    return 0.95e9 * pair.memory_class_gb <= machine.memory_bytes


def _caution(pair: CatalogPair, needed: Fit, machine: Machine) -> str:
    """What to know of a pair that fits, but is meant for machines with more memory."""
    if _is_meant_for(pair, machine):
        return ""
    return (
        f"It is meant for {pair.memory_class_gb} GB of memory, and this machine has "
        f"{in_words.size(machine.memory_bytes)}: conversations of up to "
        f"{needed.largest_context:,} tokens fit."
    )


def _no_room_on_disk(download_bytes: int, free_bytes: int | None) -> str:
    needed_bytes = download_bytes + SPARE_DISK_BYTES
    if not download_bytes or free_bytes is None or needed_bytes <= free_bytes:
        return ""
    return (
        f"The download needs {in_words.size(needed_bytes)} of disk, "
        f"and {in_words.size(free_bytes)} are free."
    )


def _recommended(seen: Sequence[_Seen], machine: Machine, free_bytes: int | None) -> _Seen:
    """The best pair that usually leaves room; of equals the one that is installed."""
    roomy = [
        each
        for each in seen
        if each.usual.fits
        and not _no_room_on_disk(each.offer.download_bytes, free_bytes)
        and each.pair.drafter is not None
        and each.usual.needed_bytes <= LEAVES_ROOM * each.usual.available_bytes
        and _is_meant_for(each.pair, machine)
        and (machine.unified or each.usual.weights_bytes > each.pair.target.weights_bytes)
    ]
    if not roomy:
        return next(each for each in seen if each.pair.target.name == STARTER.name)
    return max(roomy, key=lambda each: (each.pair.quality, each.offer.installed))
