"""Reads a hostfile: the Macs that hold a target together.

It is the file that `mlx.distributed_config` writes and `mlx.launch` reads, which checks the rest.
"""

import json
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from models.errors import Problem
from models.files import MAXIMUM_CONFIG_BYTES
from models.typed_json import WrongJson, decode

HERE = "127.0.0.1"  # as which the launcher starts a rank without ssh
_SSH = re.compile(r"[\w][\w.@%:-]*")  # not a name that ssh takes for an option
_MAKE = "Make one: mlx.distributed_config --hosts MAC1,MAC2 --output-hostfile FILE"


@dataclass(frozen=True, slots=True)
class ClusterHost:
    """A Mac: the name by which ssh reaches it, its addresses on the links, and its RDMA devices to
    each rank."""

    ssh: str
    ips: tuple[str, ...] = ()
    rdma: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Hosts:
    """The Macs of a hostfile, rank 0 first, which is this machine. `envs`: "NAME=value"."""

    hosts: tuple[ClusterHost, ...]
    backend: Literal["", "ring", "jaccl", "jaccl-ring"] = ""
    envs: tuple[str, ...] = ()

    def name(self, rank: int) -> str:
        """The name of a Mac for people, with the rank if it runs several processes."""
        host = self.hosts[rank].ssh
        alone = sum(each.ssh == host for each in self.hosts) == 1
        return host if alone else f"{host} (rank {rank})"

    @property
    def from_here(self) -> "Hosts":
        """The same Macs, where this one starts rank 0 itself, without ssh."""
        return replace(self, hosts=(replace(self.hosts[0], ssh=HERE), *self.hosts[1:]))

    def to_json(self) -> str:
        """The hostfile."""
        return json.dumps(asdict(self))


def read_hosts(path: Path) -> Hosts:
    """The Macs in a hostfile. Raises `Problem`."""
    try:
        data = path.read_bytes()
        if len(data) > MAXIMUM_CONFIG_BYTES:
            raise ValueError
        given = json.loads(data)
        hosts = decode(
            Hosts,
            {"hosts": given} if isinstance(given, list) else given,
            place="hosts",
            ignore_unknown=True,
        )
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise Problem(f"The hostfile {path} cannot be read: {reason}.", _MAKE) from error
    except WrongJson as wrong:
        raise _unusable(path, wrong.message) from None
    except (ValueError, RecursionError):
        raise _unusable(path, "It is not JSON.") from None
    if len(hosts.hosts) < 2:
        raise _unusable(path, f"It names {len(hosts.hosts)} Macs.")
    for each in hosts.hosts:
        if not _SSH.fullmatch(each.ssh):
            raise _unusable(path, f"{each.ssh[:60]!r} is not the name of a Mac.")
    return hosts


def _unusable(path: Path, reason: str) -> Problem:
    return Problem(f"The hostfile {path} cannot be used. {reason}", _MAKE)
