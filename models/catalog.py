"""The catalog: targets and drafters that others have published, and which of them suit a machine.

Reads resources/catalog.json, and says of each target whether it has room, which drafter is expected
to gain the most there, and how fast the two would write (`models.speed`). Knows nothing of
downloads, and uses no network: names on the hub, sizes and acceptance are as good as the source
that each entry states. Its tests check that the catalog that ships is consistent.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from models import in_words
from models.architectures import known_to_mlx, number
from models.drafters.kinds import DrafterDescription, DrafterKind, plain_name
from models.errors import Problem
from models.files import read_json_object
from models.limits import LONGEST_DRAFT
from models.memory.fit import DEFAULT_CONTEXT, fit, peak
from models.memory.machine import OWN_BYTES, Machine, mac
from models.memory.model_size import ModelSize
from models.memory.parameters import Parameters, count_parameters, has_experts
from models.memory.shape import Shape, read_shape
from models.memory.shares import plan
from models.model_folder import MOST_LAYERS
from models.records import MODULE_NAME, Choice, Fit, Installed, PairOffer
from models.speed import (
    WORTH,
    Chip,
    Drafts,
    Expected,
    Measured,
    Weights,
    expect,
    load_chips,
)
from models.starter import STARTER
from models.typed_json import decode

VERSION = 2
MAXIMUM_CATALOG_BYTES = 2_000_000
SPARE_DISK_BYTES = 1_000_000_000
# Of the memory that Metal recommends, with this process and a long context: on 32 GB others saw a
# system swap at 99 % of it (Rapid-MLX issue 1650), and none at 90 % (its PR 2512).
LEAVES_ROOM = 0.95
LONG_CONTEXT = 32_768  # for which there is room where a pair is recommended
AS_FAST_AS_READING = 10.0  # tokens a second: some 450 words a minute
AT_EASE = 30.0  # tokens a second below which fewer bits are better, if they are quicker
MEMORY_SIZES_GB = (8, 16, 18, 24, 32, 36, 48, 64, 96, 128, 192, 256, 512)  # of Macs
# What a quicker or a smaller choice may lack of the best one's quality.
_QUICKER_LACKS, _SMALLER_LACKS = 10, 20

_PATH = Path(__file__).parent.parent / "resources" / "catalog.json"
_MOST_BYTES = 10**13
_MOST_TOKENS = 1 << 24
_BITS = (2, 3, 4, 5, 6, 8, 16)


@dataclass(frozen=True)
class CatalogModel:
    """A published model; one with a `quality` is a target, any other only drafts.

    `name` is its hub id, or the starter's name. `bits`: of most of its weights. `download_bytes`
    may be fewer than `weights_bytes`: the starter comes in an archive. `verified`: name and size
    were looked up in public; `source` says where, and `seen` in which month. `config` has the
    fields of config.json on which memory depends; only the architecture if no more is known.
    `active_share`: the part of the weights that a token needs; 0 if the config shows it.
    `languages`: the number that its makers name; 0 if not known. `quality`, from 1 to 100, is this
    program's own order of targets by their answers, not a benchmark's score, and is never shown:
    a newer generation comes first, then size and bits, as other programs recommend them.
    """

    name: str
    family: str
    bits: int
    weights_bytes: int
    download_bytes: int
    licence: str
    context: int
    verified: bool
    source: str
    seen: str
    languages: int
    thinking: bool
    tools: bool
    config: Mapping[str, Any]
    quality: int = 0
    good_for: str = ""
    active_share: float = 0.0

    def __post_init__(self) -> None:
        sizes = (self.weights_bytes, self.download_bytes)
        if not all(0 < size <= _MOST_BYTES for size in sizes):
            raise ValueError(f"the size of {self.name[:80]!r} cannot be")
        if not 0 < self.context <= _MOST_TOKENS:
            raise ValueError(f"the context of {self.name[:80]!r} cannot be")
        if self.bits not in _BITS or not 0 <= self.active_share <= 1:
            raise ValueError(f"the bits or the active_share of {self.name[:80]!r} cannot be")

    @cached_property
    def parameters(self) -> Parameters | None:
        """Its numbers of weights; None if the config does not give them."""
        return count_parameters(self.config)

    @property
    def size(self) -> ModelSize:
        """Its sizes in memory. The parts with which a model sees images are fetched, but not
        loaded."""
        values = self.parameters.total if self.parameters and not self.active_share else 0
        counted = round(values * self.stored_bits / 8) or self.weights_bytes
        loaded = min(self.weights_bytes, counted)
        return ModelSize(self.name, loaded, self.config, values=values, known=self.shape)

    @cached_property
    def shape(self) -> Shape:
        """Its layers and widths, read once. Raises Problem if they are not known."""
        return read_shape(self.config)

    @cached_property
    def memory_class_gb(self) -> int:
        """The smallest memory of a Mac, in GB, in which it fits with a long context."""
        macs = {size: mac("Mac", {"hw.memsize": str(size << 30)}) for size in MEMORY_SIZES_GB}
        largest = macs[MEMORY_SIZES_GB[-1]]
        context = min(LONG_CONTEXT, self.context)
        needed = peak(self.size, None, context=context, machine=largest).needed_bytes
        fitting = (size for size in macs if _leaves_room(needed, macs[size].available_bytes))
        return next(fitting, 2 * MEMORY_SIZES_GB[-1])

    @property
    def stored_bits(self) -> float:
        """The bits of a weight, with its part of scales and biases."""
        return self.bits if self.bits == 16 else self.bits + 0.5

    @property
    def has_shape(self) -> bool:
        """Whether the config says more than the architecture."""
        return len(self.config) > 1

    @property
    def reads(self) -> Weights:
        """The weights that are read for a plain token."""
        experts, counted = has_experts(self.config), self.parameters
        layers = min(number(self.config, "num_hidden_layers") or 0, MOST_LAYERS)
        if self.active_share or counted is None:
            read = self.weights_bytes * (self.active_share or 1.0)
            return Weights(read, 0.05 * read, self.bits, layers, experts)
        size = self.stored_bits / 8
        return Weights(counted.active * size, counted.embedding * size, self.bits, layers, experts)


@dataclass(frozen=True)
class CatalogDrafter:
    """A published drafter of others, as its public description states it; none was fetched.

    `name` is its hub id, with a file for a part of a repository. `targets` are plain names (see
    `plain_name`) of the models that it was trained for. `size_bytes` is 0 and `licence` empty if
    not known. `reason` says why it cannot be used; empty if nothing speaks against it. `committed`:
    the tokens of a round that drafts `drafted`, by the target's bits, as `source` measured them;
    None if no one published any.
    """

    name: str
    kind: DrafterKind
    targets: tuple[str, ...]
    source: str
    seen: str
    size_bytes: int = 0
    licence: str = ""
    reason: str = ""
    drafted: int = 0
    committed: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.size_bytes <= _MOST_BYTES:
            raise ValueError(f"the size of {self.name[:80]!r} cannot be")
        committed = self.committed or {}
        if not (
            0 <= self.drafted <= LONGEST_DRAFT
            and all(1 <= each <= self.drafted + 1 for each in committed.values())
            and all(bits in map(str, _BITS) for bits in committed)
        ):
            raise ValueError(f"the acceptance of {self.name[:80]!r} cannot be")

    def suits(self, target: str) -> bool:
        """Whether it was trained for the target called `target`, or for a model that this was made
        from."""
        given = plain_name(target)
        return any(given == each or given.startswith(f"{each}-") for each in self.targets)

    def bytes_for(self, target: CatalogModel) -> int:
        """Return the size of its weights: as published, or as usual for its kind with that
        target."""
        usual = load_chips().usual_of(self.kind).share * target.weights_bytes * 16 / target.bits
        return self.size_bytes or round(usual)

    def drafts_for(self, target: CatalogModel) -> Drafts:
        """Return the bytes that it reads and its acceptance: as published, or as usual for its
        kind."""
        usual = load_chips().usual_of(self.kind)
        read = float(self.bytes_for(target))
        if not self.committed:
            source = f"usual for {self.kind}: {usual.source}"
            return Drafts(self.kind, read, usual.drafted, usual.committed, source)
        bits = min(self.committed, key=lambda each: abs(int(each) - target.bits))
        return Drafts(self.kind, read, self.drafted, self.committed[bits], self.source)


@dataclass(frozen=True)
class Catalog:
    """All models by name, the starter among them; and drafters, the best known first."""

    models: Mapping[str, CatalogModel]
    drafters: tuple[CatalogDrafter, ...] = ()

    @property
    def targets(self) -> list[CatalogModel]:
        return [model for model in self.models.values() if model.quality]

    def drafters_for(self, target: str) -> list[CatalogDrafter]:
        return [drafter for drafter in self.drafters if drafter.suits(target)]

    def find(self, name: str) -> CatalogModel | None:
        """Return the model of that name, in capitals or not; None if it is not listed."""
        found = (model for each, model in self.models.items() if each.lower() == name.lower())
        return next(found, None)

    def relative(self, name: str) -> CatalogModel | None:
        """Return a target that is the same model, perhaps in other bits; None if there is none."""
        alike = (each for each in self.targets if plain_name(each.name) == plain_name(name))
        return next(alike, None)

    def like(self, target: ModelSize) -> CatalogModel | None:
        """Return the largest target with the same architecture and vocabulary; None if there is
        none."""
        kind = target.config.get("model_type"), target.shape.vocabulary
        found = [
            each
            for each in self.targets
            if each.has_shape and (each.config.get("model_type"), each.shape.vocabulary) == kind
        ]
        return max(found, key=lambda each: each.weights_bytes, default=None)

    def download_bytes(self, drafter: CatalogDrafter, target: CatalogModel) -> int:
        """Return the bytes to fetch for a drafter: the usual size for its kind if its own is not
        known."""
        if drafter.name in self.models:
            return self.models[drafter.name].download_bytes
        return drafter.bytes_for(target)

    def size_of(self, drafter: CatalogDrafter, target: CatalogModel) -> ModelSize:
        """Return the size of a drafter in memory: the usual one for its kind if its own is not
        known."""
        if drafter.name in self.models:
            return self.models[drafter.name].size
        network = DrafterDescription(drafter.kind, "official")
        return ModelSize(drafter.name, drafter.bytes_for(target), {}, network=network)


@dataclass(frozen=True)
class _CatalogFile:
    version: int
    models: dict[str, dict[str, Any]]
    drafters: tuple[CatalogDrafter, ...] = ()


def load_catalog(path: Path | None = None) -> Catalog:
    """Return the catalog at `path`, by default Slipstream's own. Raises Problem if it cannot be
    read."""
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
        catalog = Catalog(models, file.drafters)
        if version != VERSION or STARTER.name not in models:
            raise ValueError("its version is not known, or the starter is not listed")
    except (ValueError, LookupError) as error:
        raise Problem(
            f"The catalog {path} is not usable: {str(error)[:300].rstrip('.')}.",
            "Install Slipstream again, or use the catalog that came with it.",
        ) from error
    return catalog


def offers(
    catalog: Catalog,
    *,
    machine: Machine,
    installed: Sequence[Installed] = (),
    context: int = DEFAULT_CONTEXT,
    free_bytes: int | None = None,
    macs: Sequence[Machine] = (),
    measured: Mapping[str, Measured] | None = None,
) -> list[PairOffer]:
    """Return every target as this machine sees it, with the drafter that gains the most there: the
    choices first, then the best that fit.

    All are computed at one `context`, in tokens, so that their memory can be compared; it must fit
    with the weights. `free_bytes`: on the disk, if known. `macs`: the Macs that could hold a target
    together, this one first. `measured`: calibrations of this machine, by target.

    Exactly one is recommended: the best that leaves room while no other program is busy, and writes
    as fast as the user reads, in fewer bits where more would be slow; or else the starter. On the
    CPU its weights must be expanded, as drafting never pays with quantized ones.
    """
    here = {model.name for model in installed if not model.problem}
    look = _Look(catalog, machine, here, context, free_bytes, measured or {})
    seen = [look.at(model) for model in catalog.targets if model.has_shape]
    seen = [each if each.fit.fits else _together(each, macs, free_bytes) for each in seen]
    chosen = _choices(seen, machine, free_bytes)

    found = []
    for each in sorted(seen, key=lambda each: -each.target.quality):
        choice = chosen.get(each.target.name, "")
        found.append(replace(each.offer, choice=choice, recommended=choice == "best"))
    return sorted(
        found,
        key=lambda one: (not one.recommended, not one.choice, bool(one.reason), bool(one.caution)),
    )


@dataclass(frozen=True)
class _Seen:
    """A target on a machine. `fit`: at the moment; `long`: with a long context, while no other
    program is busy."""

    target: CatalogModel
    drafter: ModelSize | None
    fit: Fit
    long: Fit
    offer: PairOffer


@dataclass(frozen=True)
class _Look:
    """A machine that targets are judged for. `here`: the names of the installed models."""

    catalog: Catalog
    machine: Machine
    here: Collection[str]
    context: int
    free_bytes: int | None
    measured: Mapping[str, Measured]

    @cached_property
    def chip(self) -> Chip | None:
        """The machine's chip; None if it has no graphics that MLX uses."""
        return load_chips().chip_of(self.machine)

    def at(self, target: CatalogModel) -> _Seen:
        published = self.catalog.drafters_for(target.name)
        drafter, expected = self._drafter(target, published)
        size = self.catalog.size_of(drafter, target) if drafter else None
        asked = min(max(self.context, 1), target.context)
        needed = fit(target.size, size, context=asked, machine=self.machine)
        long = self._long(target, size)
        fetched = {target.name: target.download_bytes}
        if drafter:
            fetched[drafter.name] = self.catalog.download_bytes(drafter, target)
        missing = [name for name in fetched if name not in self.here]
        download_bytes = sum(fetched[name] for name in missing)
        offer = PairOffer(
            target=target.name,
            drafter=drafter.name if drafter else "",
            family=target.family,
            good_for=target.good_for,
            licence=target.licence,
            context=target.context,
            memory_class_gb=target.memory_class_gb,
            drafter_kinds=_kinds(published),
            download_bytes=download_bytes,
            needed_bytes=needed.needed_bytes,
            available_bytes=needed.available_bytes,
            installed=not missing,
            recommended=False,
            verified=target.verified,
            reason=self._reason(target, needed, download_bytes),
            needed_context=needed.context,
            largest_context=needed.largest_context,
            expanded=needed.weights_bytes > target.size.size_bytes,
            caution=self._caution(target.memory_class_gb, needed) if needed.fits else "",
            long_bytes=long.needed_bytes if long.context == LONG_CONTEXT else 0,
            tokens_per_second=expected.tokens_per_second if expected else None,
            gain=expected.gain if expected else None,
            sources=expected.sources if expected else (),
            note=self._note(drafter),
            abilities=_abilities(target),
        )
        return _Seen(target, size, needed, long, offer)

    def _drafter(
        self, target: CatalogModel, published: Sequence[CatalogDrafter]
    ) -> tuple[CatalogDrafter | None, Expected | None]:
        """Return the drafter that is expected to gain the most and leaves room, with the pair's
        speed.

        The drafter is None if none gains. If nothing is known of the machine's speed, it is the
        smallest drafting model, without a speed.
        """
        measured = self.measured.get(target.name)
        plain = expect(target.reads, None, chip=self.chip, measured=measured)
        whole = [each for each in published if not each.reason and MODULE_NAME not in each.name]
        if plain is None:
            return next((each for each in whole if each.kind == "model"), None), None
        best: tuple[CatalogDrafter | None, Expected] = None, plain
        for drafter in whole:
            found = expect(
                target.reads, drafter.drafts_for(target), chip=self.chip, measured=measured
            )
            if found is None or found.gain < max(WORTH, best[1].gain * 1.001):
                continue
            if _has_room(self._long(target, self.catalog.size_of(drafter, target))):
                best = drafter, found
        return best

    def _long(self, target: CatalogModel, drafter: ModelSize | None) -> Fit:
        # On a CPU weights are expanded where a usual context leaves room for that.
        context = LONG_CONTEXT if self.machine.unified else DEFAULT_CONTEXT
        asked = min(context, target.context)
        return peak(target.size, drafter, context=asked, machine=self.machine.usual)

    def _note(self, drafter: CatalogDrafter | None) -> str:
        """Return a warning that drafts gain next to nothing on this machine; empty if they gain."""
        if drafter is not None or self.chip is None or self.chip.generation not in ("M1", "M2"):
            return ""
        return (
            f"On an {self.chip.name} drafts cost about what they save: answers are written "
            "plainly, and copies from the text are tried."
        )

    def _reason(self, target: CatalogModel, needed: Fit, download_bytes: int) -> str:
        """Return why the target cannot be chosen, as a sentence; empty if it can."""
        if not known_to_mlx(str(target.config.get("model_type"))):
            return "mlx-lm does not know its architecture yet."
        reason = "" if needed.fits else needed.reason
        return reason or _no_room_on_disk(download_bytes, self.free_bytes)

    def _caution(self, memory_class_gb: int, needed: Fit) -> str:
        """Return a warning if a target that fits is meant for machines with more memory; otherwise
        empty."""
        if _is_meant_for(memory_class_gb, self.machine):
            return ""
        return (
            f"It is meant for {memory_class_gb} GB of memory, and this machine has "
            f"{in_words.size(self.machine.memory_bytes)}: conversations of up to "
            f"{needed.largest_context:,} tokens fit."
        )


