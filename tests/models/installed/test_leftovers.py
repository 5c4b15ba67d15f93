"""What broken downloads, imports and removals left is found and cleaned, and nothing else is."""

import os
from pathlib import Path

import pytest
from filelock import FileLock

from models.drafters.folders import module_parts
from models.errors import Problem
from models.files import new_folder
from models.hub.cache_layout import read_repository
from models.hub.queue import Queue
from models.installed import store
from models.model_folder import inspect
from models.starter import MARKER_NAME, STARTER
from tests.support.models.tiny_store import (
    cached,
    clean,
    commit,
    disk_bytes,
    find,
    head_files,
    model_files,
    partial,
    weights,
    write,
)

NAME = "org/Model-4bit"
LONG_AGO = 1_000_000_000


def settled(folder):
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (LONG_AGO, LONG_AGO))
    return folder


def test_what_broken_imports_starters_and_removals_left(home, cache):
    models, drafters = home / "models", home / "drafters"
    with new_folder(models / "tiny") as left:
        pass
    (models / "tiny").rmdir()
    write(left, model_files())
    assert store.incomplete(home=home, cache=cache) == []  # somebody may be at it
    settled(left)
    (found,) = store.incomplete(home=home, cache=cache)
    assert (found.name, found.path) == ("tiny", str(left))
    assert found.size_bytes == disk_bytes(left)
    assert clean(home, cache) == found.size_bytes

    write(models / ".downloads", {"starter.whl.partial": b"x" * 100})
    write(models / STARTER.name, model_files())
    write(models / ".hub", {"mark.json": b"{}"})
    settled(models)
    module = module_parts("org/Model", commit("a"), home=home)
    settled(write(module, {"0123-8-16": b"x" * 8}))
    write(drafters / ".removing-abcd1234" / "head", head_files())
    starters, module = [STARTER.name] * 2, "org/Model/mtp.safetensors"
    names = [one.name for one in store.incomplete(home=home, cache=cache)]
    assert names == [*starters, module, "head"]
    Queue(home=home).enqueue(module)
    names = [one.name for one in store.incomplete(home=home, cache=cache)]
    assert names == [*starters, "head"]
    Queue(home=home).cancel(module)
    clean(home, cache)
    assert [path.name for path in models.iterdir()] == [".hub"]
    assert list(drafters.iterdir()) == []


def test_what_is_made_again_or_whole_by_now_is_left_alone(home, cache):
    starter = settled(write(home / "models" / STARTER.name, model_files()))
    building = settled(write(home / "models" / ".tiny.building", model_files()))
    left = store.incomplete(home=home, cache=cache)
    assert len(left) == 2
    (starter / MARKER_NAME).write_text(STARTER.gguf_sha256)
    os.utime(building)
    for one in left:
        with pytest.raises(Problem, match="any more"):
            store.remove_incomplete(one, home=home, cache=cache)
    assert sorted(home.joinpath("models").iterdir()) == [building, starter]


@pytest.mark.parametrize("why", ["never a snapshot", "half removed", "empty", "links lead nowhere"])
def test_a_repository_without_a_model(home, cache, why):
    size_bytes = None
    if why == "never a snapshot":
        left = partial(cache, NAME)
        (left.parent / ("f" * 64)).write_bytes(b"x" * 70)
        (left.parent.parent / "snapshots").mkdir()
        size_bytes = 570
    elif why == "half removed":
        snapshot = cached(cache, NAME, model_files())
        snapshot.rename(snapshot.with_name(f"removing-{snapshot.name}"))
    elif why == "empty":
        (cache / "models--org--Model-4bit" / "blobs").mkdir(parents=True)
        size_bytes = 0
    else:
        (cached(cache, NAME, model_files()) / "model.safetensors").resolve().unlink()
    assert not any(one.origin == "hub" for one in store.installed(home=home, cache=cache))
    (found,) = store.incomplete(home=home, cache=cache)
    assert found.name == NAME
    assert size_bytes in (None, found.size_bytes)
    assert clean(home, cache) == found.size_bytes
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("how", ["absolute links", "hidden snapshot", "through a link", "copies"])
def test_blobs_in_use_are_never_taken_for_left_over(home, cache, tmp_path, how):
    snapshot = cached(cache, NAME, model_files())
    (tmp_path / "link").symlink_to(cache)
    for link in snapshot.iterdir():
        blob = link.resolve()
        if how == "absolute links":
            link.unlink()
            link.symlink_to(blob)
        if how == "copies":
            link.unlink()
            os.link(blob, link)
    if how == "hidden snapshot":
        snapshot.rename(snapshot.with_name(".kept"))
    place = tmp_path / "link" if how in ("absolute links", "through a link") else cache
    assert store.incomplete(home=home, cache=place) == []
    left = store.Incomplete(NAME, str(place / snapshot.parent.parent.name), 0)
    assert store.remove_incomplete(left, home=home, cache=place) == 0
    assert len(list((snapshot.parent.parent / "blobs").iterdir())) == 3


