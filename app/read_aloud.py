"""Reads an answer aloud with the system's own program, `say` of a Mac, in a process of its own.

Knows Markdown's marks and a process; no conversation. Untested with the real `say`.
"""

import shutil

from markdown_it import MarkdownIt
from PySide6.QtCore import QObject, QProcess, Signal

_MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
_SPOKEN = ("text", "code_inline", "image")
_KILL_MS = 2000


def say_program() -> str:
    """Return the path of the program that speaks; empty where there is none."""
    return shutil.which("say") or ""


def spoken(text: str) -> str:
    """Return the words of a Markdown text as they are spoken: without marks, code and HTML."""
    lines = []
    for token in _MARKDOWN.parse(text):
        if token.type == "inline":
            parts = token.children or ()
            lines.append("".join(part.content if part.type in _SPOKEN else " " for part in parts))
    words = "\n".join(" ".join(line.split()) for line in lines if line.strip())
    return words.replace("[[", "[ [")  # `say` takes the words in them as a command


class ReadAloud(QObject):
    """Signals: `changed()`: it began to read, or ended."""

    changed = Signal()

    def __init__(self, program: str, *, parent: QObject) -> None:
        """`program` speaks the text that it is given on standard input."""
        super().__init__(parent)
        self._program = program
        self._process = QProcess(self)
        self._process.stateChanged.connect(lambda state: self.changed.emit())

    @property
    def reading(self) -> bool:
        return self._process.state() != QProcess.ProcessState.NotRunning

    def read(self, text: str) -> None:
        """Read a Markdown text aloud, and no other any more."""
        self.stop()
        # Never as an argument, which could be read as an option.
        self._process.start(self._program, [])
        self._process.write(spoken(text).encode())
        self._process.closeWriteChannel()

    def stop(self) -> None:
        """End at once."""
        if self.reading:
            self._process.kill()
            self._process.waitForFinished(_KILL_MS)
