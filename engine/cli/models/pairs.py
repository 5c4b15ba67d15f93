"""Pairs on this machine: the catalog's offers, the drafters of a target, and which pairs fit.

Finds the size and the config of a model that the user names: installed, else in the catalog, else
on the hub. `models.catalog`, `pairing` and `memory` judge them.
"""

from collections.abc import Sequence
from pathlib import Path

from engine.cluster.hosts import read_hosts
from engine.draft_length.calibrations import CalibrationStore, calibration_folder
from engine.process.launch import ask_machines
from models.catalog import Catalog, load_catalog, offers
from models.drafters.folders import find_head, own_module
from models.drafters.mtp import had_module
from models.drafters.reading import classify, kind_of
from models.errors import Problem
from models.files import free_bytes
from models.gguf.config import mlx_config
from models.gguf.file import is_gguf, read_gguf
from models.hub.cache_layout import cache_folder
from models.hub.client import Hub
from models.hub.fetch_module import weigh_module
from models.hub.repository import Repository, is_weights_name, needed
from models.in_words import size
from models.installed.inventory import is_known
from models.installed.resolve import (
    drafts_without_weights,
    resolve_drafter,
    resolve_drafters,
    resolve_target,
)
from models.installed.store import installed, inventory
from models.memory.fit import fit
from models.memory.machine import Machine, this_machine
from models.memory.model_size import ModelSize, weigh
from models.memory.shares import Plan, plan
from models.model_folder import ModelFolder
from models.pairing import candidates, published
from models.records import MODULE_NAME, Candidate, Fit, PairOffer
from models.speed import WORTH, Measured, RowCurve


def offers_here(hosts: Path | None = None) -> list[PairOffer]:
    """Return the catalog's pairs, the recommended one first. Raises `Problem` if the Macs in a
    hostfile do not say how much memory they have."""
    macs = ask_machines(read_hosts(hosts)) if hosts else ()
    catalog = load_catalog()
    return offers(
        catalog,
        machine=this_machine(),
        installed=installed(),
        free_bytes=free_bytes(cache_folder()),
        macs=[machine for _, machine in macs],
        measured=_calibrated(catalog),
    )


def candidates_for(target: str) -> tuple[str, list[Candidate]]:
    """Return the target's name, and every way to draft for it, best first. Raises `Problem`.

    A target that is not installed is looked up in the catalog, then on the hub; only its config and
    headers are downloaded.
    """
    catalog, machine = load_catalog(), this_machine()
    try:
        folder = resolve_target(target)
    except Problem:
        known = catalog.find(target)
        if known is not None and known.has_shape:
            return known.name, published(catalog, known.name, known.size, machine=machine)
        if not _may_be_on_hub(target):
            raise
        return _candidates_on_hub(target, catalog, machine)
    entries = inventory()
    place = folder.path.resolve()
    names = [entry.record.name for entry in entries if entry.folder.path.resolve() == place]
    found = candidates(folder, installed=entries, machine=machine, catalog=catalog)
    return (names or [folder.name])[0], [_automatic(folder, found), *found]


def _automatic(folder: ModelFolder, found: Sequence[Candidate]) -> Candidate:
    """Return the candidate `auto`: the drafters that it takes and why, and a better drafter that is
    not installed, if any."""
    drafters = resolve_drafters("auto", folder)
    reason = drafters.why
    if len(drafters.parts) == 1 or drafters.parts[1].name == "head":
        absent = [c for c in found if c.obstacle == "not installed" and c.gain]
        best = max(absent, key=lambda candidate: candidate.gain or 0.0, default=None)
        if best is not None and best.gain is not None and best.gain >= WORTH:
            taken = f", {size(best.size_bytes)}" if best.size_bytes else ""
            reason += f" Better: {best.drafter}{taken}, expected {best.gain:.1f} times plain."
    return Candidate("auto", "auto", True, reason)


def _candidates_on_hub(
    target: str, catalog: Catalog, machine: Machine
) -> tuple[str, list[Candidate]]:
    """Return `candidates_for` a target that neither this machine nor the catalog has."""
    hub = Hub()
    name, _, revision = target.partition("@")
    repository = hub.describe(name, revision or None)
    weighed = _size_on_hub(repository, hub)
    if not is_known(weighed.config):
        kind = ascii(weighed.config.get("model_type"))[:60]
        raise Problem(
            f"mlx-lm does not support the architecture of {repository.name}, {kind}.",
            "Choose another model: slipstream models pair",
        )
    found = published(catalog, repository.name, weighed, machine=machine)
    module_bytes = weigh_module(repository, hub=hub) if had_module(weighed.config) else 0
    if module_bytes:
        module = f"{repository.name}/{MODULE_NAME}"
        if module not in {each.drafter for each in found}:
            get = f"slipstream models pull {module}"
            reason = f"It is the target's own, {size(module_bytes)}: {get}"
            found.insert(
                0,
                Candidate(
                    module,
                    "mtp",
                    False,
                    reason,
                    installed=False,
                    size_bytes=module_bytes,
                    obstacle="not installed",
                    tried=False,
                ),
            )
    return repository.name, found