def _together(alone: _Seen, macs: Sequence[Machine], free_bytes: int | None) -> _Seen:
    """Return a pair that does not fit this machine as `macs` together see it, if it fits them."""
    if len(macs) < 2:
        return alone
    try:
        made = plan(alone.target.size, macs, drafter=alone.drafter, context=alone.fit.context)
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
        long_bytes=0,
        expanded=made.expand,
        macs=len(macs),
    )
    return replace(alone, offer=offer)


def _kinds(published: Sequence[CatalogDrafter]) -> tuple[str, ...]:
    """Return all ways to draft for a target: published drafters, and drafters that need no
    download."""
    usable = dict.fromkeys(drafter.kind for drafter in published if not drafter.reason)
    return (*usable, "lookup", "head", "early-exit")


def _abilities(target: CatalogModel) -> tuple[str, ...]:
    languages = {0: "", 1: "English"}.get(target.languages, f"{target.languages} languages")
    able = ("thinks" if target.thinking else "", "tools" if target.tools else "", languages)
    return tuple(filter(None, able))


def _has_room(long: Fit) -> bool:
    return _leaves_room(long.needed_bytes, long.available_bytes)


def _leaves_room(needed_bytes: int, available_bytes: int) -> bool:
    return needed_bytes + OWN_BYTES <= LEAVES_ROOM * available_bytes


