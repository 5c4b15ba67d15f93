"""What is removed is gone, what others need stays, and a kill leaves nothing that looks whole; what
broken downloads, imports and removals left is found and cleaned, and nothing else is.
"""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock, Timeout
from huggingface_hub import scan_cache_dir

from models.drafters.folders import module_parts
from models.errors import Problem
from models.files import new_folder
from models.hub.cache_layout import read_repository
from models.hub.marks import mark, mark_path
from models.hub.queue import FILE_NAME, Queue
from models.installed import added_folders, removal, store
from models.installed.last_used import last_used, mark_used
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
    refuse,
    weights,
    write,
)
from tests.support.mostly_slow import mostly_slow

NAME = "org/Model-4bit"


def test_ours(home, cache):
    for place, files in (("models", model_files()), ("drafters", head_files())):
        folder = write(home / place / "a", files)
        other = write(home / place / "b", model_files())
        size = disk_bytes(folder)
        mark_used(folder, home=home)
        assert store.remove(find("a", home, cache), home=home, cache=cache) == size
        assert not folder.exists()
        assert sorted(path.name for path in (home / place).iterdir()) == [other.name]
        assert last_used(folder, home=home) is None
        shutil.rmtree(other)


def test_one_revision_of_two_and_then_the_whole_repository(home, cache):
    old = cached(cache, NAME, model_files(), revision=commit("a"), main=False)
    main = cached(cache, NAME, model_files(vocab_size=65), revision=commit("b"))
    cached(cache, "org/other", model_files())
    config_size = (main / "config.json").stat().st_size
    freed = store.remove(find(NAME, home, cache), home=home, cache=cache)
    assert freed == config_size, "of all else the other one has the same"
    assert (old.exists(), main.exists()) == (True, False)
    assert not scan_cache_dir(cache).warnings
    model = find(NAME, home, cache)
    assert model.path == str(old)
    mark(old, {path.name: path.resolve().name for path in old.iterdir()}, home=home)
    left = partial(cache, NAME)
    freed = store.remove(model, home=home, cache=cache)
    assert freed == model.size_bytes + 500
    assert not left.parent.parent.exists()
    assert not mark_path(old, home=home).exists()
    hub = [one.name for one in store.installed(home=home, cache=cache) if one.origin == "hub"]
    assert hub == ["org/other"]
    assert store.incomplete(home=home, cache=cache) == []


def test_a_gguf_model_that_is_split_goes_with_all_its_files(home, cache):
    split = {f"a-0000{number}-of-00002.gguf": b"%d" % number * 10 for number in (1, 2)}
    snapshot = cached(cache, NAME, {**split, "b.gguf": b"b" * 20})
    first = find(f"{NAME}/a-00001-of-00002.gguf", home, cache)
    assert first.size_bytes == 20
    assert store.remove(first, home=home, cache=cache) == 20
    assert [path.name for path in snapshot.iterdir()] == ["b.gguf"]
    assert store.remove(find(f"{NAME}/b.gguf", home, cache), home=home, cache=cache) == 20
    assert list(cache.glob("models--*")) == []


def test_payloads_shared_by_repositories_stay_until_the_last_one(home, cache):
    """The hub's own tools may keep one payload for several repositories, with a list of links."""
    payload, digest = weights(5_000), "e" * 64
    shared = cache / "blobs" / digest[:2] / digest
    snapshots = []
    for name in ("org/a", "org/b"):
        snapshot = cached(cache, name, model_files())
        blob = (snapshot / "model.safetensors").resolve()
        write(shared.parent, {digest: payload})
        blob.unlink()
        blob.symlink_to(os.path.relpath(shared, blob.parent))
        snapshots.append(blob)
    (cache / "blobs" / ".huggingface-shared-blobs").write_text("1\n")
    links = [os.path.relpath(blob, cache) for blob in snapshots]
    shared.with_name(f"{digest}.refs").write_text("".join(f"{link}\n" for link in links))
    first = store.remove(find("org/a", home, cache), home=home, cache=cache)
    assert shared.read_bytes() == payload
    assert inspect(Path(find("org/b", home, cache).path))
    second = store.remove(find("org/b", home, cache), home=home, cache=cache)
    assert second - first == len(payload)
    assert not shared.exists()


