"""Files of kept caches: their names, which count as whole, who may read them, how many are kept."""

import itertools
import json
import os
import signal
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.conversation import kept_blocks
from engine.conversation.kept_blocks import (
    KeptBlocks,
    block_names,
    forget,
    forget_all,
    held_bytes,
    state_name,
    used_ns,
)
from models.files import locked
from tests.support.mostly_slow import examples

A, B = "a" * 64, "b" * 64
ROOT = Path(__file__).parents[3]
SIZE = 200


def put(blocks, path, number=0, *, used_ns=0):
    def save(to):
        to.write_bytes(bytes([number]) * SIZE)

    return blocks.write(path, save, size_bytes=SIZE, used_ns=used_ns)


def write(blocks, names, documents=(A,)):
    """A chain of blocks, used now."""
    folder, now = blocks.begin(documents), kept_blocks.time_ns()
    paths = [folder / f"{name}.safetensors" for name in names]
    for i, path in enumerate(paths):
        assert put(blocks, path, i, used_ns=used_ns(i, now=now))
    return paths


def chain(tokens, of="this"):
    return block_names(of, tokens, rows=4)


def files(folder):
    return {path.stem for path in folder.glob("*/*.safetensors")}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "caches" / "kept"


NAMES = chain(list(range(24)))


def test_a_name_depends_on_all_tokens_up_to_its_end():
    tokens = list(range(13))
    names = chain(tokens)
    assert len(names) == 3
    assert chain([*tokens[:8], 99, *tokens[9:]])[:2] == names[:2]
    swapped = chain([*tokens[4:8], *tokens[:4], *tokens[8:]])
    assert not set(swapped) & set(names)
    assert not set(chain(tokens, of="that")) & set(names)
    assert chain([1, 23, 4, 5]) != chain([12, 3, 4, 5])


def test_a_state_ends_the_blocks_that_are_found(folder):
    blocks = KeptBlocks(folder)
    write(blocks, NAMES)
    assert blocks.find(NAMES, state=True) == []
    write(blocks, [state_name(NAMES[1]), state_name(NAMES[3])])
    for asked, found in ((NAMES, 4), (NAMES[:3], 2)):
        names = [*NAMES[:found], state_name(NAMES[found - 1])]
        assert [path.stem for path in blocks.find(asked, state=True)] == names
    assert [path.stem for path in blocks.find(NAMES)] == NAMES


def test_only_the_user_can_read_them_and_backups_skip_them(folder):
    before = os.umask(0o022)
    try:
        paths = write(KeptBlocks(folder), NAMES[:2])
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    folders = {folder, *(path.parent for path in paths)}
    assert {stat.S_IMODE(each.stat().st_mode) for each in folders} == {0o700}
    tag = (folder / "CACHEDIR.TAG").read_bytes()
    assert tag.startswith(b"Signature: 8a477f597d28d172789f06886806bc55")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
@given(at=st.integers(0, SIZE + 31), bit=st.integers(0, 7), more=st.binary(min_size=1))
def test_a_damaged_file_is_deleted(tmp_path, at, bit, more):
    blocks = KeptBlocks(tmp_path / "kept")
    (path,) = write(blocks, NAMES[:1])
    whole = path.read_bytes()
    changed = bytes([*whole[:at], whole[at] ^ 1 << bit, *whole[at + 1 :]])
    for damaged in (changed, whole[:at], whole + more, more):
        path.write_bytes(damaged)
        assert not blocks.is_whole(path)
        assert not path.exists()


def test_blocks_of_another_name_links_and_folders_are_none(folder, tmp_path):
    blocks = KeptBlocks(folder)
    one, other = write(blocks, NAMES[:2])
    other.replace(one)
    assert not blocks.is_whole(one)
    assert not one.exists()
    assert not blocks.is_whole(one), "it is gone"
    (one,) = write(blocks, NAMES[:1])
    one.replace(tmp_path / "elsewhere")
    one.symlink_to(tmp_path / "elsewhere")
    other.mkdir()
    assert blocks.find(NAMES[:2]) == []
    assert held_bytes(folder) == 0


