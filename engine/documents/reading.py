"""Reads a file or a picture in a process of its own, as it may be hostile or broken.

Knows no format. The process is confined (`confine`); for any end of it there is a result, or one
`Problem`. All functions wait: none is for a window's thread.
"""

import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.documents import Document, document_from_json
from engine.documents.confine import TOO_MUCH_MEMORY
from engine.documents.hidden import in_one_line
from engine.documents.limits import PICTURE_SIDE, RESULT_BYTES, Effort, size
from engine.documents.page_picture import AS_PNG, PIXELS_FROM, Box, PagePicture, png
from engine.request import Picture
from models.errors import Problem
from models.files import replacing

_FOLDER = Path(__file__).parents[2]  # in which `-m engine` finds this copy
_COMPLAINT_BYTES = 4096  # the end of standard error that is kept
_BLOCK_BYTES = 1 << 16
NAMELESS = "picture"
"""The name, in a `Problem`, of a picture without a file."""
_EFFORT = Effort()
_EFFORT_FOR_A_PICTURE = Effort(seconds=30.0)
_IN_PARTS = "Attach a part of it, or its text."
_LOOKS_APART_SECONDS = 0.05
_PROGRESS = re.compile(rb"progress (\d+) (\d+)\n")
_ENDING_SECONDS = 5.0  # from the end of its output to its exit


Progress = Callable[[int, int], None]
"""Is called with (3, 40) when 3 of the 40 files in a folder are read."""


class Cancelled(Exception):
    """The caller cancelled the reading."""


def read_document(
    path: Path,
    *,
    cancelled: Callable[[], bool] = lambda: False,
    progress: Progress = lambda read, of: None,
    effort: Effort = _EFFORT,
    scans: bool = False,
) -> Document:
    """Read a file or folder. Raises `Problem`; raises `Cancelled` soon after `cancelled()`.

    A PDF whose pages have no text that can be read is refused, unless `scans` are wanted.
    """
    content = _run("document", path, cancelled=cancelled, progress=progress, effort=effort)
    try:
        document = document_from_json(content.decode())
    except ValueError as error:
        raise _failed(path, "it wrote no document", _IN_PARTS) from error
    if not document.sections and not scans:
        raise Problem(
            " ".join((f"{document.name}: No page has text that can be read.", *document.left_out)),
            "Recognize its text with an OCR program, and attach the result.",
        )
    return document


def page_picture(
    path: Path,
    number: int,
    *,
    spans: Sequence[tuple[int, int]],
    width: int,
    cancelled: Callable[[], bool] = lambda: False,
) -> PagePicture:
    """Draw a page of a PDF, about `width` pixels wide. Raises as `read_document` does.

    `spans`: pairs of offsets in the text of the page's section; each gets its boxes.
    """
    more = (str(number), str(width), json.dumps([list(span) for span in spans]))
    content = _run("picture", path, *more, cancelled=cancelled, effort=_EFFORT)
    line, _, png = content.partition(b"\n")
    try:
        pixels_across, pixels_down, *boxes = json.loads(line)
        return PagePicture(png, pixels_across, pixels_down, tuple(Box(*box) for box in boxes))
    except (TypeError, ValueError) as error:
        raise _failed(path, "it wrote no picture", _IN_PARTS) from error


def normalize(
    source: Path | bytes,
    into: Path,
    *,
    cancelled: Callable[[], bool] = lambda: False,
    effort: Effort = _EFFORT_FOR_A_PICTURE,
) -> Picture:
    """Read a picture, and write it into a folder as models are shown it: RGB on white, upright, its
    first frame, scaled down to the limits. Raises as `read_document` does.

    The PNG is written here, from pixels: nothing of the file's own bytes is in it. It is named by
    its digest, so the same picture is there once.
    """
    if isinstance(source, bytes):
        with _room_on_the_disk(), TemporaryDirectory(dir=into) as folder:
            path = Path(folder) / NAMELESS
            path.write_bytes(source)
            return normalize(path, into, cancelled=cancelled, effort=effort)
    content = _run("pixels", source, cancelled=cancelled, effort=effort)
    line, _, rgb = content.partition(b"\n")
    try:
        width, height = json.loads(line)
        if not 0 < max(width, height) <= PICTURE_SIDE or len(rgb) != 3 * width * height:
            raise ValueError(line)
    except (TypeError, ValueError) as error:
        raise _failed(source, "it wrote no picture", AS_PNG) from error
    digest, data = _written(rgb, width, height)
    path = into.absolute() / f"{digest}.png"
    if not path.exists():
        with _room_on_the_disk(), replacing(path) as partial:
            partial.write_bytes(data)
    return Picture(str(path), digest, width, height)


