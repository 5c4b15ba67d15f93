"""Compiles launcher.c, for the Mac or for the twin.

Knows which two programs are made of it. A compiler for the one platform that is built for comes
with the other's: the same source, and the same compiler, for both.
"""

import struct
from pathlib import Path

from compiler import compile_c

_LINUX_TARGET = "x86_64-linux-gnu.2.31"
_MACH_O_64 = 0xFEEDFACF
_BUILD_VERSION = 0x32  # mach-o/loader.h: command, size, platform, minimum OS, SDK


def mac_target(minimum_macos: str) -> str:
    """What zig calls Apple silicon with this system."""
    return f"aarch64-macos.{minimum_macos}"


def compile_launchers(folder: Path, *, name: str, target: str = _LINUX_TARGET) -> None:
    """Make `name`, which runs the window, and python3 in `folder`. Raises Problem if it fails."""
    folder.mkdir(parents=True, exist_ok=True)
    _compile(folder / name, target, ['-DMODULE="app"'])
    _compile(folder / "python3", target, [])


def _compile(program: Path, target: str, definitions: list[str]) -> None:
    compile_c("launcher.c", program, target=target, options=definitions)
    program.chmod(0o755)
    _claim_no_newer_system(program)


def _claim_no_newer_system(program: Path) -> None:
    """The compiler says that a later SDK was used than there is; macOS would behave accordingly."""
    data = bytearray(program.read_bytes())
    magic, commands = struct.unpack_from("<I12xI", data)
    if magic != _MACH_O_64:
        return
    offset = 32
    for _ in range(commands):
        command, size, _, minimum = struct.unpack_from("<4I", data, offset)
        if command == _BUILD_VERSION:
            struct.pack_into("<I", data, offset + 16, minimum)
        offset += size
    program.write_bytes(data)
