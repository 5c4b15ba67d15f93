"""The documents and pictures attached to the unsent message.

Reads one file after the other, and stores each before it counts as attached. Knows the store and
who reads files; not what of a document is sent, and no widget.
"""

import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from threading import Event
from typing import Any, Protocol

from PySide6.QtCore import QObject, QTimer, Signal

from app.conversations.database import disk_problem
from app.conversations.store import Store, is_temporary
from app.steps import Stepper, Steps, in_thread
from engine.documents import Document
from engine.documents.reading import Cancelled, Progress, normalize, page_picture
from models.errors import Problem
from models.in_words import one_line

Write = Callable[[Path], None]
_OF_A_MAC = (".heic", ".heif", ".avif")  # which only a Mac converts


class Read(Protocol):
    """Reads a file or a folder. Raises Problem, and Cancelled soon after it was `cancelled`."""

    def __call__(
        self, path: Path, *, cancelled: Callable[[], bool], progress: Progress, scans: bool
    ) -> Document: ...


PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", *_OF_A_MAC)
"""The ends of names of files that are shown to a model as pictures."""

PAGE_WIDTH = 1400  # pixels of a page that is shown to a model
MOST_PAGES = 8  # of a PDF that are shown at once
_CONVERTING_SECONDS = 30
_ENDING_SECONDS = 1.0
_LOOKS_APART_MS = 300
MOST_AT_ONCE = 50  # files; more of them should be attached as a folder


@dataclass(frozen=True, slots=True)
class Attachment:
    """`number` is the document's in the conversation, 0 until it is read. `problem` says why it
    could not be read. `key` identifies an attachment without a number. `read_files`: the number of
    a folder's `files` that are read. `scan`: the PDF whose `pages`, their numbers, have no text and
    can be attached as pictures."""

    name: str
    number: int = 0
    document: Document | None = None
    problem: Problem | None = None
    key: int = 0
    read_files: int = 0
    files: int = 0
    scan: Path | None = None
    pages: tuple[int, ...] = ()


@dataclass(slots=True)
class _File:
    """A file to be read for a conversation; None for the new conversation. `page`: of a PDF, the
    page to be attached as a picture; 0 for all of the file. `write` writes a file of that name
    first, which is gone once it is stored."""

    path: Path
    shown: Attachment
    conversation: int | None
    page: int = 0
    write: Write | None = None
    cancelled: Event = field(default_factory=Event)
    progress: tuple[int, int] = (0, 0)  # set by the thread that reads

    def report(self, read_files: int, files: int) -> None:
        self.progress = read_files, files