def test_what_is_not_ours_is_refused(home, cache, tmp_path):
    disk, models, outside = tmp_path / "disk", home / "models", tmp_path / "outside"
    folders = [
        write(disk / "model", model_files()),
        cached(disk / "hub", NAME, model_files()),
        write(models / "b", model_files()),
        write(models / "c", model_files()),
        write(outside, model_files()),
    ]
    added_folders.add_folder(disk, home=home)
    (models / "a link").symlink_to(models / "b")
    (models / "a link out").symlink_to(outside)
    told = {each.name: each for each in store.installed(home=home, cache=cache)}
    inside_by_its_words = models / "c" / ".." / ".." / ".." / "outside"
    for model, refused in (
        (told["model"], "that you added"),
        (told[NAME], "that you added"),
        (told["a link"], "is a link"),
        (told["a link out"], "is a link"),
        (replace(told["c"], path=str(outside)), None),
        (replace(told["c"], path=str(inside_by_its_words)), None),
    ):
        assert model.removable == (not refused)
        with pytest.raises(Problem, match=refused):
            store.remove(model, home=home, cache=cache)
        assert all(map(inspect, folders))


@pytest.mark.parametrize(
    "what", ["repository", "blobs", "file", "other repository", "gguf", "snapshot"]
)
def test_links_that_lead_out_of_the_cache_are_refused(home, cache, tmp_path, what):
    snapshot = cached(cache, NAME, model_files(), main=False)
    precious = write(tmp_path / "precious", {"model.safetensors": weights()})
    weights_of_it = snapshot / "model.safetensors"
    if what == "snapshot":
        snapshot.rename(tmp_path / "moved")
        snapshot.symlink_to(tmp_path / "moved")  # now the links in it lead nowhere
        with pytest.raises(Problem, match="link"):
            clean(home, cache)
        assert snapshot.is_symlink()
        assert len(list((tmp_path / "moved").iterdir())) == len(model_files())
        return
    cached(cache, NAME, model_files(vocab_size=65), revision=commit("b"))
    repository, name = snapshot.parent.parent, f"{NAME}@aaaaaaaa"
    if what in ("repository", "blobs"):
        moved = repository / "blobs" if what == "blobs" else repository
        moved.rename(tmp_path / "moved")
        moved.symlink_to(tmp_path / "moved")
    elif what == "file":
        weights_of_it.unlink()
        weights_of_it.symlink_to(precious / "model.safetensors")
    elif what == "gguf":
        name = "org/files/a.gguf"
        link = cached(cache, "org/files", {"b.gguf": b"b"}) / "a.gguf"
        link.symlink_to(precious / "model.safetensors")
    else:
        other = cached(cache, "org/other", {"x": weights()}) / "x"
        weights_of_it.unlink()
        weights_of_it.symlink_to(os.path.relpath(other.resolve(), snapshot))
    before = disk_bytes(tmp_path)
    model = find(name, home, cache)
    with pytest.raises(Problem, match="link"):
        store.remove(model, home=home, cache=cache)
    assert disk_bytes(tmp_path) == before
    assert find(name, home, cache).problem == model.problem


def test_what_cannot_be_removed_is_explained(home, cache, monkeypatch):
    cached(cache, NAME, model_files())
    write(home / "models" / "a", model_files())
    models = [find(name, home, cache) for name in (NAME, "a")]

    def no_rename(*_):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", no_rename)
        for model in models:
            with pytest.raises(Problem, match="Permission denied"):
                store.remove(model, home=home, cache=cache)
            assert inspect(Path(model.path))
    (repository,) = scan_cache_dir(cache).repos
    assert repository.refs.keys() == {"main"}
    shutil.rmtree(models[1].path)
    with pytest.raises(Problem, match="any more"):
        store.remove(models[1], home=home, cache=cache)
    with monkeypatch.context() as patch:
        patch.setattr(removal.DeleteCacheStrategy, "execute", lambda self: None)
        with pytest.raises(Problem, match="could not be deleted"):
            store.remove(models[0], home=home, cache=cache)
    snapshot = cached(cache, "org/odd", model_files())
    (snapshot.parent / "stray").write_text("")  # with which the hub's library reads no repository
    with pytest.raises(Problem, match="stray"):
        store.remove(find("org/odd", home, cache), home=home, cache=cache)
    assert not any(one.name == "org/odd" for one in store.installed(home=home, cache=cache))


def test_a_model_is_not_removed_while_it_is_downloaded(home, cache):
    snapshot = cached(cache, NAME, model_files())
    model = find(NAME, home, cache)
    left = partial(cache, NAME)
    lock = cache / ".locks" / left.parent.parent.name / f"{'d' * 64}.lock"
    lock.parent.mkdir(parents=True)
    with FileLock(lock), pytest.raises(Problem, match="is being downloaded"):
        store.remove(model, home=home, cache=cache)
    left.unlink()

    def fetch(*_):
        with pytest.raises(Problem, match="is being downloaded") as refused:
            store.remove(model, home=home, cache=cache)
        assert refused.value.remedy.endswith(f"--pause {name}")

    queue, name = Queue(home=home), f"{NAME.upper()}/a.gguf"
    queue.enqueue(name)
    queue.run(fetch)
    assert inspect(snapshot)
    store.remove(model, home=home, cache=cache)


