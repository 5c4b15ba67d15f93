"""What MLX can build is known without importing it."""

import mlx_lm.utils

from models.architectures import BUILT_AS_ANOTHER, known_to_mlx


def test_the_list_of_others_is_that_of_mlx_lm():
    assert mlx_lm.utils.MODEL_REMAPPING.keys() == BUILT_AS_ANOTHER


def test_known(subtests):
    for model_type in ["llama", "qwen3", "mistral", "gpt_oss", "lfm2-vl", "lfm2_vl", "phi-msft"]:
        with subtests.test(model_type=model_type):
            assert known_to_mlx(model_type)


def test_not_known(subtests):
    for model_type in ["", "own", "../llama", "llama.py", "llama\n", "/llama", "x" * 5000]:
        with subtests.test(model_type=model_type):
            assert not known_to_mlx(model_type)
