"""The bundle as a .zip, which Finder unpacks; the same files give the same bytes."""

import stat
import time
import zipfile
from pathlib import Path

from configuration import TIME

_LEVEL = 9
_UNIX = 3


def write_archive(app: Path, path: Path) -> None:
    """Write the bundle `app`, with its links and permissions, to `path`."""
    date = time.gmtime(TIME)[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        for item in (app, *sorted(app.rglob("*"))):
            name = item.relative_to(app.parent).as_posix()
            mode = item.lstat().st_mode
            if item.is_symlink():
                data = str(item.readlink()).encode()
            elif item.is_dir():
                name, data = f"{name}/", b""
            else:
                data = item.read_bytes()
            member = zipfile.ZipInfo(name, date)
            member.create_system = _UNIX
            member.external_attr = (stat.S_IFMT(mode) | stat.S_IMODE(mode)) << 16
            member.compress_type = zipfile.ZIP_DEFLATED if data else zipfile.ZIP_STORED
            archive.writestr(member, data)
