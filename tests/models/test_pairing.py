"""Every way of drafting gets a verdict, a reason that says what decided, and its place."""

import ast
import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import numpy
import pytest
from safetensors.numpy import save_file

from models.catalog import load_catalog
from models.drafters import folders as drafter_folders
from models.drafters.folders import describe_drafter, is_drafter, own_module
from models.drafters.kinds import HEAD_MODEL_TYPE, HEAD_WEIGHTS_NAME
from models.errors import Problem
from models.installed.inventory import ModelEntry, describe
from models.memory.machine import Machine
from models.model_folder import ModelFolder
from models.pairing import COPIED_CACHES, candidates
from models.records import Installed
from tests.support.models.drafter_configs import drafter_layout, write_drafter
from tests.support.models.model_folders import LLAMA, model_folder
from tests.support.mostly_slow import mostly_slow

MACHINE = Machine("a Mac", 16 << 30, 10_000_000_000, unified=True)


@pytest.fixture(autouse=True)
def no_shipped_heads(tmp_path, monkeypatch):
    monkeypatch.setattr(drafter_folders, "_SHIPPED", tmp_path / "shipped")


@pytest.fixture
def target(tmp_path):
    return model_folder(tmp_path / "target", weights_bytes=1_000_000)


def here(folder, *, name="", role="chat"):
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    name = name or folder.name
    return Installed(name, str(folder), "folder", role, size, None, "llama", 4, 4096, False)


def entry_of(model):
    path = Path(model.path)
    drafts = not model.problem and is_drafter(path)
    return ModelEntry(model, describe_drafter(path) if drafts else ModelFolder(path))


def judged(target, *installed, **more):
    """By name, in order."""
    more = {"machine": MACHINE, "home": target.parent / "home"} | more
    entries = [entry_of(model) for model in installed]
    found = candidates(ModelFolder(target), installed=entries, **more)
    assert all(candidate.reason and candidate.reason.isprintable() for candidate in found)
    assert all((candidate.obstacle == "") == candidate.works for candidate in found)
    by_name = {candidate.drafter: candidate for candidate in found}
    assert len(by_name) == len(found)
    return by_name


def test_what_needs_no_model_is_always_there(target):
    found = judged(target)
    assert list(found) == ["suffix", "lookup", "lookahead", "early-exit", "none", "head"]
    assert [name for name, candidate in found.items() if not candidate.works] == ["head"]
    assert found["lookup"].cost_ratio == 0
    assert found["early-exit"].cost_ratio == pytest.approx(0.5, abs=0.05)
    assert "4 of the target's layers" in found["early-exit"].reason
    assert "distil" in found["head"].reason
    shallow = model_folder(target.with_name("shallow"), LLAMA | {"num_hidden_layers": 1})
    assert not judged(shallow)["early-exit"].works


def test_models_of_the_family_by_size(tmp_path, target):
    sizes = {"tiny": 4_000, "right": 50_000, "half": 600_000, "twin": 1_000_000, "big": 3_000_000}
    models = [
        here(model_folder(tmp_path / name, weights_bytes=size)) for name, size in sizes.items()
    ]
    found = judged(target, *models)
    own = ["suffix", "lookup", "lookahead", "early-exit"]
    order = ["right", "tiny", *own, "half", "none", "twin", "big", "head"]
    assert list(found) == order
    assert all(found[name].works for name in sizes)
    assert found["right"].cost_ratio == pytest.approx(0.05)
    assert "costs 5.0% of a pass" in found["right"].reason
    assert "rarely pays" in found["half"].reason
    for name in ("twin", "big"):
        assert "never pays" in found[name].reason
    assert "pays" not in found["right"].reason
    alike = [model_folder(tmp_path / place / "m") for place in ("1", "2")]
    assert {*map(str, alike)} < judged(target, *map(here, alike)).keys()  # by their paths


def spelling(folder):
    """The same folder, whose tokenizer says what its tokens spell."""
    path = folder / "tokenizer.json"
    document = json.loads(path.read_text()) | {"decoder": {"type": "ByteLevel"}}
    path.write_text(json.dumps(document))
    return folder


def test_another_tokenizer_is_no_obstacle(tmp_path):
    words = {chr(97 + n): n for n in range(20)}
    target = spelling(model_folder(tmp_path / "target", weights_bytes=2_000_000, words=words))
    moved = dict(zip(words, [*range(1, 20), 0], strict=True))
    partly = {"a": 0, "b": 1, "c": 2, "a1": 3, "b1": 4}
    hardly = {f"{name}1": n for name, n in words.items()} | {"a": 20}
    others = {"same": words, "moved": moved, "partly": partly, "hardly": hardly}
    folders = [spelling(model_folder(tmp_path / name, words=each)) for name, each in others.items()]
    unknown = model_folder(tmp_path / "unknown", words=moved)
    found = judged(target, *map(here, (*folders, unknown)))
    assert {name: (found[name].works, found[name].shared_tokens) for name in others} == {
        "same": (True, 1.0), "moved": (True, 1.0), "partly": (True, 0.6), "hardly": (False, 1.0),
    }  # fmt: skip
    assert "another tokenizer: 60% of its tokens are shared, expect less" in found["partly"].reason
    assert "another tokenizer: 100% of its tokens" in found["moved"].reason
    for name in ("hardly", "unknown"):
        assert found[name].obstacle == "other tokens"
        assert "token 0 is 'a' in the target" in found[name].reason
    order = list(found)
    assert order.index("same") < order.index("lookup") < order.index("partly")
    assert order.index("partly") < order.index("early-exit")


