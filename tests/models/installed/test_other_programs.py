"""What LM Studio and Ollama keep is found under their names, and is never changed."""

import hashlib
import json
import os
from pathlib import Path

import pytest
from gguf import GGMLQuantizationType

from models.errors import Problem
from models.installed import other_programs, store
from models.installed.resolve import resolve_drafter, resolve_target
from tests.support.models.tiny_gguf import TinyGguf
from tests.support.models.tiny_store import cached, model_files, write

LAYER = "application/vnd.ollama.image."


@pytest.fixture(autouse=True)
def person(tmp_path, monkeypatch):
    """The home folder of the user, in which nothing is yet."""
    folder = tmp_path / "person"
    folder.mkdir()
    monkeypatch.setattr(other_programs, "OLLAMA_SERVICE", tmp_path / "service")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    return folder


def listed(cache):
    return {model.name: model for model in store.installed(cache=cache)}


def gguf(architecture="llama", **changes):
    path = Path(os.environ["HOME"]).parent / "made.gguf"
    TinyGguf(architecture, **changes).write(path)
    return path.read_bytes()


def layer(kind, data):
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    return {"mediaType": f"{LAYER}{kind}", "digest": digest, "size": len(data)}


def in_ollama(root, name, layers, *, between="-"):
    """A model as Ollama keeps it, by its name with host, namespace and tag; its manifest."""
    model, tag = name.split(":")
    (root / "blobs").mkdir(parents=True, exist_ok=True)
    for data in layers.values():
        digest = hashlib.sha256(data).hexdigest()
        (root / "blobs" / f"sha256{between}{digest}").write_bytes(data)
    manifest = root / "manifests" / model / tag
    manifest.parent.mkdir(parents=True, exist_ok=True)
    described = [layer(kind, data) for kind, data in layers.items()]
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": described}))
    return manifest


def test_lm_studio(person, cache):
    old, new = person / ".cache" / "lm-studio" / "models", person / ".lmstudio" / "models"
    write(new / "mlx-community" / "Tiny-4bit", model_files())
    write(new / "lmstudio-community" / "Tiny-GGUF", {"t.gguf": gguf(), "mmproj-t.gguf": b"GGUF"})
    write(new / "publisher" / "broken", model_files(model_type="unheard-of"))
    write(old / "publisher" / "older", model_files())
    for name in ("s-00001-of-00002.gguf", "s-00002-of-00002.gguf"):
        write(new / "publisher" / "split", {name: b"GGUF"})
    (new / "publisher" / "gone.gguf").symlink_to(person / "nowhere.gguf")
    (new / "publisher" / "round").symlink_to(new)
    before = sorted(person.rglob("*"))
    found = listed(cache)
    assert {name: model.problem == "" for name, model in found.items()} == {
        "mlx-community/Tiny-4bit": True,
        "lmstudio-community/Tiny-GGUF/t.gguf": True,
        "publisher/older": True,
        "publisher/broken": False,
        "publisher/gone.gguf": False,
        "publisher/split/s-00001-of-00002.gguf": False,
    }
    assert {(model.origin, model.removable) for model in found.values()} == {("lm-studio", False)}
    assert sorted(person.rglob("*")) == before


def test_folders_that_were_moved(person, cache, monkeypatch):
    for path in ("studio/models/a/first", "disk/a/second", ".lmstudio/models/a"):
        write(person / path, model_files())
    (person / ".lmstudio-home-pointer").write_text(f"{person / 'studio'}\n")
    settings = person / "studio" / "settings.json"
    settings.write_text(json.dumps({"downloadsFolder": str(person / "disk")}))
    in_ollama(
        other_programs.OLLAMA_SERVICE, "registry.ollama.ai/library/tiny:3b", {"model": gguf()}
    )
    assert {*listed(cache)} == {"a/first", "a/second", "tiny:3b"}
    for damaged in ("[]", "{", '{"downloadsFolder": 5}', '{"downloadsFolder": "\\u0000"}'):
        settings.write_text(damaged)
        assert {*listed(cache)} == {"a/first", "tiny:3b"}
    in_ollama(person / "ollama", "registry.ollama.ai/library/other:3b", {"model": gguf()})
    monkeypatch.setenv("OLLAMA_MODELS", str(person / "ollama"))
    assert {*listed(cache)} == {"a/first", "other:3b"}
    monkeypatch.setenv("OLLAMA_MODELS", "~nosuch/ollama")
    assert {*listed(cache)} == {"a/first", "tiny:3b"}


