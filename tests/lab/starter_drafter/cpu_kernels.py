"""The kernels for a CPU (kernels.c), compiled where they are used."""

import ctypes
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch
from torch import Tensor


def attend_slots(q: Tensor, keys: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    """`q` (slots, heads, width) over the first `lengths` of (slots, pairs, longest, width)."""
    slots, pairs, longest, _ = keys.shape
    query = q.float().contiguous()
    seen = torch.empty_like(query)
    sizes = map(ctypes.c_long, (slots, pairs, longest))
    _compiled().attend_slots(*_places(query, keys, values, lengths, seen), *sizes)
    return seen.to(q.dtype)


def compare(
    logits: Tensor, thoughts: Tensor, total: Tensor, which: Tensor, greed: float
) -> tuple[Tensor, Tensor]:
    """As `head.compared`, reading each row once."""
    count, columns = logits.shape
    logits, gradient = logits.contiguous(), torch.empty_like(logits)
    found = torch.empty(count)
    sizes = map(ctypes.c_long, (_wide(logits), count, columns, thoughts.stride(0)))
    tensors = _places(logits, thoughts, total, which, found, gradient)
    _compiled().compare(*tensors, *sizes, ctypes.c_float(greed))
    return found, gradient


def draw(
    logits: Tensor, recent: Tensor, penalties: Tensor, temperatures: Tensor
) -> tuple[Tensor, Tensor]:
    """As `answer.drawn`, reading each row once."""
    slots, tokens = logits.shape
    logits, luck = logits.contiguous(), torch.rand(slots)
    chosen, total = torch.empty(slots, dtype=torch.long), torch.empty(slots)
    tensors = _places(logits, recent, penalties, temperatures, luck, chosen, total)
    sizes = map(ctypes.c_long, (_wide(logits), slots, tokens, recent.shape[1]))
    _compiled().draw(*tensors, *sizes)
    return chosen, total


def _wide(logits: Tensor) -> bool:
    """Whether they are in float32: else they are in bfloat16."""
    return logits.dtype == torch.float32


def _places(*tensors: Tensor) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(one.data_ptr()) for one in tensors]


@cache
def _compiled() -> ctypes.CDLL:
    library = Path(tempfile.mkdtemp()) / "kernels.so"
    how = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC"]
    source = Path(__file__).with_name("kernels.c")
    subprocess.run(["cc", *how, str(source), "-o", str(library), "-lm"], check=True)
    return ctypes.CDLL(str(library))
