"""A pair without room is refused before it is loaded; what is said of room is what is measured."""

import gc
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx_lm.utils import _get_classes, save_model

from engine.conversation import loading, pair
from engine.conversation.loading import load
from engine.conversation.pair import require_pair
from engine.events import Failed
from engine.process.protocol import Load, Loaded, SetDrafter
from models.drafters.folders import describe_drafter, is_drafter
from models.errors import Problem
from models.installed.resolve import resolve_drafters
from models.limits import LONGEST_COPY, LONGEST_DRAFT
from models.memory.fit import fit
from models.memory.machine import Machine, this_machine
from models.memory.model_size import weigh
from models.model_folder import ModelFolder
from tests.support.engine.hosted import hosted
from tests.support.engine.tiny import byte_tokenizer, configs, write_folder

ROOT = Path(__file__).parents[3]
CLOSE = 0.1  # of what is measured
PLENTY = Machine("plenty", 1 << 40, 1 << 40, unified=False)
NO_ROOM = replace(PLENTY, available_bytes=100_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "llama"
    write_folder("llama", path)
    return path


def require(folder, drafter, **options):
    target = ModelFolder(folder)
    return require_pair(target, resolve_drafters(drafter, target), **options)


def test_a_pair_is_weighed_with_its_heaviest_drafter_and_what_is_given_back(folder, tmp_path):
    """What cannot be weighed is for loading to refuse."""
    alone = require(folder, "none", machine=PLENTY)
    assert alone.drafter == ""
    short = require(folder, "none", machine=PLENTY, context=64)
    assert short.needed_bytes < alone.needed_bytes
    words = ("lookup", "auto", "early-exit:2")
    assert {require(folder, word, machine=PLENTY) for word in words} == {alone}
    other = tmp_path / "other"
    write_folder("qwen3", other)
    for name in (str(other), f"lookup + {other}"):
        both = require(folder, name, machine=PLENTY)
        assert both.drafter == "other"
        assert both.needed_bytes > alone.needed_bytes
    for freed in (0, alone.needed_bytes // 2):
        with pytest.raises(Problem):
            require(folder, "none", machine=NO_ROOM, freed_bytes=freed)
    freed = 2 * alone.needed_bytes
    assert require(folder, "none", machine=NO_ROOM, freed_bytes=freed) is not None
    assert require(tmp_path, "none", machine=NO_ROOM) is None
    odd = Path(shutil.copytree(folder, tmp_path / "odd"))
    (odd / "config.json").write_text(json.dumps({"model_type": "odd"}))
    assert require(odd, "none", machine=NO_ROOM) is None


def test_the_host_refuses_and_keeps_what_is_loaded(folder, tmp_path, monkeypatch):
    other = tmp_path / "other"
    write_folder("llama", other)

    def commands():
        yield Load("1", str(folder), "none", "0")
        here = replace(NO_ROOM, unified=True)  # where nothing is gained by unloading
        monkeypatch.setattr(pair, "this_machine", lambda: here)
        for fitting in (False, True):
            yield Load("2", str(other), "none", "0", fitting=fitting)
        yield SetDrafter("3", drafter=str(other))
        yield SetDrafter("4", draft_length="2")

    told = [each for each in hosted(commands()) if isinstance(each, Loaded | Failed)]
    assert [type(each) for each in told] == [Loaded, Failed, Failed, Failed, Loaded]
    assert [each.generation for each in told[1:4]] == ["2", "2", "3"]


@pytest.mark.cpu
@pytest.mark.usefixtures("on_the_cpu")
def test_loading_holds_weights_once(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "free_memory_bytes", lambda: 1 << 40)
    random_model(tmp_path / "model", "llama", layers=4, bits=8, width=128)
    gc.collect()
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    loaded = load(ModelFolder(tmp_path / "model"))
    held = mx.get_active_memory() - before
    assert loaded.precision == "float32 from 8-bit"
    assert mx.get_peak_memory() - before < 1.05 * held


# Measured: random models, large enough that their arrays count, and the pairs that are at hand


def random_model(folder, architecture, *, layers=8, bits=None, width=512, vocabulary=8192):
    """Write a random model of some 10 to 30 million weights, bfloat16 or quantized."""
    config = {
        "model_type": architecture,
        "vocab_size": vocabulary,
        "eos_token_id": 256,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "intermediate_size": 3 * width,
        "num_attention_heads": 8,
        "head_dim": 64,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1e4,
        "tie_word_embeddings": False,
    } | configs("larger")[architecture]
    byte_tokenizer(folder)
    model_class, arguments_class = _get_classes(config)
    model = model_class(arguments_class.from_dict(config))
    if architecture.startswith("gemma"):
        model.sanitize({})  # ties the head
    model.set_dtype(mx.bfloat16)
    if bits is not None:
        config["quantization"] = {"group_size": 64, "bits": bits}
        nn.quantize(model, group_size=64, bits=bits)
    save_model(folder, model)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def assert_measured(target, drafter, context, *, word="", length=LONGEST_DRAFT):
    """What is reckoned for the pair is what a process of its own needs at most, which drafts
    `length` tokens in each round."""
    opened = describe_drafter if drafter and is_drafter(drafter) else ModelFolder
    size = weigh(opened(drafter)) if drafter else None
    reckoned = fit(weigh(ModelFolder(target)), size, context=context, machine=this_machine())
    said = word or str(drafter or "none")
    command = [sys.executable, "-m", "tests.support.engine.peak_memory"]
    command += [str(target), said, str(context), str(length)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    measured = json.loads(ended.stdout)
    ratio = reckoned.needed_bytes / measured["peak_bytes"]
    print(f"{target.name}, {context} tokens: {ratio:.3f} of {measured}, {reckoned}")
    assert abs(ratio - 1) < CLOSE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("architecture", "bits", "context", "drafts"),
    [
        # Each turn's prompt ends with room for a whole copy before caches grow.
        ("llama", None, 2100, True),
        ("gemma3_text", 4, 2100, True),
        ("qwen3_5", 8, 2100, True),
        ("lfm2", None, 2100, False),
    ],
)
def test_random_pairs_need_what_is_said(architecture, bits, context, drafts, tmp_path):
    target = random_model(tmp_path / "target", architecture, bits=bits)
    drafter = None
    if drafts:
        drafter = random_model(tmp_path / "drafter", architecture, layers=4, bits=bits)
    word = f"suffix+{drafter}" if drafter else "suffix"
    assert_measured(target, drafter, context, word=word, length=LONGEST_COPY)
