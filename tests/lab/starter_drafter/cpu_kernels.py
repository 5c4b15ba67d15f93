"""The kernel for a CPU (kernels.c), compiled where it is used."""

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
    q, seen = q.contiguous(), torch.empty_like(q, memory_format=torch.contiguous_format)
    tensors = [ctypes.c_void_p(one.data_ptr()) for one in (q, keys, values, lengths, seen)]
    _compiled().attend_slots(*tensors, *map(ctypes.c_long, (slots, pairs, longest)))
    return seen


@cache
def _compiled() -> ctypes.CDLL:
    library = Path(tempfile.mkdtemp()) / "kernels.so"
    how = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC"]
    source = Path(__file__).with_name("kernels.c")
    subprocess.run(["cc", *how, str(source), "-o", str(library), "-lm"], check=True)
    return ctypes.CDLL(str(library))
