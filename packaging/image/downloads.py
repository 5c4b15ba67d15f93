"""Makes the downloads: the bundle as a disk image and as a .zip, each read back and compared.

Knows their names and their largest sizes. Trusts a file only after it was read back.
"""

import hashlib
import stat
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from bundle.assemble import has_starter
from configuration import TIME, Configuration
from image.udif import read_image, write_image
from image.volume import write_volume
from models.errors import Problem
from models.files import file_sha256

_LEVEL = 9
_UNIX = 3  # the system of the permissions in a .zip


def make_downloads(app: Path, folder: Path, configuration: Configuration) -> list[Path]:
    """Write the image and the .zip of the bundle `app` to `folder`, and a list of their sha256.

    Raises `Problem` if one of them has other content, or is too large; then nothing is written.
    """
    application, budget = configuration.application, configuration.budget
    starter = has_starter(app)
    stem = f"{application.name}-{configuration.version}-{application.architecture}"
    stem += "" if starter else "-without-starter"
    most_bytes = budget.image_with_starter_bytes if starter else budget.image_bytes
    with TemporaryDirectory(dir=folder) as place:
        made = [Path(place) / f"{stem}.{suffix}" for suffix in ("dmg", "zip", "sha256")]
        image, archive, sums = made
        with ThreadPoolExecutor(1) as pool:
            archived = pool.submit(_archive, app, archive)
            _image(app, image, name=application.name)
            archived.result()
        size_bytes = image.stat().st_size
        if size_bytes > most_bytes:
            raise Problem(
                f"The image has {size_bytes:,} bytes, and may have {most_bytes:,}.",
                "Leave something out: see [[prune]] in slipstream.toml.",
            )
        lines = [f"{file_sha256(path)}  {path.name}\n" for path in (image, archive)]
        sums.write_text("".join(lines), encoding="utf-8")
        return [path.replace(folder / path.name) for path in made]


def _image(app: Path, image: Path, *, name: str) -> None:
    with TemporaryDirectory(dir=image.parent) as folder:
        raw = Path(folder) / "raw.img"
        write_volume(app, raw, name=name)
        write_image(raw, image)
        try:
            digest = hashlib.sha256()
            for piece in read_image(image):
                digest.update(piece)
            same = digest.hexdigest() == file_sha256(raw)
        except ValueError:
            same = False
        if not same:
            raise _unlike(image)


def _archive(app: Path, archive: Path) -> None:
    write_archive(app, archive)
    if not archive_is_like(app, archive):
        raise _unlike(archive)


def write_archive(app: Path, path: Path) -> None:
    """Write the bundle `app`, with links and permissions, to `path`, in a form for Finder.

    The same files give the same bytes.
    """
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


def archive_is_like(app: Path, archive: Path) -> bool:
    """Whether the .zip equals the bundle: every name, permission, link and byte."""
    wanted = {item.relative_to(app.parent).as_posix(): item for item in (app, *app.rglob("*"))}
    with zipfile.ZipFile(archive) as opened:
        members = {info.filename.rstrip("/"): info for info in opened.infolist()}
        if members.keys() != wanted.keys():
            return False
        for name, item in wanted.items():
            mode = item.lstat().st_mode
            if members[name].external_attr >> 16 != mode:
                return False
            if stat.S_ISLNK(mode):
                there = str(item.readlink()).encode()
            else:
                there = item.read_bytes() if stat.S_ISREG(mode) else b""
            try:
                if opened.read(members[name]) != there:
                    return False
            except zipfile.BadZipFile:
                return False
    return True


def _unlike(path: Path) -> Problem:
    return Problem(f"{path.name} differs from the bundle.", "Check the disk.")