def rewritten(data: bytes, picture: Document) -> bytes | None:
    """Return a PNG of `normalize`, which may come from a stranger, encoded again from its pixels.
    Returns None if it is not this picture."""
    width, height = picture.pixels or (0, 0)
    if not 0 < min(width, height) <= max(width, height) <= PICTURE_SIDE:
        return None
    row = 1 + 3 * width
    try:
        rows = zlib.decompressobj().decompress(data[PIXELS_FROM:], row * height)
    except zlib.error:
        return None
    rgb = b"".join(rows[start + 1 : start + row] for start in range(0, len(rows), row))
    digest, anew = _written(rgb, width, height)
    return anew if digest == picture.digest else None


def _written(rgb: bytes, width: int, height: int) -> tuple[str, bytes]:
    """Return the digest of a picture with these pixels, and its PNG."""
    digest = sha256(f"{width} {height}\n".encode() + rgb).hexdigest()
    return digest, png(rgb, width=width, height=height, row_bytes=3 * width, effort=1)


@contextmanager
def _room_on_the_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"The picture cannot be saved: {error.strerror or type(error).__name__}."
        raise Problem(message, "Free some disk space, and try again.") from error


def _run(
    name: str,
    path: Path,
    *more: str,
    cancelled: Callable[[], bool],
    effort: Effort,
    progress: Progress = lambda read, of: None,
) -> bytes:
    """Run the process; return the content of its result."""
    remedy = AS_PNG if name == "pixels" else _IN_PARTS
    program = (sys.executable, "-X", "faulthandler", "-m", f"{__package__}.child")
    limits = (str(effort.seconds), str(effort.memory_bytes))
    try:
        process = subprocess.Popen(
            (*program, name, *limits, str(path.absolute()), *more),
            cwd=_FOLDER,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,  # Ctrl-C reaches the caller only, which cancels
        )
    except OSError as error:
        message = f"{in_one_line(path.name)}: its reader cannot start: {error.strerror}."
        raise Problem(message, "Start Slipstream again.") from error
    with process:
        try:
            written, complaint = _listen(
                process, path, remedy, cancelled=cancelled, progress=progress, effort=effort
            )
            status = process.wait(timeout=_ENDING_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise _too_long(path, effort, remedy) from error
        finally:
            process.kill()
    kind, _, content = written.partition(b"\n")
    if status == 0 and kind.decode(errors="replace") == name:
        return content
    if status == 0 and kind == b"problem":
        raise Problem(*json.loads(content))
    problem = _ended(path, status, effort, remedy)
    problem.add_note(complaint.decode(errors="replace"))
    raise problem


def _listen(
    process: subprocess.Popen[bytes],
    path: Path,
    remedy: str,
    *,
    cancelled: Callable[[], bool],
    progress: Progress,
    effort: Effort,
) -> tuple[bytes, bytes]:
    """Read both outputs until they are closed: all of the result, the end of standard error."""
    assert process.stdout
    assert process.stderr
    late = time.monotonic() + effort.seconds
    written, complaint = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, written)
        selector.register(process.stderr, selectors.EVENT_READ, complaint)
        while selector.get_map():
            if cancelled():
                raise Cancelled
            if time.monotonic() > late:
                raise _too_long(path, effort, remedy)
            for key, _ in selector.select(_LOOKS_APART_SECONDS):
                block = os.read(key.fd, _BLOCK_BYTES)
                key.data.extend(block)
                if not block:
                    selector.unregister(key.fileobj)
            while found := _PROGRESS.match(written):
                progress(int(found[1]), int(found[2]))
                del written[: found.end()]
            del complaint[:-_COMPLAINT_BYTES]
            if len(written) > RESULT_BYTES:
                raise _failed(path, f"it wrote more than {size(RESULT_BYTES)}", remedy)
    return bytes(written), bytes(complaint)


def _ended(path: Path, status: int, effort: Effort, remedy: str) -> Problem:
    """The reason for a missing result."""
    if status == TOO_MUCH_MEMORY:
        return Problem(
            f"{in_one_line(path.name)}: reading it took more than"
            f" {size(effort.memory_bytes)} of memory.",
            remedy,
        )
    if status == -signal.SIGXCPU:
        return _too_long(path, effort, remedy)
    how = signal.Signals(-status).name if status < 0 else f"status {status}"
    return _failed(path, f"it ended with {how}", remedy)


def _too_long(path: Path, effort: Effort, remedy: str) -> Problem:
    message = f"{in_one_line(path.name)}: reading it took longer than {effort.seconds:g} seconds."
    return Problem(message, remedy)


def _failed(path: Path, how: str, remedy: str) -> Problem:
    return Problem(
        f"{in_one_line(path.name)}: its reader failed: {how}.",
        f"The file may be damaged. {remedy}",
    )
