"""Repositories for the hub on loopback, adapters, and commands in processes of their own."""

import json
import os
import subprocess
import sys

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.tuner.utils import linear_to_lora_layers
from mlx_lm.utils import load_model

from models.answers import ANSWERS
from tests.support.engine import tiny
from tests.support.engine.ended import ROOT

NAME = "tiny-community/Tiny-Llama-8bit"


def two_files(folder):
    """A tiny quantized model in two files of weights, with the index of its original, which had
    five."""
    tiny.write_folder("llama", folder, bits=8)
    weights = sorted(mx.load(str(folder / "model.safetensors")).items())
    (folder / "model.safetensors").unlink()
    places = {}
    for number, part in enumerate((weights[::2], weights[1::2]), 1):
        name = f"model-{number:05d}-of-00002.safetensors"
        mx.save_safetensors(str(folder / name), dict(part), metadata={"format": "mlx"})
        places |= {tensor: f"model-{number:05d}-of-00005.safetensors" for tensor, _ in part}
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "README.md").write_text("# A tiny model")
    (folder / "modeling.py").write_text("raise SystemExit('run')")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def lines_of(ended, code=0):
    """The fields of the answers that it printed, a line each, and nothing else."""
    assert (ended.code, ended.err) == (code, ""), ended.out[-500:]
    assert ended.out.isascii()
    lines = [line.encode() for line in ended.out.splitlines()]
    assert all(ANSWERS.read(line) for line in lines)
    fields = [ANSWERS.fields(line) for line in lines]
    return [{key: each[key] for key in each if key != ANSWERS.tag} for each in fields]


def answer_of(ended):
    """Return the one answer that it printed."""
    (answer,) = lines_of(ended)
    return answer


def child(*arguments, **pipes):
    """The command line in a process of its own, with pipes."""
    return subprocess.Popen(
        [sys.executable, "-m", "engine", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"HF_HUB_DOWNLOAD_TIMEOUT": "600"},  # nothing waits for a silent hub
        text=True,
        **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | pipes,
    )


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
