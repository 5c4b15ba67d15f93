"""Everything that is there is listed, with the reason where it cannot be used."""

import json
import os
from pathlib import Path

import pytest

from models.errors import Problem
from models.hub.marks import mark
from models.installed import added_folders, store
from models.installed.added_folders import FILE_NAME, add_folder, folders, places, remove_folder
from models.installed.last_used import mark_used
from models.model_folder import ModelFolder
from models.records import Installed
from models.starter import MARKER_NAME, STARTER
from tests.support.models.drafter_configs import published_layouts, write_drafter
from tests.support.models.tiny_gguf import TinyGguf
from tests.support.models.tiny_store import (
    cached,
    commit,
    head_files,
    model_files,
    refuse,
    weights,
    write,
)

NAME = "org/Model-4bit"


def listed(home, cache):
    models = store.installed(home=home, cache=cache)
    named = {model.name: model for model in models}
    assert len(named) == len(models)
    return named


def test_ours(home, cache, tmp_path, monkeypatch):
    starter = write(home / "models" / STARTER.name, model_files())
    assert STARTER.name not in listed(home, cache)
    (starter / MARKER_NAME).write_text("")
    write(home / "models" / "tiny-0123abcd", model_files())
    write(home / "models" / ".hub", model_files())
    (home / "models" / "a file").write_text("")
    write(home / "drafters" / "own", head_files())
    write(tmp_path / "shipped" / "theirs", head_files())
    write(tmp_path / "shipped" / "no head", {"README": b""})
    found = [
        (one.name, one.origin, one.role, one.removable, one.problem)
        for one in store.installed(home=home, cache=cache)
    ]
    assert found == [
        (STARTER.name, "starter", "chat", True, ""),
        ("tiny-0123abcd", "imported", "chat", True, ""),
        ("own", "imported", "head", True, ""),
        ("theirs", "starter", "head", False, ""),
    ]
    shipped = write(tmp_path / "application" / STARTER.name, model_files())  # came along
    monkeypatch.setattr(store, "shipped_starter", lambda: ModelFolder(shipped))
    model = listed(home, cache)[STARTER.name]
    assert (model.path, model.origin, model.removable) == (str(shipped), "starter", False)
    with pytest.raises(Problem, match="comes with Slipstream"):
        store.remove(model, home=home, cache=cache)
    assert shipped.exists()


def test_what_is_told_of_a_model(home, cache):
    snapshot = cached(cache, NAME, model_files())
    files = model_files()
    os.utime((snapshot / "tokenizer_config.json").resolve(), (1_000, 2_000))
    (model,) = store.installed(home=home, cache=cache)
    assert model == Installed(
        name=NAME,
        path=str(snapshot),
        origin="hub",
        role="chat",
        # tokenizer.json and tokenizer_config.json are the same bytes: one blob
        size_bytes=sum(map(len, files.values())) - len(files["tokenizer.json"]),
        last_used=1_000.0,
        model_type="llama",
        quantization_bits=4,
        context_length=128,
        removable=True,
    )
    mark_used(snapshot, home=home)
    (model,) = store.installed(home=home, cache=cache)
    assert model.last_used is not None
    assert model.last_used > 1_000_000
    (model,) = store.installed(home=home.with_name("other home"), cache=cache)
    assert model.last_used == 1_000.0  # looking at it is no use of it
    mark_used(snapshot, home=snapshot / "config.json")  # a note that cannot be written


def test_broken_ones_have_their_reasons_and_hide_no_others(home, cache, subtests):
    wrong = {
        "not a JSON object": {"config.json": b"{"},
        "no tokenizer.json": {"tokenizer.json": None},
        "damaged": {"model.safetensors": weights()[:-1]},
        "program code": {"config.json": b'{"model_type": "llama", "model_file": "x.py"}'},
        "MLX": {"config.json": b'{"model_type": "new", "architectures": ["NewForCausalLM"]}'},
    }
    for problem, changes in wrong.items():
        files = {name: data for name, data in (model_files() | changes).items() if data is not None}
        cached(cache, f"org/{problem.replace(' ', '-')}", files)
        write(home / "models" / problem, files)
    cached(cache, NAME, model_files())
    write(home / "models" / "sound", model_files())
    models = listed(home, cache)
    for problem in wrong:
        for name in (f"org/{problem.replace(' ', '-')}", problem):
            with subtests.test(name=name):
                assert problem in models[name].problem
                assert models[name].remedy
    assert (models[NAME].problem, models["sound"].problem) == ("", "")


def test_a_folder_that_may_not_be_read(home, cache, monkeypatch):
    refused = write(home / "models" / "a", model_files()) / "config.json"
    write(home / "models" / "b", model_files())
    cached(cache, "org/a", model_files())
    cached(cache, "org/b", model_files())
    refuse(monkeypatch, Path, "is_file", refused)
    refuse(monkeypatch, Path, "iterdir", cache / "models--org--a" / "snapshots")
    models = listed(home, cache)
    assert set(models) == {"a", "b", "org/b"}
    assert "Permission denied" in models["a"].problem


