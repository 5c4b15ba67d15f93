"""Describes the machine of a measurement: figures mean little without it."""

import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import mlx.core as mx

from engine.conversation.loading import free_memory_bytes
from engine.cpu.blas import choose_blas
from engine.device import backend


@dataclass(frozen=True, slots=True)
class MachineDescription:
    """`device` is MLX's: "CPU", or the GPU's name. `matrix_library` is the CPU backend's."""

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
    return MachineDescription(
        platform=platform.platform(),
        processor=_processor(),
        cores=os.cpu_count() or 0,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        python=platform.python_version(),
        mlx=version("mlx"),
        mlx_lm=version("mlx-lm"),
        slipstream=version("slipstream"),
        device=_device(),
        matrix_library=str(choose_blas()),
    )


def available_bytes() -> int | None:
    """The memory that is available without swapping; None if the system does not say."""
    if sys.platform == "darwin":
        printed = subprocess.run(["/usr/bin/vm_stat"], capture_output=True, text=True).stdout
        return available_in_vm_stat(printed)
    return free_memory_bytes() or None


def available_in_vm_stat(printed: str) -> int | None:
    """Parse the output of macOS's vm_stat: the bytes of pages that are free or can be freed."""
    page = re.search(r"page size of (\d+) bytes", printed)
    counts = dict(re.findall(r"^Pages ([a-z ]+): +(\d+)\.$", printed, flags=re.MULTILINE))
    kinds = ("free", "inactive", "speculative", "purgeable")
    if page is None or "free" not in counts:
        return None
    return int(page[1]) * sum(int(counts.get(kind, 0)) for kind in kinds)


def _device() -> str:
    name = backend().name
    return name if name == "CPU" else f"{name} {mx.device_info().get('device_name', '')}".strip()


def _processor() -> str:
    if sys.platform == "darwin":
        command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    lines = _lines(Path("/proc/cpuinfo"))
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
