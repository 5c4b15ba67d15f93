"""Loads targets on the ranks that hold them together, from rank 0's side, and what all ranks say to
each other for that.

Knows models, shares and the ring; neither how ranks are started nor how they are watched.
"""

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any, NoReturn

from engine.cluster import group as ranks
from engine.cluster.hosts import Hosts
from engine.cluster.leader import Leader, LeadingDecoder
from engine.cluster.share import Mode, ModelPart, RankShare, load_part
from engine.cluster.states import RankState, State
from engine.conversation.loading import LoadedModel
from engine.device import free_memory, held_bytes
from models.errors import Problem
from models.json_lines import Language, named_by_class
from models.memory.fit import DEFAULT_CONTEXT
from models.memory.machine import Machine, this_machine
from models.memory.model_size import ModelSize
from models.memory.shares import Plan, drafted_by, plan, require_plan
from models.model_folder import ModelFolder

LOAD, WORK = "load", "work"  # what rank 0 has the launcher tell the others


@dataclass(frozen=True, slots=True)
class Find:
    """Rank 0 asks all for the model with these weights and this config, which it has at `path`.
    `remedy`: the advice where it is missing."""

    fingerprint: str
    config: str
    name: str
    path: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Found:
    """Each answers: the model is there, and this is its machine while nothing is loaded."""

    machine: Machine


@dataclass(frozen=True, slots=True)
class Division:
    """Rank 0 has all load their parts, as in `models.memory.shares.Plan`."""

    mode: Mode
    split: tuple[int, ...]
    expand: bool


@dataclass(frozen=True, slots=True)
class Loaded:
    """Each answers with the size of its part, once it is loaded."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Any rank answers, in place of the others: this cannot be done, for this `Problem`."""

    message: str
    remedy: str


Word = Find | Found | Division | Loaded | Refused
_WORDS = Language[Word]("kind", named_by_class(Find, Found, Division, Loaded, Refused))


def exchange(group: ranks.Group, own: Word | None = None) -> list[Any]:
    """Say `own` to all ranks, or nothing. Returns all words, rank 0's first."""
    texts = ranks.exchange(group, _WORDS.to_json(own) if own is not None else "")
    return [_WORDS.read(text.encode()) for text in texts if text]


def refusal(problem: Problem) -> Refused:
    """Return the word that tells the other ranks of a problem."""
    return Refused(problem.message, problem.remedy)


