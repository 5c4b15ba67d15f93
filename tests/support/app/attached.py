"""Reads files as a test says, and attaches them in a window."""

import hashlib
from threading import Event

from engine.documents import Document, Section
from engine.documents.reading import Cancelled
from models.errors import Problem


def text_document(name, text, **more):
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Document(name, "text", digest, (Section("lines", 1, text),), **more)


class Reader:
    """Gives back what files hold, as `Read` does. Attributes: `read`, the names of those that were
    read; `cancelled`, of those that no one waits for; `go_on`, which files called "slow" wait for.

    A file called "broken" cannot be read.
    """

    def __init__(self):
        self.read = []
        self.cancelled = []
        self.go_on = Event()

    def __call__(self, path, *, cancelled, progress, scans):
        self.read.append(path.name)
        if "slow" in path.name:
            progress(3, 40)
            while not self.go_on.wait(0.01):
                if cancelled():
                    self.cancelled.append(path.name)
                    raise Cancelled
        if "broken" in path.name:
            raise Problem(f"{path.name} cannot be read.", "Attach another.")
        return text_document(path.name, path.read_text(encoding="utf-8"))


def file_in(folder, name="plan.txt", text="The roof leaks."):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def chips(window):
    """Return the texts of the composer's chips."""
    return [chip.accessibleName() for chip in window.composer.documents.chips]


def attach(window, until, *paths):
    """Attach files, and wait until the plan is made."""
    before = len(chips(window))
    window.composer.files_given.emit(list(paths))
    until(lambda: len(chips(window)) >= before + len(paths) and planned(window))


def planned(window):
    """Whether nothing is read any more, and all that is attached is planned or refused."""
    documents = window.composer_controller.documents
    if documents.attachments.reading:
        return False
    told = ["tokens" in words for words in chips(window)]
    failed = [one.problem is not None for one in documents.attachments.all]
    return bool(window.composer.documents.remark) or all(map(max, told, failed))