def test_what_is_not_ours_to_list(home, cache):
    assert store.installed(home=home, cache=cache) == []
    assert store.incomplete(home=home, cache=cache) == []
    assert not home.exists()
    others = {
        "encoder": model_files(model_type="bert", architectures=["BertForMaskedLM"]),
        "speech": model_files(
            model_type="whisper", architectures=["WhisperForConditionalGeneration"]
        ),
        "pictures": {"model_index.json": b"{}", "unet/model.safetensors": weights()},
        "tokenizer": {"config.json": model_files()["config.json"], "tokenizer.json": b"{}"},
        "adapter": {"adapter_config.json": b"{}", "adapters.safetensors": weights()},
        "pickled": {"config.json": model_files()["config.json"], "pytorch_model.bin": b""},
    }
    for name, files in others.items():
        cached(cache, f"org/{name}", files)
    assert store.installed(home=home, cache=cache) == []
    assert store.incomplete(home=home, cache=cache) == []


def test_what_only_drafts_is_never_for_chatting(home, cache):
    """One packaging of each kind: test_packagings tells all of them apart."""
    for number, config in enumerate([
        {"architectures": ["LlamaForCausalLMEagle3"]},
        {"architectures": ["LlamaForCausalLM"], "draft_vocab_size": 32_000},
        {"model_type": "mlp_speculator", "architectures": ["MLPSpeculatorPreTrainedModel"]},
        {"architectures": ["MedusaLlamaModel"]},
        {"architectures": ["DeepSeekMTPModel"], "model_type": "deepseek_mtp"},
        {"architectures": ["DFlashDraftModel"], "model_type": "qwen3"},
        {"architectures": ["Gemma4AssistantForCausalLM"], "model_type": "gemma4_assistant"},
    ]):  # fmt: skip
        cached(cache, f"org/{number}", model_files(**config))
    layouts = {layout.expected["kind"]: layout for layout in published_layouts()}
    for kind, layout in layouts.items():
        write_drafter(home / "drafters" / kind, layout)
    found = listed(home, cache)
    configs = [model.role for name, model in found.items() if name.startswith("org/")]
    assert configs == ["drafter"] * 7
    model = found.pop("model")  # the layout of one has no tokenizer
    assert (model.role, model.drafter_kind) == ("chat", "")
    for kind in layouts.keys() - {"model"}:
        role = "head" if kind == "head" else "drafter"
        assert (found[kind].role, found[kind].drafter_kind, found[kind].problem) == (role, kind, "")


def test_of_several_revisions_the_main_one_has_the_name(home, cache):
    cached(cache, NAME, model_files(), revision=commit("a"))
    main = cached(cache, NAME, model_files(vocab_size=65), revision=commit("b"))
    newest = cached(cache, NAME, model_files(vocab_size=66), revision=commit("c"), main=False)
    os.utime(newest, (2e9, 2e9))
    models = listed(home, cache)
    assert set(models) == {NAME, f"{NAME}@aaaaaaaa", f"{NAME}@cccccccc"}
    assert models[NAME].path == str(main)
    (main / "tokenizer.json").unlink()
    assert listed(home, cache)[NAME].path == str(newest)


def test_gguf_files_in_the_cache(home, cache, tmp_path):
    TinyGguf().write(tmp_path / "a.gguf")
    data = (tmp_path / "a.gguf").read_bytes()
    length = (12).to_bytes(8, "little")
    assert length + b"<|im_start|>" in data
    # Not read: half a second for 150,000 tokens.
    data = data.replace(length + b"<|im_start|>", length + b"\xff" * 12)
    cached(cache, "org/gguf", {"q4/a.gguf": data, "b.GGUF": b"GGUF and no more", "README.md": b""})
    models = listed(home, cache)
    assert set(models) == {"org/gguf/q4/a.gguf", "org/gguf/b.GGUF"}
    sound = models["org/gguf/q4/a.gguf"]
    assert (sound.problem, sound.model_type, sound.context_length) == ("", "llama", 512)
    assert (sound.size_bytes, sound.removable) == (len(data), True)
    assert models["org/gguf/b.GGUF"].problem