class Cluster:
    """The ranks that this process leads, as rank 0, for the rest of its life.

    Attributes: `ranks`, the state of each; `plan` and `leader` of the loaded target, or None;
    `loading`, whether one is being loaded; `torn`, which ends this process after an error that may
    have left the ranks in the middle of a pass.
    """

    def __init__(
        self,
        group: ranks.Group,
        hosts: Hosts,
        *,
        wake: Callable[[str], None],
        torn: Callable[[Exception], NoReturn],
    ) -> None:
        """`wake` sends the other ranks `LOAD` or `WORK`."""
        self._group, self._hosts, self._wake, self.torn = group, hosts, wake, torn
        names = map(hosts.name, range(len(hosts.hosts)))
        self.ranks = tuple(RankState(rank, name, "ready") for rank, name in enumerate(names))
        self.changed: Callable[[tuple[RankState, ...]], None] = lambda ranks: None
        self.plan: Plan | None = None
        self.leader: Leader | None = None
        self.loading = False

    @property
    def over(self) -> bool:
        """Whether nothing can be read any more, because the ranks have lost each other."""
        return self.leader is not None and self.leader.over

    def load(
        self,
        folder: ModelFolder,
        *,
        mode: Mode | None = None,
        drafter: ModelSize | None = None,
        context: int = DEFAULT_CONTEXT,
        cache_bits: int | None = None,
        make_room: Callable[[], None] = lambda: None,
    ) -> LoadedModel:
        """Load a target on all Macs, in place of the target before.

        `mode`: None for the mode that fits. There must be room for `drafter`, `context` and
        `cache_bits`, as for `models.memory.shares.plan`. Raises `Problem`: the target before stays
        loaded, unless `make_room` was called, which lets go of it; then nothing is loaded.
        """
        self.loading = True
        self._note("loading")
        try:
            self._wake(LOAD)
            try:
                made = plan(
                    folder,
                    self._find(folder),
                    drafter=drafter,
                    context=context,
                    cache_bits=cache_bits,
                    mode=mode,
                )
                self._require(made)
            except Problem as problem:
                exchange(self._group, refusal(problem))
                raise
            make_room()
            self.plan = self.leader = None
            free_memory()
            self.ranks = tuple(replace(each, layers=None, needed_bytes=0) for each in self.ranks)
            loaded, part = self._load(folder, made)
        finally:
            self.loading = False
            self._note("ready")
        self.plan = made
        self.leader = Leader(part, works=self._work, links=self._links)
        return replace(loaded, decoder=partial(LeadingDecoder, leader=self.leader))

    def draft_with(self, drafter: ModelSize | None, *, cache_bits: int | None = None) -> None:
        """Raise `Problem` if this Mac has no room for the drafter and the loaded target."""
        assert self.plan is not None
        own = this_machine().once_freed(held_bytes())
        made = drafted_by(self.plan, drafter, own, cache_bits=cache_bits)
        self._require(made)
        self.plan = made

    def _work(self, on: bool) -> None:
        """Have the followers obey orders, or note that they rest again."""
        if on:
            self._wake(WORK)
        self._note("working" if on else "ready")

    def _find(self, folder: ModelFolder) -> list[Machine]:
        """Have each rank find the target. Returns their machines. Raises `Problem`."""
        share = [sys.executable, "-m", "mlx_lm", "share", "--path", str(folder.path)]
        remedy = f"Copy {folder.path} to the same place there, or send it: {shlex.join(share)}"
        path = str(folder.path)
        exchange(self._group, Find(folder.fingerprint, digest(folder), folder.name, path, remedy))
        found = self._said(Found(this_machine().once_freed(held_bytes())))
        pairs = zip(self.ranks, found, strict=True)
        self.ranks = tuple(replace(rank, chip=each.machine.name) for rank, each in pairs)
        return [each.machine for each in found]

    def _load(self, folder: ModelFolder, made: Plan) -> tuple[LoadedModel, ModelPart]:
        """Load rank 0's part, while each other rank loads its own."""
        exchange(self._group, Division(made.mode, made.split, made.expand))
        share = RankShare(made.mode, 0, len(made.fits), made.split)
        try:
            loaded, part = load_part(folder, share, self._group, expand=made.expand)
        except Problem as problem:
            exchange(self._group, refusal(problem))
            raise
        parts = self._said(Loaded(part.size_bytes))
        layers = made.layers if made.split else (None,) * len(parts)
        self.ranks = tuple(
            replace(rank, layers=own, needed_bytes=each.size_bytes, free_bytes=fit.available_bytes)
            for rank, own, each, fit in zip(self.ranks, layers, parts, made.fits, strict=True)
        )
        return loaded, part

    def _said(self, own: Word) -> list[Any]:
        """Say `own`. Returns what all say. Raises `Problem` if a rank refuses."""
        said = exchange(self._group, own)
        for rank, each in enumerate(said):
            if isinstance(each, Refused):
                raise Problem(f"{self._hosts.name(rank)}: {each.message}", each.remedy)
        return said

    @property
    def _links(self) -> str:
        places = zip(self.ranks, self._hosts.hosts, strict=True)
        each = (f"{rank.chip} at {' and '.join(host.ips)}" for rank, host in places)
        return f"{self._hosts.backend or 'ring'} between {', '.join(each)}"

    def _require(self, made: Plan) -> None:
        require_plan(made, [state.host for state in self.ranks])

    def _note(self, state: State) -> None:
        self.ranks = tuple(replace(each, state=state) for each in self.ranks)
        self.changed(self.ranks)


def digest(folder: ModelFolder) -> str:
    """Identifies a config, however it is written down."""
    return sha256(json.dumps(dict(folder.config), sort_keys=True).encode()).hexdigest()[:16]
