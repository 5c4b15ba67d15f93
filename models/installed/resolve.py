"""Opens the model that the user named by a path, a hub id, or a name.

Knows the installed models, and how drafters are named; fetches nothing but the starter model.
"""

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from models.catalog import load_catalog
from models.drafters.folders import (
    DrafterFolder,
    find_head,
    module_source,
    own_module,
    read_drafter,
)
from models.drafters.kinds import check, plain_name
from models.errors import Problem
from models.files import models_folder, written_path
from models.gguf.file import is_gguf
from models.hub.cache_layout import cache_folder, reference, repositories
from models.hub.queue import Queue, repository_of
from models.hub.repository import check_revision
from models.installed.inventory import ModelEntry, models_of
from models.installed.names import HUB_ID, match, parts, unknown
from models.installed.other_programs import ollama_name
from models.installed.store import incomplete, inventory
from models.memory.fit import DEFAULT_CONTEXT, fit
from models.memory.machine import this_machine
from models.memory.model_size import ModelSize, weigh
from models.model_folder import ModelFolder, open_model
from models.records import MODULE_NAME
from models.starter import STARTER, Step, ensure_starter

_WITHOUT_WEIGHTS = re.compile(r"none|lookup|suffix|lookahead(:.*)?|early-exit(:\d*)?")
_LOOKAHEAD = re.compile(r"(\d{1,2}),(\d{1,2}),(\d{1,2})", re.ASCII)
_LOOKAHEAD_ROWS = 64  # that the target reads in every pass

Progress = Callable[[int, int], None]
"""Called with the bytes that are done, and all."""


@dataclass(frozen=True, slots=True)
class NamedDrafter:
    """A drafter: its name as the user wrote it, and its folder if it has weights."""

    name: str
    folder: DrafterFolder | None = None

    def held_in(self, bits: int) -> "NamedDrafter":
        """Return the same drafter, held in these bits; see `resolve_drafters`."""
        if self.folder is None or self.folder.is_packed:
            return self
        return replace(self, folder=replace(self.folder, bits=bits))


@dataclass(frozen=True, slots=True)
class Drafters:
    """The drafters of a target: the `name` as written, and its `parts`, asked in this order. `why`
    says why `auto` took these, in a sentence; empty for others."""

    name: str
    parts: tuple[NamedDrafter, ...]
    why: str = ""


def open_target(
    text: str | None,
    *,
    home: Path | None = None,
    cache: Path | None = None,
    begins: Callable[[Step], None] = lambda step: None,
    progress: Progress | None = None,
) -> ModelFolder:
    """Open the target that `text` names; the starter model if `text` is empty or names it.

    The starter is fetched if it is not installed; `begins` is called with each step.
    """
    if text is None or text == STARTER.name:
        return ensure_starter(home=home, begins=begins, progress=progress)
    return resolve_target(text, home=home, cache=cache, progress=progress)


def is_path(text: str) -> bool:
    """Whether the user who wrote this named a file or a folder, rather than a model by its name."""
    exists = bool(text) and os.path.exists(os.path.expanduser(text))
    return exists or text.startswith((".", "~", os.sep))


