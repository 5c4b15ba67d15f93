"""A pair is refused before it is loaded where there is no room for it.

Knows how a drafter is written, see `engine.pair`, and finds its folder; what fits is
`models.memory.fit`'s to say. Reads configs and headers, and no MLX.
"""

import os
from pathlib import Path

from models.drafter_folders import find_head
from models.errors import Problem
from models.fingerprint import fingerprint
from models.installed.resolve import resolve_drafter
from models.memory.fit import DEFAULT_CONTEXT, fit, require_fit
from models.memory.machine import Machine, this_machine
from models.memory.model_size import ModelSize, weigh
from models.records import Fit


def require_pair(
    target: Path,
    drafter: str,
    *,
    context: int = DEFAULT_CONTEXT,
    freed_bytes: int = 0,
    machine: Machine | None = None,
) -> Fit | None:
    """What the pair needs for `context` tokens; raises Problem where that is not there.

    `freed_bytes`: what this process holds now, and gives back before. None where a folder or a
    config does not tell: what is wrong with it, if anything, is for loading to say.
    """
    here = (machine or this_machine()).once_freed(freed_bytes)
    try:
        size, drafts = weigh(target), _drafter(drafter, target)
        fit(size, drafts, context=context, machine=here)
    except Problem:
        return None
    return require_fit(size, drafts, context=context, machine=here)


def _drafter(name: str, target: Path) -> ModelSize | None:
    """Of several joined the one that weighs most; None of those without weights."""
    weighed = [_one(part.strip(), target) for part in name.split("+")]
    return max(filter(None, weighed), key=lambda size: size.size_bytes, default=None)


def _one(name: str, target: Path) -> ModelSize | None:
    if name in ("none", "lookup") or name.partition(":")[0] == "early-exit":
        return None
    if name in ("auto", "head"):
        head = find_head(fingerprint(target))
        return None if head is None else weigh(head)
    path = Path(os.path.expanduser(name))
    return weigh(path if name and path.is_dir() else resolve_drafter(name))
