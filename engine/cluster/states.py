"""The state of each Mac of a cluster, for people. Plain values, no MLX."""

from dataclasses import dataclass
from typing import Literal

State = Literal["starting", "loading", "ready", "working"]


@dataclass(frozen=True, slots=True)
class RankState:
    """The state of a rank.

    Attributes: `layers`, (first, end) in a pipeline; `needed_bytes` of its part of the model;
    `free_bytes` before it was loaded.
    """

    rank: int
    host: str
    state: State
    chip: str = ""
    layers: tuple[int, int] | None = None
    needed_bytes: int = 0
    free_bytes: int = 0


def divided(ranks: tuple[RankState, ...]) -> str:
    """A line that says how Macs hold a target; empty for a single Mac."""
    if len(ranks) < 2:
        return ""
    if ranks[0].layers is None:
        return f"{len(ranks)} Macs hold a part of every layer each (tensor parallel)."
    parts = [
        f"{each.layers[0]}–{each.layers[1] - 1} on {each.host}" for each in ranks if each.layers
    ]
    return f"{len(ranks)} Macs are a pipeline: layers {', '.join(parts)}."
