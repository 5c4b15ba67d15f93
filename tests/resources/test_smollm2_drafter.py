"""The drafter that comes along: its folder is whole, and its script computes what we compute."""

import json
import os
import subprocess
from dataclasses import fields
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from engine.anatomy import embedding
from engine.distil.answers import Answerer, Asked
from engine.distil.loss import embed, loss, make_batch
from engine.distil.store import AnswerStore
from engine.head import load_head
from engine.loading import load
from models.drafter_folders import describe_head, find_head
from models.folders import ModelFolder
from tests.engine.heads import untrained

FOLDER = Path(__file__).parents[2] / "resources" / "drafters" / "smollm2-135m"
STORIES = Path(__file__).parents[1] / "data" / "stories260K"
TORCH = os.environ.get("SLIPSTREAM_TORCH_PYTHON")  # an interpreter that has torch


def test_it_is_small_and_whole(tmp_path: Path) -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 16_000_000
    described = describe_head(FOLDER)
    fitted = load_head(described, fingerprint=described.target_fingerprint, vocabulary=49152)
    assert fitted.shape.hidden_size == 576
    assert find_head(described.target_fingerprint, home=tmp_path) == described


def test_its_card_says_what_it_is() -> None:
    card = (FOLDER / "README.md").read_text()
    for word in ("Apache-2.0", "slipstream distil", "GSM8K", "HumanEval", "MT-Bench"):
        assert word in card


@pytest.mark.slow
@pytest.mark.skipif(TORCH is None, reason="SLIPSTREAM_TORCH_PYTHON names no interpreter")
def test_the_script_computes_the_same_loss(tmp_path: Path) -> None:
    target = load(ModelFolder(STORIES))
    fitted = untrained(target.model)
    for name, array in tree_flatten(fitted.head.parameters()):
        noise = 0.1 * mx.random.normal(array.shape, key=mx.random.key(len(name)))
        fitted.head.load_weights([(name, array + noise)], strict=False)
    texts = ("Once upon a time", "One day, Lily saw a big dog. She", "Tom")
    asked = [Asked(target.tokenizer.encode(text), 1.0) for text in texts]
    answers = Answerer(target, fitted.shape.layers).answer(asked, longest=24, seed=0)
    rows = mx.full((512,), -1, dtype=mx.int32)
    rows[fitted.kept] = mx.arange(fitted.shape.rows, dtype=mx.int32)
    batch = make_batch(answers, rows)
    table = embedding(target.model)
    ours = float(loss(fitted.head, batch, embed(table, batch)).item())

    example = tmp_path / "example.safetensors"
    arrays = {"kept": fitted.kept, "embedding": table(mx.arange(512))}
    arrays |= {f"head.{name}": array for name, array in tree_flatten(fitted.head.parameters())}
    shape = {field.name: getattr(fitted.shape, field.name) for field in fields(fitted.shape)}
    mx.save_safetensors(str(example), arrays, {"shape": json.dumps(shape)})
    AnswerStore(tmp_path / "answers").write(0, answers, asked=3, seconds=1.0)
    script = [str(FOLDER / "make.py"), "loss", str(example), str(tmp_path / "answers")]
    command = [str(TORCH), *script]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)

    assert np.isfinite(ours)
    assert float(said.stdout) == pytest.approx(ours, abs=1e-3)
