"""What ranks read together is what one process reads: bit for bit in a pipeline, up to rounding
with tensor parallelism. Every architecture that is said to work is read by two and three ranks."""

from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx_lm.models.cache import ArraysCache, KVCache, RotatingKVCache, make_prompt_cache

from engine.cluster.group import Group
from engine.cluster.share import ModelPart, RankShare, keep
from engine.conversation.loading import LoadedModel
from models.drafters.kinds import Tap
from models.errors import Problem
from models.memory.shape import read_shape
from models.sharing import Mode, architectures, cache_parts
from tests.support.engine.ranks import Held, Ranks, alone, lead, started
from tests.support.engine.shared_targets import SHARED_TARGETS, config_of, shared_target
from tests.support.engine.tiny import build
from tests.support.mostly_slow import mostly_slow

pytestmark = pytest.mark.usefixtures("on_the_cpu")

# Passes over so many rows; a negative number takes rows back.
PASSES = (33, 1, 5, -3, 1, 24, -30, 1, 2)
TOKENS = [(7 * n * n + 3 * n) % 64 for n in range(200)]


def read(target: LoadedModel, passes: Sequence[int], taps: Sequence[Tap] = ()) -> list[Any]:
    """The logits of each pass; at the end the hidden states at `taps`, where there are any."""
    decoder = target.decoder(target.model)
    states = decoder.record(taps) if taps else None
    made = []
    for rows in passes:
        if rows < 0:
            decoder.begin_round(TOKENS[: decoder.length + 1])
            decoder.rewind(decoder.length + rows)
        else:
            first = decoder.length
            logits = decoder.read(mx.array(TOKENS[first : first + rows]))
            if states:  # before the logits are: what is wanted first must not matter
                mx.eval(states.between(first, decoder.length))
            made.append(np.array(logits.astype(mx.float32)))
    return made + ([np.array(states.between(0, decoder.length))] if states else [])


@cache
def by_one_process(name: str, taps: tuple[Tap, ...] = ()) -> list[Any]:
    return read(alone(shared_target(name)), PASSES, taps)


@pytest.fixture(scope="module")
def three() -> Iterator[Ranks]:
    with started(3) as ranks:
        yield ranks


def by_ranks(
    ranks: Ranks,
    name: str,
    mode: Mode,
    *,
    split: tuple[int, ...] = (),
    taps: tuple[Tap, ...] = (),
) -> list[Any]:
    held = Held(partial(shared_target, name), mode, split)
    made, *_ = ranks.call(lead, held, read, PASSES, taps)
    return list(made)


DIVIDED = [name for name in SHARED_TARGETS if name.split()[0] in architectures("tensor")]
KINDS = {"full": KVCache, "window": RotatingKVCache, "recurrent": ArraysCache}


def test_all_that_is_said_to_work_is_tried() -> None:
    assert {name.split()[0] for name in SHARED_TARGETS} == architectures("pipeline")


def test_a_config_tells_the_kinds_of_layers() -> None:
    """Of which every rank must have each."""
    for name in SHARED_TARGETS:
        caches = [type(each) for each in make_prompt_cache(shared_target(name))]
        told = [KINDS[layer.kind] for layer in read_shape(config_of(name)).layers]
        assert told == caches, name


@pytest.mark.parametrize("name", mostly_slow(SHARED_TARGETS, quick=["qwen3_5"]))
def test_a_pipeline_of_two_is_one_process_bit_for_bit(two: Ranks, name: str) -> None:
    require_equal(by_ranks(two, name, "pipeline"), by_one_process(name))


def in_bfloat16(name: str) -> nn.Module:
    return build(name, sizes=SHARED_TARGETS[name], dtype=mx.bfloat16)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "qwen3_5"])
def test_a_pipeline_in_bfloat16_is_one_process_bit_for_bit(two: Ranks, name: str) -> None:
    made, _ = two.call(lead, Held(partial(in_bfloat16, name), "pipeline"), read, PASSES)
    require_equal(made, read(alone(in_bfloat16(name)), PASSES))


def test_layers_that_change_the_type_of_states_are_refused() -> None:
    """The next rank would take what it receives for numbers of another type."""
    model, share, nobody = (
        in_bfloat16("llama"),
        RankShare("pipeline", 0, 2, (3, 3)),
        cast("Group", None),
    )
    model.layers[4].set_dtype(mx.float32)
    keep(model, share)
    with pytest.raises(Problem, match="bfloat16 to float32"):
        ModelPart(model, share, nobody)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED_TARGETS)
def test_a_pipeline_of_three_is_one_process_bit_for_bit(three: Ranks, name: str) -> None:
    require_equal(by_ranks(three, name, "pipeline"), by_one_process(name))


@pytest.mark.slow
@pytest.mark.parametrize("split", [(2, 4), (4, 2)])
def test_ranks_may_have_more_layers_or_fewer(two: Ranks, split: tuple[int, ...]) -> None:
    require_equal(by_ranks(two, "qwen3_5", "pipeline", split=split), by_one_process("qwen3_5"))


@pytest.mark.parametrize("name", mostly_slow(DIVIDED, quick=["gpt_oss"]))
def test_two_parts_of_every_layer_are_one_process_up_to_rounding(two: Ranks, name: str) -> None:
    require_close(by_ranks(two, name, "tensor"), by_one_process(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", DIVIDED)
def test_three_parts_of_every_layer_are_one_process_up_to_rounding(three: Ranks, name: str) -> None:
    require_close(by_ranks(three, name, "tensor"), by_one_process(name))


TAPS: tuple[Tap, ...] = (0, 1, 2, 3, 4, 6, "norm")  # with three layers on each of two ranks


@pytest.mark.parametrize("name", mostly_slow(["qwen3_5", "gpt_oss"], quick=["qwen3_5"]))
def test_hidden_states_of_all_layers_come_to_rank_0(two: Ranks, name: str) -> None:
    require_equal(by_ranks(two, name, "pipeline", taps=TAPS), by_one_process(name, TAPS))


@pytest.mark.slow
def test_hidden_states_come_from_three_ranks(three: Ranks) -> None:
    require_equal(
        by_ranks(three, "qwen3_5", "pipeline", taps=TAPS), by_one_process("qwen3_5", TAPS)
    )


@pytest.mark.slow
def test_hidden_states_are_whole_on_rank_0_with_tensor_parallelism(two: Ranks) -> None:
    *logits, states = by_ranks(two, "llama", "tensor", taps=TAPS)
    *theirs, expected = by_one_process("llama", TAPS)
    require_close(logits, theirs)
    np.testing.assert_allclose(states, expected, atol=1e-3)


def bytes_of_caches(target: LoadedModel) -> int:
    decoder = target.decoder(target.model)
    mx.eval(decoder.read(mx.array(TOKENS[:20])))
    return decoder.timeline.nbytes


@pytest.mark.parametrize("name", mostly_slow(DIVIDED, quick=["qwen3_5"]))
def test_caches_of_a_part_have_its_own_heads(two: Ranks, name: str) -> None:
    ours, _ = two.call(lead, Held(partial(shared_target, name), "tensor"), bytes_of_caches)
    alike = cache_parts(config_of(name), ranks=2)
    assert alike * ours == bytes_of_caches(alone(shared_target(name)))


def require_equal(ours: list[Any], theirs: list[Any]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


def require_close(ours: list[Any], theirs: list[Any]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-3)
        assert one.argmax(-1).tolist() == other.argmax(-1).tolist()
