"""Compiles launcher.c, for the Mac or for the twin.

Makes two programs of it, with the same compiler for both platforms.
"""

from pathlib import Path

import macho
from compiler import compile_c

SOURCE = Path(__file__).with_name("launcher.c")

_LINUX_TARGET = "x86_64-linux-gnu.2.31"


def mac_target(minimum_macos: str) -> str:
    """Zig's name for Apple silicon with this oldest system."""
    return f"aarch64-macos.{minimum_macos}"


def compile_launchers(folder: Path, *, name: str, target: str = _LINUX_TARGET) -> None:
    """Make `name`, which runs the window, and python3 in `folder`. Raises `Problem`."""
    folder.mkdir(parents=True, exist_ok=True)
    _compile(folder / name, target, ['-DMODULE="app"'])
    _compile(folder / "python3", target, [])


def _compile(program: Path, target: str, definitions: list[str]) -> None:
    compile_c([SOURCE], program, target=target, options=definitions)
    program.chmod(0o755)
    if macho.is_macho(program):
        # The compiler names a later SDK than there is; macOS would behave accordingly.
        program.write_bytes(macho.without_newer_sdk(program.read_bytes()))