@pytest.mark.parametrize("file", ["model.safetensors", "a.gguf"])
def test_a_marked_one_that_has_changed(home, cache, tmp_path, file):
    TinyGguf().write(tmp_path / "a.gguf")
    is_gguf, data = file == "a.gguf", (tmp_path / "a.gguf").read_bytes()
    name = f"{NAME}/{file}" if is_gguf else NAME
    snapshot = cached(cache, NAME, {file: data} if is_gguf else model_files())
    digests = {path.name: path.resolve().name for path in snapshot.iterdir()}
    mark(snapshot / file if is_gguf else snapshot, digests, home=home)
    assert not listed(home, cache)[name].problem
    (snapshot / file).write_bytes(data + b"more" if is_gguf else weights(fill=1))
    model = listed(home, cache)[name]
    assert "has changed" in model.problem
    assert model.remedy.endswith(f"slipstream models pull {name}@{snapshot.name}")


def test_added_folders(home, cache, tmp_path):
    """The same model twice is listed once; where there is none, or none to use, that is said."""
    cached(cache, NAME, model_files())
    disk = write(tmp_path / "disk" / "a", model_files()).parent
    config = json.dumps({"model": "org/Base"}).encode()
    write(disk / "poems", {"adapter_config.json": config, "adapters.safetensors": weights()})
    (disk / "b").symlink_to(disk / "a")
    for name in ("empty", "gone"):
        (tmp_path / name).mkdir()
    for folder in (cache, disk, disk / "a", tmp_path / "empty", tmp_path / "gone"):
        added_folders.add_folder(folder, home=home)
    (tmp_path / "gone").rmdir()
    models = listed(home, cache)
    told = {name: (one.origin, bool(one.problem)) for name, one in models.items()}
    broken = dict.fromkeys(("poems", "empty", "gone"), ("folder", True))
    assert told == {NAME: ("hub", False), "a": ("folder", False), **broken}
    assert "adapter for org/Base" in models["poems"].problem
    assert "--adapter" in models["poems"].remedy
    assert "no model in" in models["empty"].problem
    assert "is not there" in models["gone"].problem
    assert "folders --remove" in models["gone"].remedy
    (home / added_folders.FILE_NAME).write_text('{"folders": [3]}')
    models = listed(home, cache)
    assert not models[NAME].problem
    assert "damaged" in models[added_folders.FILE_NAME].problem


# Folders that the user adds are remembered, searched two levels deep, and never changed.


@pytest.fixture
def disk(tmp_path):
    return write(tmp_path / "disk", {"a file": b""})


def test_adding_and_removing(home, disk, monkeypatch):
    (disk / "b").mkdir()
    assert add_folder(disk, home=home) == [disk]
    monkeypatch.chdir(disk)
    assert add_folder(Path("b"), home=home) == [disk, disk / "b"]
    assert add_folder(Path("."), home=home) == [disk, disk / "b"]
    assert folders(home=home) == [disk, disk / "b"]
    assert remove_folder(Path("."), home=home) == [disk / "b"]
    (disk / "b").rmdir()
    assert folders(home=home) == [disk / "b"]
    assert remove_folder(disk / "b", home=home) == []
    for path in (disk / "a file", disk / "nowhere"):
        with pytest.raises(Problem, match="not found"):
            add_folder(path, home=home)
    with pytest.raises(Problem, match="not among the folders"):
        remove_folder(disk, home=home)
    with pytest.raises(Problem, match="cannot be made"):
        add_folder(disk, home=disk / "a file")


def test_a_damaged_list_is_not_overwritten(home, disk, subtests):
    home.mkdir()
    path = home / FILE_NAME
    for listed in [3, {}, [3], [""], None]:
        with subtests.test(listed=listed):
            path.write_text(json.dumps({"folders": listed}))
            for use in (folders, lambda home: add_folder(disk, home=home)):
                with pytest.raises(Problem, match="damaged") as problem:
                    use(home=home)
                assert str(path) in str(problem.value)
            assert json.loads(path.read_text()) == {"folders": listed}


def test_where_models_may_lie(disk, monkeypatch):
    write(disk / "org" / "model", model_files())
    write(disk / "org" / "model" / "part of it", model_files())
    write(disk / "flat", model_files())
    write(disk / "x" / "y" / "z", model_files())
    write(disk / ".hidden", model_files())
    write(disk / "org" / ".hidden", model_files())
    write(disk / "org", {"a.gguf": b"", "b.GGUF": b"", "c.bin": b"", ".d.gguf": b""})
    write(disk / "x" / "y", {"e.gguf": b""})
    assert list(places(disk)) == [
        ("flat", disk / "flat"),
        ("org/a.gguf", disk / "org" / "a.gguf"),
        ("org/b.GGUF", disk / "org" / "b.GGUF"),
        ("org/model", disk / "org" / "model"),
        ("x/y/e.gguf", disk / "x" / "y" / "e.gguf"),
    ]
    assert list(places(disk / "flat")) == [("flat", disk / "flat")]
    assert list(places(disk / "nowhere")) == []
    refuse(monkeypatch, Path, "iterdir", disk / "org")
    assert [name for name, _ in places(disk)] == ["flat", "x/y/e.gguf"]  # none is hidden by it
