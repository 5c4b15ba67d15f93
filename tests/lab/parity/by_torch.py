"""Runs the scripts here that need PyTorch, in a process of its own: see README.md."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.lab.parity.subjects import Arrays, Subject, Unavailable


def by_torch(
    script: str,
    subject: Subject,
    inputs: Mapping[str, NDArray[Any]],
    *,
    packages: str,
    path: str = "",
) -> Arrays:
    """What `script FOLDER INPUTS OUTPUT` gives for a subject's folder.

    `packages`: what it imports, in words; `path`: where else it imports from. Raises `Unavailable`.
    """
    python = os.environ.get("SLIPSTREAM_TORCH_PYTHON")
    if not python:
        raise Unavailable(f"SLIPSTREAM_TORCH_PYTHON names no Python with torch and {packages}")
    with TemporaryDirectory() as name:
        folder = subject.write(Path(name) / "drafter")
        given, output = Path(name) / "inputs.npz", Path(name) / "output.npz"
        np.savez(given, **inputs)  # type: ignore[arg-type]
        subprocess.run(
            [python, Path(__file__).with_name(script), folder, given, output],
            check=True,
            env=os.environ | {"PYTHONPATH": path},
        )
        with np.load(output) as file:
            return {name: file[name] for name in file.files}
