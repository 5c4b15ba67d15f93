"""Tiny model folders whose weights are only as large as they say."""

import json
from pathlib import Path

import numpy
from safetensors.numpy import save_file

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 8, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 128, "vocab_size": 100,
    "max_position_embeddings": 4096, "tie_word_embeddings": True,
}  # fmt: skip
QWEN3_5 = LLAMA | {
    "model_type": "qwen3_5", "full_attention_interval": 4, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
}  # fmt: skip
# As they are published, some with fewer layers, by name.
CONFIGS = json.loads((Path(__file__).parents[2] / "models/data/configs.json").read_text())
WORDS = {"a": 0, "b": 1, "ab": 2}


def model_folder(
    path, config=LLAMA, *, weights_bytes=100_000, words=WORDS, merges=("a b",), seed=0
):
    """A folder that can be inspected and weighed, with weights that are all `seed`."""
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config))
    model = {"type": "BPE", "vocab": words, "merges": list(merges)}
    (path / "tokenizer.json").write_text(json.dumps({"added_tokens": [], "model": model}))
    weights = numpy.full(weights_bytes // 2, seed, dtype=numpy.float16)
    save_file({"model.layers.0.mlp.weight": weights}, path / "model.safetensors")
    return path
