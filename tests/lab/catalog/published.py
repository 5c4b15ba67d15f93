"""Speeds that others published and the catalog does not use, and what others recommend.

Where a row's acceptance is an input, only its speed is compared. Each says where it was read.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

MACHINES = (
    ("M1", 8), ("M2", 16), ("M3 Pro", 18), ("M4", 24), ("M2 Pro", 32), ("M4 Pro", 48),
    ("M4 Max", 64), ("M3 Ultra", 96), ("M5 Max", 128), ("M2 Ultra", 192), ("M3 Ultra", 256),
    ("M3 Ultra", 512),
)  # fmt: skip

ELSEWHERE: Mapping[str, Mapping[int, str]] = MappingProxyType(
    {
        "Rapid-MLX 0.16.10": {
            8: "LFM2.5-2.6B-4bit; quick: 1.2B",
            16: "Qwen3.5-4B-4bit; quick: LFM2.5-1.2B",
            18: "Qwen3.5-9B-4bit; quick: Qwen3.5-4B",
            24: "Bonsai-27B-2bit; quick: Qwen3.5-4B",
            32: "Qwen3.8-27B-4bit; quick: Qwen3.5-4B",
            48: "Qwen3.8-27B-4bit; quick: Qwen3.6-35B-A3B-4bit",
        },
        "mlx-dspark 0.20.3": {
            8: "MiniCPM5-2B-bf16",
            16: "Ornith-1.0-9B-8bit",
            24: "Qwen3.8-27B-4bit or Gemma-4-12B-8bit",
            48: "Qwen3.8-27B-8bit",
        },
        "MTPLX 2.12.2 (M3 and newer)": {
            8: "Qwen3.5-4B",
            16: "Ternary-Bonsai-2-27B",
            32: "Qwen3.8-27B, 4 bits, dynamic",
            256: "Qwen3.8-Flash-Next",
        },
    }
)


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


_LINES = Path(__file__).with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
PUBLISHED = tuple(PublishedSpeed(**json.loads(line)) for line in _LINES)
