"""MLX's own Metal kernels on the CPU, cut out of the installed package: what a GPU would compute.

Which kernel runs, and with how many threadgroups, is decided as in MLX's quantized.cpp and
scaled_dot_product_attention.cpp, on an M3 or later.
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


_STRIDES = "size_t(N) * D, D, size_t(N) * D, D, SCALE / 1024.0f"
_SIGHT = "do_causal = CAUSAL; const int N = keys_shape[2];"
_ONE_PASS = f"""{_SIGHT}
sdpa_vector<T, D>(
    queries, keys, values, out, queries_shape[1] / keys_shape[1], N, {_STRIDES}, nullptr, nullptr,
    0, 0, 0, nullptr, 0, threadgroup_position_in_grid, threadgroups_per_grid,
    simdgroup_index_in_threadgroup, thread_index_in_simdgroup);
"""
_BLOCKS = f"""{_SIGHT} blocks = BLOCKS;
sdpa_vector_2pass_1<T, D>(
    queries, keys, values, out, sums, maxs, N, {_STRIDES}, nullptr, nullptr, 0, 0, 0, nullptr,
    threads_per_threadgroup, thread_position_in_threadgroup, threadgroup_position_in_grid,
    threadgroups_per_grid, thread_index_in_simdgroup);
"""
_JOIN = """
sdpa_vector_2pass_2<T, D>(
    partials, sums, maxs, out, BLOCKS, threadgroup_position_in_grid, threadgroups_per_grid,
    simdgroup_index_in_threadgroup, thread_index_in_simdgroup);
"""


def attention(queries, keys, values, cache=None, scale=1.0, mask=None, *, shim):
    """Compute as mlx-lm's attention does on a Pro or Max chip for up to 8 rows; for a single row if
    there is no mask. `scale` is a multiple of 1/1024."""
    _, heads, rows, width = queries.shape
    sharing, places = heads // keys.shape[1], keys.shape[2]
    assert rows <= 8
    assert rows * sharing <= 32
    assert rows == 1 or mask == "causal"
    sight = [("CAUSAL", rows > 1), ("SCALE", round(scale * 1024))]
    template = [("T", queries.dtype), ("D", width)]
    header = (installed().parent / "sdpa_vector.h").read_text(encoding="utf-8")

    def run(source, arrays, outputs, **sizes):
        return shim.metal_kernel(
            name="stock",
            input_names=list(arrays),
            output_names=list(outputs),
            source=source,
            header=header,
        )(
            inputs=list(arrays.values()),
            output_shapes=[shape for shape, _ in outputs.values()],
            output_dtypes=[dtype for _, dtype in outputs.values()],
            **sizes,
        )

    given = {"queries": queries, "keys": keys, "values": values}
    result = {"out": (queries.shape, queries.dtype)}
    every = {"grid": (1024 * heads, rows, 1), "threadgroup": (1024, 1, 1)}
    if places < 1024:
        return run(_ONE_PASS, given, result, template=[*template, *sight], **every)[0]
    blocks = 128 if 1024 < places <= 8192 and sharing * rows > 4 else 64
    template.append(("BLOCKS", blocks))
    parts = (heads, rows, blocks)
    partials, sums, maxs = run(
        _BLOCKS,
        given,
        {"out": ((*parts, width), queries.dtype)}
        | dict.fromkeys(("sums", "maxs"), (parts, mx.float32)),
        template=[*template, *sight],
        grid=(32 * keys.shape[1], sharing, rows * blocks),
        threadgroup=(32, sharing, rows),
    )
    arrays = {"partials": partials, "sums": sums, "maxs": maxs}
    return run(_JOIN, arrays, result, template=template, **every)[0]
