"""The drafter that comes along: its folder is whole, and its script computes what we compute."""

import json
import os
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from engine.conversation.loading import load
from engine.core.model_parts import embedding
from engine.distil.answering import Answerer, TokenizedPrompt
from engine.distil.head_learner import embed, loss
from engine.distil.loss import make_batch
from engine.drafters.head_network import load_head
from models.drafters.folders import describe_drafter, find_head
from models.files import models_folder
from models.model_folder import ModelFolder
from models.starter import STARTER
from tests.support.engine.heads import untrained

FOLDER = Path(__file__).parents[2] / "resources" / "drafters" / "smollm2-135m"
SCRIPTS = Path(__file__).parents[1] / "lab" / "starter_drafter"
STORIES = Path(__file__).parents[1] / "data" / "stories260K"
TORCH = os.environ.get("SLIPSTREAM_TORCH_PYTHON")  # an interpreter that has torch


@pytest.fixture
def starter() -> Path:
    target = models_folder() / STARTER.name
    if not target.is_dir():
        pytest.skip("the starter model is not here")
    return target


def test_it_is_small_and_whole(tmp_path: Path) -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 16_000_000
    described = describe_drafter(FOLDER)
    fingerprint = described.description.demands.fingerprint or ""
    bound = load_head(described, fingerprint=fingerprint, vocabulary=49152)
    assert bound.shape.hidden_size == 576
    assert find_head(fingerprint, home=tmp_path) == described


def test_its_card_says_what_it_is() -> None:
    card = (FOLDER / "README.md").read_text()
    for word in ("Apache-2.0", "slipstream distil", "GSM8K", "HumanEval", "MT-Bench"):
        assert word in card


@pytest.mark.slow
@pytest.mark.skipif(TORCH is None, reason="SLIPSTREAM_TORCH_PYTHON names no interpreter")
def test_the_script_computes_the_same_loss(tmp_path: Path) -> None:
    target = load(ModelFolder(STORIES))
    bound = untrained(target.model)
    for name, array in tree_flatten(bound.head.parameters()):
        noise = 0.1 * mx.random.normal(array.shape, key=mx.random.key(len(name)))
        bound.head.load_weights([(name, array + noise)], strict=False)
    texts = ("Once upon a time", "One day, Lily saw a big dog. She", "Tom was")
    asked = [TokenizedPrompt(target.tokenizer.encode(text), 1.0) for text in texts]
    answers = Answerer(target, bound.shape.layers).answer(asked, longest=24, seed=0)
    rows = mx.full((512,), -1, dtype=mx.int32)
    rows[bound.kept] = mx.arange(bound.shape.rows, dtype=mx.int32)
    table = embedding(target.model)

    arrays = {"kept": bound.kept, "embedding": table(mx.arange(512))}
    arrays |= {f"head.{name}": array for name, array in tree_flatten(bound.head.parameters())}
    ours = []
    for i, one in enumerate(answers):
        batch = make_batch([one], rows, borrows=True)
        lent = table(batch.borrowed)
        ours.append(float(loss(bound.head, batch, embed(table, batch), lent, steps=5).item()))
        arrays |= {
            f"{i}.tokens": mx.array(one.tokens),
            f"{i}.prompt": mx.array(one.prompt),
            f"{i}.states": one.states,
            f"{i}.rows": batch.rows,
            f"{i}.chances": batch.chances,
            f"{i}.borrowed": batch.borrowed,
            f"{i}.unmet": batch.unmet,
        }
    shape = {field.name: getattr(bound.shape, field.name) for field in fields(bound.shape)}
    example = tmp_path / "example.safetensors"
    notes = {"shape": json.dumps(shape), "answers": str(len(answers))}
    mx.save_safetensors(str(example), arrays, notes)
    command = [str(TORCH), str(Path(__file__).parent / "losses.py"), str(SCRIPTS), str(example)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)

    assert all(np.isfinite(ours))
    assert [float(line) for line in said.stdout.split()] == pytest.approx(ours, abs=1e-3)