def resolve_target(
    text: str,
    *,
    home: Path | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> ModelFolder:
    """The model to chat with that `text` names: a path, a hub id, or a name.

    A path of an MLX folder or a GGUF file (which is imported first; `progress(done, total)` in
    bytes); `organization/model`, also with `@revision`; or the name of an installed model, short
    where that is unique. Raises Problem if it is not found, is incomplete, or
    is a drafter.
    """
    found = _find(text, home=home, cache=cache, drafts=False)
    if isinstance(found, Path):
        name = ollama_name(found)
        return open_model(found, imports=models_folder(home), name=name, progress=progress)
    if found.record.role != "chat" or isinstance(found.folder, DrafterFolder):
        raise Problem(
            f"{found.record.name} is a drafter, and cannot answer alone.",
            f"Name it as the drafter: --drafter {text}",
        )
    return _usable(found.folder, home, progress, name=found.record.name)


def resolve_drafter(
    text: str,
    *,
    home: Path | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> DrafterFolder:
    """Return the drafter of any kind that `text` names, as `resolve_target` does."""
    found = _find(text, home=home, cache=cache, drafts=True)
    if not isinstance(found, Path):
        if isinstance(found.folder, DrafterFolder):
            return found.folder
        model = _usable(found.folder, home, progress, name=found.record.name)
    elif is_gguf(found):
        model = open_model(found, imports=models_folder(home), progress=progress)
    else:
        model = ModelFolder(found)
        if (drafter := read_drafter(model)) is not None:
            return drafter
        model.check()
    return DrafterFolder.of_model(model)


def resolve_drafters(name: str, target: ModelFolder, *, bits: int = 0) -> Drafters:
    """The drafters for `target`, as the user names them: see `engine.conversation.pair`. Raises
    Problem.

    Each is looked up once; its folder is passed on, to be weighed, loaded and identified.
    `bits`: 16, 8 or 4, in which it is held; 0 for the usual ones, 8.
    """
    why = ""
    if name.strip() == "auto":
        taken, why = _automatic(target)
        parts: Sequence[NamedDrafter] = (NamedDrafter("suffix"), *taken)
    else:
        parts = [_named_drafter(part.strip(), target) for part in name.split("+")]
    return Drafters(name, tuple(part.held_in(bits) for part in parts), why)


def _automatic(target: ModelFolder) -> tuple[tuple[NamedDrafter, ...], str]:
    """Return the drafter with weights that `auto` takes, if any, and why.

    It is the first of these that is here: the target's own MTP module, a drafter of others that was
    trained for it, its head.
    """
    with suppress(Problem):  # a damaged module is not taken
        module = own_module(target)
        if module is not None and _has_room(target, module):
            return (NamedDrafter("mtp", module),), "The target brings its own MTP module."
    for entry in _trained(target):
        folder, name = entry.folder, entry.record.name
        if isinstance(folder, DrafterFolder) and _has_room(target, folder):
            return (NamedDrafter(name, folder),), f"{name} is here, and was trained for the target."
    head = find_head(target.fingerprint)
    if head is not None:
        return (NamedDrafter("head", head),), "A head was distilled for the target here."
    return (
        (),
        "No drafter that was trained for the target is here, so what the text repeats is copied.",
    )


def _trained(target: ModelFolder) -> list[ModelEntry]:
    """Return the installed drafters that others have trained for `target`, the best known first."""
    entries = inventory()
    name = next(
        (each.record.name for each in entries if each.folder.path == target.path), target.name
    )
    listed = [drafter.name.lower() for drafter in load_catalog().drafters_for(name)]

    def suits(entry: ModelEntry) -> bool:
        folder = entry.folder
        if entry.record.problem or not isinstance(folder, DrafterFolder):
            return False
        if folder.kind == "head" or folder.description.is_whole_model:
            return False
        by_name = plain_name(folder.description.verifier) == plain_name(name)
        if not by_name and published_name(entry).lower() not in listed:
            return False
        return not check(folder.description, target.config, fingerprint=target.fingerprint)

    def rank(entry: ModelEntry) -> int:
        place = published_name(entry).lower()
        return listed.index(place) if place in listed else len(listed)

    return sorted(filter(suits, entries), key=rank)


def published_name(entry: ModelEntry) -> str:
    """Return the name of a drafter as it was published, also if it is a module from a
    repository."""
    source = module_source(entry.folder.path) if entry.record.role == "drafter" else {}
    name = source.get("repository")
    return f"{name}/{MODULE_NAME}" if isinstance(name, str) else entry.record.name


def _has_room(target: ModelFolder, drafter: DrafterFolder) -> bool:
    """Whether both fit in memory, which the user who asks for `auto` did not decide."""
    found = fit(weigh(target), weigh(drafter), context=DEFAULT_CONTEXT, machine=this_machine())
    return found.fits


def heaviest(drafters: Drafters) -> ModelSize | None:
    """Return the size of the heaviest of several drafters; None if none has weights. Raises
    `Problem` if a drafter cannot be weighed."""
    weighed = [weigh(part.folder) for part in drafters.parts if part.folder is not None]
    return max(weighed, key=lambda size: size.size_bytes, default=None)


def drafts_without_weights(name: str) -> bool:
    """Whether `name` is a way of drafting without weights of its own."""
    return _WITHOUT_WEIGHTS.fullmatch(name) is not None


def lookahead_sizes(name: str) -> tuple[int, ...]:
    """Read `lookahead:W,N,G`: columns of its window, tokens of an n-gram, and how many n-grams are
    drafted; empty for plain `lookahead`. Raises Problem."""
    sizes = name.partition(":")[2]
    if not sizes:
        return ()
    written = _LOOKAHEAD.fullmatch(sizes)
    window, size, most = map(int, written.groups()) if written else (0, 0, 0)
    if window < 1 or size < 2 or (window + most) * (size - 1) > _LOOKAHEAD_ROWS:
        raise Problem(
            f"Lookahead cannot draft with {sizes!r}.",
            "Write lookahead:W,N,G, with a window of W columns, n-grams of N tokens from 2, and G "
            f"of them in a draft: (W + G) × (N - 1) is {_LOOKAHEAD_ROWS} at most.",
        )
    return window, size, most


def _named_drafter(name: str, target: ModelFolder) -> NamedDrafter:
    if drafts_without_weights(name):
        if name.startswith("lookahead"):
            lookahead_sizes(name)
        return NamedDrafter(name)
    if name == "mtp":
        if (module := own_module(target)) is None:
            raise Problem(
                f"{target.name} comes without an MTP module: most were left out by conversion.",
                f"See which drafters there are: slipstream models pair --target {target.path}",
            )
        return NamedDrafter(name, module)
    if name == "head":
        head = find_head(target.fingerprint)
        if head is None:
            raise Problem(
                f"This machine has no drafter head for {target.name}.",
                f"Make one (slipstream distil --target {target.path} ...), or choose lookup.",
            )
        return NamedDrafter(name, head)
    try:
        drafter = resolve_drafter(name)
    except Problem as problem:
        there = os.path.exists(os.path.expanduser(name))
        if there or (HUB_ID.fullmatch(name) and name[0] not in "~./"):
            raise  # a hub id: its Problem says how to fetch it
        raise Problem(
            f"This machine has no drafter and no folder called {name!r} "
            f"({problem.message.rstrip('.')}).",
            "Choose auto, none, lookup, suffix, lookahead, head, mtp, early-exit, a "
            "model, or several joined with +.",
        ) from problem
    _require_sizes(drafter, target)
    return NamedDrafter(name, drafter)


def _require_sizes(drafter: DrafterFolder, target: ModelFolder) -> None:
    """Raise Problem if a network that others have trained is not for a target of these sizes."""
    if drafter.description.is_whole_model or drafter.kind == "head":
        return  # their tokens, or the target's weights, are compared when they are loaded
    reason = check(drafter.description, target.config)
    if reason:
        raise Problem(
            f"{drafter.name} cannot draft for {target.name}: {reason[0].lower()}{reason[1:]}",
            f"See which ones can: slipstream models pair --target {target.path}",
        )


def _find(text: str, *, home: Path | None, cache: Path | None, drafts: bool) -> Path | ModelEntry:
    """Return the path, or the installed model of that name; models of the right use come first."""
    if is_path(text):
        return written_path(text)
    in_cache = _in_cache(text, home=home, cache=cache)
    if in_cache is not None and not in_cache.record.problem:
        return in_cache
    entries = inventory(home=home, cache=cache)
    fitting = [entry for entry in entries if (entry.record.role != "chat") == drafts]
    wanted = text.lower() if text.lower().endswith(f"/{MODULE_NAME}") else None
    module = next((each for each in fitting if published_name(each).lower() == wanted), None)
    entry = module or _entry(text, fitting) or _entry(text, entries) or in_cache
    if entry is None:
        models = [entry.record for entry in entries]
        raise _unfinished(text, home, cache) or unknown(text, models)
    found = entry.record
    if found.problem:
        raise _unfinished(found.name, home, cache) or Problem(found.problem, found.remedy)
    return entry


def _entry(text: str, entries: Sequence[ModelEntry]) -> ModelEntry | None:
    found = match(text, [entry.record for entry in entries])
    return next((entry for entry in entries if entry.record is found), None)


def _in_cache(text: str, *, home: Path | None, cache: Path | None) -> ModelEntry | None:
    """Return the model of exactly that name in the Hugging Face cache, without listing all
    others."""
    name, at, revision = text.partition("@")
    for repository in repositories(cache_folder() if cache is None else cache):
        if repository.name.lower() == name.lower():
            if at:  # a branch or a tag is at some commit
                path = repository.path / "refs" / check_revision(revision)
                text = f"{name}@{reference(path) or revision}"
            return _entry(text, models_of(repository, origin="hub", home=home))
    return None


def _usable(
    folder: ModelFolder, home: Path | None, progress: Progress | None, *, name: str
) -> ModelFolder:
    """Return the entry's folder, as it was read for the list; GGUF files are imported first."""
    if not is_gguf(folder.path):
        return folder
    called = "" if folder.path.suffix else name  # a file of Ollama's is called by its digest
    return open_model(folder.path, imports=models_folder(home), name=called, progress=progress)


def _unfinished(text: str, home: Path | None, cache: Path | None) -> Problem | None:
    """Return the Problem of a model whose download is queued or broke off; None for any other."""
    wanted = text.partition("@")[0].lower()
    for download in Queue(home=home).downloads():
        names = {repository_of(download.repository), *parts(download.repository)}
        if wanted in names and not download.over:
            why = (download.problem or f"it is {download.status}").rstrip(".")
            return _to_go_on(download.repository, f"is not downloaded yet: {why}")
    left = [left.name for left in incomplete(home=home, cache=cache) if wanted in parts(left.name)]
    return _to_go_on(left[0], "is not whole: its download broke off") if left else None


def _to_go_on(name: str, why: str) -> Problem:
    return Problem(f"{name} {why}.", f"To continue it: slipstream models pull {name}")
