"""LoRA adapters of random numbers."""

import json

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.tuner.utils import linear_to_lora_layers
from mlx_lm.utils import load_model


def adapter_for(source, folder, **changes):
    """A LoRA adapter as mlx-lm's training leaves it, of random numbers."""
    config = {
        "model": str(source),
        "fine_tune_type": "lora",
        "num_layers": 2,
        "lora_parameters": {"rank": 4, "scale": 8.0, "dropout": 0.0},
    }
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps(config | changes))
    model, _ = load_model(source)
    linear_to_lora_layers(model, 2, config["lora_parameters"])
    numbers = dict(tree_flatten(model.parameters()))
    lora = {name: array for name, array in numbers.items() if "lora_" in name}
    drawn = {name: mx.random.normal(array.shape, scale=0.05) for name, array in lora.items()}
    mx.save_safetensors(str(folder / "adapters.safetensors"), drawn)
    return folder
