"""Several Macs that are none: what rank 0 loads on them is loaded here."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from engine.cluster.states import RankState
from engine.conversation.loading import load
from engine.core.decoder import Decoder
from models.errors import Problem
from models.memory.machine import Machine
from models.memory.model_size import ModelSize
from models.memory.shares import Plan, plan

FULL = Problem("There is no room for it.", "Draft with lookup.")


class Torn(BaseException):
    """The process has ended, in the middle of a pass."""


class FarDecoder(Decoder):
    """Reads as if others had a part in it."""


@dataclass
class ScriptedCluster:
    """Stands in for a `Cluster`: two Macs, the second one called mini.local.

    Attributes: `free_bytes`, of each; `rooms`, what there was to be room for; `drafting`, what was
    to draft later; `over`, whether the ranks are out of step.
    """

    changed: Callable[[tuple[RankState, ...]], None] = lambda ranks: None
    ranks: tuple[RankState, ...] = (
        RankState(0, "127.0.0.1", "ready"),
        RankState(1, "mini.local", "ready"),
    )
    free_bytes: int = 1 << 33
    plan: Plan | None = None
    drafting: list[ModelSize | None] = field(default_factory=list)
    rooms: list[dict[str, object]] = field(default_factory=list)
    over: bool = False

    def load(self, folder, *, make_room, mode=None, **room):
        make_room()
        self.rooms.append(room)
        mac = Machine("Mac", self.free_bytes, self.free_bytes, unified=True)
        self.plan = plan(folder, [mac, mac], mode=mode, **room)
        layers = ((2, 4), (0, 2)) if mode != "tensor" else (None, None)
        pairs = zip(self.ranks, layers, strict=True)
        self.ranks = tuple(replace(rank, layers=own) for rank, own in pairs)
        self.changed(self.ranks)
        return replace(load(folder), decoder=FarDecoder)

    def draft_with(self, drafter, *, cache_bits=None):
        self.drafting.append(drafter)
        if drafter is not None and drafter.size_bytes > self.free_bytes:
            raise FULL

    def torn(self, error):
        raise Torn(str(error))