class Attachments(QObject):
    """The attachments of the open conversation.

    Signals:
        changed(): the list or one of its items changed.
        attached(Attachment): a file was read and stored.
        failed(Problem): another command failed.
    """

    changed = Signal()
    attached = Signal(Attachment)
    failed = Signal(Problem)

    def __init__(
        self,
        store: Store,
        *,
        read: Read,
        stored: Callable[[], Generator[Future[Any], Any, int]],
        parent: QObject | None = None,
    ) -> None:
        """`stored` returns the id of the open conversation; a new one is stored first."""
        super().__init__(parent)
        self._store, self._read, self._stored = store, read, stored
        self._stepper = Stepper(self)
        self._conversation: int | None = None
        self._attached: tuple[Attachment, ...] = ()
        self._files: list[_File] = []
        self._reading: _File | None = None
        self._reads: list[Future[Document]] = []  # the latest
        self._drawn: dict[str, list[Path]] = {}  # the PDFs of each page's name that was attached
        self._keys = count(1)
        self._looks = QTimer(self, interval=_LOOKS_APART_MS)
        self._looks.timeout.connect(self._show_progress)
        self._asked = 0  # number of requests to the store: late replies are ignored

    @property
    def all(self) -> tuple[Attachment, ...]:
        """The attached documents, then the files that are being read or could not be read."""
        return (*self._attached, *(file.shown for file in self._here()))

    @property
    def ready(self) -> tuple[tuple[int, Document], ...]:
        """The attached documents, with their numbers."""
        return tuple((one.number, one.document) for one in self._attached if one.document)

    @property
    def unread_pages(self) -> list[tuple[Path, int, str]]:
        """The first pages without text of the PDFs that are attached, which are not attached as
        pictures yet: the file, the page's number, and its name."""
        there = {each.name for each in self.all}
        return [
            (scan, page, name)
            for each in self.all
            for page in each.pages[:MOST_PAGES]
            if (scan := each.scan) and (name := f"{each.name}, page {page}")
            if name not in there or scan not in self._drawn.get(name, [scan])
        ]

    @property
    def reading(self) -> bool:
        """Whether a file is still to be read."""
        return any(file.shown.problem is None for file in self._here())

    def show(self, conversation: int | None) -> None:
        """Show the attachments of another conversation; None for a new one."""
        for file in self._files:
            if file.conversation is None:  # no one can return to it
                file.cancelled.set()
        self._files = [file for file in self._files if file.conversation is not None]
        self._conversation, self._attached = conversation, ()
        self.refresh()
        self.changed.emit()

    def name(self, conversation: int) -> None:
        """Take the id of the open conversation, which was new."""
        self._conversation = conversation
        for file in self._files:
            file.conversation = file.conversation or conversation

    def refresh(self) -> None:
        """Read the attachments from the store."""
        conversation = self._conversation
        self._asked += 1
        asked = self._asked
        if conversation is None:
            return

        def steps() -> Steps:
            found = yield self._store.unsent_documents(conversation)
            if asked == self._asked:
                self._show(tuple(self._stored_as(number, d) for number, d in found))

        self._stepper.run(steps(), failed=self.failed.emit)

    def hide(self) -> None:
        """Show no attachments: they are being sent."""
        self._asked += 1
        self._show(())

    def add(self, paths: Sequence[Path], write: Write | None = None) -> None:
        """Attach these to the open conversation's unsent message; `write` writes them first."""
        if len(paths) > MOST_AT_ONCE:
            self.failed.emit(
                Problem(
                    f"{len(paths):,} files are too many to be attached one by one.",
                    "Attach their folder, or fewer files.",
                )
            )
            return
        for path in paths:
            shown = Attachment(path.name or str(path), key=next(self._keys))
            self._files.append(_File(path, shown, self._conversation, write=write))
        self.changed.emit()
        self._go_on()

    def add_pages(self) -> None:
        """Attach the pages without text of the PDFs that are attached, as pictures."""
        pages, scans = self.unread_pages, [each for each in self.all if each.scan and each.problem]
        for scan, page, name in pages:
            shown = Attachment(name, key=next(self._keys))
            self._files.append(_File(scan, shown, self._conversation, page))
            self._drawn.setdefault(name, []).append(scan)
        for each in scans:
            self.remove(each)
        self.changed.emit()
        self._go_on()

    def remove(self, attachment: Attachment) -> None:
        """Remove an attachment, or cancel reading it."""
        file = next((f for f in self._files if f.shown.key == attachment.key), None)
        if file is not None:
            file.cancelled.set()
            self._files.remove(file)
            self.changed.emit()
        elif attachment.number and (conversation := self._conversation) is not None:

            def steps() -> Steps:
                yield self._store.detach(conversation, attachment.number)

            self._show(tuple(one for one in self._attached if one.number != attachment.number))
            self._stepper.run(steps(), failed=self.failed.emit)
            self.refresh()

    def close(self) -> None:
        """Cancel reading, and wait a moment until that has ended."""
        for file in self._files:
            file.cancelled.set()
        self._stepper.close()
        wait(self._reads, timeout=_ENDING_SECONDS)

    def _here(self) -> list[_File]:
        return [file for file in self._files if file.conversation == self._conversation]

    def _show(self, attached: tuple[Attachment, ...]) -> None:
        if attached != self._attached:
            self._attached = attached
            self.changed.emit()

    def _go_on(self) -> None:
        """Read the next file, unless one is being read."""
        waiting = (file for file in self._files if file.shown.problem is None)
        if self._reading is None and (file := next(waiting, None)) is not None:
            self._reading = file
            self._looks.start()
            self._stepper.run(self._steps(file), failed=lambda problem: None)

    def _steps(self, file: _File) -> Steps:
        try:
            yield from self._attach(file)
        except Problem as problem:
            file.shown = replace(file.shown, problem=problem)
        except Cancelled:
            self._files = [one for one in self._files if one is not file]
        self._reading = None
        self._looks.stop()
        self.changed.emit()
        self._go_on()

    def _show_progress(self) -> None:
        file = self._reading
        if file is not None and file.progress != (file.shown.read_files, file.shown.files):
            read_files, files = file.progress
            file.shown = replace(file.shown, read_files=read_files, files=files)
            self.changed.emit()

    def _attach(self, file: _File) -> Steps:
        path, page, cancelled = file.path, file.page, file.cancelled.is_set
        pictured = bool(page) or path.suffix.lower() in PICTURES
        if not pictured and file.write is None:
            yield from self._attach_read(file, partial(self._read_text, file, path), original=path)
            return
        if is_temporary(file.conversation):
            raise Problem(
                "A temporary chat has no pictures, which need copies on the disk.",
                "Keep the chat, then attach the picture.",
            )
        name = file.shown.name
        with disk_problem(f"{name} cannot be attached", "Free some disk space, then try again."):
            folder = Path(mkdtemp(prefix="slipstream-"))
        path = path if file.write is None else folder / name

        def read() -> Document:
            if file.write is not None:
                file.write(path)
                if not path.exists():
                    raise Cancelled
            if not pictured:
                return self._read_text(file, path)
            drawn = _page(path, page, cancelled) if page else _readable(path, folder)
            shown = normalize(drawn, folder, cancelled=cancelled)
            size = shown.width, shown.height
            return Document(one_line(name), "picture", shown.digest, (), pixels=size)

        try:
            yield from self._attach_read(file, read, original=folder)
        finally:
            rmtree(folder, ignore_errors=True)

    def _read_text(self, file: _File, path: Path) -> Document:
        cancelled = file.cancelled.is_set
        return self._read(path, cancelled=cancelled, progress=file.report, scans=True)

    def _attach_read(self, file: _File, read: Callable[[], Document], *, original: Path) -> Steps:
        """Attach what `read` returns. `original`: the file, or the folder of the picture."""
        reading = in_thread(read)
        self._reads = [reading]
        document: Document = yield reading
        if file.cancelled.is_set():
            return
        if document.pixels is not None:
            original /= f"{document.digest}.png"
        elif not document.text.strip():
            file.shown = replace(file.shown, scan=file.path, pages=document.without_text)
            raise Problem(
                f"{document.name} has no text that can be read.",
                "Attach a version with text, or show its pages to a model that sees.",
            )
        conversation = file.conversation
        if conversation is None:
            conversation = yield from self._stored()
            if not file.cancelled.is_set():
                self.name(conversation)
        number = yield self._store.attach(conversation, document, original=original)
        if file.cancelled.is_set():
            self._store.detach(conversation, number)
            return
        self._files.remove(file)
        if conversation == self._conversation:
            self._take(self._stored_as(number, document))

    def _stored_as(self, number: int, document: Document) -> Attachment:
        scan = self._store.copy_of(document) if document.without_text else None
        pages = document.without_text
        return Attachment(document.name, number, document, scan=scan, pages=pages)

    def _take(self, attachment: Attachment) -> None:
        others = (one for one in self._attached if one.number != attachment.number)
        self._attached = (*others, attachment)
        self.refresh()
        self.attached.emit(attachment)


def _readable(path: Path, folder: Path) -> Path:
    """Return the file of a picture; a Mac converts a format that only it reads (untested)."""
    made = folder / "converted.png"
    if path.suffix.lower() in _OF_A_MAC and sys.platform == "darwin":
        command = ("sips", "-s", "format", "png", str(path.absolute()), "--out", str(made))
        with suppress(subprocess.TimeoutExpired, OSError):
            subprocess.run(command, capture_output=True, check=False, timeout=_CONVERTING_SECONDS)
    return made if made.exists() else path


def _page(path: Path, number: int, cancelled: Callable[[], bool]) -> bytes:
    """Draw a page of a PDF. Returns its PNG."""
    drawn = page_picture(path, number, spans=(), width=PAGE_WIDTH, cancelled=cancelled)
    return drawn.png
