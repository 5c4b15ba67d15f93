"""Compiles C with ziglang's compiler: for any platform, with the same bytes everywhere.

Makes the two launchers of one source; `cblas.py` makes resources/blas.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import macho
from configuration import CACHE, PACKAGING
from models.errors import Problem

LAUNCHER = PACKAGING / "bundle" / "launcher.c"
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


def mac_target(minimum_macos: str) -> str:
    """Zig's name for Apple silicon with this oldest system."""
    return f"aarch64-macos.{minimum_macos}"


def compile_launchers(folder: Path, *, name: str, target: str = "x86_64-linux-gnu.2.31") -> None:
    """Make `name`, which runs the window, and python3 in `folder`. Raises `Problem`."""
    folder.mkdir(parents=True, exist_ok=True)
    for program, options in ((folder / name, ['-DMODULE="app"']), (folder / "python3", [])):
        compile_c([LAUNCHER], program, target=target, options=options)
        program.chmod(0o755)
        if macho.is_macho(program):
            # The compiler names a later SDK than there is; macOS would behave accordingly.
            program.write_bytes(macho.without_newer_sdk(program.read_bytes()))
