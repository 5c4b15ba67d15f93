"""Files of what was read: their names, what counts as one, who may read them, how many are kept."""

import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

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
    kept_blocks_folder,
    state_name,
    used_ns,
)
from models.files import HOME_VARIABLE
from models.safetensors_file import TensorLayout
from tests.support.mostly_slow import examples

LAYOUTS = [TensorLayout("F32", (1, 2, 4, 3)), TensorLayout("BF16", (1, 2, 4, 3))]
A, B = "a" * 64, "b" * 64
ROOT = Path(__file__).parents[3]


def tensors(seed: int) -> list[bytes]:
    return [
        (hashlib.sha256(bytes([seed, i])).digest() * 4)[: layout.size_bytes]
        for i, layout in enumerate(LAYOUTS)
    ]


def write(blocks: KeptBlocks, names: list[str], documents: tuple[str, ...] = (A,)) -> list[Path]:
    """A chain of blocks, used now."""
    folder, now = blocks.begin(documents), time.time_ns()
    paths = [folder / f"{name}.safetensors" for name in names]
    for i, path in enumerate(paths):
        assert blocks.write(path, LAYOUTS, tensors(i), used_ns=used_ns(i, now=now))
    return paths


def chain(tokens: list[int], of: str = "this") -> list[str]:
    return block_names(of, tokens, rows=4)


def contents(blocks: KeptBlocks, paths: list[Path]) -> list[list[bytes] | None]:
    read = [blocks.read(path, LAYOUTS) for path in paths]
    return [None if each is None else [bytes(part) for part in each] for each in read]


