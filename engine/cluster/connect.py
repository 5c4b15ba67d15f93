"""Joins a group of Macs from rank 0's side, loads targets on it, and ends it."""

import os
import secrets
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import mlx.nn as nn

from engine.cluster import group as ranks
from engine.cluster.control import Find, Found, Hello, Join, Joined, Load, Loaded, Meet
from engine.cluster.follow import digest
from engine.cluster.followers import AGAIN, Deadlines, Followers, follower_command
from engine.cluster.hosts import ClusterHost, Hosts
from engine.cluster.leader import Leader, LeadingDecoder
from engine.cluster.links import open_network, point_to_point, this_mac
from engine.cluster.share import Mode, ModelPart, RankShare, load_part
from engine.cluster.states import RankState
from engine.cluster.waits import Waits
from engine.conversation.loading import LoadedModel
from engine.device import free_memory, held_bytes
from models.errors import Problem
from models.memory.fit import DEFAULT_CONTEXT
from models.memory.machine import this_machine
from models.memory.model_size import ModelSize
from models.memory.shares import Plan, drafted_by, plan, require_plan
from models.model_folder import ModelFolder

_SECRET_BITS = 24  # so that the sum of all ranks' is a number of 30 bits


class Cluster:
    """The group that this process leads. MLX allows one per process.

    Used by the main thread; `close` by any. Attributes: `ranks`, the state of each; `plan`, how
    they hold the loaded target; None without one.
    """

    def __init__(
        self, hosts: Hosts, followers: Followers, group: ranks.Group, waits: Waits
    ) -> None:
        self._hosts, self._followers, self._group, self._waits = hosts, followers, group, waits
        self.plan: Plan | None = None

    @property
    def ranks(self) -> tuple[RankState, ...]:
        return self._followers.states

    @classmethod
    def connect(
        cls,
        hosts: Hosts,
        *,
        trusted: bool = False,
        changed: Callable[[tuple[RankState, ...]], None] = lambda ranks: None,
        lost: Callable[[Problem], None] = lambda problem: None,
        deadlines: Deadlines | None = None,
        command: Callable[[ClusterHost, Sequence[str]], list[str]] = follower_command,
    ) -> "Cluster":
        """Start a follower on each Mac and join them.

        `trusted`: everybody on the links between them is trusted. `changed` is called with every
        new state; `lost` once, in any thread, when a rank is lost: nothing can be read any more,
        and this process is to end.

        Raises `Problem`. Another process must be started to try again.
        """
        if ranks.RANK_VARIABLE in os.environ:
            raise Problem(
                "This process has already been part of a cluster.",
                "Start again, and without mlx.launch: Slipstream starts the others itself.",
            )
        ranks.require(hosts.backend)
        deadlines = deadlines or Deadlines()
        waits = Waits()
        followers = Followers(
            hosts.each,
            standing=waits.now,
            environment=hosts.environment,
            deadlines=deadlines,
            changed=changed,
            lost=lost,
            command=command,
        )
        try:
            group = _join(hosts, followers, trusted=trusted, deadlines=deadlines)
        except BaseException:
            followers.close()
            raise
        followers.joined()
        return cls(hosts, followers, group, waits)

    def load(
        self,
        folder: ModelFolder,
        *,
        mode: Mode | None = None,
        drafter: ModelSize | None = None,
        context: int = DEFAULT_CONTEXT,
        cache_bits: int | None = None,
    ) -> LoadedModel:
        """Load a target on all Macs, in place of the target before.

        `mode`: None for the mode that fits. There must be room for `drafter`, `context` and
        `cache_bits`, as for `models.memory.shares.plan`. If this raises `Problem`, the group is as
        it was.
        """
        self._rest()
        share = [sys.executable, "-m", "mlx_lm", "share", "--path", str(folder.path)]
        share += ["--hostfile", str(self._hosts.path)]
        remedy = f"Copy {folder.path} to the same place there, or send it: {shlex.join(share)}"
        find = Find(folder.fingerprint, digest(folder), folder.name, str(folder.path), remedy)
        with self._followers.awake():  # no Mac has leave to sleep now
            found = self._followers.ask([find] * (len(self._hosts.each) - 1), Found)
        own = this_machine().once_freed(held_bytes())
        machines = [own, *(each.machine for each in found)]
        made = plan(
            folder, machines, drafter=drafter, context=context, cache_bits=cache_bits, mode=mode
        )
        self._require(made)
        for rank, machine in enumerate(machines):
            self._followers.change(
                rank, free_bytes=machine.available_bytes, layers=None, needed_bytes=0
            )
        loaded, part = self._load(folder, made)
        self.plan = made
        links = [
            f"{state.chip} at {' and '.join(host.addresses)}"
            for state, host in zip(self.ranks, self._hosts.each, strict=True)
        ]
        self._waits.leader = leader = _Leader(
            self._followers, part, links=f"{self._hosts.backend} between {', '.join(links)}"
        )

        def decoder(model: nn.Module, **options: Any) -> LeadingDecoder:
            return LeadingDecoder(model, leader=leader, **options)

        return replace(loaded, decoder=decoder)

    @property
    def over(self) -> bool:
        """Whether nothing can be read any more, because the ranks have lost each other."""
        leader = self._waits.leader
        return leader is not None and leader.over

    def draft_with(self, drafter: ModelSize | None, *, cache_bits: int | None = None) -> None:
        """Raise `Problem` if this Mac has no room for the drafter beside the loaded target."""
        assert self.plan is not None
        own = this_machine().once_freed(held_bytes())
        made = drafted_by(self.plan, drafter, own, cache_bits=cache_bits)
        self._require(made)
        self.plan = made

    def _require(self, made: Plan) -> None:
        require_plan(made, [self._followers.name(state.rank) for state in self.ranks])

    def _rest(self) -> None:
        """Have the followers listen to the control connection instead of the ring."""
        leader = self._waits.leader
        if leader is not None:
            leader.rest()
            if leader.over:
                raise self.why(RuntimeError("a pass was not finished"))

    def _load(self, folder: ModelFolder, made: Plan) -> tuple[LoadedModel, ModelPart]:
        """Load rank 0's part, while each other rank loads its own. If this raises `Problem`, other
        ranks may keep their parts until the next load."""
        count = len(self._hosts.each)
        shares = [RankShare(made.mode, rank, count, made.split) for rank in range(count)]
        self.plan = self._waits.leader = None
        free_memory()
        with self._followers.awake():
            self._followers.tell([Load(made.mode, made.split, made.expand)] * (count - 1))
            try:
                loaded, part = load_part(folder, shares[0], self._group, expand=made.expand)
            except Problem:
                self._followers.replies(Loaded)  # which may say more of it
                raise
            replies = self._followers.replies(Loaded)
        needed = [part.size_bytes, *(each.size_bytes for each in replies)]
        for share, size_bytes in zip(shares, needed, strict=True):
            layers = (share.first, share.first + made.split[share.rank]) if made.split else None
            self._followers.change(share.rank, layers=layers, needed_bytes=size_bytes)
        return loaded, part

    def why(self, error: Exception) -> Problem:
        """Return the problem behind an `error` in a pass that is no `Problem`: a rank that died, or
        else the error.

        Waits a moment for news of the ranks. If news went to the callback `lost`, ends this
        process.
        """
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        return self._followers.why(Problem(f"A pass of the Macs failed: {reason}.", AGAIN))

    def close(self) -> None:
        """End the followers. Safe from any thread, and more than once."""
        if self._waits.leader is not None:
            self._waits.leader.over = True  # an answer that is closed later has nobody to tell
        self._followers.close()


