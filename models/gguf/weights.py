"""Turns the blocks of a GGUF tensor into MLX's quantization with groups of 32, affine or mxfp4.

Affine means weight = scale * code + bias with one scale and bias per group. Nearly every common
GGUF format already is that, so its codes are moved over unchanged instead of being quantized a
second time:

    format        bits   loss
    Q4_0, Q4_1    4      none (bias = -8 scale for Q4_0)
    Q5_0, Q5_1    5      none (bias = -16 scale for Q5_0)
    Q8_0          8      none (bias = -128 scale, codes + 128)
    Q4_K, Q5_K    4, 5   codes unchanged; scale and bias round to 16 bits (relative 2^-11)
    MXFP4         4      none: MLX's mxfp4, whose groups have a power of two and no bias
    Q6_K          8      quantized again, as its groups of 16 do not fit groups of 32: adds a
                         deviation of 0.5% of the weights' own (1.9% with 6 bits)
    all others    6      quantized again (Q2_K, Q3_K, IQ...: at most 4.5 bits in the file)

Where the activations need bfloat16, scales and biases round to it (relative 2^-8).
Pure NumPy, by rows: the caller bounds memory by how many rows it passes. Formats are described
in ggml's ggml-quants.h, the packing in MLX's `quantize`.
"""

from dataclasses import dataclass
from typing import Any

import numpy
from gguf import GGMLQuantizationType
from gguf.quants import Q4_K, dequantize
from numpy.typing import NDArray

GROUP_SIZE = 32
FLOATS = (GGMLQuantizationType.F32, GGMLQuantizationType.F16, GGMLQuantizationType.BF16)
_KIND = GGMLQuantizationType
_BITS = {
    **dict.fromkeys((_KIND.Q4_0, _KIND.Q4_1, _KIND.Q4_K, _KIND.MXFP4), 4),
    **dict.fromkeys((_KIND.Q5_0, _KIND.Q5_1, _KIND.Q5_K), 5),
    **dict.fromkeys((_KIND.Q6_K, _KIND.Q8_0), 8),
}
_REQUANTIZED_BITS = 6
_U8 = numpy.uint8

Bytes = NDArray[numpy.uint8]
Floats = NDArray[numpy.float32]


@dataclass(frozen=True)
class Packed:
    """Rows in MLX's layout.

    weight: uint32 (rows, columns * bits / 32); scales, biases: float32 (rows, columns / 32).
    In mxfp4 the scales are exponents, uint8, without biases.
    """

    weight: NDArray[numpy.uint32]
    scales: NDArray[Any]
    biases: Floats | None


def bits_for(kind: GGMLQuantizationType) -> int:
    """Return the number of bits that a quantized format gets in MLX; see the table above."""
    return _BITS.get(kind, _REQUANTIZED_BITS)


def mode_for(kind: GGMLQuantizationType) -> str:
    return "mxfp4" if kind == GGMLQuantizationType.MXFP4 else "affine"


def pack_rows(rows: Bytes, kind: GGMLQuantizationType) -> Packed:
    """Pack whole rows of a quantized format, given as raw bytes: (rows, bytes per row).

    Raises NotImplementedError for a format that the gguf package cannot read.
    """
    count = rows.shape[0]
    if mode_for(kind) == "mxfp4":
        blocks = rows.reshape(-1, 17)
        codes = _nibbles(blocks[:, 1:]).reshape(count, -1)
        return Packed(_pack(codes, 4), blocks[:, 0].reshape(count, -1), None)
    codes, scales, biases = _affine(rows, kind)
    return Packed(
        _pack(codes.reshape(count, -1), bits_for(kind)),
        scales.astype(numpy.float32).reshape(count, -1),
        biases.astype(numpy.float32).reshape(count, -1),
    )