def files(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*/*.safetensors")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "caches" / "kept"


def test_a_name_stands_for_all_tokens_up_to_its_end() -> None:
    tokens = list(range(13))
    names = chain(tokens)
    assert len(names) == 3
    assert chain([*tokens[:8], 99, *tokens[9:]])[:2] == names[:2]
    swapped = chain([*tokens[4:8], *tokens[:4], *tokens[8:]])
    assert not set(swapped) & set(names)
    assert not set(chain(tokens, of="that")) & set(names)
    assert chain([1, 23, 4, 5]) != chain([12, 3, 4, 5])


def test_what_was_written_is_there_for_the_next_process(folder: Path) -> None:
    names = chain(list(range(12)))
    write(KeptBlocks(folder), names)
    again = KeptBlocks(folder)
    found = again.find(names)
    assert [path.stem for path in found] == names
    assert contents(again, found) == [tensors(i) for i in range(3)]
    assert held_bytes(folder) == sum(path.stat().st_size for path in found)


def test_blocks_behind_one_that_is_missing_are_not_found(folder: Path) -> None:
    blocks, names = KeptBlocks(folder), chain(list(range(12)))
    paths = write(blocks, names)
    paths[1].unlink()
    assert blocks.find(names) == paths[:1]


def test_a_state_ends_what_is_found(folder: Path) -> None:
    blocks = KeptBlocks(folder)
    write(blocks, NAMES)
    assert blocks.find(NAMES, state=True) == []
    write(blocks, [state_name(NAMES[1]), state_name(NAMES[3])])
    for asked, found in ((NAMES, 4), (NAMES[:3], 2)):
        names = [*NAMES[:found], state_name(NAMES[found - 1])]
        assert [path.stem for path in blocks.find(asked, state=True)] == names
    assert [path.stem for path in blocks.find(NAMES)] == NAMES


def test_nobody_else_can_read_them(folder: Path) -> None:
    before = os.umask(0o022)
    try:
        paths = write(KeptBlocks(folder), chain(list(range(8))))
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    folders = {folder, *(path.parent for path in paths)}
    assert {stat.S_IMODE(each.stat().st_mode) for each in folders} == {0o700}


def test_backups_are_told_to_leave_them_out(folder: Path) -> None:
    write(KeptBlocks(folder), chain(list(range(8))))
    tag = (folder / "CACHEDIR.TAG").read_bytes()
    assert tag.startswith(b"Signature: 8a477f597d28d172789f06886806bc55")


def test_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    assert kept_blocks_folder().parent == tmp_path
    monkeypatch.delenv(HOME_VARIABLE)
    monkeypatch.setattr("models.files.user_cache_path", lambda *_, **__: tmp_path / "caches")
    assert kept_blocks_folder().parent == tmp_path / "caches"


# Files that are not what was written


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(150))
@given(data=st.data())
def test_a_damaged_file_counts_as_not_there(tmp_path: Path, data: st.DataObject) -> None:
    blocks = KeptBlocks(tmp_path / "kept")
    (path,) = write(blocks, chain(list(range(4))))
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    kind = data.draw(st.sampled_from(["changed", "cut", "longer", "moved", "other"]))
    broken = {
        "changed": whole[:at]
        + bytes([whole[at] ^ data.draw(st.integers(1, 255))])
        + whole[at + 1 :],
        "cut": whole[:at],
        "longer": whole + data.draw(st.binary(min_size=1, max_size=20)),
        "moved": whole[at:] + whole[:at],
        "other": data.draw(st.binary(max_size=200)),
    }[kind]
    path.write_bytes(broken)
    read = contents(blocks, [path])[0]
    if read is None:
        assert not path.exists()
    else:
        # All that may differ is what says nothing: the header's white space and metadata.
        assert read == tensors(0)


def test_a_block_under_another_name_counts_as_not_there(folder: Path) -> None:
    blocks, names = KeptBlocks(folder), chain(list(range(8)))
    one, other = write(blocks, names)
    other.replace(one)
    assert contents(blocks, [one]) == [None]
    assert not one.exists()


def test_a_block_of_other_layouts_counts_as_not_there(folder: Path) -> None:
    blocks = KeptBlocks(folder)
    (path,) = write(blocks, chain(list(range(4))))
    assert blocks.read(path, LAYOUTS[::-1]) is None
    assert not path.exists()


def test_links_and_folders_are_no_blocks(folder: Path, tmp_path: Path) -> None:
    blocks, names = KeptBlocks(folder), chain(list(range(8)))
    one, other = write(blocks, names)
    elsewhere = tmp_path / "elsewhere"
    one.replace(elsewhere)
    one.symlink_to(elsewhere)
    other.unlink()
    other.mkdir()
    assert blocks.find(names) == []
    assert held_bytes(folder) == 0


def test_a_header_that_states_absurd_sizes_is_not_read_whole(folder: Path) -> None:
    blocks = KeptBlocks(folder)
    (path,) = write(blocks, chain(list(range(4))))
    with path.open("r+b") as file:
        file.truncate(1 << 36)  # sparse
    assert blocks.read(path, LAYOUTS) is None
    assert not path.exists()


# How much is kept


def test_what_was_used_longest_ago_goes_first_and_from_its_end(folder: Path) -> None:
    texts = [list(range(12)), list(range(100, 112)), list(range(200, 208))]
    one, other, third = map(chain, texts)
    write(KeptBlocks(folder), one)
    size = held_bytes(folder) // 3
    blocks = KeptBlocks(folder, most_bytes=6 * size)
    write(blocks, other)
    blocks.find(one)
    write(blocks, third)
    assert files(folder) == {*one, other[0], *third}


def test_blocks_that_two_texts_begin_with_stay_as_long_as_one_of_them(folder: Path) -> None:
    blocks = KeptBlocks(folder)
    one, other = chain([*range(8), 1, 1, 1, 1]), chain([*range(8), 2, 2, 2, 2])
    write(blocks, one)
    size = held_bytes(folder) // 3
    last = blocks.find(other)[0].with_name(f"{other[2]}.safetensors")
    used = used_ns(2, now=time.time_ns())
    assert blocks.write(last, LAYOUTS, tensors(2), used_ns=used)
    (new,) = chain([9] * 4)
    write(KeptBlocks(folder, most_bytes=4 * size), [new])
    assert files(folder) == {*other, new}


def test_by_default_a_part_of_the_disk_is_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def free(size: int) -> None:
        usage = type("Usage", (), {"free": size})()
        monkeypatch.setattr(kept_blocks.shutil, "disk_usage", lambda _: usage)

    free(1000)
    assert KeptBlocks(folder).most_bytes == 100
    free(10**12)
    assert KeptBlocks(folder).most_bytes == kept_blocks.MOST_BYTES
    assert KeptBlocks(folder, most_bytes=5).most_bytes == 5


def test_a_full_disk_leaves_no_half_file(folder: Path) -> None:
    blocks = KeptBlocks(folder)
    path = blocks.begin((A,)) / "name.safetensors"

    def failing() -> Any:
        yield tensors(0)[0]
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        blocks.write(path, LAYOUTS, failing(), used_ns=0)
    assert [each.name for each in path.parent.iterdir()] == ["documents.json"]


# Forgetting


def test_a_document_is_forgotten_with_all_that_was_read_with_it(folder: Path) -> None:
    blocks = KeptBlocks(folder)
    alone, both, other = (chain([i] * 4) for i in range(3))
    write(blocks, alone, (A,))
    write(blocks, both, (B, A))
    write(blocks, other, (B,))
    forget(folder, A)
    assert files(folder) == set(other)
    forget(folder, A)
    forget_all(folder)
    forget_all(folder)
    assert not folder.exists()
    forget(folder, B)


def test_the_order_of_documents_makes_no_other_folder(folder: Path) -> None:
    blocks = KeptBlocks(folder)
    assert blocks.begin((A, B)) == blocks.begin((B, A, B)) != blocks.begin((A,))


def test_a_folder_that_does_not_say_whose_it_is_is_forgotten_too(folder: Path) -> None:
    for listed in ("", "{", "[]", "7", json.dumps([B])[:-1]):
        (path,) = write(KeptBlocks(folder), chain([1] * 4), (B,))
        (path.parent / "documents.json").write_text(listed)
        forget(folder, A)
        assert not path.exists(), listed


def test_nothing_is_written_of_a_document_that_was_forgotten(folder: Path) -> None:
    blocks = KeptBlocks(folder)
    path = blocks.begin((A,)) / "name.safetensors"
    forget(folder, A)
    assert not blocks.write(path, LAYOUTS, tensors(0), used_ns=0)
    assert not path.parent.exists()


# Several processes

NAMES = chain(list(range(24)))
_CHILD = f"""
import sys, time
from pathlib import Path
from engine.conversation.kept_blocks import KeptBlocks, forget, used_ns
from models.safetensors_file import TensorLayout
folder, act = Path(sys.argv[1]), sys.argv[2]
LAYOUTS, names, tensors = {LAYOUTS}, {NAMES}, {[tensors(i) for i in range(len(NAMES))]}
blocks = KeptBlocks(folder, most_bytes=3000)
def slowly():
    yield tensors[0][0]
    print("half", flush=True)
    time.sleep(60)
for _ in range(1 if act == "hang" else 15):
    place = blocks.begin(("a" * 64,))
    if act == "forget":
        forget(folder, "a" * 64)
        continue
    for i, name in enumerate(names):
        path = place / (name + ".safetensors")
        given = slowly() if act == "hang" else tensors[i]
        blocks.write(path, LAYOUTS, given, used_ns=used_ns(i, now=time.time_ns()))
        for path in blocks.find(names):
            assert blocks.read(path, LAYOUTS) is not None or not path.exists()
"""


def child(folder: Path, act: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", _CHILD, str(folder), act]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_processes_do_not_disturb_each_other(folder: Path) -> None:
    children = [child(folder, act) for act in ("write", "write", "forget")]
    for each in children:
        _, errors = each.communicate(timeout=120)
        assert each.returncode == 0, errors
    blocks = KeptBlocks(folder, most_bytes=3000)
    assert held_bytes(folder) <= 3000
    found = blocks.find(NAMES)
    assert contents(blocks, found) == [tensors(i) for i in range(len(found))]
    assert not list(folder.glob("*/.*"))


def test_a_process_that_is_killed_leaves_nothing_that_stays(folder: Path) -> None:
    killed = child(folder, "hang")
    assert killed.stdout is not None
    assert killed.stdout.readline() == "half\n"
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert files(folder) == {path.stem for path in folder.glob("*/.*.safetensors")} != set()
    blocks = KeptBlocks(folder)
    assert blocks.find(NAMES) == []
    assert held_bytes(folder) == 0
    write(blocks, NAMES)
    assert not list(folder.glob("*/.*"))
    assert len(blocks.find(NAMES)) == 6
