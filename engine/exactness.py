"""How a loaded pair's greedy text compares with plain decoding's on this machine: a value, and its
words. `engine.conversation.proof` finds it out."""

from dataclasses import dataclass
from typing import Literal

Wish = Literal["auto", "on", "off"]
"""Exact where it costs no time, exact at any cost, or not looked into."""

ANY_ROWS = 1 << 30
COSTS = 1.05  # times as long; less is free, as measurements vary


@dataclass(frozen=True, slots=True)
class Exactness:
    """`rows`: the most rows of a pass in which each has the very bits of a row alone, by `how`;
    longer drafts are read in several passes. 0: no number is, and `why`. `cost`: the time of
    passes over drafts, as a multiple of MLX's own. `kernel`: the state of our own, in words."""

    rows: int
    how: str = ""
    why: str = ""
    cost: float = 1.0
    kernel: str = ""

    @property
    def in_parts(self) -> bool:
        """Whether only `rows` can be read at once."""
        return 0 < self.rows < ANY_ROWS

    def in_words(self) -> str:
        """Return the promise that holds, with its reason and its cost."""
        checked = " (checked on this machine)" if self.in_parts and self.rows > 1 else ""
        near = f"equal up to near ties: {self.why}"
        promise = f"exact{checked}: {self.how}" if self.rows else near
        costs = (
            f"passes over drafts take {self.cost:.2f} times as long" if self.cost > COSTS else ""
        )
        return "; ".join(filter(None, (promise, costs, self.kernel)))


@dataclass(slots=True)
class Promise:
    """The exactness of a loaded model at present, shared by all that read with it. `wish`: as asked
    for. `ours`: whether our own kernel multiplies; where it is given up, `now` changes."""

    now: Exactness
    wish: Wish = "auto"
    ours: bool = False