class _Leader(Leader):
    """Notes that the followers rest at their control connections, too."""

    def __init__(self, followers: Followers, part: ModelPart, *, links: str) -> None:
        super().__init__(part, wake=followers.wake, links=links)
        self._followers = followers

    def rest(self) -> None:
        super().rest()
        self._followers.rest()


def _join(
    hosts: Hosts, followers: Followers, *, trusted: bool, deadlines: Deadlines
) -> ranks.Group:
    own = hosts.each[0].addresses
    others = followers.ask(
        [Meet(host.addresses) for host in hosts.each[1:]], Hello, seconds=deadlines.start
    )
    macs = [this_mac(own), *others]
    for rank, mac in enumerate(macs):
        followers.change(
            rank,
            chip=mac.machine.name,
            free_bytes=mac.machine.available_bytes,
            open_network=open_network(mac.networks),
        )
    for rank, mac in enumerate(macs):
        _check_same(macs[0], mac, followers.name(rank), exactly=hosts.backend != "ring")
        _check_links(hosts.each[rank], mac, followers.name(rank), trusted=trusted)
    addresses = tuple(
        tuple(f"{address}:{port}" for address, port in zip(host.addresses, mac.ports, strict=True))
        for host, mac in zip(hosts.each, macs, strict=True)
    )
    devices = tuple(host.rdma for host in hosts.each)
    numbers = [secrets.randbits(_SECRET_BITS) for _ in hosts.each]
    total = sum(numbers)
    joins = [
        Join(rank, addresses, hosts.backend, devices, secret, total)
        for rank, secret in enumerate(numbers)
    ]
    os.environ |= dict(variable.split("=", 1) for variable in hosts.environment)
    followers.tell(joins[1:])
    places = [
        f"{followers.name(rank)} at {' and '.join(host.addresses or ('no address',))}"
        for rank, host in enumerate(hosts.each)
    ]
    apart = Problem(
        f"The Macs do not find each other on their links: {', '.join(places)}.",
        "Check the cables, and that no other program uses these links.",
    )
    try:
        with followers.within(deadlines.join, apart):
            group = ranks.join(
                0, addresses, backend=hosts.backend, devices=devices, seconds=deadlines.join
            )
            told = ranks.is_as_told(group, numbers[0], total)
    except (ranks.NotJoined, RuntimeError) as error:
        raise followers.why(apart) from error
    if not told:
        raise followers.why(apart)
    followers.replies(Joined, seconds=deadlines.join)
    return group


def _check_same(own: Hello, other: Hello, name: str, *, exactly: bool) -> None:
    """Raise `Problem` if a Mac has other versions than this one."""
    compared = [
        ("Slipstream", own.slipstream, other.slipstream),
        ("Slipstream's language between Macs", str(own.control), str(other.control)),
        ("MLX", own.mlx, other.mlx),
        ("mlx-lm", own.mlx_lm, other.mlx_lm),
    ]
    if exactly:  # RDMA needs it
        compared.append(("macOS", own.system, other.system))
    for product, here, there in compared:
        if here != there:
            raise Problem(
                f"{name} has {product} {there}, and this Mac has {here}.",
                "Install the same version on both.",
            )


def _check_links(host: ClusterHost, mac: Hello, name: str, *, trusted: bool) -> None:
    """Raise `Problem` if a Mac lacks its address, or others may be on its network."""
    for address, network in zip(host.addresses, mac.networks, strict=True):
        if not network:
            raise Problem(
                f"{name} does not have the address {address}.",
                "Set up its links again (mlx.distributed_config), and write the hostfile anew.",
            )
        if not trusted and not point_to_point(network):
            raise Problem(
                f"Others may be on the network of {name}, {network}: what the Macs send each other "
                "has neither a password nor encryption, and whoever is there could take part.",
                "Use a cable between the Macs, or trust everybody there: with --trust-network; in "
                "the window: Engine, Several Macs.",
            )
