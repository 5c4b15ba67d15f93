"""Installed models, downloads and leftovers together, and which of them can be removed.

Knows the store, the queue and the disk, and combines their answers.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from models.errors import Problem
from models.hub.cache_layout import cache_folder
from models.hub.queue import Queue
from models.installed import store
from models.installed.added_folders import folders
from models.records import Inventory

_LIST = "See what there is: slipstream models list"


@dataclass(frozen=True, slots=True)
class Removable:
    """A model or leftover that the user named; `remove()` deletes it, and returns bytes freed."""

    name: str
    size_bytes: int
    remove: Callable[[], int]


def local_models() -> Inventory:
    """The current inventory. Raises `Problem` if the queue of downloads cannot be read."""
    queue = Queue()
    waiting = tuple(download for download in queue.downloads() if not download.over)
    return Inventory(
        installed=tuple(store.installed()),
        incomplete=tuple(store.incomplete()),
        downloads=waiting,
        folders=tuple(map(str, _folders())),
        free_bytes=free_bytes(cache_folder()),
        downloading=bool(waiting) and queue.is_run(),
    )


def find_removable(name: str, *, incomplete: bool) -> Removable:
    """The model of that name or path; with `incomplete`, the leftover of interrupted work.

    Raises `Problem` if none or several match.
    """
    there: list[tuple[str, str, Removable]] = []
    if incomplete:
        for left in store.incomplete():
            remove = partial(store.remove_incomplete, left)
            there.append((left.name, left.path, Removable(left.name, left.size_bytes, remove)))
    else:
        for model in store.installed():
            remove = partial(store.remove, model)
            there.append((model.name, model.path, Removable(model.name, model.size_bytes, remove)))
    found = [removable for called, path, removable in there if name in (called, path)]
    if len(found) == 1:
        return found[0]
    if found:
        raise Problem(f"{len(found)} models are called {name}.", f"Give the path of one. {_LIST}")
    what = "left over" if incomplete else "installed"
    near = get_close_matches(name, [called for called, _, _ in there], n=1)
    raise Problem(
        f"Nothing called {name} is {what} here.",
        f"Did you mean {near[0]}?" if near else f"{_LIST}.",
    )


def _folders() -> list[Path]:
    try:
        return folders()
    except Problem:  # which the store lists as a model that cannot be used
        return []


def free_bytes(place: Path) -> int:
    """The free bytes of the disk where `place` is, or will be."""
    there = next(folder for folder in (place, *place.absolute().parents) if folder.is_dir())
    return shutil.disk_usage(there).free