def fit_of(target: str, drafter: str, *, context: int) -> Fit:
    """Return whether the pair fits with `context` tokens, installed or not. Raises `Problem`.

    `drafter`: as `slipstream chat` takes it. Of several joined ones, the one with weights counts.
    """
    weighed, found = _size(target), _heaviest(drafter, target)
    return fit(weighed, found, context=context, machine=this_machine())


def plan_of(
    target: str, drafter: str, *, context: int, hosts: Path
) -> tuple[tuple[str, ...], Plan]:
    """Return the Macs in a hostfile, and how they would split the target, by the free memory of
    each. Raises `Problem`."""
    macs = read_hosts(hosts)
    try:
        whole: ModelFolder | ModelSize = resolve_target(target)
    except Problem:
        whole = _size(target)
    found = _heaviest(drafter, target)
    names, machines = zip(*ask_machines(macs), strict=True)
    return names, plan(whole, machines, drafter=found, context=context)


def _heaviest(drafter: str, target: str) -> ModelSize | None:
    """Return the size of the heaviest of several joined drafters; None if none has weights."""
    weighed = [_drafter_size(part.strip(), target) for part in drafter.split("+")]
    return max(filter(None, weighed), key=lambda model: model.size_bytes, default=None)


def _drafter_size(name: str, target: str) -> ModelSize | None:
    """Return the size of a drafter; None if it has no weights of its own."""
    if not name or drafts_without_weights(name):
        return None
    if name == "mtp":
        module = own_module(resolve_target(target))
        if module is None:
            raise Problem(f"{target} has no MTP module.", "Choose lookup, or a model.")
        return weigh(module)
    if name not in ("auto", "head"):
        return _size(name, drafts=True)
    head = find_head(resolve_target(target).fingerprint)
    if head is None and name == "head":
        raise Problem(f"{target} has no trained head.", "Choose lookup, or a model.")
    return None if head is None else weigh(head)


def _size(name: str, *, drafts: bool = False) -> ModelSize:
    """Return the size of an installed model, or of one in the catalog, or of one on the hub."""
    path = Path(name)
    if is_gguf(path):
        file = read_gguf(path, lists_of_strings=False)
        weights_bytes = sum(tensor.size_bytes for tensor in file.tensors.values())
        return ModelSize(path.name, weights_bytes, mlx_config(file))
    try:
        return weigh(resolve_drafter(name) if drafts else resolve_target(name))
    except Problem:
        known = load_catalog().find(name)
        if known is not None and known.has_shape:
            return known.size
        if not _may_be_on_hub(name):
            raise
    hub = Hub()
    repository_name, _, revision = name.partition("@")
    return _size_on_hub(hub.describe(repository_name, revision or None), hub)


def _may_be_on_hub(name: str) -> bool:
    """Whether a name may mean a repository on the hub."""
    return name.count("/") == 1 and not Path(name).exists() and name[0] not in "~./"


def _size_on_hub(repository: Repository, hub: Hub) -> ModelSize:
    weights = [file for file in needed(repository) if is_weights_name(file.name)]
    config, size_bytes = hub.config(repository), sum(file.size_bytes for file in weights)
    network = None
    if kind_of(config) not in (None, "model", "pard"):
        network = classify(config, {}, name=repository.name)
    return ModelSize(repository.name, size_bytes, config, network=network)


def _calibrated(catalog: Catalog) -> dict[str, Measured]:
    """Return the calibrations of this machine, by the names of installed targets of the catalog."""
    store = CalibrationStore(calibration_folder())
    found = {}
    for entry in inventory():
        name = entry.record.name
        if name not in catalog.models or entry.record.problem:
            continue
        if not isinstance(entry.folder, ModelFolder):
            continue
        passes = store.passes_of(entry.folder.fingerprint)
        if passes is not None and passes.rows[0] == 1:
            first = passes.seconds[0]
            costs = zip(passes.rows, (each / first for each in passes.seconds), strict=True)
            found[name] = Measured(first, RowCurve(tuple(costs)))
    return found
