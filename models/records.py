"""Records about models: plain values that commands print and the window shows.

Each has a JSON form: `asdict` writes it, `models.typed_json` reads it. Sizes are in bytes, times in
seconds. Knows nothing of where the values come from.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

ModelOrigin = Literal["starter", "hub", "imported", "folder", "lm-studio", "ollama"]
ModelRole = Literal["chat", "drafter", "head"]
Choice = Literal["", "best", "quickest", "smallest"]
Obstacle = Literal[
    "",
    "damaged",
    "no room",
    "not installed",
    "not trained",
    "other target",
    "other tokens",
    "unsupported",
]
DrafterKind = Literal[
    "head",
    "model",
    "eagle-3",
    "eagle",
    "mtp",
    "gemma-4-assistant",
    "dflash",
    "dflash2",
    "dspark",
    "pard",
    "medusa",
]
PROGRAM_NAMES: Mapping[str, str] = MappingProxyType({"lm-studio": "LM Studio", "ollama": "Ollama"})
KIND_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "head": "Head",
        "model": "Model",
        "eagle-3": "EAGLE-3",
        "eagle": "EAGLE",
        "mtp": "MTP",
        "gemma-4-assistant": "Gemma-4 assistant",
        "dflash": "DFlash",
        "dflash2": "DFlash2",
        "dspark": "DSpark",
        "pard": "PARD",
        "medusa": "Medusa",
    }
)
MODULE_NAME = "mtp.safetensors"  # after a repository's name: its MTP module, and nothing else
DownloadStatus = Literal["queued", "running", "paused", "failed", "done", "cancelled"]
DownloadRequest = Literal["", "pause", "cancel"]


@dataclass(frozen=True, slots=True)
class Installed:
    """A model on this machine.

    `name` is its hub id, or its folder's name. `role` head: a drafter head for one target;
    drafter: a model made to draft, never offered for chat. `origin` folder: it is in a folder that
    the user added; lm-studio, ollama: another program keeps it, so Slipstream may delete none of
    these. `problem` says why it cannot be used, and
    `remedy` what to do; both are empty if it can. `last_used` is None if not known.
    `drafter_kind` is as in `models.drafters.kinds`; empty for a target.
    """

    name: str
    path: str
    origin: ModelOrigin
    role: ModelRole
    size_bytes: int
    last_used: float | None
    model_type: str
    quantization_bits: int | None
    context_length: int | None
    removable: bool
    problem: str = ""
    remedy: str = ""
    drafter_kind: str = ""


@dataclass(frozen=True, slots=True)
class Incomplete:
    """The leftovers of an interrupted download or import."""

    name: str
    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A repository on the hub. `reason` says why it cannot be chosen; empty if it can.

    `size_bytes` is None if the hub's search does not include it.
    """

    repository: str
    downloads: int
    likes: int
    updated: str
    gated: bool
    licence: str
    size_bytes: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Download:
    """An entry of the queue of downloads.

    `seconds_left` is None if not known. `problem` and `remedy` are set if `status` is failed.
    `request`: a request to a running download, which is not carried out yet. A cancelled download
    is no longer in the queue.
    """

    repository: str
    revision: str
    status: DownloadStatus
    done_bytes: int
    total_bytes: int
    bytes_per_second: float = 0.0
    seconds_left: float | None = None
    problem: str = ""
    remedy: str = ""
    request: DownloadRequest = ""

    @property
    def over(self) -> bool:
        """Whether nothing is left to be done for it."""
        return self.status in ("done", "cancelled")


