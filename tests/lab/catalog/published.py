"""Speeds that others published and the catalog does not use, and what others recommend.

Where a row's acceptance is an input, only its speed is compared. Each says where it was read.
"""

import json
from dataclasses import dataclass
from pathlib import Path

MACHINES = (
    ("M1", 8), ("M2", 16), ("M3 Pro", 18), ("M4", 24), ("M2 Pro", 32), ("M4 Pro", 48),
    ("M4 Max", 64), ("M3 Ultra", 96), ("M5 Max", 128), ("M2 Ultra", 192), ("M3 Ultra", 256),
    ("M3 Ultra", 512),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PublishedSpeed:
    """`plain` tokens a second, and `gain`, times plain; 0 where not published."""

    chip: str
    memory_gb: int
    target: str
    drafter: str
    plain: float
    gain: float
    source: str


_FOLDER = Path(__file__).parent
_LINES = (_FOLDER / "published.jsonl").read_text(encoding="utf-8").splitlines()
PUBLISHED = tuple(PublishedSpeed(**json.loads(line)) for line in _LINES)

_PICKS: dict[str, dict[str, str]] = json.loads((_FOLDER / "elsewhere.json").read_text())
ELSEWHERE = {
    program: {int(memory_gb): pick for memory_gb, pick in picks.items()}
    for program, picks in _PICKS.items()
}
"""What each other program recommends, from so much memory on."""
