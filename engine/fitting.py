"""A pair is refused before it is loaded where there is no room for it.

What fits is `models.memory.fit`'s to say. Reads configs and headers, and no MLX.
"""

from models.errors import Problem
from models.folders import ModelFolder
from models.installed.resolve import Drafters
from models.memory.fit import DEFAULT_CONTEXT, fit, require_fit
from models.memory.machine import Machine, this_machine
from models.memory.model_size import weigh
from models.records import Fit


def require_pair(
    target: ModelFolder,
    drafters: Drafters,
    *,
    context: int = DEFAULT_CONTEXT,
    freed_bytes: int = 0,
    machine: Machine | None = None,
) -> Fit | None:
    """What the pair needs for `context` tokens; raises Problem where that is not there.

    Of several drafters the one that weighs most counts. `freed_bytes`: what this process holds
    now, and gives back before. None where a folder or a config does not tell: what is wrong with
    it, if anything, is for loading to say.
    """
    here = (machine or this_machine()).once_freed(freed_bytes)
    try:
        size = weigh(target)
        weighed = [weigh(part.folder) for part in drafters.parts if part.folder is not None]
        heaviest = max(weighed, key=lambda one: one.size_bytes, default=None)
        fit(size, heaviest, context=context, machine=here)
    except Problem:
        return None
    return require_fit(size, heaviest, context=context, machine=here)