@dataclass(frozen=True, slots=True)
class Inventory:
    """The models on this machine, and the downloads.

    `folders`: added by the user; `free_bytes`: the room on the disk to which models are downloaded.
    `downloading`: whether a process works through the queue now; if not, queued downloads wait
    until a process is started.
    """

    installed: tuple[Installed, ...] = ()
    incomplete: tuple[Incomplete, ...] = ()
    downloads: tuple[Download, ...] = ()
    folders: tuple[str, ...] = ()
    free_bytes: int = 0
    downloading: bool = False

    def find(self, name: str) -> Installed | None:
        """The installed model of that name, in any case, or in that folder."""
        wanted = name.lower()
        return next(
            (
                model
                for model in self.installed
                if model.path == name or model.name.lower() == wanted
            ),
            None,
        )


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a pair fits in memory, and the memory that it needs.

    `largest_context`: the longest that fits, 0 if even the shortest does not; `reason`: all of it
    in one line for the user, without the names.
    """

    target: str
    drafter: str
    context: int
    weights_bytes: int
    cache_bytes: int
    drafter_weights_bytes: int
    drafter_cache_bytes: int
    working_bytes: int
    available_bytes: int
    largest_context: int
    fits: bool
    reason: str

    @property
    def pair(self) -> str:
        return f"{self.target} with {self.drafter}" if self.drafter else self.target

    @property
    def needed_bytes(self) -> int:
        return (
            self.weights_bytes
            + self.cache_bytes
            + self.drafter_weights_bytes
            + self.drafter_cache_bytes
            + self.working_bytes
        )

    @property
    def held_bytes(self) -> int:
        """The part that is there as long as the pair is loaded; the rest comes with answers."""
        return self.weights_bytes + self.drafter_weights_bytes


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way of drafting for a target, and whether it works.

    `drafter` is as `slipstream --drafter` takes it; `kind` one of lookup, early-exit, none, or a
    kind of `models.drafters.kinds`. `cost_ratio`: one drafted token over one pass of the target,
    predicted from sizes; None if they are not known. `reason` says why it works, or why not, to
    the user; `obstacle` to the program, empty if it works. `size_bytes` is 0 and `licence` empty
    if not known. `tried`: whether the makers of Slipstream have run this drafter.
    `shared_tokens`: the part of a model's tokens that the target has too. `gain`: how many times as
    fast as plain decoding the two are expected to be on this machine; None if not known.
    """

    drafter: str
    kind: str
    works: bool
    reason: str
    cost_ratio: float | None = None
    installed: bool = True
    size_bytes: int = 0
    obstacle: Obstacle = ""
    licence: str = ""
    tried: bool = True
    shared_tokens: float = 1.0
    gain: float | None = None


@dataclass(frozen=True, slots=True)
class PairOffer:
    """A pair of the catalog, as this machine sees it.

    `drafter`: empty if the pair needs no drafting model; `drafter_kinds`: the ways to draft;
    `memory_class_gb`: the smallest unified memory that it is meant for; `download_bytes`: still to
    be fetched; `verified`: names and sizes were looked up. `abilities`: a word or two each.

    Memory: `needed_bytes` with `needed_context` tokens read, and `long_bytes` with 32,768; 0 on a
    CPU, on several Macs and for a shorter context. `largest_context`: the longest that fits;
    `expanded`: whether the weights are held as float32. `macs`: the number of Macs that must hold
    it together, if this one cannot alone; all figures of memory are then theirs together.

    `reason` says why it cannot be chosen; empty if it can. `choice`: why it is among the few that
    are shown first; the best of them is `recommended`. `caution`: a warning about a pair that
    fits; `note`: a warning to be read before anything else. `tokens_per_second` and `gain` (times
    plain) are expected, None if nothing is known of this machine; `sources` has the source of each
    figure, a line each.
    """

    target: str
    drafter: str
    family: str
    good_for: str
    licence: str
    context: int
    memory_class_gb: int
    drafter_kinds: tuple[str, ...]
    download_bytes: int
    needed_bytes: int
    available_bytes: int
    installed: bool
    recommended: bool
    verified: bool
    reason: str = ""
    needed_context: int = 4096
    largest_context: int = 0
    expanded: bool = False
    caution: str = ""
    macs: int = 1
    choice: Choice = ""
    long_bytes: int = 0
    tokens_per_second: float | None = None
    gain: float | None = None
    sources: tuple[str, ...] = ()
    note: str = ""
    abilities: tuple[str, ...] = ()
