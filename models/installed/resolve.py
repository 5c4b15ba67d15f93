"""From what a person wrote to the model that is meant: a path, a hub id, or a name.

Knows what is installed; fetches nothing. A name that is not here is a Problem that says how to
get it, or which one may have been meant.
"""

import difflib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from models.drafter_folders import describe_head, is_head
from models.errors import Problem
from models.folders import open_model
from models.hub.queue import UNFINISHED, Queue, repository_of
from models.hub.repository import check_revision
from models.hub.snapshots import cache_folder, reference, repositories
from models.installed.cached_models import models_of
from models.installed.store import incomplete, installed
from models.records import Installed
from models.starter import models_folder

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(?<!\.gguf)(/[\w.-]+\.gguf)?(@[\w./+-]+)?", re.ASCII | re.I)
_NEAR = 3  # names to suggest


def resolve_target(
    text: str,
    *,
    home: Path | None = None,
    cache: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """The folder of the model to chat with that `text` names: a path, a hub id, or a name.

    A path of an MLX folder or a GGUF file (which is imported first; `progress(done, total)` in
    bytes); `organization/model`, also with `@revision`; or the name of what is installed, in short
    where that is unique. Raises Problem if there is no such model, if it is not whole, and if it
    only drafts.
    """
    found = _find(text, home=home, cache=cache, drafts=False)
    if isinstance(found, Installed) and found.role != "chat":
        raise Problem(
            f"{found.name} only drafts for another model.",
            f"Name it as the drafter: --drafter {text}",
        )
    return _open(found, home, progress)


def resolve_drafter(
    text: str,
    *,
    home: Path | None = None,
    cache: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """The folder of the drafting model, or of the drafter head, that `text` names.

    As `resolve_target`, and heads are found too.
    """
    found = _find(text, home=home, cache=cache, drafts=True)
    path = Path(found.path) if isinstance(found, Installed) else found
    if is_head(path):
        return describe_head(path).path
    return _open(found, home, progress)


def find(text: str, *, models: Sequence[Installed]) -> Installed:
    """The one of `models` that `text` names: by its name, a part of it, a hub id with revision.

    Raises Problem if it is none or several of them; those that were meant, perhaps, are named.
    """
    found = _match(text, models)
    if found is None:
        raise _unknown(text, models)
    return found


def _match(text: str, models: Sequence[Installed]) -> Installed | None:
    wanted = text.lower()
    for matches in (
        [model for model in models if model.name == text],
        [model for model in models if model.name.lower() == wanted],
        [model for model in models if _is_revision(model, wanted)],
        [model for model in models if wanted in _short_names(model)],
    ):
        usable = [model for model in matches if not model.problem] or matches
        names = sorted({model.name for model in usable})
        if len(names) > 1:
            raise Problem(
                f"{text!r} can mean several models: {', '.join(names)}.",
                "Write the whole name of one of them.",
            )
        if usable:
            return usable[0]
    return None


def _find(text: str, *, home: Path | None, cache: Path | None, drafts: bool) -> Path | Installed:
    """The path that was written, or what is installed by that name, of the right use first."""
    path = Path(os.path.expanduser(text))
    if text and (os.path.exists(path) or text.startswith((".", "~", os.sep))):
        return path
    found = _in_cache(text, home=home, cache=cache)
    if found is not None and not found.problem:
        return found
    models = installed(home=home, cache=cache)
    fitting = [model for model in models if (model.role != "chat") == drafts]
    found = _match(text, fitting) or _match(text, models) or found
    if found is None:
        raise _unfinished(text, home, cache) or _unknown(text, models)
    if found.problem:
        raise _unfinished(found.name, home, cache) or Problem(found.problem, found.remedy)
    return found


def _in_cache(text: str, *, home: Path | None, cache: Path | None) -> Installed | None:
    """The model of the Hugging Face cache with that very name, without a look at all others."""
    name, at, revision = text.partition("@")
    for repository in repositories(cache_folder() if cache is None else cache):
        if repository.name.lower() == name.lower():
            if at:  # a branch or a tag is at some commit
                path = repository.path / "refs" / check_revision(revision)
                text = f"{name}@{reference(path) or revision}"
            return _match(text, models_of(repository, origin="hub", home=home))
    return None


def _open(
    found: Path | Installed, home: Path | None, progress: Callable[[int, int], None] | None
) -> Path:
    path = Path(found.path) if isinstance(found, Installed) else found
    return open_model(path, imports=models_folder(home), progress=progress).path


def _is_revision(model: Installed, wanted: str) -> bool:
    """Whether `wanted` is the model's hub id with its revision, in full or from 7 digits on."""
    repository, _, revision = wanted.partition("@")
    of_hub = model.name.lower().partition("@")[0] == repository
    return of_hub and len(revision) >= 7 and Path(model.path).name.startswith(revision)


def _short_names(model: Installed) -> set[str]:
    """What it may be called for short: without the organization, a GGUF file's repository too."""
    name = model.name.lower()
    parts = name.split("/")
    if len(parts) > 2 and name.endswith(".gguf"):
        return {parts[-1], parts[-1].removesuffix(".gguf"), parts[1], "/".join(parts[:2])}
    return {parts[-1], parts[-1].removesuffix(".gguf")}


def _parts(name: str) -> set[str]:
    """A name, in full and without the organization."""
    return {name.lower(), name.lower().rpartition("/")[2]}


def _unfinished(text: str, home: Path | None, cache: Path | None) -> Problem | None:
    """Why `text` is not there yet, where it is on its way or broke off."""
    wanted = text.partition("@")[0].lower()
    for download in Queue(home=home).downloads():
        names = {repository_of(download), *_parts(download.repository)}
        if wanted in names and download.standing in UNFINISHED:
            name, why = download.repository, download.problem or f"it is {download.standing}"
            return Problem(
                f"{name} is not downloaded yet: {why.rstrip('.')}.",
                f"Go on with it: slipstream models pull {name}",
            )
    for left in incomplete(home=home, cache=cache):
        if wanted in _parts(left.name):
            return Problem(
                f"{left.name} is not whole: a download of it broke off.",
                f"Go on with it: slipstream models pull {left.name}",
            )
    return None


def _unknown(text: str, models: Sequence[Installed]) -> Problem:
    whole = {
        name: model.name
        for model in models
        for name in sorted({*_short_names(model), model.name.lower()})
    }
    near = difflib.get_close_matches(text.lower(), whole, n=2 * _NEAR)
    meant = " or ".join(list(dict.fromkeys(whole[name] for name in near))[:_NEAR])
    if _HUB_ID.fullmatch(text):
        hint = f"Did you mean {meant}? If not, fetch it" if meant else "Fetch it"
        return Problem(f"{text} is not on this machine.", f"{hint}: slipstream models pull {text}")
    return Problem(
        f"There is no model {text!r} on this machine.",
        f"Did you mean {meant}?" if meant else "See what there is: slipstream models list",
    )
