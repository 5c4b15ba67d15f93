"""What a person sees of the Macs that hold a target together. Plain values, no MLX."""

from dataclasses import dataclass
from typing import Literal

State = Literal["starting", "loading", "ready", "working", "lost"]


@dataclass(frozen=True, slots=True)
class RankState:
    """What a person sees of a rank. `layers`: (first, end) in a pipeline. Bytes: what its part of
    the model takes, and what was free before. `open_network`: one of its links, where others may be
    too; empty for none. `detail`: a line, of what is wrong for example."""

    rank: int
    host: str
    state: State
    chip: str = ""
    layers: tuple[int, int] | None = None
    needed_bytes: int = 0
    free_bytes: int = 0
    open_network: str = ""
    detail: str = ""


def divided(ranks: tuple[RankState, ...]) -> str:
    """How Macs hold a target, in a line for people; empty for one."""
    if len(ranks) < 2:
        return ""
    if ranks[0].layers is None:
        return f"{len(ranks)} Macs hold a part of every layer each (tensor parallel)."
    parts = [
        f"{each.layers[0]}–{each.layers[1] - 1} on {each.host}" for each in ranks if each.layers
    ]
    return f"{len(ranks)} Macs are a pipeline: layers {', '.join(parts)}."