def _is_expanded(each: _Seen) -> bool:
    """Whether the weights are held as float32 while no other program is busy."""
    return each.long.weights_bytes > each.target.size.size_bytes


def _is_meant_for(memory_class_gb: int, machine: Machine) -> bool:
    """Whether a machine has that much memory, counting the part that the system keeps for
    itself."""
    return 0.95 * (memory_class_gb << 30) <= machine.memory_bytes


def _no_room_on_disk(download_bytes: int, free_bytes: int | None) -> str:
    needed_bytes = download_bytes + SPARE_DISK_BYTES
    if not download_bytes or free_bytes is None or needed_bytes <= free_bytes:
        return ""
    return (
        f"The download needs {in_words.size(needed_bytes)} of disk, "
        f"and {in_words.size(free_bytes)} are free."
    )


def _outruns(one: _Seen, other: _Seen) -> bool:
    """Whether one is the same model as the other in fewer bits, and a good deal quicker, where the
    other keeps its reader waiting: more bits add less than that costs."""
    fast, slow = one.offer.tokens_per_second or 0.0, other.offer.tokens_per_second or AT_EASE
    if one.target.bits >= other.target.bits or slow >= AT_EASE or fast < 1.25 * slow:
        return False
    return plain_name(one.target.name) == plain_name(other.target.name)


