"""Compiles the bundle's modules in advance, as nothing may be written into it later.

The same sources give the same bytes. A .pyc depends on the files that the same process compiled
before (marshal looks at the number of references to a value). So each process gets the same files
every time, in the same order, and a hash seed of 0.
"""

import os
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from models.errors import Problem

_CHUNK = Path(__file__).with_name("compile_chunk.py")
_SHARES = 16


def compile_all(
    folder: Path, python: Path, *, is_excluded: Callable[[str], bool] = lambda name: False
) -> None:
    """Put a __pycache__ next to every .py under `folder`, with `python`, a Python 3.13.

    Raises `Problem` if a file does not compile.
    """
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py"))
    names = [name for name in names if not is_excluded(name)]
    shares = [names[start::_SHARES] for start in range(min(_SHARES, len(names)))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda share: _compile(folder, python, share), shares))


def _compile(folder: Path, python: Path, names: Sequence[str]) -> None:
    command = [str(python), "-s", "-S", "-P", "-B", str(_CHUNK)]
    done = subprocess.run(
        [*command, str(folder)],
        input="\n".join(names),
        env={"PYTHONHASHSEED": "0", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise Problem(
            f"The bundle does not compile: {done.stderr.strip()[-300:]}",
            "Correct that file, or exclude it in slipstream.toml.",
        )
