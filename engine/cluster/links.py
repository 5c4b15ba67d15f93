"""Finds out which networks a Mac's own addresses are on.

A ring has neither authentication nor encryption: whoever can reach an address can take a rank's
place in it. So addresses are those of a cable between two Macs, or of this machine alone.
"""

import platform
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import metadata
from ipaddress import IPv4Interface

import psutil

from engine.cluster.control import CONTROL, Hello
from models.memory.machine import this_machine

_ALONE = 30, 31  # the prefixes of networks with room for two; a tunnel's 32 leads anywhere


def this_mac(addresses: Sequence[str]) -> Hello:
    """This Mac's introduction to rank 0, with its own `addresses`."""
    masks = {
        each.address: each.netmask
        for interface in psutil.net_if_addrs().values()
        for each in interface
        if each.family == socket.AF_INET and each.netmask
    }
    networks = tuple(
        str(IPv4Interface((own, masks[own]))) if own in masks else "" for own in addresses
    )
    return Hello(
        control=CONTROL,
        slipstream=metadata.version("slipstream"),
        mlx=metadata.version("mlx"),
        mlx_lm=metadata.version("mlx-lm"),
        system=platform.mac_ver()[0] or platform.system(),
        machine=this_machine(),
        networks=networks,
        ports=_free_ports([own for own in addresses if own in masks]),
    )


def point_to_point(network: str) -> bool:
    """Whether a network, such as "192.168.0.1/30", has no room for others: it is a cable between
    two Macs, this machine alone, or link-local, with only the Macs that are plugged in."""
    interface = IPv4Interface(network)
    own = interface.ip
    return own.is_loopback or own.is_link_local or interface.network.prefixlen in _ALONE


def open_network(networks: Sequence[str]) -> str:
    """The first network on which others may be; empty for none."""
    return next((each for each in networks if each and not point_to_point(each)), "")


def _free_ports(addresses: Sequence[str]) -> tuple[int, ...]:
    """A free port on each address; all differ."""
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in addresses]
        for each, address in zip(sockets, addresses, strict=True):
            each.bind((address, 0))
        return tuple(each.getsockname()[1] for each in sockets)