def _choices(seen: Sequence[_Seen], machine: Machine, free_bytes: int | None) -> dict[str, Choice]:
    """Return the choices by name: the best target that usually leaves room, and, if there are any,
    a quicker and a smaller target that are not much worse. Of equals the installed one is chosen.
    """
    roomy = [
        each
        for each in seen
        if _has_room(each.long)
        and each.target.verified
        and known_to_mlx(str(each.target.config.get("model_type")))
        and not _no_room_on_disk(each.offer.download_bytes, free_bytes)
        and _is_meant_for(each.offer.memory_class_gb, machine)
        and (each.offer.tokens_per_second or AS_FAST_AS_READING) >= AS_FAST_AS_READING
        and (machine.unified or (each.drafter and _is_expanded(each)))
    ]
    roomy = [each for each in roomy if not any(_outruns(other, each) for other in roomy)]
    if not roomy:
        return {STARTER.name: "best"}
    best = max(roomy, key=lambda each: (each.target.quality, each.offer.installed))
    chosen: dict[str, Choice] = {best.target.name: "best"}

    kinds: tuple[tuple[Choice, int, Callable[[PairOffer], float], float], ...] = (
        ("quickest", _QUICKER_LACKS, lambda offer: offer.tokens_per_second or 0.0, 1.0),
        ("smallest", _SMALLER_LACKS, lambda offer: 1 / max(offer.needed_bytes, 1), 1.5),
    )
    for choice, lacking, measure, times in kinds:
        least, enough = best.target.quality - lacking, times * measure(best.offer)
        better = [
            each
            for each in roomy
            if each.target.quality >= least
            and each.target.name not in chosen
            and measure(each.offer) > enough > 0
        ]
        if better:
            first = max(better, key=lambda each: measure(each.offer))
            chosen[first.target.name] = choice
    return chosen
