"""Whole passes by the text of Metal kernels: each row has the bits of a row alone.

So drafted text is plain decoding's, although every rounding shows in it. With MLX's own kernels for
several rows the same comparisons fail.
"""

import mlx.core as mx
import pytest

from engine.core.decoder import Decoder
from engine.drafters import NoDrafter
from models.limits import FEW_ROWS
from tests.support.engine.helpers import PROMPT, Known, now_and_then, run_greedily
from tests.support.metal.device import MODELS, exactly, model_of, on_metal
from tests.support.metal.shim import needs_a_compiler

pytestmark = needs_a_compiler

BLOCK = 64  # larger than a pass
KINDS = ("llama", "qwen3_moe", "qwen3_5")  # dense, with experts, with recurrent layers
RUNS, PARTS, TOKENS = 68, 4, 16  # of each kind; parts, as a test may not take minutes


def logits_of(model, passes):
    """The logits of tokens after a prompt that are read in passes of so many rows."""
    decoder, tokens = Decoder(model, block=BLOCK), mx.arange(sum(passes)) * 37 % 64
    for _ in decoder.prefill([*PROMPT, 0]):
        pass
    logits, first = list[mx.array](), 0
    for rows in passes:
        decoder.begin_round([0] * (len(PROMPT) + first))
        logits.append(decoder.read(tokens[first : first + rows]))
        first += rows
    return mx.concatenate(logits)


def other_logits(model, passes):
    """How many logits differ from those of single rows."""
    alone, together = (logits_of(model, each) for each in ([1] * sum(passes), passes))
    assert alone.dtype == mx.float32
    return int(mx.sum(alone.view(mx.uint32) != together.view(mx.uint32)).item())


def other_tokens(model, seed, count=TOKENS):
    """How many drafted tokens differ from plain decoding's."""

    def text(length):
        drafter = Known([*prompt, *plain], wrong=now_and_then(seed)) if length else NoDrafter()
        return run_greedily(
            model,
            lambda _: drafter,
            length,
            count=count,
            prompt=prompt,
            block=BLOCK,
            check_caches=False,
        ).tokens

    prompt, plain = [(token + seed) % 64 for token in PROMPT], list[int]()
    plain = text(0)
    return sum(one != other for one, other in zip(plain, text(2 + seed % 6), strict=True))


@pytest.mark.quick(3)
@pytest.mark.parametrize("kind", [*MODELS][::-1])
def test_rows_of_a_pass_have_the_logits_of_rows_alone(kind):
    model, passes = model_of(kind), (3, 2)
    with on_metal():
        with exactly(model):
            assert other_logits(model, passes) == 0
        assert other_logits(model, passes) > 0, "MLX's wide kernel is not noticed"


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_passes_of_any_number_of_rows(kind):
    model = model_of(kind)
    with on_metal(), exactly(model):
        for rows in (*range(2, 10), 16, FEW_ROWS):
            assert other_logits(model, (rows, 1, rows)) == 0


@pytest.mark.quick(1)
@pytest.mark.parametrize("kind", KINDS)
def test_drafted_text_is_plain_text(kind):
    model = model_of(kind)
    with on_metal():
        with exactly(model):
            assert other_tokens(model, seed=3, count=6) == 0
        assert other_tokens(model, seed=3, count=6) > 0, "MLX's wide kernel is not noticed"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", KINDS)
def test_any_drafted_text_is_plain_text(kind, part):
    model, seeds = model_of(kind, seed=1), range(part, RUNS, PARTS)
    with on_metal():
        with exactly(model):
            assert [seed for seed in seeds if other_tokens(model, seed)] == []
        assert any(other_tokens(model, seed) for seed in seeds[:3]), "nothing is noticed"