def test_a_broken_model_hides_no_other(tmp_path, target):
    gone = here(target, name="gone")
    gone = replace(gone, path=str(tmp_path / "gone"))
    broken = replace(here(target, name="broken"), problem="It is damaged.")
    cut = model_folder(tmp_path / "cut")
    (cut / "tokenizer.json").write_text("{}")
    new = here(model_folder(tmp_path / "new", LLAMA | {"model_type": "brand_new"}), role="drafter")
    pickled = write_drafter(tmp_path / "pickled", drafter_layout("refused-pickled"))
    pickled = describe(ModelEntry.at("pickled", ModelFolder(pickled), "folder")).record
    whole = here(model_folder(tmp_path / "whole"))
    found = judged(target, gone, broken, here(cut), new, pickled, whole)
    assert found["whole"].works
    assert not any(found[name].works for name in ("gone", "broken", "cut", "new", "pickled"))
    assert "does not know its architecture, 'brand_new'" in found["new"].reason
    assert found["pickled"].obstacle == "damaged"
    assert "pickled" in found["pickled"].reason
    assert found["broken"].reason == "It is damaged."
    assert "was not found" in found["gone"].reason
    assert "no table of tokens" in found["cut"].reason
    with pytest.raises(Problem):
        judged(tmp_path / "nothing")


def head_folder(path, trained_for):
    path.mkdir(parents=True)
    save_file({"layer.weight": numpy.zeros(10_000, dtype=numpy.float16)}, path / HEAD_WEIGHTS_NAME)
    config = {key: value for key, value in LLAMA.items() if key != "vocab_size"}
    config |= {"model_type": HEAD_MODEL_TYPE, "rows": 50, "layers": [2, 4, 8]}
    fingerprint = ModelFolder(trained_for).fingerprint
    config |= {"target": trained_for.name, "target_fingerprint": fingerprint}
    (path / "config.json").write_text(json.dumps(config))
    return path


def test_a_head_drafts_for_its_own_target_only(tmp_path, target):
    other = model_folder(tmp_path / "other", weights_bytes=1_000_000, seed=1)
    head = head_folder(tmp_path / "home" / "drafters" / "mine", target)
    installed = here(head, role="head")
    found = judged(target, installed)
    assert next(iter(found)) == "head"
    assert "mine" not in found  # it is the head
    assert found["head"].works
    assert found["head"].cost_ratio == pytest.approx(0.02, rel=0.01)
    assert found["head"].size_bytes == 20_000
    found = judged(other, installed)
    assert not found["head"].works
    assert not found["mine"].works
    assert "other weights, of target" in found["mine"].reason
    small = replace(MACHINE, available_bytes=1_000_000)
    assert " are available" in judged(target, installed, machine=small)["head"].reason


NETWORKS = mostly_slow(
    ["eagle-3-official", "mtp-huggingface", "gemma-4-assistant", "dflash-z-lab", "medusa"],
    quick=["eagle-3-official", "gemma-4-assistant"],
)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_drafter_of_others_needs_a_target_of_its_sizes(tmp_path, name):
    layout = drafter_layout(name)
    sizes = LLAMA | layout.target
    target = model_folder(tmp_path / "target", sizes, weights_bytes=1_000_000)
    drafter = write_drafter(tmp_path / "drafter", layout)
    installed = replace(here(drafter, role="drafter"), drafter_kind=layout.expected["kind"])
    found = judged(target, installed)["drafter"]
    assert (found.works, found.kind) == (True, layout.expected["kind"])
    assert found.cost_ratio is not None
    assert found.size_bytes == installed.size_bytes
    small = replace(MACHINE, available_bytes=1_100_000)
    assert judged(target, installed, machine=small)["drafter"].obstacle == "no room"
    nested = {"text_config": sizes.get("text_config", {}) | {"hidden_size": 48}}
    other = model_folder(tmp_path / "other", sizes | {"hidden_size": 48} | nested)
    found = judged(other, installed)["drafter"]
    assert (found.works, found.obstacle) == (False, "other target")
    assert "hidden states" in found.reason


