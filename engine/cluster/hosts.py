"""Reads a hostfile: the Macs that hold a target together.

It is the file that `mlx.distributed_config` writes and `mlx.launch` reads.
"""

import json
import re
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address
from pathlib import Path
from typing import Any, Literal

from models.errors import Problem
from models.files import MAXIMUM_CONFIG_BYTES
from models.typed_json import WrongJson, decode

Backend = Literal["ring", "jaccl", "jaccl-ring"]
MOST_HOSTS = 16
HERE = ("127.0.0.1", "localhost")
_SSH = re.compile(r"[\w][\w.@%:-]*")  # not a name that ssh takes for an option
_VARIABLE = re.compile(r"[A-Za-z_]\w*=.*")
_MAKE = "Make one: mlx.distributed_config --hosts MAC1,MAC2 --output-hostfile FILE"


@dataclass(frozen=True, slots=True)
class ClusterHost:
    """A Mac of a cluster.

    Attributes: `ssh`, the name by which ssh reaches it ("127.0.0.1" and "localhost" are this
    machine, without ssh); `addresses`, its own on the links to its neighbours, as IPv4, which RDMA
    needs for the first Mac only; `rdma`, its devices to each rank, none to itself.
    """

    ssh: str
    addresses: tuple[str, ...]
    rdma: tuple[tuple[str, ...], ...] = ()

    @property
    def is_here(self) -> bool:
        """Return whether the host is this machine."""
        return self.ssh in HERE


@dataclass(frozen=True, slots=True)
class Hosts:
    """All Macs of a hostfile, rank 0 first, which is this machine.

    Attributes: `path`, the hostfile; `each`, the Macs; `environment`, "NAME=value" for followers.
    """

    path: Path
    each: tuple[ClusterHost, ...]
    backend: Backend = "ring"
    environment: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Host:
    ssh: str
    ips: tuple[str, ...] = ()
    rdma: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class _File:
    hosts: tuple[_Host, ...]
    backend: Literal["", "ring", "jaccl", "jaccl-ring"] = ""
    envs: tuple[str, ...] = ()


class WrongHosts(Problem):
    """A hostfile that cannot be used. `reason`: why, in a sentence."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"The hostfile {path} cannot be used. {reason}", _MAKE)
        self.reason = reason


def read_hosts(path: Path) -> Hosts:
    """The Macs in a hostfile. Raises `Problem`."""
    return hosts_of(path, _json(path))


def hosts_of(path: Path, given: Any) -> Hosts:
    """The Macs in the JSON value `given`, which is in the hostfile `path`, or will be. Raises
    WrongHosts."""
    try:
        file = decode(_File, {"hosts": given} if isinstance(given, list) else given, place="hosts")
    except WrongJson as wrong:
        raise WrongHosts(path, wrong.message) from None
    if not 2 <= len(file.hosts) <= MOST_HOSTS:
        raise WrongHosts(path, f"It names {len(file.hosts)} Macs, and 2 to {MOST_HOSTS} can join.")
    _check(path, file)
    hosts = tuple(ClusterHost(each.ssh, each.ips, _devices(path, each)) for each in file.hosts)
    if file.backend.startswith("jaccl"):
        _check_devices(path, hosts)
    return Hosts(path, hosts, file.backend or "ring", file.envs)


def _json(path: Path) -> Any:
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise Problem(f"The hostfile {path} cannot be read: {reason}.", _MAKE) from error
    try:
        if len(data) > MAXIMUM_CONFIG_BYTES:
            raise ValueError
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise WrongHosts(path, "It is not JSON.") from error


def _check(path: Path, file: _File) -> None:
    """Raise `Problem` unless each Mac can be reached, and has its own addresses."""
    ring = not file.backend.startswith("jaccl")  # which needs rank 0's, to introduce them
    for rank, each in enumerate(file.hosts):
        if not _SSH.fullmatch(each.ssh):
            raise WrongHosts(path, f"{each.ssh[:60]!r} is not the name of a Mac.")
        if not each.ips and (ring or rank == 0):
            raise WrongHosts(path, f"It says no address (ips) of {each.ssh}.")
        for address in each.ips:
            if not is_ipv4(address):
                raise WrongHosts(path, f"{address[:60]!r} of {each.ssh} is not an IPv4 address.")
    if ring and len({len(each.ips) for each in file.hosts}) > 1:
        raise WrongHosts(path, "Some Macs have more addresses (ips) than others.")
    for variable in file.envs:
        if not _VARIABLE.fullmatch(variable):
            raise WrongHosts(path, f"{variable[:60]!r} is not NAME=value.")


def _devices(path: Path, host: _Host) -> tuple[tuple[str, ...], ...]:
    """A Mac's RDMA devices to each rank. A hostfile has null, a name, or several names."""
    found = []
    for given in host.rdma:
        names = [] if given is None else given if isinstance(given, list) else [given]
        if not all(isinstance(name, str) and name for name in names):
            raise WrongHosts(path, f"The RDMA devices (rdma) of {host.ssh} are no names.")
        found.append(tuple(names))
    return tuple(found)


def _check_devices(path: Path, hosts: tuple[ClusterHost, ...]) -> None:
    """Raise WrongHosts unless each Mac has a device for each other rank, and none for itself."""
    for rank, host in enumerate(hosts):
        if len(host.rdma) != len(hosts) or host.rdma[rank]:
            reason = f"The RDMA devices (rdma) of {host.ssh} are not one for each Mac."
            raise WrongHosts(path, reason)


def is_ipv4(address: str) -> bool:
    """Whether `address` is an IPv4 address of a single interface, as a ring needs: not 0.0.0.0."""
    try:
        own = ip_address(address)
    except ValueError:
        return False
    return isinstance(own, IPv4Address) and not own.is_unspecified