def _affine(rows: Bytes, kind: GGMLQuantizationType) -> tuple[Bytes, Floats, Floats]:
    """Codes (groups, 32), scales (groups, ...) and biases (groups, ...), groups in order."""
    match kind:
        case GGMLQuantizationType.Q4_0:
            blocks = rows.reshape(-1, 18)
            scales = _halves(blocks[:, :2])
            return _nibbles(blocks[:, 2:]), scales, -8 * scales
        case GGMLQuantizationType.Q4_1:
            blocks = rows.reshape(-1, 20)
            return _nibbles(blocks[:, 4:]), _halves(blocks[:, :2]), _halves(blocks[:, 2:4])
        case GGMLQuantizationType.Q5_0:
            blocks = rows.reshape(-1, 22)
            scales = _halves(blocks[:, :2])
            return _fifth_bit(blocks[:, 2:6]) | _nibbles(blocks[:, 6:]), scales, -16 * scales
        case GGMLQuantizationType.Q5_1:
            blocks = rows.reshape(-1, 24)
            codes = _fifth_bit(blocks[:, 4:8]) | _nibbles(blocks[:, 8:])
            return codes, _halves(blocks[:, :2]), _halves(blocks[:, 2:4])
        case GGMLQuantizationType.Q8_0:
            blocks = rows.reshape(-1, 34)
            scales = _halves(blocks[:, :2])
            return blocks[:, 2:] ^ _U8(0x80), scales, -128 * scales
        case GGMLQuantizationType.Q4_K:
            blocks = rows.reshape(-1, 144)
            codes = _nibbles(blocks[:, 16:].reshape(-1, 32)).reshape(-1, GROUP_SIZE)
            return codes, *_k_scales(blocks)
        case GGMLQuantizationType.Q5_K:
            blocks = rows.reshape(-1, 176)
            codes = _nibbles(blocks[:, 48:].reshape(-1, 32)).reshape(-1, GROUP_SIZE)
            # bit g of byte i is the fifth bit of code i in group g
            high = (blocks[:, 16:48, None] >> numpy.arange(8, dtype=numpy.uint8)) & _U8(1)
            fifth = high.swapaxes(1, 2).reshape(-1, GROUP_SIZE) << _U8(4)
            return codes | fifth, *_k_scales(blocks)
        case _:
            return _quantize(dequantize(rows, kind).reshape(-1, GROUP_SIZE), bits_for(kind))


def _halves(data: Bytes) -> Floats:
    return numpy.ascontiguousarray(data).view(numpy.float16).astype(numpy.float32)


def _nibbles(data: Bytes) -> Bytes:
    """Low nibbles first, then high nibbles: (n, k) to (n, 2k)."""
    return numpy.concatenate([data & _U8(0x0F), data >> _U8(4)], axis=1)


def _fifth_bit(data: Bytes) -> Bytes:
    return numpy.unpackbits(data, axis=1, bitorder="little") << _U8(4)


def _k_scales(blocks: Bytes) -> tuple[Floats, Floats]:
    """Scale and bias of the 8 groups of each 256-weight block of Q4_K or Q5_K."""
    scale_codes, minimum_codes = Q4_K.get_scale_min(numpy.ascontiguousarray(blocks[:, 4:16]))
    scales: Floats = _halves(blocks[:, :2]) * scale_codes
    biases: Floats = -_halves(blocks[:, 2:4]) * minimum_codes
    return scales, biases


def _quantize(groups: Floats, bits: int) -> tuple[Bytes, Floats, Floats]:
    """Nearest codes for the scale and bias as they will be stored, in 16 bits."""
    levels = (1 << bits) - 1
    low, high = groups.min(axis=1, keepdims=True), groups.max(axis=1, keepdims=True)
    with numpy.errstate(over="ignore", invalid="ignore"):  # left infinite for the caller to see
        biases = low.astype(numpy.float16).astype(numpy.float32)
        scales = ((high - biases) / levels).astype(numpy.float16).astype(numpy.float32)
        steps = numpy.where(scales == 0, numpy.float32(1), scales)
        codes = numpy.clip(numpy.rint((groups - biases) / steps), 0, levels).astype(numpy.uint8)
    return codes, scales, biases


def _pack(codes: Bytes, bits: int) -> NDArray[numpy.uint32]:
    """MLX's layout: the codes of a row as one little-endian stream of `bits` bits each."""
    rows = codes.shape[0]
    if bits == 8:
        stream = codes
    elif bits == 4:
        stream = codes[:, 0::2] | codes[:, 1::2] << _U8(4)
    else:  # 8 codes fill exactly `bits` bytes
        eights = codes.reshape(-1, 8).astype(numpy.uint64)
        words = numpy.zeros(eights.shape[0], dtype="<u8")
        for position in range(8):
            words |= eights[:, position] << numpy.uint64(position * bits)
        stream = words.view(numpy.uint8).reshape(-1, 8)[:, :bits]
    return numpy.ascontiguousarray(stream).reshape(rows, -1).view(numpy.uint32)
