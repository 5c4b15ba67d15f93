"""How large models are, by the headers of files that are made here."""

import json

import pytest

from models.drafters.folders import describe_drafter
from models.memory.model_size import ModelSize, count_values, float_bytes, weigh
from models.model_folder import ModelFolder
from models.safetensors_file import SafetensorsWriter, TensorLayout

CONFIG = {"model_type": "llama", "hidden_size": 64, "vocab_size": 128, "num_hidden_layers": 1}


def write(folder, layouts, *, name="model"):
    folder.mkdir(exist_ok=True)
    with SafetensorsWriter(folder / f"{name}.safetensors", layouts) as writer:
        for tensor, layout in layouts.items():
            writer.write(tensor, bytes(layout.size_bytes))


def model(folder, layouts, **config):
    write(folder, layouts)
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    (folder / "tokenizer.json").write_text("{}")
    return folder


def packed(name, *, bits, rows=128, group=64):
    """A matrix of `rows` times 64 in groups."""
    return {
        f"{name}.weight": TensorLayout("U32", (rows, 64 * bits // 32)),
        f"{name}.scales": TensorLayout("F16", (rows, 64 // group)),
        f"{name}.biases": TensorLayout("F16", (rows, 64 // group)),
    }


def test_weights_of_mixed_widths_are_counted(tmp_path):
    layouts = packed("embed", bits=8) | packed("up", bits=4) | {"norm": TensorLayout("F16", (64,))}
    settings = {"bits": 4, "group_size": 64, "embed": {"bits": 8, "group_size": 64}}
    size = weigh(ModelFolder(model(tmp_path / "mixed", layouts, quantization=settings)))
    assert size.name == "mixed"
    assert size.size_bytes == 128 * 64 * 12 // 8 + 4 * 128 * 2 + 128
    assert count_values(size) == 2 * 128 * 64 + 64
    assert float_bytes(size) == 2


def test_what_is_loaded_counts_whatever_the_file(tmp_path, subtests):
    for dtype, wide in [("F32", 4), ("F16", 2), ("BF16", 2)]:
        with subtests.test(dtype=dtype):
            layouts = {
                "model.embed.weight": TensorLayout(dtype, (128, 64)),
                "vision_tower.layers.0.weight": TensorLayout(dtype, (512, 64)),
                "model.mtp.0.weight": TensorLayout(dtype, (512, 64)),
            }
            folder = model(tmp_path / dtype, layouts)
            write(folder, {"b": TensorLayout(dtype, (64,))}, name="model-more")
            write(folder, {"c": TensorLayout(dtype, (64,))}, name="consolidated")
            size = weigh(ModelFolder(folder))
            assert (count_values(size), float_bytes(size)) == (128 * 64 + 64, wide)
            assert size.size_bytes == (128 * 64 + 64) * wide


def test_a_head(tmp_path):
    folder = tmp_path / "head"
    layouts = packed("fuse", bits=8) | {"kept": TensorLayout("I32", (8,))}
    write(folder, layouts, name="head")
    config = {"model_type": "slipstream-head", "target_fingerprint": "0" * 16, "target": "t"}
    (folder / "config.json").write_text(json.dumps(config))
    size = weigh(describe_drafter(folder))
    assert size.network.kind == "head"
    assert count_values(size) == 128 * 64 + 8


def test_without_a_folder_size_and_bits_tell(subtests):
    for config, values in [
        ({"quantization": {"bits": 4, "group_size": 64}}, 2000),
        ({"quantization_config": {"bits": 8, "group_size": 32}}, 1000),
        ({"quantization": {"bits": 8}}, 9000 // 8.5),
        ({"quantization": {"bits": "x", "group_size": None}}, 9000 // 8.5),
        ({"quantization": {"bits": 4, "group_size": "64"}}, 2000),
        ({"quantization": {"bits": 4, "group_size": -1}}, 2000),
        ({"torch_dtype": "float32"}, 1125 // 4),
        ({"torch_dtype": "bfloat16"}, 1125 // 2),
        ({"quantization": "none"}, 1125 // 2),
    ]:
        with subtests.test(config=config):
            assert count_values(ModelSize("far", 1125, CONFIG | config)) == pytest.approx(
                values, abs=1
            )
