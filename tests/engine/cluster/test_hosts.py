"""Hostfiles: what mlx.distributed_config writes is taken, all else is refused with a reason."""

import json

import pytest

from engine.cluster.hosts import ClusterHost, Hosts, read_hosts
from models.errors import Problem

JACCL = {  # as mlx.distributed_config --over thunderbolt --backend jaccl writes it
    "backend": "jaccl",
    "envs": ["MLX_METAL_FAST_SYNCH=1"],
    "hosts": [
        {"ssh": "mac1", "ips": ["10.0.0.1"], "rdma": [None, ["rdma_en3", "rdma_en4"]]},
        {"ssh": "me@mac2", "ips": [], "rdma": ["rdma_en2", None]},
    ],
}


def written(folder, value):
    path = folder / "hosts.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_a_hostfile_and_a_list_of_hosts(tmp_path):
    macs = read_hosts(written(tmp_path, JACCL)).hosts
    assert macs[1] == ClusterHost("me@mac2", (), ("rdma_en2", None))
    assert read_hosts(written(tmp_path, JACCL["hosts"])) == Hosts(macs)
    assert read_hosts(written(tmp_path, JACCL | {"backend": "ring"})).backend == "ring"


def test_the_launcher_gets_the_same_file_but_for_this_mac(tmp_path):
    hosts = read_hosts(written(tmp_path, JACCL))
    assert json.loads(hosts.to_json()) == JACCL
    given = json.loads(hosts.from_here.to_json())
    assert given["hosts"][0].pop("ssh") == "127.0.0.1"
    assert given["hosts"][1] == JACCL["hosts"][1]
    assert (given["backend"], given["envs"]) == ("jaccl", ["MLX_METAL_FAST_SYNCH=1"])


def test_the_rank_is_named_where_a_mac_runs_several(tmp_path):
    hosts = read_hosts(written(tmp_path, [{"ssh": name} for name in ("a", "b", "b")]))
    assert [hosts.name(rank) for rank in range(3)] == ["a", "b (rank 1)", "b (rank 2)"]


@pytest.mark.parametrize(
    "value",
    [
        *("", "[", "1", "[" * 100_000, " " * (1 << 23), "[]", "{}", [{"ssh": "a"}]),
        *([{"ssh": "-v"}] * 2, [{"ssh": "a b"}] * 2, [{"ips": ["1.2.3.4"]}] * 2),
        *([{"ssh": "a", "ips": "1.2.3.4"}] * 2, JACCL | {"backend": "mpi"}),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_hostfile_is_refused(tmp_path, value):
    with pytest.raises(Problem, match=r"hosts\.json cannot be used"):
        read_hosts(written(tmp_path, value))


def test_a_file_that_cannot_be_read_is_said(tmp_path):
    with pytest.raises(Problem, match="cannot be read: No such file"):
        read_hosts(tmp_path / "missing.json")
