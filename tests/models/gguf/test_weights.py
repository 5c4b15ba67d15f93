"""K-quants keep their codes where MLX has a place for them, and lose little elsewhere."""

import mlx.core as mx
import numpy
import pytest
from gguf import GGMLQuantizationType as Kind
from gguf.quants import dequantize

from models.gguf.weights import bits_for, pack_rows


def random_k_rows(kind, block_bytes, scale_offsets):
    random = numpy.random.default_rng(3)
    blocks = random.integers(0, 256, (12, block_bytes), dtype=numpy.uint8)
    for offset in scale_offsets:
        halves = random.uniform(0.001, 0.01, (12, 1)).astype(numpy.float16)
        blocks[:, offset : offset + 2] = halves.view(numpy.uint8)
    return blocks.reshape(4, 3 * block_bytes)


def unpacked(rows, kind):
    packed = pack_rows(rows, kind)
    arrays = (mx.array(part) for part in (packed.weight, packed.scales, packed.biases))
    return numpy.array(mx.dequantize(*arrays, group_size=32, bits=bits_for(kind)))


@pytest.mark.parametrize(("kind", "block_bytes"), [(Kind.Q4_K, 144), (Kind.Q5_K, 176)])
def test_k_quants_keep_their_codes(kind, block_bytes):
    rows = random_k_rows(kind, block_bytes, (0, 2))
    numpy.testing.assert_allclose(unpacked(rows, kind), dequantize(rows, kind), atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "block_bytes", "scale_offsets", "allowed"),
    [
        (Kind.Q6_K, 210, (208,), 0.01),
        (Kind.Q3_K, 110, (108,), 0.05),
        (Kind.Q2_K, 84, (80, 82), 0.05),
    ],
)
def test_other_k_quants_lose_little(kind, block_bytes, scale_offsets, allowed):
    rows = random_k_rows(kind, block_bytes, scale_offsets)
    expected = dequantize(rows, kind)
    assert numpy.std(unpacked(rows, kind) - expected) < allowed * numpy.std(expected)
