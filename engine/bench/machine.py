"""Describes the machine of a measurement: figures mean little without it."""

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import mlx.core as mx

from engine.device import backend


@dataclass(frozen=True, slots=True)
class MachineDescription:
    """The machine and the versions that figures belong to. `device` is "CPU", or MLX's name of the
    GPU; `matrix_library` is the library that the CPU backend multiplies with."""

    platform: str
    processor: str
    cores: int
    memory_bytes: int
    python: str
    mlx: str
    mlx_lm: str
    slipstream: str
    device: str
    matrix_library: str


def this_machine() -> MachineDescription:
    """The machine that this process runs on."""
    device = backend().name
    if device != "CPU":
        device = f"{device} {mx.device_info().get('device_name', '')}".strip()
    return MachineDescription(
        platform=platform.platform(),
        processor=_processor(),
        cores=os.cpu_count() or 0,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        python=platform.python_version(),
        mlx=version("mlx"),
        mlx_lm=version("mlx-lm"),
        slipstream=version("slipstream"),
        device=device,
        matrix_library=backend().matrices,
    )


def _processor() -> str:
    if sys.platform == "darwin":
        command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
