"""What MLX can build is known without importing it."""

import mlx_lm.utils
import pytest

from models.architectures import BUILT_AS_ANOTHER, known_to_mlx


def test_the_list_of_others_is_that_of_mlx_lm():
    assert mlx_lm.utils.MODEL_REMAPPING.keys() == BUILT_AS_ANOTHER


@pytest.mark.parametrize(
    "model_type", ["llama", "qwen3", "mistral", "gpt_oss", "lfm2-vl", "phi-msft"]
)
def test_known(model_type: str):
    assert known_to_mlx(model_type)


@pytest.mark.parametrize(
    "model_type", ["", "own", "../llama", "llama.py", "llama\n", "/llama", "x" * 5000]
)
def test_not_known(model_type: str):
    assert not known_to_mlx(model_type)
