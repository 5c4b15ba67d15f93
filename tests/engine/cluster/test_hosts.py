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


def test_the_launcher_gets_what_was_read_but_for_this_mac(tmp_path):
    hosts = read_hosts(written(tmp_path, JACCL))
    assert hosts.hosts[1] == ClusterHost("me@mac2", (), ("rdma_en2", None))
    assert json.loads(hosts.to_json()) == JACCL
    given = json.loads(hosts.from_here.to_json())
    assert given["hosts"][0].pop("ssh") == "127.0.0.1"
    assert given["hosts"][1] == JACCL["hosts"][1]
    assert (given["backend"], given["envs"]) == ("jaccl", ["MLX_METAL_FAST_SYNCH=1"])
    assert read_hosts(written(tmp_path, JACCL["hosts"])) == Hosts(hosts.hosts)
    assert read_hosts(written(tmp_path, JACCL | {"backend": "ring"})).backend == "ring"
    hosts = read_hosts(written(tmp_path, [{"ssh": name} for name in ("a", "b", "b")]))
    assert [hosts.name(rank) for rank in range(3)] == ["a", "b (rank 1)", "b (rank 2)"]


@pytest.mark.parametrize(
    "value",
    [
        *("", "[", "1", "[" * 100_000, " " * (1 << 23), "[]", "{}", [{"ssh": "a"}]),
        *([{"ssh": "-v"}] * 2, [{"ssh": "a b"}] * 2, [{"ips": ["1.2.3.4"]}] * 2),
        *([{"ssh": "a", "ips": "1.2.3.4"}] * 2, JACCL | {"backend": "mpi"}, None),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_hostfile_is_refused(tmp_path, value):
    path = tmp_path / "missing.json" if value is None else written(tmp_path, value)
    with pytest.raises(Problem, match=path.stem):
        read_hosts(path)
