"""Compiles launcher.c, for the Mac or for the twin, with the compiler that ziglang brings.

Knows which two programs are made of it. A compiler for the one platform that is built for comes
with the other's: the same source, and the same compiler, for both.
"""

import os
import subprocess
import sys
from pathlib import Path

import macho
from configuration import CACHE
from models.errors import Problem

SOURCE = Path(__file__).with_name("launcher.c")

_LINUX_TARGET = "x86_64-linux-gnu.2.31"


def mac_target(minimum_macos: str) -> str:
    """What zig calls Apple silicon with this system."""
    return f"aarch64-macos.{minimum_macos}"


def compile_launchers(folder: Path, *, name: str, target: str = _LINUX_TARGET) -> None:
    """Make `name`, which runs the window, and python3 in `folder`. Raises Problem if it fails."""
    folder.mkdir(parents=True, exist_ok=True)
    _compile(folder / name, target, ['-DMODULE="app"'])
    _compile(folder / "python3", target, [])


def _compile(program: Path, target: str, definitions: list[str]) -> None:
    command = [sys.executable, "-m", "ziglang", "cc", f"--target={target}", "-std=c11", "-Os", "-s"]
    command += ["-Wall", "-Wextra", "-Werror", "-g0", *definitions]
    # Without a path to it, as the compiler would write that into what it makes.
    command += [SOURCE.name, "-o", str(program.resolve())]
    caches = {"ZIG_GLOBAL_CACHE_DIR": str(CACHE / "zig"), "ZIG_LOCAL_CACHE_DIR": str(CACHE / "zig")}
    done = subprocess.run(
        command, cwd=SOURCE.parent, env={**os.environ, **caches}, capture_output=True, text=True
    )
    if done.returncode != 0:
        if "No module named ziglang" in done.stderr:
            raise Problem(
                "The compiler for the launcher is not installed.",
                "Install what packaging needs: pip install -e '.[packaging]'",
            )
        first = done.stderr.strip().splitlines() or ["no reason given"]
        raise Problem(f"The launcher does not compile: {first[0]}", "Correct launcher.c.")
    program.chmod(0o755)
    if macho.is_macho(program):
        # The compiler names a later SDK than there is; macOS would behave accordingly.
        program.write_bytes(macho.without_newer_sdk(program.read_bytes()))
