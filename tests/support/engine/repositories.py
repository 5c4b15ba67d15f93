"""Repositories for the hub on loopback, and commands in processes of their own."""

import json
import os
import subprocess
import sys

import mlx.core as mx

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
