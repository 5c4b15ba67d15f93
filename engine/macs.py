"""The Macs that this process leads: those of one file in its life, as MLX has one group in it.

Knows when they are joined and left, and nothing of how; of answers only that they are over where a
Mac is lost.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engine.cluster.connect import Cluster
from engine.cluster.hosts import read_hosts
from engine.cluster.states import RankState
from engine.loading import LoadedModel, load
from engine.pair import heaviest
from engine.protocol import Macs, Memory
from models.errors import Problem
from models.installed.resolve import Drafters
from models.memory.fit import DEFAULT_CONTEXT
from models.memory.model_size import ModelSize
from models.model_folder import ModelFolder
from models.records import Fit

Changed = Callable[[tuple[RankState, ...]], None]
Lost = Callable[[Problem], None]


class LedMacs:
    """Loads targets here, or on several Macs. Attribute: `cluster`, those that are led now."""

    def __init__(
        self,
        *,
        changed: Changed = lambda ranks: None,
        lost: Lost = lambda problem: None,
        connect: Callable[..., Cluster] = Cluster.connect,
    ) -> None:
        """`changed`, `lost`, `connect`: as for `Cluster.connect`."""
        self.cluster: Cluster | None = None
        self._led: Macs | None = None
        self._changed, self._lost, self._connect = changed, lost, connect

    def check(self, macs: Macs) -> None:
        """Raise `Problem` where this process cannot load there."""
        led = self._led
        if led is None or (self.cluster and _place(macs) == _place(led)):
            return
        raise Problem("This engine has led other Macs before.", "Restart the engine.")

    def load(
        self,
        folder: ModelFolder,
        macs: Macs,
        *,
        drafters: Drafters | None = None,
        memory: Memory | None = None,
    ) -> LoadedModel:
        """Load a target there; the Macs stay led until `leave`. There must be room for it on each
        of several Macs, with these drafters and a conversation of so much memory. Raises `Problem`.
        """
        if not macs.hosts:
            self.check(macs)
            return load(folder)
        memory = memory or Memory()
        return self.join(macs).load(
            folder,
            mode=None if macs.mode == "auto" else macs.mode,
            drafter=_weighed(drafters),
            context=memory.context or DEFAULT_CONTEXT,
            cache_bits=memory.cache_bits or None,
        )

    def join(self, macs: Macs) -> Cluster:
        """Lead these Macs, until `leave`. Raises `Problem`."""
        self.check(macs)
        if self.cluster is None:
            hosts = read_hosts(Path(macs.hosts))
            self._led = macs  # even where joining them fails
            self.cluster = self._connect(
                hosts, trusted=macs.trusted, changed=self._changed, lost=self._lost
            )
        return self.cluster

    @property
    def fits(self) -> tuple[Fit, ...]:
        """What each of several Macs needs for what is loaded on them; none for this one alone."""
        led = self.cluster
        return led.plan.fits if led is not None and led.plan is not None else ()

    def draft_with(self, drafters: Drafters, memory: Memory) -> None:
        """Raise `Problem` where there is no room to draft with these what several Macs hold."""
        assert self.cluster is not None
        self.cluster.draft_with(_weighed(drafters), cache_bits=memory.cache_bits or None)

    def leave(self) -> None:
        """End what runs on the other Macs."""
        if self.cluster is not None:
            self.cluster.close()
            self.cluster = None
            self._changed(())


def _weighed(drafters: Drafters | None) -> ModelSize | None:
    """The heaviest; None where that cannot be told: to load it says what is wrong with it."""
    with suppress(Problem):
        return heaviest(drafters) if drafters else None
    return None


def _place(macs: Macs) -> tuple[str, bool]:
    return macs.hosts, macs.trusted
