"""Writes many chats into one .zip: each as Markdown to read, and as JSON to import again.

Written chat by chat, so that it can be cancelled; complete or not at all. Knows names in a .zip;
`exchange` makes the texts.
"""

import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Lock

from app.conversations import exchange
from app.conversations.records import ExportedChat
from models.errors import Problem
from models.files import file_stem, publish, writing


class ChatArchive:
    """A .zip that is being written. Nothing is at `path` before `finish` has returned.

    One thread at a time writes; any thread may close it meanwhile. Attributes: `count`, the number
    of chats in it; `left_out`: see `exchange`. `pictures` is the folder of their pictures.
    """

    def __init__(self, path: Path, pictures: Path = exchange.NOWHERE) -> None:
        self.count = 0
        self.left_out: Counter[str] = Counter()
        self._pictures = pictures
        self._path = path
        self._partial = path.with_name(f".{path.stem}.partial{path.suffix}")
        self._zip: zipfile.ZipFile | None = None
        self._names: set[str] = set()
        self._lock = Lock()  # held while it is written
        self._closed = False

    def add(self, chats: Iterable[ExportedChat]) -> None:
        """Write these chats. Raises Problem."""
        with self._written():
            for chat in chats:
                archive, name = self._begun(), self._name(chat)
                archive.writestr(f"{name}.md", exchange.to_markdown(chat))
                archive.writestr(f"{name}.json", exchange.to_json(chat, self._pictures))
                self.left_out += exchange.left_out(chat, self._pictures, whole=True)
                self.count += 1

    def finish(self) -> None:
        """Rename the file to `path`, replacing another. Raises Problem."""
        with self._written():
            self._begun().close()
            publish(self._partial, self._path)

    def close(self) -> None:
        """Remove the unfinished file, if any. A thread that is writing it does that itself."""
        self._closed = True
        if self._lock.acquire(blocking=False):
            with suppress(OSError):
                if self._zip is not None:
                    self._zip.close()
            with suppress(OSError):
                self._partial.unlink(missing_ok=True)
            self._lock.release()

    @contextmanager
    def _written(self) -> Iterator[None]:
        """Raise Problem if the file cannot be written in the block, or is closed meanwhile."""
        try:
            with writing(self._path), self._lock:
                yield
        finally:
            if self._closed:
                self.close()

    def _begun(self) -> zipfile.ZipFile:
        if self._closed:
            raise Problem("The export was cancelled.", "Export again.")
        if self._zip is None:
            self._zip = zipfile.ZipFile(self._partial, "w", zipfile.ZIP_DEFLATED)
        return self._zip

    def _name(self, chat: ExportedChat) -> str:
        """Return the path in the .zip without a suffix: the folder and the title, made unique."""
        place = "Archived/" if chat.archived else ""
        if chat.folder:
            place += f"{file_stem(chat.folder) or 'Folder'}/"
        title = place + (file_stem(chat.title) or "Conversation")
        numbered = (title if number == 1 else f"{title} {number}" for number in count(1))
        name = next(name for name in numbered if name.casefold() not in self._names)
        self._names.add(name.casefold())
        return name
