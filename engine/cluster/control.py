"""The messages of rank 0's process and a follower beside the ring: one JSON object a line.

Knows messages and lines. What a follower does with them stands in `follow.py`, what rank 0's
process does in `followers.py`; numbers of a pass travel on the ring alone.

    Meet -> Hello | Refused          which versions, how much memory, on which networks
    Join -> Joined | Refused         all connect at the same time, then show who they are
    Find -> Found | Refused          a model, by its weights
    Load -> Loaded | Refused         instead of the one before
    Work -> no reply; the follower obeys the orders that come on the ring, until `Rest`
    Ping -> Pong, at once, whatever else is going on
    Broken, without being asked: a pass failed
    Quit -> the follower ends, as it does when the control connection does
"""

from dataclasses import dataclass
from typing import get_args

from models.json_lines import Language, named_by_class
from models.memory.machine import Machine
from models.sharing import Mode

CONTROL = 1  # the version of this language


@dataclass(frozen=True, slots=True)
class Meet:
    """Asks a follower to introduce itself. `addresses`: its own, on the links."""

    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hello:
    """Introduces a Mac and its software. `networks`: for each address that was asked for, the
    address with the length of its network's prefix, or an empty text if no interface has the
    address; `ports`: a free port on each."""

    control: int
    slipstream: str
    mlx: str
    mlx_lm: str
    system: str
    machine: Machine
    networks: tuple[str, ...]
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """Asks a follower to connect, as `rank`. `addresses`: "address:port" of each rank's links;
    `devices`: for each rank, its RDMA device to every rank, with none to itself. `secret` is this
    rank's number, `total` the sum of all ranks'."""

    rank: int
    addresses: tuple[tuple[str, ...], ...]
    backend: str
    devices: tuple[tuple[tuple[str, ...], ...], ...]
    secret: int
    total: int


@dataclass(frozen=True, slots=True)
class Joined:
    """All ranks are connected, and are who they should be."""


@dataclass(frozen=True, slots=True)
class Find:
    """Find the model with these weights and this config; on rank 0's Mac it is at `path`. `remedy`:
    the advice if it is not there."""

    fingerprint: str
    config: str
    name: str
    path: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Found:
    """The folder of the target on the follower's Mac, and the Mac's memory while nothing is
    loaded."""

    path: str
    machine: Machine


@dataclass(frozen=True, slots=True)
class Load:
    """Load this follower's part of the model that was found last. `expand`: as for
    `share.load_part`."""

    mode: Mode
    split: tuple[int, ...]
    expand: bool


@dataclass(frozen=True, slots=True)
class Loaded:
    """The size of the follower's part, once it is loaded."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class Work:
    """Orders are about to come on the ring."""


@dataclass(frozen=True, slots=True)
class Ping:
    """Are you there?"""


@dataclass(frozen=True, slots=True)
class Pong:
    """Answers a ping. `message`: the number of the newest message on the ring; `waits`: whether
    that message has yet to arrive."""

    message: int
    waits: bool


@dataclass(frozen=True, slots=True)
class Broken:
    """A pass could not be finished."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """An order cannot be carried out, for this `Problem`."""

    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Quit:
    """End."""


LeaderMessage = Meet | Join | Find | Load | Work | Ping | Quit  # by rank 0's process
FollowerMessage = Hello | Joined | Found | Loaded | Pong | Broken | Refused  # by a follower
LONGEST_LINE_BYTES = 1 << 20
_MESSAGES = Language[LeaderMessage | FollowerMessage](
    "kind",
    named_by_class(*get_args(LeaderMessage), *get_args(FollowerMessage)),
    longest_bytes=LONGEST_LINE_BYTES,
)
ANOTHER_LANGUAGE = Refused(
    "It speaks another language: its Slipstream has another version.",
    "Install the same version on both.",
)


def to_line(message: LeaderMessage | FollowerMessage) -> bytes:
    """A message as a line with its end."""
    return _MESSAGES.to_line(message)


def from_line(line: bytes) -> LeaderMessage | FollowerMessage:
    """The message in a line. Raises WrongJson."""
    return _MESSAGES.read(line)
