"""What several Macs can hold together is told from a config, with what to do where they cannot."""

import pytest

from models.errors import Problem
from models.sharing import architectures, check

SMOL = {  # SmolLM2-135M
    "model_type": "llama", "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
    "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152,
}  # fmt: skip
LLAMA_70B = {
    "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "head_dim": 128,
    "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
    "vocab_size": 128256,
}  # fmt: skip
QWEN_NEXT = {  # three of four layers are linear attention
    "model_type": "qwen3_5",
    "text_config": {
        "hidden_size": 64,
        "num_hidden_layers": 8,
        "full_attention_interval": 4,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "vocab_size": 1000,
    },
}
GPT_OSS = {
    "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "head_dim": 64,
    "num_hidden_layers": 4, "num_attention_heads": 64, "num_key_value_heads": 8,
    "vocab_size": 1000, "quantization": {"bits": 4, "group_size": 32},
}  # fmt: skip


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


def test_one_that_has_a_pipeline_only_says_so():
    with pytest.raises(Problem, match="qwen3_next") as problem:
        check(SMOL | {"model_type": "qwen3_next"}, mode="tensor", ranks=3)
    assert "pipeline" in problem.value.remedy
