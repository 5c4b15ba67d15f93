"""Hostfiles: what mlx.distributed_config writes is taken, all else is refused with a reason."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.cluster.hosts import ClusterHost, Hosts, read_hosts
from models.errors import Problem

RING = {  # as mlx.distributed_config --over thunderbolt --backend ring writes it
    "backend": "ring",
    "envs": [],
    "hosts": [
        {"ssh": "mac1.local", "ips": ["192.168.0.1"], "rdma": []},
        {"ssh": "mac2.local", "ips": ["192.168.0.2"], "rdma": []},
    ],
}
JACCL = {
    "backend": "jaccl",
    "envs": ["MLX_METAL_FAST_SYNCH=1"],
    "hosts": [
        {"ssh": "mac1", "ips": ["10.0.0.1"], "rdma": [None, "rdma_en2", ["rdma_en3", "rdma_en4"]]},
        {"ssh": "mac2", "ips": ["10.0.0.2"], "rdma": ["rdma_en2", None, "rdma_en3"]},
        {"ssh": "me@mac3", "ips": ["10.0.0.3"], "rdma": ["rdma_en2", "rdma_en3", None]},
    ],
}


def written(folder: Path, value: Any) -> Path:
    path = folder / "hosts.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def changed(file: dict[str, Any], rank: int, **changes: Any) -> dict[str, Any]:
    """The hostfile with one Mac's fields changed."""
    hosts = [dict(host) for host in file["hosts"]]
    hosts[rank] |= changes
    return file | {"hosts": hosts}


def test_a_rings_hostfile(tmp_path: Path) -> None:
    path = written(tmp_path, RING)
    assert read_hosts(path) == Hosts(
        path,
        (ClusterHost("mac1.local", ("192.168.0.1",)), ClusterHost("mac2.local", ("192.168.0.2",))),
        "ring",
    )


def test_a_list_of_hosts_alone_is_a_ring(tmp_path: Path) -> None:
    hosts = read_hosts(written(tmp_path, RING["hosts"]))
    assert hosts.backend == "ring"
    assert [host.ssh for host in hosts.each] == ["mac1.local", "mac2.local"]


def test_one_over_ethernet_names_no_backend(tmp_path: Path) -> None:
    assert read_hosts(written(tmp_path, RING | {"backend": ""})).backend == "ring"


def test_devices_of_jaccl(tmp_path: Path) -> None:
    hosts = read_hosts(written(tmp_path, JACCL))
    assert hosts.backend == "jaccl"
    assert hosts.environment == ("MLX_METAL_FAST_SYNCH=1",)
    assert hosts.each[0].rdma == ((), ("rdma_en2",), ("rdma_en3", "rdma_en4"))


def test_addresses_that_rdma_does_without(tmp_path: Path) -> None:
    """mlx.distributed_config writes none where a Mac has nothing but cables."""
    hosts = read_hosts(written(tmp_path, changed(JACCL, 1, ips=[])))
    assert [host.addresses for host in hosts.each] == [("10.0.0.1",), (), ("10.0.0.3",)]
    for file in (changed(JACCL, 0, ips=[]), changed(RING, 1, ips=[])):
        with pytest.raises(Problem, match="no address"):
            read_hosts(written(tmp_path, file))


def test_which_machine_is_this_one() -> None:
    assert [ClusterHost(ssh, ()).is_here for ssh in ("127.0.0.1", "localhost", "mac2")] == [
        True,
        True,
        False,
    ]


REFUSED: list[tuple[Any, str]] = [
    ("{", "JSON"),
    (3, "a number"),
    ({"hosts": []}, "0 Macs"),
    (RING | {"hosts": RING["hosts"][:1]}, "1 Macs"),
    (RING | {"hosts": [RING["hosts"][0]] * 17}, "17 Macs"),
    (RING | {"backend": "mpi"}, "backend"),
    (RING | {"envs": ["nothing"]}, "NAME=value"),
    (RING | {"more": 1}, "more"),
    (changed(RING, 1, ssh="-oProxyCommand=x"), "name of a Mac"),
    (changed(RING, 1, ssh=""), "name of a Mac"),
    (changed(RING, 1, ssh="mac2 reboot"), "name of a Mac"),
    (changed(RING, 1, ssh="mac2\n"), "name of a Mac"),
    (changed(RING, 1, ips=[]), "no address"),
    (changed(RING, 1, ips=["0.0.0.0"]), "IPv4"),
    (changed(RING, 1, ips=["mac2.local"]), "IPv4"),
    (changed(RING, 1, ips=["fe80::1"]), "IPv4"),
    (changed(RING, 1, ips=["192.168.0.2", "192.168.1.2"]), "more addresses"),
    (changed(RING, 1, rdma=[3]), "RDMA"),
    (changed(JACCL, 1, rdma=["rdma_en2", None]), "RDMA"),
    (changed(JACCL, 1, rdma=["rdma_en2", "rdma_en3", None]), "RDMA"),
]


def test_what_is_none_is_refused_with_the_reason(tmp_path: Path) -> None:
    for value, word in REFUSED:
        path = written(tmp_path, value)
        with pytest.raises(Problem) as caught:
            read_hosts(path)
        assert str(path) in caught.value.message
        assert word in caught.value.message, value
        assert "mlx.distributed_config" in caught.value.remedy


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="No such file"):
        read_hosts(tmp_path / "none.json")


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("10.0.0.1"),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["hosts", "ssh", "ips", "rdma", "envs"]), inner)
    ),
    max_leaves=12,
)


@given(value=_VALUES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_anything_else_is_a_problem_or_a_hostfile(tmp_path: Path, value: Any) -> None:
    try:
        hosts = read_hosts(written(tmp_path, value))
    except Problem:
        return
    assert len(hosts.each) >= 2