def test_ollama(person, cache):
    root = person / ".ollama" / "models"
    in_ollama(
        root,
        "registry.ollama.ai/library/tiny:3b",
        {"model": gguf("qwen3"), "template": b"{{ .Prompt }}", "license": b"free"},
    )
    old = {"model": gguf(kind=GGMLQuantizationType.Q8_0)}
    in_ollama(root, "registry.ollama.ai/anna/tiny:latest", old, between=":")
    in_ollama(root, "hf.co/anna/tiny-GGUF:Q8_0", {"model": gguf("gemma2")})
    found = listed(cache)
    assert {name: model.model_type for name, model in found.items()} == {
        "tiny:3b": "qwen3",
        "anna/tiny:latest": "llama",
        "hf.co/anna/tiny-GGUF:Q8_0": "gemma2",
    }
    assert {(model.origin, model.removable) for model in found.values()} == {("ollama", False)}
    assert found["tiny:3b"].context_length == 512
    assert found["tiny:3b"].size_bytes == len(gguf("qwen3"))
    assert [name for name, model in found.items() if model.problem] == ["hf.co/anna/tiny-GGUF:Q8_0"]


def test_a_model_of_ollama_that_cannot_be_used_has_the_reason(person, cache):
    root = person / ".ollama" / "models"
    data, place = {"model": gguf()}, "registry.ollama.ai/library"
    blob = root / "blobs" / f"sha256-{hashlib.sha256(data['model']).hexdigest()}"
    whole = in_ollama(root, f"{place}/whole:1", data).read_text()
    in_ollama(root, f"{place}/adapted:1", {**data, "adapter": b"x"})
    in_ollama(root, f"{place}/in-parts:1", {"tensor": b"x"})
    damaged, otherwise = "manifest of {} is damaged", "keeps {} in another way"
    written = {
        "no-json": ("{", damaged),
        "odd-layers": ('{"layers": [null, 3, {"mediaType": ["x"]}]}', otherwise),
        "odd-digest": (whole.replace("sha256:", "sha256:x"), damaged),
        "outside": (whole.replace("sha256:", "../../sha256:"), damaged),
        "missing": (whole.replace(blob.name[-8:], "0" * 8), "file of {} is missing"),
        "cut": (whole.replace(f'"size": {len(data["model"])}', '"size": 5'), "is not whole"),
    }
    for name, (text, _) in written.items():
        in_ollama(root, f"{place}/{name}:1", data).write_text(text)
    (root / "manifests" / place / "dangling").mkdir()
    (root / "manifests" / place / "dangling" / "1").symlink_to(root / "nowhere")
    (root / "manifests" / place / ".DS_Store").write_bytes(b"x")
    found = listed(cache)
    assert found.pop("whole:1").problem == ""
    wanted = {name: why for name, (_, why) in written.items()}
    wanted |= {"adapted": "adapter", "in-parts": otherwise, "dangling": damaged}
    assert found.keys() == {f"{name}:1" for name in wanted}
    for name, why in wanted.items():
        assert why.format(f"{name}:1") in found[f"{name}:1"].problem
        assert found[f"{name}:1"].remedy


def test_they_are_found_by_name_imported_into_a_folder_of_ours_and_not_removed(
    person, cache, tmp_path
):
    root = person / ".ollama" / "models"
    in_ollama(root, "registry.ollama.ai/library/tiny:3b", {"model": gguf("qwen3")})
    studio = write(person / ".lmstudio" / "models" / "anna" / "small", model_files())
    (studio.parent / "linked").symlink_to(cached(tmp_path / "else", "org/model", model_files()))
    before = {path: path.lstat().st_mtime_ns for path in person.rglob("*")}
    by_path = resolve_target(listed(cache)["tiny:3b"].path, cache=cache)
    for text in ("tiny:3b", "tiny", "TINY:3B"):
        folder = resolve_target(text, cache=cache)
        assert folder.path == by_path.path
        assert folder.path.parent == tmp_path / "home" / "models"
        assert folder.name.startswith("tiny 3b-")
        assert folder.config["model_type"] == "qwen3"
    assert resolve_drafter("tiny:3b", cache=cache).path == by_path.path
    assert resolve_target("anna/small", cache=cache).path == studio
    for name, program in (("tiny:3b", "Ollama's folder"), ("anna/linked", "LM Studio's folder")):
        with pytest.raises(Problem, match=program):
            store.remove(listed(cache)[name], cache=tmp_path / "else")
    assert {path: path.lstat().st_mtime_ns for path in person.rglob("*")} == before
