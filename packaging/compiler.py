"""Compiles C with ziglang's compiler: for any platform, with the same bytes everywhere."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from configuration import CACHE
from models.errors import Problem

_OPTIONS = ("-std=c11", "-Os", "-s", "-Wall", "-Wextra", "-Werror", "-g0")


def compile_c(
    sources: Sequence[Path], result: Path, *, target: str, options: Sequence[str] = ()
) -> None:
    """Compile sources of one folder into `result`, for `target` in zig's terms. Raises Problem."""
    name = sources[0].name
    command = [sys.executable, "-m", "ziglang", "cc", f"--target={target}", *_OPTIONS, *options]
    # Run in the folder, as the compiler would write a path to it into the result.
    command += [*(source.name for source in sources), "-o", str(result.resolve())]
    caches = {"ZIG_GLOBAL_CACHE_DIR": str(CACHE / "zig"), "ZIG_LOCAL_CACHE_DIR": str(CACHE / "zig")}
    done = subprocess.run(
        command, cwd=sources[0].parent, env={**os.environ, **caches}, capture_output=True, text=True
    )
    if done.returncode != 0:
        if "No module named ziglang" in done.stderr:
            raise Problem(
                f"The compiler for {name} is not installed.",
                "Install what packaging needs: pip install -e '.[packaging]'",
            )
        first = done.stderr.strip().splitlines() or ["no reason given"]
        raise Problem(f"{name} does not compile: {first[0]}", f"Correct {name}.")
