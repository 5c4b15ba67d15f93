"""Makes a Mac's volume (HFS+) with the application in it, with xorriso.

xorriso writes an ISO 9660 disc with the HFS+ volume as a partition; only that partition is kept.
The same files give the same bytes.
"""

import os
import struct
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from configuration import TIME
from models.errors import Problem

_SECTOR = 512
_BLOCK_BYTES = 1 << 20
_HFS = b"Apple_HFS"
_SERIAL = "51495053545245AD"  # any number, but always the same


def write_volume(app: Path, raw: Path, *, name: str) -> None:
    """Write a volume called `name` to `raw`: the bundle, and a link to Applications.

    Files keep their times and permissions. Raises `Problem` without xorriso.
    """
    with TemporaryDirectory(dir=raw.parent) as folder:
        disc, applications = Path(folder) / "disc.img", Path(folder) / "Applications"
        applications.symlink_to("/Applications")
        os.utime(applications, (TIME, TIME), follow_symlinks=False)
        command = ["xorriso", "-as", "mkisofs", "-quiet", "-hfsplus", "-hfsplus-serial-no", _SERIAL]
        command += ["-V", name, "-r", "-uid", "0", "-gid", "0", "-no-pad", "-o", str(disc)]
        command += ["-graft-points", f"{app.name}={app}", f"Applications={applications}"]
        _run(command)
        with disc.open("rb") as source, raw.open("wb") as target:
            start, size = _find_partition(source.read(64 * _SECTOR))
            source.seek(start)
            while size > 0:
                block = source.read(min(size, _BLOCK_BYTES))
                if not block:
                    raise ValueError("xorriso's disc ends before its HFS+ volume does.")
                target.write(block)
                size -= len(block)


def _run(command: list[str]) -> None:
    try:
        subprocess.run(
            command,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(TIME), "TZ": "UTC"},
            capture_output=True,
            check=True,
            text=True,
        )
    except FileNotFoundError as error:
        raise Problem(
            "xorriso, which writes the image's volume, is not installed.",
            "Install it: apt-get install xorriso, or brew install xorriso.",
        ) from error
    except subprocess.CalledProcessError as error:
        wrong = [line for line in error.stderr.splitlines() if "FAILURE" in line or "SORRY" in line]
        reason = wrong[0] if wrong else f"status {error.returncode}"
        raise Problem(
            f"xorriso could not write the volume: {reason}",
            "Make room on the disk, or use xorriso 1.5.4 or newer.",
        ) from error


def _find_partition(head: bytes) -> tuple[int, int]:
    """The start and the length of the HFS+ volume on the disc, in bytes.

    They are in the Apple partition map: an entry (`PM`) in each sector from the second on.
    """
    for offset in range(_SECTOR, len(head), _SECTOR):
        signature, start, sectors = struct.unpack_from(">2s6xII", head, offset)
        if signature == b"PM" and head[offset + 48 :].startswith(_HFS + b"\0"):
            return start * _SECTOR, sectors * _SECTOR
    raise ValueError("xorriso's disc has no HFS+ volume.")
