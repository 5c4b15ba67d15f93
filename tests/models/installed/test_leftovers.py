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


def test_what_broken_imports_left(home, cache):
    with new_folder(home / "models" / "tiny") as left:
        pass
    (home / "models" / "tiny").rmdir()
    write(left, model_files())
    assert store.incomplete(home=home, cache=cache) == []  # somebody may be at it
    settled(left)
    (found,) = store.incomplete(home=home, cache=cache)
    assert (found.name, found.path) == ("tiny", str(left))
    assert found.size_bytes == disk_bytes(left)
    assert clean(home, cache) == found.size_bytes
    assert list((home / "models").iterdir()) == []


def test_what_a_broken_starter_left(home, cache):
    write(home / "models" / ".downloads", {"starter.whl.partial": b"x" * 100})
    write(home / "models" / STARTER.name, model_files())
    write(home / "models" / ".hub", {"mark.json": b"{}"})
    settled(home / "models")
    found = store.incomplete(home=home, cache=cache)
    assert [one.name for one in found] == [STARTER.name, STARTER.name]
    clean(home, cache)
    assert [path.name for path in (home / "models").iterdir()] == [".hub"]


def test_what_broken_modules_and_removals_of_drafters_left(home, cache):
    parts = module_parts("org/Model", commit("a"), home=home)
    settled(write(parts, {"0123-8-16": b"x" * 8}))
    write(home / "drafters" / ".removing-abcd1234" / "head", head_files())
    names = [one.name for one in store.incomplete(home=home, cache=cache)]
    assert names == ["org/Model/mtp.safetensors", "head"]
    Queue(home=home).enqueue(names[0])
    assert [one.name for one in store.incomplete(home=home, cache=cache)] == ["head"]
    Queue(home=home).cancel(names[0])
    clean(home, cache)
    assert list((home / "drafters").iterdir()) == []


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


def never_a_snapshot(cache):
    left = partial(cache, NAME)
    (left.parent / ("f" * 64)).write_bytes(b"x" * 70)
    (left.parent.parent / "snapshots").mkdir()
    return 570


def half_removed(cache):
    snapshot = cached(cache, NAME, model_files())
    snapshot.rename(snapshot.with_name(f"removing-{snapshot.name}"))


def empty_folders(cache):
    (cache / "models--org--Model-4bit" / "blobs").mkdir(parents=True)
    return 0


def links_that_lead_nowhere(cache):
    (cached(cache, NAME, model_files()) / "model.safetensors").resolve().unlink()


@pytest.mark.parametrize(
    "leave", [never_a_snapshot, half_removed, empty_folders, links_that_lead_nowhere]
)
def test_a_repository_without_a_model(home, cache, leave):
    size_bytes = leave(cache)
    assert not any(one.origin == "hub" for one in store.installed(home=home, cache=cache))
    (found,) = store.incomplete(home=home, cache=cache)
    assert found.name == NAME
    assert size_bytes in (None, found.size_bytes)
    assert clean(home, cache) == found.size_bytes
    assert list(cache.iterdir()) == []


def test_partial_files_beside_a_whole_model(home, cache):
    snapshot = cached(cache, NAME, model_files())
    left = partial(cache, NAME)
    whole = left.with_name("f" * 64)  # of a revision of which other files are still to come
    whole.write_bytes(b"x" * 70)
    (found,) = store.incomplete(home=home, cache=cache)
    assert (found.name, found.size_bytes) == (NAME, 570)
    assert clean(home, cache) == 570
    assert not left.exists()
    assert not whole.exists()
    assert inspect(snapshot)


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


def test_a_snapshot_that_may_not_be_read_is_not_taken_for_empty(home, cache, monkeypatch):
    snapshot = cached(cache, NAME, model_files())
    scan = os.scandir

    def refuse(path):
        if Path(path) == snapshot:
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert store.incomplete(home=home, cache=cache) == []
    with pytest.raises(OSError, match="Permission denied"):
        read_repository(snapshot.parent.parent)


def test_a_snapshot_that_lacks_weights(home, cache):
    index = b'{"weight_map": {"w": "model-1.safetensors", "v": "model-2.safetensors"}}'
    files = {name: data for name, data in model_files().items() if name != "model.safetensors"}
    files |= {"model.safetensors.index.json": index, "model-1.safetensors": weights()}
    broken = cached(cache, NAME, files, revision=commit("b"))
    whole = cached(cache, NAME, model_files(), revision=commit("a"), main=False)
    assert find(NAME, home, cache).path == str(whole)
    (found,) = store.incomplete(home=home, cache=cache)
    assert found.name == NAME
    clean(home, cache)
    assert not broken.exists()
    assert inspect(whole)


def test_what_is_not_ours_is_left_alone(home, cache):
    cached(cache, "org/bert", model_files(model_type="bert", architectures=["BertForMaskedLM"]))
    partial(cache, "org/bert")
    snapshot = cached(cache, NAME, model_files())
    shared = write(cache / "blobs" / "ee", {"e" * 64: b"x"}) / ("e" * 64)
    (snapshot.parent.parent / "blobs" / ("f" * 64)).symlink_to(shared)
    assert store.incomplete(home=home, cache=cache) == []


def test_what_somebody_downloads_into_is_left_alone(home, cache):
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
    queue.enqueue(NAME)
    queue.run(refuse)
    assert clean(home, cache) == 500


def test_one_that_cannot_be_cleaned_does_not_keep_the_others(home, cache, tmp_path):
    cached(cache, "org/a", model_files())
    left = partial(cache, "org/a")
    left.parent.rename(tmp_path / "blobs")
    left.parent.symlink_to(tmp_path / "blobs")
    partial(cache, "org/b")
    first, second = store.incomplete(home=home, cache=cache)
    with pytest.raises(Problem, match="link"):
        store.remove_incomplete(first, home=home, cache=cache)
    store.remove_incomplete(second, home=home, cache=cache)
    assert (tmp_path / "blobs" / left.name).exists()
    assert not (cache / "models--org--b").exists()


def test_leftovers_elsewhere_are_refused(home, cache, tmp_path):
    (found,) = [store.Incomplete("x", str(write(tmp_path / "x" / "y", {"z": b""})), 0)]
    with pytest.raises(Problem, match="not in a folder of Slipstream"):
        store.remove_incomplete(found, home=home, cache=cache)