@pytest.mark.slow
@pytest.mark.skipif(TORCH is None, reason="SLIPSTREAM_TORCH_PYTHON names no interpreter")
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_the_kernels_compute_what_pytorch_does(device: str) -> None:
    command = [str(TORCH), str(SCRIPTS / "check_kernels.py"), device]
    variables = os.environ | {"TRITON_INTERPRET": "1"}
    subprocess.run(command, env=variables, check=True, timeout=300)


@pytest.mark.slow
@pytest.mark.starter
@pytest.mark.skipif(TORCH is None, reason="SLIPSTREAM_TORCH_PYTHON names no interpreter")
def test_states_that_were_kept_are_those_that_are_read_anew(starter: Path, tmp_path: Path) -> None:
    script = Path(__file__).parent / "kept_states.py"
    command = [str(TORCH), str(script), str(SCRIPTS), str(starter), str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)

    differences = [float(line) for line in said.stdout.split("\n")[-4:-1]]
    assert max(differences) < 1e-2


@pytest.mark.slow
@pytest.mark.starter
@pytest.mark.skipif(TORCH is None, reason="SLIPSTREAM_TORCH_PYTHON names no interpreter")
def test_a_head_that_is_gone_on_from_is_written_as_it_was(starter: Path, tmp_path: Path) -> None:
    answers = tmp_path / "answers"
    answers.mkdir()
    tokens, length, said = list(range(100, 160)), [60], [[0, 30, 60]]
    parts = {"tokens": tokens, "lengths": length, "said": said}
    arrays = {name: mx.array(part, dtype=mx.int32) for name, part in parts.items()}
    mx.save_safetensors(str(answers / "00000.safetensors"), arrays)
    command = [str(TORCH), str(SCRIPTS / "make.py"), str(answers), str(tmp_path / "heads")]
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('"What is a prime number?"\n')
    options = ["--target", str(starter), "--minutes", "0", "--begin", str(FOLDER)]
    options += ["--tests", str(prompts)]
    subprocess.run([*command, *options], check=True, timeout=300)

    old, new = (weights_of(folder) for folder in (FOLDER, tmp_path / "heads" / "one"))
    assert same(old, new) == set(old)


@pytest.mark.slow
@pytest.mark.starter
@pytest.mark.skipif(TORCH is None, reason="SLIPSTREAM_TORCH_PYTHON names no interpreter")
def test_a_mean_has_of_each_head_its_share(starter: Path, tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "other")
    file = str(tmp_path / "other" / "head.safetensors")
    arrays = mx.load(file)
    assert isinstance(arrays, dict)
    arrays["norm.weight"] = 3 * arrays["norm.weight"]
    mx.save_safetensors(file, arrays)
    command = [str(TORCH), str(SCRIPTS / "mean.py"), str(tmp_path / "mean")]
    options = ["--target", str(starter), "--of", str(FOLDER), "0.75"]
    options += ["--of", str(tmp_path / "other"), "0.25", "--sharper", "2"]
    subprocess.run([*command, *options], check=True, timeout=300)

    old, new = (weights_of(folder) for folder in (FOLDER, tmp_path / "mean"))
    assert same(old, new) == set(old) - {"norm.weight"}
    old["norm.weight"] = 2 * 1.5 * old["norm.weight"]
    assert same(old, new) == set(old)


def weights_of(folder: Path) -> dict[str, mx.array]:
    described = describe_drafter(folder)
    fingerprint = described.description.demands.fingerprint or ""
    bound = load_head(described, fingerprint=fingerprint, vocabulary=49152)
    return {"kept": bound.kept} | dict(tree_flatten(bound.head.parameters()))


def same(some: dict[str, mx.array], others: dict[str, mx.array]) -> set[str]:
    """The names of those that are equal but for how weights were rounded."""
    assert some.keys() == others.keys()

    def near(name: str, one: mx.array) -> bool:
        if name == "kept":
            return bool(mx.array_equal(one, others[name]))
        nearly = 1e-3 * mx.abs(one).max().item()
        return bool(mx.allclose(one, others[name], rtol=0.0, atol=nearly))

    return {name for name, one in some.items() if near(name, one)}