def test_partial_files_and_a_broken_snapshot_beside_a_whole_model(home, cache):
    whole = cached(cache, NAME, model_files(), main=False)
    left = partial(cache, NAME)
    blob = left.with_name("f" * 64)  # of a revision of which other files are still to come
    blob.write_bytes(b"x" * 70)
    (found,) = store.incomplete(home=home, cache=cache)
    assert (found.name, found.size_bytes) == (NAME, 570)
    assert clean(home, cache) == 570
    assert not left.exists()
    assert not blob.exists()
    index = b'{"weight_map": {"w": "model-1.safetensors", "v": "model-2.safetensors"}}'
    files = {name: data for name, data in model_files().items() if name != "model.safetensors"}
    files |= {"model.safetensors.index.json": index, "model-1.safetensors": weights()}
    broken = cached(cache, NAME, files, revision=commit("b"))
    assert find(NAME, home, cache).path == str(whole)
    (found,) = store.incomplete(home=home, cache=cache)
    assert found.name == NAME
    clean(home, cache)
    assert not broken.exists()
    assert inspect(whole)


def test_what_is_not_ours_or_may_not_be_read_is_left_alone(home, cache, tmp_path, monkeypatch):
    cached(cache, "org/bert", model_files(model_type="bert", architectures=["BertForMaskedLM"]))
    partial(cache, "org/bert")
    snapshot = cached(cache, NAME, model_files())
    shared = write(cache / "blobs" / "ee", {"e" * 64: b"x"}) / ("e" * 64)
    (snapshot.parent.parent / "blobs" / ("f" * 64)).symlink_to(shared)
    assert store.incomplete(home=home, cache=cache) == []
    elsewhere = store.Incomplete("x", str(write(tmp_path / "x" / "y", {"z": b""})), 0)
    with pytest.raises(Problem, match="not in a folder of Slipstream"):
        store.remove_incomplete(elsewhere, home=home, cache=cache)
    scan = os.scandir

    def refuse(path):
        if Path(path) == snapshot:
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert store.incomplete(home=home, cache=cache) == []
    with pytest.raises(OSError, match="Permission denied"):
        read_repository(snapshot.parent.parent)


def test_what_somebody_downloads_into_is_left_alone(home, cache, tmp_path):
    left = partial(cache, NAME)
    lock = cache / ".locks" / left.parent.parent.name / f"{'d' * 64}.lock"
    lock.parent.mkdir(parents=True)
    (found,) = store.incomplete(home=home, cache=cache)

    def refuse(*_):
        with pytest.raises(Problem):
            store.remove_incomplete(found, home=home, cache=cache)
        assert left.exists()

    with FileLock(lock):
        assert store.incomplete(home=home, cache=cache) == []
        refuse()
    queue = Queue(home=home)
    for queued in (NAME.lower(), f"{NAME}/a.gguf"):
        queue.enqueue(queued)
        assert store.incomplete(home=home, cache=cache) == []
        queue.cancel(queued)
    queue.enqueue(NAME)
    queue.run(refuse)
    # One that cannot be cleaned does not keep the others.
    left.parent.rename(tmp_path / "blobs")
    left.parent.symlink_to(tmp_path / "blobs")
    partial(cache, "org/b")
    first, second = store.incomplete(home=home, cache=cache)
    with pytest.raises(Problem, match="link"):
        store.remove_incomplete(first, home=home, cache=cache)
    store.remove_incomplete(second, home=home, cache=cache)
    assert (tmp_path / "blobs" / left.name).exists()
    assert not (cache / "models--org--b").exists()