def test_no_download_begins_while_files_are_deleted(home, cache, monkeypatch):
    cached(cache, NAME, model_files())
    write(home / "models" / ".removing-abcd1234" / "a", model_files())
    partial(cache, "org/b")
    held, rmtree = [], shutil.rmtree

    def held_back(path, *arguments, **settings):
        with pytest.raises(Timeout):
            FileLock(home / f".{FILE_NAME}.lock").acquire(timeout=0)
        held.append(Path(path).name)
        rmtree(path, *arguments, **settings)

    monkeypatch.setattr(shutil, "rmtree", held_back)
    store.remove(find(NAME, home, cache), home=home, cache=cache)
    clean(home, cache)
    assert held == ["models--org--Model-4bit", ".removing-abcd1234", "models--org--b"]


STEPS = """
import os, sys
from pathlib import Path
from models.installed import store

def remove(last, name, home, cache):
    model = next(one for one in store.installed(home=home, cache=cache) if one.name == name)
    done = 0
    def step(event, arguments):
        nonlocal done
        if event in ("os.rename", "os.remove", "os.rmdir", "shutil.rmtree"):
            done += 1
            if done == last:
                os.kill(os.getpid(), 9)
    sys.addaudithook(step)
    store.remove(model, home=home, cache=cache)

for line in sys.stdin:
    last, name, home, cache = line.split()
    child = os.fork()
    if not child:
        remove(int(last), name, Path(home), Path(cache))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@contextmanager
def killing():
    """Removes a model in a process that is killed before its step on the disk of that number.

    What it imports is imported once: it is forked from a process that has all.
    """
    command = [sys.executable, "-c", STEPS]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as parent:
        assert parent.stdin
        assert parent.stdout
        stdin, stdout = parent.stdin, parent.stdout

        def killed_at(step, name, home, cache):
            print(step, name, home, cache, file=stdin, flush=True)
            code = int(stdout.readline())
            assert code in (0, -9)
            return code == -9

        yield killed_at


@pytest.mark.parametrize(
    "steps", mostly_slow([[2, 5], list(range(1, 40))], quick=[[2, 5]]), ids=["two", "all"]
)
def test_killed_while_removing(home, cache, steps):
    with killing() as killed_at:
        for step in steps:
            for folder in (home, cache):
                shutil.rmtree(folder, ignore_errors=True)
            write(home / "models" / "a", model_files())
            old = cached(cache, NAME, model_files(), revision=commit("a"), main=False)
            cached(cache, NAME, model_files(vocab_size=65), revision=commit("b"))
            snapshot = cached(cache, "org/single", model_files())
            for name, path in (
                ("a", home / "models" / "a"),
                (f"{NAME}@aaaaaaaa", old),
                ("org/single", snapshot),
            ):
                assert killed_at(step, name, home, cache) or step > 3
                names = {one.name: one for one in store.installed(home=home, cache=cache)}
                if name in names:  # then nothing of it is gone yet
                    assert not names[name].problem
                    assert inspect(path).model_type == "llama"
                    store.remove(names[name], home=home, cache=cache)
                clean(home, cache)
                assert not path.exists()
            assert store.incomplete(home=home, cache=cache) == []
            assert {path.name for path in (home / "models").iterdir()} <= {".hub"}
            assert [path.name for path in cache.glob("models--*")] == ["models--org--Model-4bit"]
            assert find(NAME, home, cache).problem == ""
            (repository,) = scan_cache_dir(cache).repos
            assert repository.nb_files == 3  # no blob is left that nothing needs


# What broken downloads, imports and removals left


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
    refuse(monkeypatch, os, "scandir", snapshot)
    assert store.incomplete(home=home, cache=cache) == []
    with pytest.raises(OSError, match="Permission denied"):
        read_repository(snapshot.parent.parent)


def test_what_somebody_downloads_into_is_left_alone(home, cache, tmp_path):
    left = partial(cache, NAME)
    lock = cache / ".locks" / left.parent.parent.name / f"{'d' * 64}.lock"
    lock.parent.mkdir(parents=True)
    (found,) = store.incomplete(home=home, cache=cache)

    def is_refused(*_):
        with pytest.raises(Problem):
            store.remove_incomplete(found, home=home, cache=cache)
        assert left.exists()

    with FileLock(lock):
        assert store.incomplete(home=home, cache=cache) == []
        is_refused()
    queue = Queue(home=home)
    for queued in (NAME.lower(), f"{NAME}/a.gguf"):
        queue.enqueue(queued)
        assert store.incomplete(home=home, cache=cache) == []
        queue.cancel(queued)
    queue.enqueue(NAME)
    queue.run(is_refused)
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
