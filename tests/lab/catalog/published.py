"""Speeds that others published and the catalog does not use, and what others recommend.

Where a row's acceptance is an input, only its speed is compared. Each says where it was read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
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


_M = "mlx-community/"
_OWN = "mlx-dspark 0.20.3, its own kernel for rows"


def _row(
    chip: str, memory_gb: int, target: str, drafter: str, plain: float, gain: float, source: str
) -> PublishedSpeed:
    return PublishedSpeed(chip, memory_gb, target, drafter, plain, gain, source)


_DSPARK = "RedHatAI/Qwen3.8-27B-speculator.dspark"
_RADIX = "RadixArk/Qwen3.8-27B-DSpark"
_MTP = f"{_M}Qwen3.8-27B-MTP-4bit"
_27B4, _27B8 = f"{_M}Qwen3.8-27B-4bit", f"{_M}Qwen3.8-27B-8bit"

PUBLISHED: tuple[PublishedSpeed, ...] = (
    _row("M1 Max", 64, _27B8, _DSPARK, 0, 0.91, source="mlx-dspark issue 38, its best"),
    _row("M1 Ultra", 128, _27B4, _MTP, 0, 0.70, source="mlxcel PR 1182"),
    _row("M2 Max", 32, _27B4, _MTP, 21.7, 1.19, source="Rapid-MLX issue 3140"),
    _row("M1 Max", 64, f"{_M}Qwen3-Coder-Next-4bit", "", 33.2, 0, source="Rapid-MLX issue 2174"),
    _row("M1 Ultra", 128, f"{_M}Qwen3.6-35B-A3B-4bit", "", 58.2, 0, source="vllm-metal PR 637"),
    _row("M2 Pro", 32, _27B4, "", 11.0, 0, source="Rapid-MLX, Qwen3.6-27B"),
    _row("M2 Pro", 32, f"{_M}Qwen3.5-9B-MLX-4bit", "", 35.7, 0, source="Rapid-MLX"),
    _row("M2 Pro", 32, f"{_M}Qwen3.5-4B-MLX-4bit", "", 60.7, 0, source="Rapid-MLX"),
    _row("M2 Pro", 32, f"{_M}gemma-4-26b-a4b-it-4bit", "", 49.5, 0, source="Rapid-MLX"),
    _row("M2 Pro", 32, "LiquidAI/LFM2.5-2.6B-MLX", "", 93.5, 0, source="Rapid-MLX"),
    _row("M2 Pro", 32, f"{_M}Qwen3.6-35B-A3B-4bit", "", 59.9, 0, source="Rapid-MLX issue 1650"),
    _row("M2 Max", 32, f"{_M}Qwen3.6-35B-A3B-4bit", "", 84.2, 0, source="Rapid-MLX PR 1068"),
    _row("M2 Max", 32, f"{_M}Qwen3.5-9B-MLX-4bit", "", 63.5, 0, source="Rapid-MLX"),
    _row("M3 Ultra", 512, f"{_M}MiniMax-M2.5-6bit", "", 38.2, 0, source="public notes"),
    _row("M5 Max", 128, f"{_M}Qwen3.5-35B-A3B-4bit", "", 133.5, 0, source="Mac-MLX issue 24"),
    _row("M3 Max", 64, f"{_M}Llama-3.3-70B-Instruct-4bit",
         f"{_M}Llama-3.2-1B-Instruct-4bit", 7.7, 0,
         source="field notes"),
    _row("M3 Ultra", 256, f"{_M}gemma-4-31b-it-4bit", f"{_M}gemma-4-31B-it-assistant-bf16", 0, 2.34,
         source="mlxcel PR 1254, mean of three texts"),
    _row("M4", 16, f"{_M}Qwen3.5-9B-MLX-4bit", f"{_M}Qwen3.5-9B-MTP-4bit", 0, 1.60,
         source="MTPLX, 6 bits there"),
    _row("M4 Max", 64, _27B4, _MTP, 26.0, 0, source="mlx-serve PR 252"),
    _row("M5 Max", 64, _27B8, _RADIX, 18.1, 1.90, source="mlx-dspark issue 8, 2 drafted"),
    _row("M5 Max", 48, _27B4, _RADIX, 33.6, 1.30, source="mlx-vlm PR 1914, 3 drafted"),
    _row("M5 Max", 128, _27B4, _MTP, 32.96, 1.19, source="mlxcel PR 1182, block 3"),
    _row("M5 Max", 128, f"{_M}Qwen3.6-27B-4bit", f"{_M}Qwen3.6-27B-MTP-4bit", 30.4, 2.69,
         source="MTPLX, its own weights and kernels"),
    _row("M5 Max", 128, f"{_M}Qwen3.5-4B-MLX-4bit", f"{_M}Qwen3.5-4B-MTP-4bit", 134.0, 1.71,
         source="MTPLX"),
    _row("M5 Max", 128, f"{_M}gemma-4-12B-it-4bit", f"{_M}gemma-4-12B-it-assistant-bf16", 0, 2.27,
         source="mlxcel PR 1204"),
    _row("M4 Pro", 48, _27B8, _DSPARK, 8.2, 3.79, source=_OWN),
    _row("M4 Pro", 48, _27B4, _DSPARK, 14.7, 2.63, source=_OWN),
    _row("M4 Pro", 48, _27B4, "incoai/Qwen3.8-27B-DFlash2", 14.7, 2.72, source=_OWN),
    _row("M4 Pro", 48, f"{_M}gemma-4-12B-it-8bit", "deepseek-ai/dspark_gemma4_12b_block7",
         18.4, 3.25, source=_OWN),
    _row("M4 Pro", 48, f"{_M}Qwen3-8B-8bit", "deepseek-ai/dspark_qwen3_8b_block7", 29.5, 2.19,
         source=_OWN),
    _row("M4 Pro", 48, f"{_M}Qwen3-4B-8bit", "deepseek-ai/dspark_qwen3_4b_block7", 51.7, 1.98,
         source=_OWN),
    _row("M4 Pro", 48, f"{_M}Ornith-1.0-9B-8bit", "stanleyphoong/Ornith-1.0-9B-DSpark", 26.7, 2.40,
         source="mlx-dspark 0.20.3"),
    _row("M4 Pro", 48, f"{_M}Qwen3.6-27B-8bit", "satgeze/Qwen3.6-27B-DSpark", 8.4, 2.29,
         source="mlx-dspark 0.20.3"),
    _row("M4 Pro", 48, f"{_M}Qwen3-14B-8bit", "deepseek-ai/dspark_qwen3_14b_block7", 15.3, 2.03,
         source="mlx-dspark 0.20.3"),
    _row("M4 Pro", 48, f"{_M}Muse-Glimmer-30B-8bit", "DaoCloud/Muse-Glimmer-30B-DSpark", 8.2, 2.47,
         source="mlx-dspark 0.20.3"),
    _row("M4 Pro", 48, f"{_M}MiniCPM5-2B-bf16", "openbmb/MiniCPM5-2B-DSpark", 50.6, 3.16,
         source="mlx-dspark 0.20.3"),
    _row("M4 Pro", 48, "LiquidAI/LFM2.5-1.2B-Instruct-MLX-bf16",
         "LiquidAI/LFM2.5-1.2B-Instruct-DSpark", 99.6, 3.35, source="mlx-dspark 0.20.3"),
    _row("M4 Pro", 48, "LiquidAI/LFM2.5-2.6B-MLX-bf16", "LiquidAI/LFM2.5-2.6B-DSpark", 43.6, 2.79,
         source="mlx-dspark 0.20.3"),
    _row("M4 Pro", 48, f"{_M}Qwen3.6-35B-A3B-4bit", "Koopah/Qwen3.6-35B-A3B-NVFP4-DSPARK",
         86.9, 1.32, source="mlx-dspark 0.20.3; its drafter in 4 bits"),
)  # fmt: skip
