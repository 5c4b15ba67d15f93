"""Pairs on this machine: the catalog's offers, drafters for a target, what fits in memory.

Finds sizes and configs of the models that a person names: among installed ones, else in the
catalog, else on the hub. `models.catalog`, `pairing` and `memory` judge them.
"""

from pathlib import Path

from engine.cli.models.local import free_bytes
from engine.cluster.followers import ask_machines
from engine.cluster.hosts import read_hosts
from models.catalog import load_catalog, offers
from models.drafters.folders import find_head, own_module
from models.drafters.reading import classify, kind_of
from models.errors import Problem
from models.gguf.config import mlx_config
from models.gguf.file import is_gguf, read_gguf
from models.hub.cache_layout import cache_folder
from models.hub.client import Hub
from models.hub.repository import is_weights_name, needed
from models.installed.resolve import drafts_without_weights, resolve_drafter, resolve_target
from models.installed.store import installed, inventory
from models.memory.fit import fit
from models.memory.machine import this_machine
from models.memory.model_size import ModelSize, weigh
from models.memory.shares import Plan, plan
from models.model_folder import ModelFolder
from models.pairing import candidates, published
from models.records import Candidate, Fit, PairOffer


def offers_here(hosts: Path | None = None) -> list[PairOffer]:
    """The catalog's pairs, the recommended one first. Raises `Problem` where the Macs in a hostfile
    do not say how much memory they have."""
    macs = ask_machines(read_hosts(hosts)) if hosts else ()
    return offers(
        load_catalog(),
        machine=this_machine(),
        installed=installed(),
        free_bytes=free_bytes(cache_folder()),
        macs=[machine for _, machine in macs],
    )


def candidates_for(target: str) -> tuple[str, list[Candidate]]:
    """The target's name, and every way to draft for it, best first. Raises `Problem`.

    For a target of the catalog that is not installed: what others have trained for it.
    """
    try:
        folder = resolve_target(target)
    except Problem:
        catalog = load_catalog()
        known = catalog.models.get(target)
        if known is None:
            raise
        return target, published(catalog, target, known.size, machine=this_machine())
    entries = inventory()
    place = folder.path.resolve()
    named = [entry.record.name for entry in entries if entry.folder.path.resolve() == place]
    found = candidates(folder, installed=entries, machine=this_machine(), catalog=load_catalog())
    return (named or [folder.name])[0], found


def fit_of(target: str, drafter: str, *, context: int) -> Fit:
    """Whether the pair fits with `context` tokens, installed or not. Raises `Problem`.

    `drafter` is as `slipstream chat` takes it. Of several joined, the one with weights counts.
    """
    size, found = _size(target), _heaviest(drafter, target)
    return fit(size, found, context=context, machine=this_machine())


def plan_of(
    target: str, drafter: str, *, context: int, hosts: Path
) -> tuple[tuple[str, ...], Plan]:
    """The Macs in a hostfile, and how they would share the target of such a pair, by the memory
    that each has now. Raises `Problem`."""
    macs = read_hosts(hosts)
    try:
        whole: ModelFolder | ModelSize = resolve_target(target)
    except Problem:
        whole = _size(target)
    found = _heaviest(drafter, target)
    names, machines = zip(*ask_machines(macs), strict=True)
    return names, plan(whole, machines, drafter=found, context=context)


def _heaviest(drafter: str, target: str) -> ModelSize | None:
    """Of several drafters that are joined, the one whose weights count."""
    weighed = [_drafter_size(part.strip(), target) for part in drafter.split("+")]
    return max(filter(None, weighed), key=lambda model: model.size_bytes, default=None)


def _drafter_size(name: str, target: str) -> ModelSize | None:
    """The size of a drafter; None where it has no weights of its own."""
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
        raise Problem(f"There is no drafter head for {target}.", "Choose lookup, or a model.")
    return None if head is None else weigh(head)


def _size(name: str, *, drafts: bool = False) -> ModelSize:
    """The size of an installed model, else from the catalog, else from the hub."""
    path = Path(name)
    if is_gguf(path):
        file = read_gguf(path, lists_of_strings=False)
        weights_bytes = sum(tensor.size_bytes for tensor in file.tensors.values())
        return ModelSize(path.name, weights_bytes, mlx_config(file))
    try:
        return weigh(resolve_drafter(name) if drafts else resolve_target(name))
    except Problem:
        known = load_catalog().models.get(name)
        if known is not None:
            return known.size
        if name.count("/") != 1 or path.exists() or name[0] in "~./":
            raise
    return _size_on_hub(name)


def _size_on_hub(name: str) -> ModelSize:
    hub = Hub()
    organization_name, _, revision = name.partition("@")
    repository = hub.describe(organization_name, revision or None)
    weights = [file for file in needed(repository) if is_weights_name(file.name)]
    config, size_bytes = hub.config(repository), sum(file.size_bytes for file in weights)
    network = None
    if kind_of(config) not in (None, "model", "pard"):
        network = classify(config, {}, name=repository.name)
    return ModelSize(repository.name, size_bytes, config, network=network)