def test_a_target_with_a_module_of_its_own(tmp_path):
    layout = drafter_layout("mtp-huggingface-inside")
    target = model_folder(tmp_path / "target", LLAMA | layout.config)
    lost = judged(target)["mtp"]
    assert (lost.works, lost.obstacle) == (False, "unsupported")
    (target / "model.safetensors").unlink()
    write_drafter(tmp_path / "whole", layout)
    (tmp_path / "whole" / "model.safetensors").rename(target / "model.safetensors")
    found = judged(target)["mtp"]
    assert found.works
    module = own_module(ModelFolder(target))
    assert module is not None
    assert found.size_bytes == sum(each.size_bytes for each in module.layouts.values())
    assert "mtp" not in judged(model_folder(tmp_path / "plain"))


@pytest.fixture(scope="module")
def catalog():
    return load_catalog()


def of_the_catalog(catalog, name, path):
    return model_folder(path, dict(catalog.models[name].config))


MINE = "mlx-community/Qwen3-8B-4bit"


def test_what_is_not_downloaded_is_named_by_family_and_architecture(tmp_path, catalog):
    machine = Machine("a Mac", 64 << 30, 40_000_000_000, unified=True)
    target = of_the_catalog(catalog, MINE, tmp_path / "target")
    smallest, small = "mlx-community/Qwen3-0.6B-4bit", "mlx-community/Qwen3-1.7B-4bit"
    found = judged(target, here(target, name=MINE), catalog=catalog, machine=machine)
    absent = [candidate for candidate in found.values() if not candidate.installed]
    names = {each.drafter for each in absent if each.kind in ("head", "model")}
    assert names == {smallest, small, "head"}
    for drafter in (smallest, small):
        assert found[drafter].size_bytes == catalog.models[drafter].download_bytes
    order = list(found)
    assert order.index("none") < min(map(order.index, (smallest, small))) < order.index("head")
    assert smallest in judged(target, catalog=catalog), "it has no name of a family"
    stranger = model_folder(tmp_path / "stranger")
    assert not any("/" in name for name in judged(stranger, catalog=catalog))
    # Neither what is here nor what is no smaller than the target.
    target = of_the_catalog(catalog, small, tmp_path / "small")
    drafter = of_the_catalog(catalog, smallest, tmp_path / "smallest")
    found = judged(target, here(drafter, name=smallest), catalog=catalog)
    assert found[smallest].installed
    assert small not in found
    assert not any(name.startswith("mlx") for name in judged(drafter, catalog=catalog))


def test_published_drafters_of_a_target(tmp_path, catalog):
    target = of_the_catalog(catalog, MINE, tmp_path / "target")
    found = judged(target, here(target, name=MINE), catalog=catalog)
    listed = {drafter.name: drafter for drafter in catalog.drafters_for(MINE)}
    assert {"dspark", "dflash", "eagle-3", "pard"} <= {found[drafter].kind for drafter in listed}
    for drafter, told in listed.items():
        candidate = found[drafter]
        assert (candidate.works, candidate.installed) == (False, False)
        assert candidate.tried == (told.kind == "model")
        assert (candidate.size_bytes, candidate.licence) == (told.size_bytes, told.licence)
        assert candidate.obstacle == "not installed"
        assert f"slipstream models pull {drafter}" in candidate.reason
    small = replace(MACHINE, available_bytes=6_000_000)
    drafter = "z-lab/Qwen3-8B-DFlash-b16"
    folder = write_drafter(tmp_path / "drafter", drafter_layout("dflash-z-lab-own-choice"))
    mine = replace(here(folder, name=drafter, role="drafter"), drafter_kind="dflash")
    found = judged(target, here(target, name=MINE), mine, catalog=catalog, machine=small)
    assert found["deepseek-ai/dspark_qwen3_8b_block7"].obstacle == "no room"
    assert (found[drafter].installed, found[drafter].obstacle) == (True, "other target")
    llama = "mlx-community/Meta-Llama-3.1-8B-Instruct-4bit"
    target = of_the_catalog(catalog, llama, tmp_path / "llama")
    found = judged(target, here(target, name=llama), catalog=catalog)
    pickled = found["yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"]
    assert pickled.obstacle == "unsupported"
    assert "pickled" in pickled.reason


@pytest.mark.slow
def test_the_copied_caches_are_those_that_mlx_lm_makes():
    found = importlib.util.find_spec("mlx_lm")
    assert found is not None
    (place,) = found.submodule_search_locations or ()
    sources = {path.stem: path.read_text() for path in Path(place).glob("models/*.py")}
    odd = {
        name
        for name, source in sources.items()
        if "def make_cache" in source
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name == "make_cache"
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "").endswith(("Cache", "List"))
        and getattr(call.func, "id", "") not in ("KVCache", "RotatingKVCache", "ArraysCache")
    }  # fmt: skip
    heirs = {
        name
        for name, source in sources.items()
        for parent in odd
        if f"from .{parent} import" in source and "def make_cache" not in source
    }
    assert odd | heirs >= COPIED_CACHES
    assert odd <= COPIED_CACHES
