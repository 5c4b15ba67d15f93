"""Loads a model folder as a model that runs here. A bad folder raises a `Problem`.

Knows mlx-lm's loaders and this machine; `models.model_folder` knows the layout of folders.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.utils import load_tokenizer

from engine.circumstances import macos_to_update
from engine.conversation.configuration import build_model
from engine.conversation.default_sampling import default_sampling
from engine.conversation.template import ends_of_answers
from engine.core.cache import QuantizedCaches, Timeline
from engine.core.decoder import IN_PARTS, Decoder
from engine.core.model_parts import standing_in
from engine.core.split_attention import measuring
from engine.device import backend, unproven
from engine.exactness import Promise
from engine.quantized import hold_in
from engine.request import BALANCED, Sampling
from engine.vision import Tower
from engine.vision.tower import tower_of
from models.drafters.folders import PUBLISHED
from models.errors import Problem
from models.for_libraries import TOKENIZER, for_libraries
from models.memory.machine import this_machine
from models.model_folder import ModelFolder

_UNKNOWN_CONTEXT = 1 << 20  # recurrent models have no limit of their own


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in memory.

    `ends`: the token ids that end a text. `context_length`: the most tokens of a conversation.
    `precision`: the number type of its weights in memory, in words. `sampling`: how its answers are
    sampled where the user chose nothing; `remark`: the makers' values that cannot be used, and a
    fault of this Mac's system, mostly empty. `decoder` makes its decoders: here, or on several
    Macs. `tower`: with which it sees; None if it cannot. `promise`: how exact
    its passes are.
    """

    folder: ModelFolder
    model: nn.Module
    tokenizer: Any
    ends: frozenset[int]
    context_length: int
    precision: str
    sampling: Sampling = BALANCED
    remark: str = ""
    decoder: Callable[..., Decoder] = Decoder
    tower: Tower | None = None
    promise: Promise = field(default_factory=unproven)

    @property
    def alone(self) -> bool:
        """Whether all of it is here, so that others than `decoder` can read with it too."""
        return self.decoder is Decoder


def load(
    folder: ModelFolder,
    *,
    bits: int = PUBLISHED,
    expand: bool | None = None,
    cut: Callable[[nn.Module], None] = lambda model: None,
) -> LoadedModel:
    """Load an MLX model. Raises `Problem` for anything that is wrong with it.

    On Metal weights stay as they are. On the CPU quantized products cost the same for every row,
    so weights are expanded to float32 if the memory allows: only then drafting pays. `expand` says
    so where it was decided already; `cut` leaves a part of the model, before anything is read.
    `bits`: of a drafter, in which the matrices are held that are neither packed nor expanded.
    """
    folder.check()
    _ = folder.file_states  # of the files that are read now: others may take their place
    ends = sorted(folder.ends) or None
    with (
        as_problem(folder.path) as printed,
        redirect_stdout(printed),
        for_libraries(folder.path, folder.model_type) as place,
        ThreadPoolExecutor(1) as aside,
    ):
        model = build_model(place, folder.config)
        # A large vocabulary takes a second, and so do weights: neither waits for the other.
        reading = aside.submit(load_tokenizer, place, TOKENIZER, eos_token_ids=ends)
        precision = _hold(model, bits, expand)
        if not backend().exact_rows:
            with measuring(folder.context_length or _UNKNOWN_CONTEXT), standing_in(model, IN_PARTS):
                model(mx.zeros((1, 2), dtype=mx.int32))  # computes nothing, and attends
        cut(model)
        _read_weights(model)
        tokenizer = reading.result()
    sampling, remark = default_sampling(folder)
    if not tokenizer.has_chat_template:
        remark = f"This model has no chat template, so it reads chats as plain text. {remark}"
    if macos := macos_to_update():
        remark = f"macOS {macos} can give wrong answers on an M5. Update to macOS 26.2. {remark}"
    return LoadedModel(
        folder=folder,
        model=model,
        tokenizer=tokenizer,
        ends=frozenset(tokenizer.eos_token_ids) | ends_of_answers(tokenizer),
        context_length=folder.context_length or _UNKNOWN_CONTEXT,
        precision=precision,
        sampling=sampling,
        remark=remark,
        tower=_tower(folder),
    )


@contextmanager
def as_problem(
    folder: Path,
    fault: str = "cannot be loaded",
    remedy: str = "Choose a model that mlx-lm supports, or download it again.",
) -> Iterator[StringIO]:
    """Turn any error about a folder into a `Problem`. mlx-lm and transformers check little, and
    some modules print to the lent text why they exit."""
    printed = StringIO()
    try:
        yield printed
    except (Exception, SystemExit) as error:
        reason = printed.getvalue() if isinstance(error, SystemExit) else str(error)
        reason = " ".join(reason.split())[:200] or type(error).__name__
        raise Problem(f"{folder} {fault}: {reason.rstrip('.')}.", remedy) from error


def attends_to(caches: QuantizedCaches, folder: ModelFolder) -> bool:
    """Return whether a model can read quantized caches. No weights are read; where they cannot be,
    `load` says why."""
    try:
        with redirect_stdout(StringIO()), for_libraries(folder.path) as place:
            model = build_model(place, folder.config)
    except (Exception, SystemExit):
        return True
    return Timeline.quantizes(model, caches)


def _tower(folder: ModelFolder) -> Tower | None:
    """Return the tower of a model; None without one, or if its files are damaged, which is reported
    with the first picture."""
    with suppress(Problem):
        return tower_of(folder)
    return None


def _hold(model: nn.Module, bits: int, expand: bool | None) -> str:
    """Expand the weights, by default if they fit as float32 into half of the free memory; otherwise
    hold the matrices that are not packed in `bits`. Returns the precision."""
    before = _precision(model)
    if backend().expands and expand is None:
        expand = 4 * sum(map(_values, model.modules())) <= free_memory_bytes() / 2
    if not (backend().expands and expand):
        hold_in(bits, model)
        return _precision(model)
    backend().prepare(model)
    return before if before == "float32" else f"float32 from {before}"


def _read_weights(model: nn.Module) -> None:
    """Read the weights one after another, the largest first: all at once, packed and expanded ones
    would be in memory together."""
    arrays = [array for module in model.modules() for array in _arrays(module)]
    for array in sorted(arrays, key=lambda array: array.nbytes, reverse=True):
        mx.eval(array)


def _precision(model: nn.Module) -> str:
    bits = sorted({module.bits for module in model.modules() if hasattr(module, "bits")})
    if bits:
        return "/".join(map(str, bits)) + "-bit"
    types = {str(array.dtype) for module in model.modules() for array in _arrays(module)}
    return "/".join(sorted(kind.removeprefix("mlx.core.") for kind in types))


def _arrays(module: nn.Module) -> list[mx.array]:
    """The parameters of a module itself, not of those inside it."""
    return [value for value in module.values() if isinstance(value, mx.array)]


def _values(module: nn.Module) -> int:
    """How many weights a module itself holds."""
    if hasattr(module, "bits"):
        return int(module.weight.size * 32 // module.bits)
    return sum(array.size for array in _arrays(module))


def free_memory_bytes() -> int:
    """Bytes that models can take without swapping. Returns 0 except on Linux."""
    machine = this_machine()
    return 0 if machine.unified else machine.available_bytes