def test_the_block_that_was_used_longest_ago_goes_first_and_from_its_end(folder, monkeypatch):
    monkeypatch.setattr(kept_blocks, "time_ns", partial(next, itertools.count(10**18, 100_000)))
    texts = [list(range(12)), list(range(100, 112)), list(range(200, 208))]
    one, other, third = map(chain, texts)
    write(KeptBlocks(folder), one)
    size = held_bytes(folder) // 3
    blocks = KeptBlocks(folder, most_bytes=6 * size)
    write(blocks, other)
    blocks.find(one)
    write(blocks, third)
    assert files(folder) == {*one, other[0], *third}


def test_by_default_a_part_of_the_disk_is_used(folder, monkeypatch):
    for free, most in ((1000, 100), (10**12, kept_blocks.MOST_BYTES)):
        usage = type("Usage", (), {"free": free})()
        monkeypatch.setattr(kept_blocks.shutil, "disk_usage", lambda _, usage=usage: usage)
        assert KeptBlocks(folder).most_bytes == most
    assert KeptBlocks(folder, most_bytes=5).most_bytes == 5


def test_a_document_is_begun_beside_writers_and_forgotten_with_all_blocks_that_it_is_in(folder):
    blocks = KeptBlocks(folder)
    made = blocks.begin((A, B))
    with locked(folder, seconds=0):
        assert blocks.begin((B, A, B)) == made
    assert blocks.begin((A,)) != made
    alone, both, other = (chain([i] * 4) for i in range(3))
    write(blocks, alone, (A,))
    write(blocks, both, (B, A))
    (kept,) = write(blocks, other, (B,))
    forget(folder, A)
    assert files(folder) == set(other)
    forget(folder, A)
    for listed in ("", "{", "[]", "7", json.dumps([B])[:-1]):  # its owner is unknown
        (kept.parent / "documents.json").write_text(listed)
        forget(folder, A)
        assert not kept.exists(), listed
        assert not put(blocks, kept), "its folder was deleted"
        write(blocks, other, (B,))
    forget_all(folder)
    forget_all(folder)
    assert not folder.exists()
    forget(folder, B)


_CHILD = f"""
import sys, time
from pathlib import Path
from engine.conversation.kept_blocks import KeptBlocks, forget, used_ns
folder, act = Path(sys.argv[1]), sys.argv[2]
blocks, names = KeptBlocks(folder, most_bytes=1000), {NAMES}
def save(path):
    path.write_bytes(bytes([i]) * {SIZE})
def hang(path):
    path.write_bytes(b"half")
    print("half", flush=True)
    time.sleep(60)
for _ in range(1 if act == "hang" else 8):
    place = blocks.begin(("a" * 64,))
    if act == "forget":
        forget(folder, "a" * 64)
        continue
    for i, name in enumerate(names):
        path, used = place / (name + ".safetensors"), used_ns(i, now=time.time_ns())
        blocks.write(path, hang if act == "hang" else save, size_bytes={SIZE}, used_ns=used)
        for path in blocks.find(names):
            assert blocks.is_whole(path) or not path.exists()
"""


def child(folder, act):
    command = [sys.executable, "-c", _CHILD, str(folder), act]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)


def test_processes_do_not_disturb_each_other(folder):
    children = [child(folder, act) for act in ("write", "write", "forget")]
    for each in children:
        _, errors = each.communicate(timeout=120)
        assert each.returncode == 0, errors
    blocks = KeptBlocks(folder, most_bytes=1000)
    assert held_bytes(folder) <= 1000 + 32
    found = blocks.find(NAMES)
    for number, path in enumerate(found):
        assert path.read_bytes()[:SIZE] == bytes([number]) * SIZE
    assert not list(folder.glob("*/.*"))


def test_a_process_that_is_killed_leaves_nothing_that_stays(folder):
    killed = child(folder, "hang")
    assert killed.stdout.readline() == "half\n"
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert files(folder) == {path.stem for path in folder.glob("*/.*.safetensors")} != set()
    blocks = KeptBlocks(folder)
    assert blocks.find(NAMES) == []
    assert held_bytes(folder) == 0
    write(blocks, NAMES[1:])
    assert not list(folder.glob("*/.*"))
