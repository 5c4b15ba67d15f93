"""What memory there is, from the files and figures of systems that are written here."""

import pytest

from models.memory.machine import Machine, linux, mac, this_machine
from models.records import Fit

GIB = 1 << 30
OWN = 400_000_000
MEMINFO = "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:   8388608 kB\n"


def put(root, **files):
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_linux_has_what_is_available_less_our_own(tmp_path):
    put(tmp_path, proc__meminfo=MEMINFO)
    machine = linux(tmp_path)
    assert machine.memory_bytes == 16 * GIB
    assert machine.available_bytes == 8 * GIB - OWN
    assert not machine.unified
    assert linux(tmp_path / "nothing").available_bytes == 0


@pytest.mark.parametrize("group", ["", "user/one"])
def test_a_control_group_limits_it(group, tmp_path):
    put(tmp_path, proc__meminfo=MEMINFO, proc__self__cgroup="0::/user/one\n")
    folder = tmp_path / "sys/fs/cgroup" / group
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{4 * GIB}\n")
    (folder / "memory.current").write_text(f"{3 * GIB}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {GIB}\n")
    machine = linux(tmp_path)
    assert machine.memory_bytes == 4 * GIB
    assert machine.available_bytes == 2 * GIB - OWN


def test_others_leave_what_they_do_not_take():
    other = Fit("t", "d", 100, 50, 10, 5, 2, 3, 0, 0, True, "")
    here = Machine("m", 1000, 500, unified=False)
    assert other.needed_bytes == 70
    assert here.beside([other, other]).available_bytes == 500 - 2 * 15, "the weights are gone"
    metal = Machine("m", 1000, 500, unified=True)
    assert metal.beside([other, other]).available_bytes == 500 - 2 * 70, "the limit is for all"
    assert metal.beside([other] * 9).available_bytes == 0


def test_a_control_group_of_the_first_version(tmp_path):
    put(tmp_path, proc__meminfo=MEMINFO, proc__self__cgroup="5:cpu:/\n4:memory:/a\n0::/\n")
    folder = tmp_path / "sys/fs/cgroup/memory/a"
    folder.mkdir(parents=True)
    (folder / "memory.limit_in_bytes").write_text(f"{4 * GIB}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{GIB}\n")
    (folder.parent / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (folder.parent / "memory.usage_in_bytes").write_text(f"{GIB}\n")
    assert linux(tmp_path).available_bytes == 3 * GIB - OWN


def test_a_group_without_a_limit(tmp_path, subtests):
    for limit in ["max", "", "-1", "many", "\u0661"]:
        with subtests.test(limit=limit):
            put(tmp_path, proc__meminfo=MEMINFO, proc__self__cgroup="0::/\nnonsense\n")
            (tmp_path / "sys/fs/cgroup").mkdir(parents=True, exist_ok=True)
            (tmp_path / "sys/fs/cgroup/memory.max").write_text(limit)
            (tmp_path / "sys/fs/cgroup/memory.current").write_text("1")
            assert linux(tmp_path).available_bytes == 8 * GIB - OWN


def test_a_mac_gives_its_graphics_a_share(subtests):
    for memory, limit, available in [
        (16 * GIB, "0", 16 * GIB * 2 // 3),
        (24 * GIB, "", 16 * GIB),
        (36 * GIB, "0", 27 * GIB),
        (128 * GIB, "0", 96 * GIB),
        (16 * GIB, "12288", 12 * GIB),
        (16 * GIB, "999999", 16 * GIB),
    ]:
        with subtests.test(memory=memory, limit=limit):
            machine = mac("Apple M9", {"hw.memsize": str(memory), "iogpu.wired_limit_mb": limit})
            assert machine == Machine("Apple M9", memory, available, unified=True)


def test_what_is_freed_counts_where_free_memory_does():
    assert Machine("x", 8, 4, unified=False).once_freed(2).available_bytes == 6
    assert Machine("x", 8, 4, unified=True).once_freed(2).available_bytes == 4


def test_this_machine():
    machine = this_machine()
    assert 0 < machine.available_bytes < machine.memory_bytes < 1 << 50
