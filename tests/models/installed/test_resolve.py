"""What the user writes is the one model that is meant, or a line that says why there is none."""

import contextlib
import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from models.drafters.folders import describe_drafter, module_folder
from models.errors import Problem
from models.hub.queue import Queue
from models.installed import added_folders
from models.installed.names import find
from models.installed.resolve import (
    lookahead_sizes,
    resolve_drafter,
    resolve_drafters,
    resolve_target,
)
from models.model_folder import ModelFolder
from models.records import Installed
from tests.support.models.drafter_configs import drafter_layout, write_drafter
from tests.support.models.tiny_gguf import TinyGguf
from tests.support.models.tiny_store import cached, commit, head_files, model_files, partial, write

NAME = "mlx-community/Qwen3-4B-4bit"


@pytest.fixture(autouse=True)
def nothing_around(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")


def refusal(text, home, cache):
    with pytest.raises(Problem) as caught:
        resolve_target(text, home=home, cache=cache)
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_path(home, cache, tmp_path, monkeypatch):
    folder = write(tmp_path / "models" / "a", model_files())
    monkeypatch.chdir(tmp_path)
    assert resolve_target(str(folder), home=home, cache=cache).path == folder
    assert resolve_target("models/a", home=home, cache=cache).path == Path("models/a")
    assert resolve_target("./models/a/", home=home, cache=cache).path == Path("models/a")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve_target("~/models/a", home=home, cache=cache).path == folder


def test_a_gguf_file_is_imported_by_its_path_or_its_name(home, cache, tmp_path):
    file = tmp_path / "a.gguf"
    TinyGguf().write(file)
    calls = []
    places = {"home": home, "cache": cache}
    told = resolve_target(str(file), **places, progress=lambda *call: calls.append(call))
    folder = told.path
    assert folder.parent == home / "models"
    assert calls
    assert resolve_target(folder.name, **places).path == folder
    cached(cache, "org/some-gguf", {"Some-Q4.gguf": file.read_bytes()})
    names = ("org/some-gguf", "org/some-gguf/Some-Q4.gguf", "some-gguf", "some-q4", "Some-Q4.gguf")
    (imported,) = {resolve_target(text, **places).path for text in names}
    assert imported.parent == home / "models"


def test_what_is_in_the_cache(home, cache):
    old = cached(cache, NAME, model_files(), revision=commit("a"), main=False)
    main = cached(cache, NAME, model_files(), revision=commit("b"))
    cached(cache, "org/other", model_files())
    revisions = [f"{NAME}@{revision}" for revision in (commit("b"), "bbbbbbb", "main")]
    for text in (NAME, NAME.lower(), "qwen3-4b-4bit", *revisions):
        assert resolve_target(text, home=home, cache=cache).path == main
    for revision in (commit("a"), "aaaaaaaa"):
        assert resolve_target(f"{NAME}@{revision}", home=home, cache=cache).path == old
    problem = refusal(f"{NAME}@{commit('c')}", home, cache)
    assert problem.remedy.endswith(f"slipstream models pull {NAME}@{commit('c')}")
    assert "not on this machine" in refusal(f"{NAME}@aaaa", home, cache).message


def test_a_near_miss(home, cache):
    problem = refusal(NAME, home, cache)
    assert problem.message == f"{NAME} is not on this machine."
    assert problem.remedy == f"Fetch it: slipstream models pull {NAME}"
    cached(cache, NAME, model_files())
    problem = refusal("mlx-community/Qwen3-4B-8bit", home, cache)
    assert f"Did you mean {NAME}?" in problem.remedy
    assert "slipstream models pull mlx-community/Qwen3-4B-8bit" in problem.remedy
    assert refusal("Qwen3-4b", home, cache).remedy == f"Did you mean {NAME}?"
    assert "slipstream models list" in refusal("nothing alike", home, cache).remedy


PATHS = ["./a", "/a/b/c", "~nobody/a", "../a", "a.gguf", "org/a.gguf"]
NO_NAMES = ["", " ", "/", "@", "a@", "@a", "a/b/c", "a//b", "..", "org/", "mlx-community"]
OUTSIDE = [f"{NAME}@{revision}" for revision in ("../../../../outside", "/outside", "")]


def test_no_name_at_all(home, cache, tmp_path, monkeypatch, subtests):
    monkeypatch.chdir(write(tmp_path / "model", model_files()))  # which nothing does not mean
    cached(cache, NAME, model_files())
    (tmp_path / "outside").write_text(commit("a"))
    for text in (*PATHS, *NO_NAMES, *OUTSIDE):
        with subtests.test(text=text):
            assert ("is not a revision" in refusal(text, home, cache).message) == (text in OUTSIDE)


def test_of_several_a_sound_one_a_whole_name_and_the_cache_come_first(home, cache, tmp_path):
    sound = cached(cache, "org-a/model", model_files())
    cached(cache, "org-b/model", model_files() | {"model.safetensors": b""})
    assert resolve_target("model", home=home, cache=cache).path == sound
    assert "damaged" in refusal("org-b/model", home, cache).message
    cached(cache, "org-c/model", model_files())
    assert "org-a/model, org-c/model" in refusal("model", home, cache).message
    ours = write(home / "models" / "model", model_files())
    assert resolve_target("model", home=home, cache=cache).path == ours
    write(tmp_path / "disk" / "org-a" / "model", model_files())
    added_folders.add_folder(tmp_path / "disk", home=home)
    Queue(home=home).enqueue("org-a/model")  # a new download of it changes nothing
    assert resolve_target("org-a/model", home=home, cache=cache).path == sound


def test_heads_and_what_only_drafts(home, cache):
    head = write(home / "drafters" / "own", head_files())
    eagle = cached(cache, "org/eagle", model_files(architectures=["LlamaForCausalLMEagle3"]))
    model = cached(cache, "org/both", model_files())
    both = write(home / "drafters" / "both", head_files())
    assert resolve_target("both", home=home, cache=cache).path == model
    assert resolve_drafter("both", home=home, cache=cache).path == both
    for text, path in (("own", head), (str(head), head), ("eagle", eagle)):
        assert resolve_drafter(text, home=home, cache=cache).path == path
    for text in ("own", "eagle", "org/eagle"):
        problem = refusal(text, home, cache)
        assert "is a drafter" in problem.message
        assert f"--drafter {text}" in problem.remedy
    (head / "config.json").write_text("{}")
    for text in ("own", str(head)):
        with pytest.raises(Problem, match="no drafter"):
            resolve_drafter(text, home=home, cache=cache)


def module_at(home, repository):
    """Where a module of that repository was pulled to."""
    made = drafter_layout("mtp-huggingface")
    source = {"source": {"repository": repository, "revision": "1"}}
    made = replace(made, config=made.config | source)
    return write_drafter(module_folder(repository, home=home), made, weights="mtp.safetensors")


def test_a_module_goes_by_the_name_that_it_was_pulled_by(home, cache):
    name = "Qwen/Qwen3.5-27B/mtp.safetensors"
    with pytest.raises(Problem) as missing:
        resolve_drafter(name, home=home, cache=cache)
    assert f"slipstream models pull {name}" in missing.value.remedy
    folder = module_at(home, "Qwen/Qwen3.5-27B")
    for text in (name, name.lower(), "Qwen3.5-27B-MTP", str(folder)):
        found = resolve_drafter(text, home=home, cache=cache)
        assert (found.path, found.kind) == (folder, "mtp")
    with pytest.raises(Problem, match="not on this machine"):
        resolve_drafter("another/Qwen3.5-27B/mtp.safetensors", home=home, cache=cache)


def test_a_drafter_must_have_the_targets_sizes(tmp_path):
    layout = drafter_layout("dflash-z-lab")
    drafter = write_drafter(tmp_path / "a drafter", layout)
    target = write_drafter(tmp_path / "target", replace(layout, config=layout.target))
    (fitting,) = resolve_drafters(str(drafter), ModelFolder(target)).parts
    assert fitting.folder == describe_drafter(drafter)
    nested = layout.target["text_config"]
    for name, sizes in {"width": {"hidden_size": 48}, "depth": {"num_hidden_layers": 62}}.items():
        config = layout.target | {"text_config": nested | sizes}
        other = write_drafter(tmp_path / name, replace(layout, config=config))
        with pytest.raises(Problem, match=rf"cannot draft for {name}: it ") as refusal:
            resolve_drafters(str(drafter), ModelFolder(other))
        assert "models pair" in refusal.value.remedy


def test_one_that_is_being_downloaded_or_broke_off(home, cache):
    queue = Queue(home=home)
    queue.enqueue(NAME)
    queue.pause(NAME)
    for text in (NAME, NAME.lower(), f"{NAME}@main"):
        problem = refusal(text, home, cache)
        assert "not downloaded yet: it is paused" in problem.message
        assert problem.remedy.endswith(f"slipstream models pull {NAME}")
    queue.resume(NAME)
    queue.run(Mock(side_effect=Problem("The disk is full.", "Make room.")))
    assert "The disk is full." in refusal(NAME, home, cache).message
    queue.resume(NAME)
    queue.run(lambda *_: None)  # and what came was removed
    assert "is not on this machine" in refusal(NAME, home, cache).message
    cached(cache, "org/mended", model_files() | {"model.safetensors": b""})
    queue.enqueue("org/mended")
    assert "not downloaded yet: it is queued" in refusal("mended", home, cache).message
    partial(cache, NAME)
    problem = refusal("qwen3-4b-4bit", home, cache)
    assert "not whole" in problem.message
    assert problem.remedy.endswith(f"slipstream models pull {NAME}")
    index = b'{"weight_map": {"w": "model.safetensors", "v": "model-2.safetensors"}}'
    cached(cache, NAME, model_files() | {"model.safetensors.index.json": index})
    assert "not whole" in refusal(NAME, home, cache).message


TEXT = st.text(st.sampled_from("aAbB/@.-~"), max_size=8)


@example(text="a", names=["A", "a"])
@given(text=TEXT, names=st.lists(TEXT.filter(bool), max_size=4))
def test_any_text_is_one_of_them_or_a_problem(text, names):
    models = [
        Installed(name, f"/x/{name}", "hub", "chat", 0, None, "llama", 4, 8, True) for name in names
    ]
    if text in names:
        assert find(text, models=models).name == text
        return
    with contextlib.suppress(Problem):
        assert find(text, models=models) in models


def test_a_drafter_that_the_target_brings_and_what_auto_takes(home, monkeypatch):
    """Its own module, else one that is here and was published for it, else nothing with weights."""
    monkeypatch.setenv("SLIPSTREAM_HOME", str(home))
    whole = drafter_layout("mtp-huggingface-inside")
    place = home / "models" / "Qwen3.8-27B-4bit"
    target = ModelFolder(write_drafter(place, whole))
    (asked,) = resolve_drafters("mtp", target).parts
    assert (asked.name, asked.folder.kind, asked.folder.path) == ("mtp", "mtp", place)
    own = resolve_drafters("auto", target)
    assert [part.name for part in own.parts] == ["suffix", "mtp"]
    assert "own MTP module" in own.why

    shutil.rmtree(place)
    trunk = {key: each for key, each in whole.tensors.items() if not key.startswith("mtp.")}
    target = ModelFolder(write_drafter(place, replace(whole, tensors=trunk)))
    with pytest.raises(Problem, match="without an MTP module"):
        resolve_drafters("mtp", target)
    assert [part.name for part in resolve_drafters("auto", target).parts] == ["suffix"]

    folder = module_at(home, "Qwen/Qwen3.8-27B")
    trained = resolve_drafters("auto", target)
    assert [part.folder and part.folder.path for part in trained.parts] == [None, folder]
    assert "trained for the target" in trained.why

    stranger = place.with_name("Another-7B")
    place.rename(stranger)
    assert len(resolve_drafters("auto", ModelFolder(stranger)).parts) == 1

    # (W + G) x (N - 1) rows of a lookahead, 64 at most.
    assert lookahead_sizes("lookahead:16,5,0") == (16, 5, 0)
    assert lookahead_sizes("lookahead:10,5,6") == (10, 5, 6)
    for sizes in ("17,5,0", "10,5,7", "33,3,0"):
        with pytest.raises(Problem, match="64 at most"):
            lookahead_sizes(f"lookahead:{sizes}")
