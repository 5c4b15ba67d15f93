"""How several machines share a target, by the figures."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from models.errors import Problem
from models.memory.machine import Machine
from models.memory.model_size import ModelSize
from models.memory.shape import read_shape
from models.memory.shares import drafted_by, plan, require_plan
from models.model_folder import ModelFolder
from models.safetensors_file import TensorLayout
from models.sharing import architectures, check
from tests.models.memory.test_shape import model
from tests.support.models.model_folders import CONFIGS

SMOL, LLAMA_70B = CONFIGS["smollm2-135m"], CONFIGS["llama-70b"]
QWEN_NEXT, GPT_OSS = CONFIGS["qwen3_5, 8 layers"], CONFIGS["gpt_oss, 4 layers"]
GB = 10**9
QUANTIZED = {"quantization": {"bits": 4, "group_size": 64}}
BIG = ModelSize("big", 40 * GB, LLAMA_70B | QUANTIZED)
EXPERTS = GPT_OSS | {"num_hidden_layers": 24, "vocab_size": 201088, "num_local_experts": 32}
DEEPSEEK = CONFIGS["deepseek_v3, 4 layers"]


def mac(free):
    return Machine("Mac", int(2 * free * GB), int(free * GB), unified=True)


def planned(*free, target=BIG, **options):
    return plan(target, [mac(each) for each in free], context=4096, **options)


def test_another_drafter_changes_what_the_first_mac_needs():
    made = planned(28, 28)
    drafter = ModelSize("small", 2 * GB, SMOL)
    other = drafted_by(made, drafter, mac(28))
    assert other.split == made.split
    assert other.fits[1:] == made.fits[1:]
    assert other.fits[0].needed_bytes - made.fits[0].needed_bytes >= 2 * GB
    assert other.fits[0].fits
    assert drafted_by(other, None, mac(28)) == made
    with pytest.raises(Problem, match="here") as refused:
        require_plan(drafted_by(made, drafter, mac(21)), ["here", "there"])
    assert "there" not in refused.value.message


TWO_LAYERS = EXPERTS | {"num_hidden_layers": 2}
SEVEN_HEADS = LLAMA_70B | {"num_key_value_heads": 7}


@pytest.mark.parametrize(
    ("macs", "size", "config", "asked", "mode", "fits"),
    [
        ((28, 28), 40 * GB, LLAMA_70B | QUANTIZED, None, "pipeline", True),
        ((28, 28), 40 * GB, LLAMA_70B | QUANTIZED, "tensor", "tensor", True),
        # One layer with everything in it cannot be cut into two.
        ((36, 36), 60 * GB, LLAMA_70B | {"num_hidden_layers": 3}, None, "tensor", True),
        ((5, 5), 40 * GB, LLAMA_70B | QUANTIZED, None, "pipeline", False),
        ((28, 28), GB, SEVEN_HEADS, "tensor", None, False),
        # Two Macs cannot each have every kind of two layers.
        ((28, 28), GB, TWO_LAYERS, None, "tensor", True),
        ((28, 28), GB, TWO_LAYERS, "pipeline", None, False),
    ],
)
def test_a_pipeline_is_taken_unless_only_the_other_fits_or_is_asked_for(
    macs, size, config, asked, mode, fits
):
    target, wanted = ModelSize("any", size, config), {"mode": asked} if asked else {}
    if mode is None:
        with pytest.raises(Problem):
            planned(*macs, target=target, **wanted)
        return
    made = planned(*macs, target=target, **wanted)
    assert (made.mode, made.fits_all, bool(made.split)) == (mode, fits, mode == "pipeline")


def test_only_rank_0_makes_logits_and_has_room_for_a_drafter():
    first, second = planned(60, 60).fits
    assert second.working_bytes < first.working_bytes
    drafter = ModelSize("small", 2 * GB, SMOL)
    for made in (planned(60, 60, drafter=drafter), planned(60, 60, drafter=drafter, mode="tensor")):
        first, second = made.fits
        assert first.drafter_weights_bytes == drafter.size_bytes
        assert second.drafter_weights_bytes == 0
        assert second.drafter_cache_bytes == 0


@pytest.mark.parametrize("mode", ["pipeline", "tensor"])
def test_all_ranks_together_keep_what_one_machine_would(mode):
    made = planned(28, 28, mode=mode)
    one = plan(BIG, [mac(60)], context=4096, mode=mode)
    assert sum(each.cache_bytes for each in made.fits) == one.fits[0].cache_bytes
    twice = sum(each.weights_bytes for each in made.fits) - one.fits[0].weights_bytes
    outside = 2 * 128256 * 8192 * 40 * GB / (40 * GB * 8 / 4.5)  # embedding and output layer
    assert twice == pytest.approx(outside, rel=0.01)
    latent = ModelSize("latent", GB, DEEPSEEK)  # each keeps all of them
    (one,) = plan(latent, [mac(60)], context=4096).fits
    made = planned(60, 60, target=latent, mode="tensor")
    assert [each.cache_bytes for each in made.fits] == [one.cache_bytes] * 2


def test_layers_of_a_folder_are_counted_one_by_one(tmp_path):
    """The layers after the last one predict further tokens, and are not loaded."""
    layouts = {"model.embed_tokens.weight": TensorLayout("F16", (128, 64))}
    layouts["model.norm.weight"] = TensorLayout("F16", (64,))
    for i in range(5):
        layouts[f"model.layers.{i}.mlp.up_proj.weight"] = TensorLayout("F16", (10 + i, 64))
    folder = ModelFolder(model(tmp_path / "small", layouts, num_hidden_layers=4))
    first, second = plan(folder, [mac(1), mac(1)], context=1024, mode="pipeline").fits
    assert first.weights_bytes == 128 * (129 + 13 + 12)
    assert second.weights_bytes == 128 * (129 + 10 + 11)


CONFIGS = st.sampled_from([SMOL, LLAMA_70B, EXPERTS, QWEN_NEXT, DEEPSEEK])
MACHINES = st.lists(
    st.builds(
        lambda free, unified: Machine("one", 2 * free, free, unified),
        st.integers(10**7, 200 * GB),
        st.booleans(),
    ),
    min_size=2,
    max_size=5,
)


@given(CONFIGS, MACHINES, st.integers(10**6, 200 * GB), st.integers(1, 20_000))
@example(EXPERTS, [Machine("one", 10**8, 10**7 + (i == 1), False) for i in range(5)], 10**6, 1)
@settings(deadline=None)
def test_any_machines_share_any_target_or_there_is_a_problem(config, machines, size, context):
    target = ModelSize("any", size, config)
    try:
        made = plan(target, machines, context=context, mode="pipeline")
    except Problem:
        layers = read_shape(config).layers
        assert len(layers) < 4 * len(machines)  # too few to give each every kind
        return
    check(config, mode="pipeline", ranks=len(machines), split=made.split)
    assert sum(made.split) == len(read_shape(config).layers)
    assert len(made.fits) == len(machines)
    followers = sorted(
        (machine.available_bytes, own)
        for machine, own in zip(machines[1:], made.split[1:], strict=True)
        if machine.unified == machines[1].unified
    )
    assert all(less[1] <= more[1] for less, more in pairwise(followers) if less[0] < more[0])
    if all(machine.unified for machine in machines):
        for rank, machine in enumerate(machines):
            larger = replace(machine, available_bytes=2 * machine.available_bytes)
            others = [*machines[:rank], larger, *machines[rank + 1 :]]
            again = plan(target, others, context=context, mode="pipeline")
            assert again.split[rank] >= made.split[rank]


# What can be shared is told from a config, with what to do where it cannot.


def test_counts_and_splits_that_are_shared_or_refused(subtests):
    for config, mode, ranks, split, refused in [
        (SMOL, "pipeline", 2, (12, 18), None),
        (LLAMA_70B | {"quantization": {"bits": 4, "group_size": 64}}, "tensor", 4, (), None),
        (QWEN_NEXT, "pipeline", 2, (4, 4), None),
        (QWEN_NEXT, "tensor", 4, (), None),  # its two key heads are repeated
        (GPT_OSS, "tensor", 2, (), None),
        (SMOL, "tensor", 2, (), "9 attention heads"),
        (LLAMA_70B | {"intermediate_size": 4097}, "tensor", 2, (), "4097"),
        (GPT_OSS, "tensor", 4, (), "groups of 32"),
        (SMOL, "pipeline", 31, (), "30 layers"),
        (SMOL, "pipeline", 2, (30, 0), r"\[30, 0\]"),
        (QWEN_NEXT, "pipeline", 2, (5, 3), "Rank 1"),
        (GPT_OSS, "pipeline", 2, (1, 3), "Rank 0"),
    ]:
        with subtests.test(kind=config["model_type"], mode=mode, ranks=ranks, split=split):
            if refused is None:
                check(config, mode=mode, ranks=ranks, split=split)
                continue
            with pytest.raises(Problem, match=refused) as problem:
                check(config, mode=mode, ranks=ranks, split=split)
            assert problem.value.remedy


def test_other_architectures_are_refused_with_those_that_work(subtests):
    for kind in ["gemma3_text", "gemma4", "lfm2", "mamba", "phi3", "", None, 7]:
        for mode in ["pipeline", "tensor"]:
            with subtests.test(kind=kind, mode=mode):
                with pytest.raises(Problem) as problem:
                    check(SMOL | {"model_type": kind}, mode=mode, ranks=2)
                assert all(name in problem.value.remedy for name in architectures("pipeline"))
    with pytest.raises(Problem, match="qwen3_next") as problem:
        check(SMOL | {"model_type": "qwen3_next"}, mode="tensor", ranks=3)
    assert "pipeline" in problem.value.remedy
