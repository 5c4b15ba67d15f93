"""What several Macs can hold together is told from a config, with what to do where they cannot."""

import pytest

from models.errors import Problem
from models.sharing import architectures, check
from tests.support.models.model_folders import CONFIGS

SMOL, LLAMA_70B = CONFIGS["smollm2-135m"], CONFIGS["llama-70b"]
QWEN_NEXT, GPT_OSS = CONFIGS["qwen3_5, 8 layers"], CONFIGS["gpt_oss, 4 layers"]


def test_what_can_be_shared(subtests):
    for config, mode, ranks, split in [
        (SMOL, "pipeline", 2, (12, 18)),
        (SMOL, "pipeline", 30, ()),
        (SMOL, "tensor", 3, ()),
        (LLAMA_70B, "tensor", 8, ()),
        (LLAMA_70B | {"quantization": {"bits": 4, "group_size": 64}}, "tensor", 4, ()),
        (QWEN_NEXT, "pipeline", 2, (4, 4)),
        (QWEN_NEXT, "tensor", 4, ()),  # its two key heads are repeated
        (GPT_OSS, "pipeline", 2, (2, 2)),
        (GPT_OSS, "tensor", 2, ()),
    ]:
        with subtests.test(config=config, mode=mode, ranks=ranks):
            check(config, mode=mode, ranks=ranks, split=split)


def test_counts_and_splits_that_are_refused(subtests):
    for config, mode, ranks, split, names in [
        (SMOL, "tensor", 2, (), "9 attention heads"),
        (LLAMA_70B | {"num_key_value_heads": 1}, "tensor", 2, (), "1 key and value heads"),
        (LLAMA_70B | {"intermediate_size": 4097}, "tensor", 2, (), "4097"),
        (GPT_OSS, "tensor", 4, (), "groups of 32"),
        (QWEN_NEXT, "tensor", 3, (), "16 attention heads"),
        (SMOL, "pipeline", 31, (), "30 layers"),
        (SMOL, "pipeline", 2, (30, 0), r"\[30, 0\]"),
        (SMOL, "pipeline", 2, (20, 20), r"\[20, 20\]"),
        (SMOL, "pipeline", 2, (30,), r"\[30\]"),
        (QWEN_NEXT, "pipeline", 2, (5, 3), "Rank 1"),
        (GPT_OSS, "pipeline", 2, (1, 3), "Rank 0"),
    ]:
        with subtests.test(names=names):
            with pytest.raises(Problem, match=names) as problem:
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
