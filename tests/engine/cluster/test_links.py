"""Which networks others may be on."""

import socket

from engine.cluster.hosts import is_ipv4
from engine.cluster.links import open_network, point_to_point, this_mac


def test_a_cable_is_told_from_a_network() -> None:
    for network, alone in (
        ("127.0.0.1/8", True),
        ("169.254.7.7/16", True),  # a cable between two Macs that was never set up
        ("192.168.0.1/30", True),  # as mlx.distributed_config sets one up
        ("192.168.0.1/31", True),
        ("100.64.0.5/32", False),  # a tunnel's, with anything behind it
        ("192.168.0.1/29", False),
        ("192.168.1.5/24", False),
        ("10.0.0.5/8", False),
    ):
        assert point_to_point(network) is alone, network
        assert open_network(["", "127.0.0.1/8", network]) == ("" if alone else network)


def test_addresses_of_a_ring() -> None:
    addresses = ("10.0.0.1", "0.0.0.0", "fe80::1", "mac2", "")
    assert [each for each in addresses if is_ipv4(each)] == ["10.0.0.1"]


def test_this_mac_says_where_it_is_and_has_a_free_port_there() -> None:
    hello = this_mac(["127.0.0.1"])
    assert hello.networks == ("127.0.0.1/8",)
    assert hello.machine.memory_bytes >= hello.machine.available_bytes > 0
    (port,) = hello.ports
    with socket.socket() as free:
        free.bind(("127.0.0.1", port))


def test_an_address_of_another_machine_is_on_no_network() -> None:
    hello = this_mac(["192.0.2.1", "127.0.0.1"])
    assert hello.networks == ("", "127.0.0.1/8")
    assert len(hello.ports) == 1


def test_free_ports_differ() -> None:
    assert len(set(this_mac(["127.0.0.1"] * 3).ports)) == 3
