"""Lists installed models, downloads and incomplete files, and finds those to remove.

Combines the store, the queue and the disk.
"""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from models.errors import Problem
from models.files import free_bytes
from models.hub.cache_layout import cache_folder
from models.hub.queue import Queue
from models.installed import store
from models.installed.added_folders import folders
from models.records import Inventory

_LIST = "To list all models: slipstream models list"


@dataclass(frozen=True, slots=True)
class Removable:
    """A model, or incomplete files, that the user named. `remove()` deletes it and returns the
    bytes freed."""

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
    """Return the model of that name or path; with `incomplete`, its incomplete files.

    Raises `Problem` if none or several match.
    """
    known: list[tuple[str, str, Removable]] = []
    if incomplete:
        for left in store.incomplete():
            remove = partial(store.remove_incomplete, left)
            known.append((left.name, left.path, Removable(left.name, left.size_bytes, remove)))
    else:
        for model in store.installed():
            remove = partial(store.remove, model)
            known.append((model.name, model.path, Removable(model.name, model.size_bytes, remove)))
    found = [removable for called, path, removable in known if name in (called, path)]
    if len(found) == 1:
        return found[0]
    if found:
        raise Problem(f"{len(found)} models are called {name}.", f"Name one by its path. {_LIST}")
    if incomplete and name in (each.repository for each in Queue().downloads() if not each.over):
        cancel = f"To cancel it: slipstream models pull --cancel {name}"
        raise Problem(f"{name} is in the queue of downloads.", cancel)
    what = "No incomplete download" if incomplete else "No installed model"
    near = get_close_matches(name, [called for called, _, _ in known], n=1)
    raise Problem(f"{what} is called {name}.", f"Did you mean {near[0]}?" if near else _LIST)


def _folders() -> list[Path]:
    try:
        return folders()
    except Problem:  # the store lists such a folder as an unusable model
        return []
