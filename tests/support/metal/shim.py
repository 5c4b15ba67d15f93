"""Metal kernels on the CPU: `Shim.metal_kernel` stands in for `mx.fast.metal_kernel`.

The kernel's text is compiled by a C++ compiler with `metal_on_cpu.h` before it, once for each set
of template arguments; libraries are kept by their source in `.cache/metal`.
"""

import ctypes
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from math import prod
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

ORDERS = 5
HEADER = Path(__file__).with_name("metal_on_cpu.h")
KEPT = Path(__file__).parents[3] / ".cache" / "metal"
COMPILER = shutil.which("c++")
needs_a_compiler = pytest.mark.skipif(
    COMPILER is None, reason="Metal's text is compiled for the CPU by c++, which is not installed"
)

_TYPES = {mx.float32: "float", mx.bfloat16: "bfloat16_t", mx.float16: "float16_t"}
_TYPES |= {mx.uint32: "uint32_t", mx.bool_: "bool"}
_GUARD = 255  # bytes after an output, and their value
_ATTRIBUTES = {
    "threadgroup_position_in_grid": "uint3",
    "threadgroups_per_grid": "uint3",
    "threads_per_threadgroup": "uint3",
    "thread_position_in_threadgroup": "uint3",
    "simdgroup_index_in_threadgroup": "uint",
    "thread_index_in_simdgroup": "uint",
}


class OutOfBounds(Exception):
    """A kernel wrote past the end of an output."""


@dataclass(frozen=True)
class Shim:
    """A Metal device on the CPU.

    `order`: one of `ORDERS` in which the lanes of a SIMD group are summed. `contract`: whether the
    compiler fuses multiplications and additions.
    """

    order: int = 1
    contract: bool = False

    def metal_kernel(self, *, name, input_names, output_names, source, header=""):
        """As `mx.fast.metal_kernel`; what it returns computes at once."""

        def call(*, inputs, output_shapes, output_dtypes, grid, threadgroup, template=()):
            text = _program(
                header,
                source,
                tuple(zip(input_names, (_TYPES[each.dtype] for each in inputs), strict=True)),
                tuple(zip(output_names, (_TYPES[each] for each in output_dtypes), strict=True)),
                tuple(template),
            )
            given = [np.array(mx.contiguous(each).reshape(-1).view(mx.uint8)) for each in inputs]
            shapes = [np.array(each.shape, np.int32) for each in inputs]
            sizes = zip(output_shapes, output_dtypes, strict=True)
            lengths = [prod(shape) * dtype.size for shape, dtype in sizes]
            made = [np.full(length + _GUARD, _GUARD, np.uint8) for length in lengths]
            three = ctypes.c_uint * 3
            arrays = map(_pointers, (given, shapes, made))
            _compiled(text, self.contract).run(
                *arrays, three(*grid), three(*threadgroup), self.order
            )
            for each, length in zip(made, lengths, strict=True):
                if (each[length:] != _GUARD).any():
                    raise OutOfBounds(name)
            made = [each[:length] for each, length in zip(made, lengths, strict=True)]
            return [
                mx.array(each).view(dtype).reshape(shape)
                for each, shape, dtype in zip(made, output_shapes, output_dtypes, strict=True)
            ]

        return call


def _pointers(arrays):
    return (ctypes.c_void_p * len(arrays))(*(each.ctypes.data for each in arrays))


@cache
def _compiled(program, contract):
    flags = ["-std=c++17", "-w", "-O1", "-fno-strict-aliasing", "-shared", "-fPIC"]
    flags += ["-ffp-contract=fast" if contract else "-ffp-contract=off"]
    flags += ["-mfma"] if contract and platform.machine() == "x86_64" else []
    key = sha256("\0".join([*flags, program]).encode()).hexdigest()[:24]
    kept = KEPT / f"{key}.so"
    if not kept.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        new = kept.with_suffix(f".{os.getpid()}")
        command = [str(COMPILER), *flags, "-x", "c++", "-", "-o", str(new)]
        subprocess.run(command, input=program, text=True, check=True)
        new.replace(kept)
    return ctypes.CDLL(str(kept))


@cache
def _program(header, source, inputs, outputs, template):
    """Return a C++ program with a function `run` that computes a kernel, as MLX writes kernels."""
    declared, given = list[str](), list[str]()
    for i, (name, kind) in enumerate(inputs):
        declared.append(f"const device {kind}* {name}")
        given.append(f"(const {kind}*)call.in[{i}]")
        if f"{name}_shape" in source:
            declared.append(f"const constant int* {name}_shape")
            given.append(f"(const int*)call.shapes[{i}]")
    for i, (name, kind) in enumerate(outputs):
        declared.append(f"device {kind}* {name}")
        given.append(f"({kind}*)call.out[{i}]")
    for name, kind in _ATTRIBUTES.items():
        if name in source:
            declared.append(f"{kind} {name}")
            given.append(f"call.{name}(index)")
    kinds = {mx.Dtype: "typename", bool: "bool", int: "int"}
    names = ", ".join(f"{kinds[type(value)]} {name}" for name, value in template)
    values = ", ".join(_TYPES.get(value, str(value).lower()) for _, value in template)
    parts = [
        HEADER.read_text(encoding="utf-8"),
        "using namespace metal;",
        *(line for line in header.splitlines() if not line.startswith("#include")),
        f"template <{names}> static void kernel({', '.join(declared)}) {{",
        source,
        "}",
        "static void lane(void* of, uint index) {",
        "const Call& call = *(Call*)of;",
        f"kernel<{values}>({', '.join(given)});",
        "}",
        'extern "C" void run(void** in, void** shapes, void** out, uint* grid, uint* group,',
        "int order) { run_grid({in, shapes, out}, grid, group, order, lane); }",
    ]
    return "\n".join(parts)
