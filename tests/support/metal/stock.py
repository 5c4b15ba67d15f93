"""MLX's own Metal kernels on the CPU, cut out of the installed package: what a GPU would compute.

Which kernel runs, and with how many threadgroups, is decided as in MLX's quantized.cpp, on an M3 or
later.
"""

from functools import cache

import mlx.core as mx

from engine.metal.header import NAMES, cut, installed

_QUANTIZED = ("get_bytes_per_pack", "dequantize", "qmv_fast_impl", "qmv_impl", "qmv_wide_impl")
_PLACE = "threadgroup_position_in_grid, simdgroup_index_in_threadgroup, thread_index_in_simdgroup"
_ONE_ROW = f"""
const int K = x_shape[1], N = w_shape[0];
if constexpr (FAST)
  qmv_fast_impl<T, GROUP, BITS, true>(w, scales, biases, x, y, K, N, {_PLACE});
else
  qmv_impl<T, GROUP, BITS>(w, scales, biases, x, y, K, N, {_PLACE});
"""
_WIDE = f"""
const int M = x_shape[0], K = x_shape[1], N = w_shape[0];
qmv_wide_impl<T, GROUP, BITS, ROWS, LANES>(w, scales, biases, x, y, K, N, M, {_PLACE});
"""
_WIDE_ROWS, _WIDE_LANES = 5, 8


@cache
def _functions():
    source = installed().read_text(encoding="utf-8")
    return "\n".join(
        ["const int SIMD_SIZE = 32;", *(cut(source, name) for name in (*NAMES, *_QUANTIZED))]
    )


def quantized_matmul(
    x, w, scales, biases=None, transpose=True, group_size=64, bits=4, mode="affine", *, shim
):
    """Compute as `mx.quantized_matmul` does on a GPU for fewer rows than its tiles take."""
    assert transpose
    assert mode == "affine"
    assert biases is not None
    inputs, outputs, alone = x.shape[-1], w.shape[0], x.size == x.shape[-1]
    assert inputs not in (64, 128), "another kernel"
    dtype = mx.result_type(x, scales)
    given = [w, scales.astype(dtype), biases.astype(dtype), x.reshape(-1, inputs).astype(dtype)]
    template = [("T", dtype), ("GROUP", group_size), ("BITS", bits)]
    rows = x.size // inputs
    if alone:
        step = 256 if bits in (6, 8) else 512
        template.append(("FAST", inputs % step == 0))
        grid = (32, 2 * -(-outputs // 8), 1)
    else:
        tiles = -(-rows // _WIDE_ROWS)
        template += [("ROWS", -(-rows // tiles)), ("LANES", _WIDE_LANES)]
        grid = (32 * tiles, 2 * -(-outputs // 8), 1)
    (y,) = shim.metal_kernel(
        name="stock",
        input_names=["w", "scales", "biases", "x"],
        output_names=["y"],
        source=_ONE_ROW if alone else _WIDE,
        header=_functions(),
    )(
        inputs=given,
        template=template,
        grid=grid,
        threadgroup=(32, 2, 1),
        output_shapes=[(rows, outputs)],
        output_dtypes=[dtype],
    )
    return y.reshape(*x.shape[:-1], outputs)
