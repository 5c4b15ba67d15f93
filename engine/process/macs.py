"""The cluster that this process leads. MLX allows one per process.

Knows when it is joined and left, and nothing of how.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engine.cluster.connect import Cluster
from engine.cluster.hosts import read_hosts
from engine.cluster.states import RankState
from engine.conversation.loading import LoadedModel, load
from engine.process.protocol import Macs, Memory
from models.errors import Problem
from models.installed.resolve import Drafters, heaviest
from models.memory.fit import DEFAULT_CONTEXT
from models.memory.model_size import ModelSize
from models.model_folder import ModelFolder
from models.records import Fit

Changed = Callable[[tuple[RankState, ...]], None]
Lost = Callable[[Problem], None]


class LedMacs:
    """Loads targets on this Mac or on several. Attribute: `cluster`, None if no others are led."""

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
        """Raise `Problem` if this process cannot load on these Macs."""
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
        """Load a target on these Macs, which are led until `leave`.

        Each of several Macs must have room for `drafters` and `memory`, too. Raises `Problem`.
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
        """The memory that each of several Macs needs for the target; empty for this Mac alone."""
        led = self.cluster
        return led.plan.fits if led is not None and led.plan is not None else ()

    def draft_with(self, drafters: Drafters, memory: Memory) -> None:
        """Raise `Problem` if there is no room for these drafters beside the led target."""
        assert self.cluster is not None
        self.cluster.draft_with(_weighed(drafters), cache_bits=memory.cache_bits or None)

    def leave(self) -> None:
        """End the processes on the other Macs."""
        if self.cluster is not None:
            self.cluster.close()
            self.cluster = None
            self._changed(())


def _weighed(drafters: Drafters | None) -> ModelSize | None:
    """The size of the heaviest; None if it is not known, which loading reports."""
    with suppress(Problem):
        return heaviest(drafters) if drafters else None
    return None


def _place(macs: Macs) -> tuple[str, bool]:
    return macs.hosts, macs.trusted
