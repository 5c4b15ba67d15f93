"""The standard error of a child process of the engine: the latest lines, and a rotated file.

No text of a message gets into either. Lines that quote one, as an error message may, are left out;
a quotation of fewer than about twenty characters is not recognized. Knows no Qt.
"""

import logging
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path

from engine.request import Prompt
from models.in_words import CONTROLS

KEPT_LINES = 200
_LONGEST_LINE = 400  # characters
_LARGEST_FILE_BYTES = 1 << 20
_OLD_FILES = 3
_REMEMBERED = 16  # recent requests, whose texts are looked for
_WINDOW, _STRIDE = 16, 6  # a quotation as long as both together holds a whole window
_SHORTEST_SECRET = 4  # "hi" would hide half the log


class _Handler(RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:
        """Ignored: on a full disk the log is lost, and the chat is not disturbed."""


class _Secrets:
    """Texts that a line may not quote, prepared so that many lines can be checked quickly."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._short: set[str] = set()
        self._windows: set[str] = set()
        for text in texts:
            text = text.strip()
            if len(text) < _WINDOW + _STRIDE:
                self._short.add(text)
            else:
                starts = range(0, len(text) - _WINDOW + 1, _STRIDE)
                self._windows.update(text[start : start + _WINDOW] for start in starts)

    def in_line(self, line: str) -> bool:
        """Whether `line` holds a part of a text, or all of a short text."""
        starts = range(len(line) - _WINDOW + 1)
        return any(line[start : start + _WINDOW] in self._windows for start in starts) or any(
            len(text) >= _SHORTEST_SECRET and text in line for text in self._short
        )


class EngineLog:
    """Attributes: `path`, the file; None if it cannot be written."""

    def __init__(self, folder: Path, *, name: str = "engine") -> None:
        """The file will be `name`.log in `folder`, which is made if it is missing."""
        self.path: Path | None = None
        self._tail: deque[str] = deque(maxlen=KEPT_LINES)
        self._texts: deque[tuple[str, ...]] = deque(maxlen=_REMEMBERED)
        self._secrets: _Secrets | None = None  # made when it is first needed
        self._logger = logging.Logger(name)  # its own, in no registry
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            self.path = folder / f"{name}.log"
            handler = _Handler(
                self.path,
                maxBytes=_LARGEST_FILE_BYTES,
                backupCount=_OLD_FILES,
                encoding="utf-8",
                delay=True,
            )
            handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
            self._logger.addHandler(handler)

    @property
    def tail(self) -> tuple[str, ...]:
        """The latest lines, 200 at most."""
        return tuple(self._tail)

    def hide(self, texts: Iterable[str]) -> None:
        """Leave out lines that quote these texts, or the texts of the last few requests."""
        self._texts.append(tuple(texts))
        self._secrets = None

    def note(self, line: str) -> None:
        """Write down what happened to the process."""
        self._logger.info("%s", line)

    def complaint(self, data: bytes) -> None:
        """Keep and write down a line of standard error."""
        line = _printable(data.decode("utf-8", "replace").rstrip()[:_LONGEST_LINE])
        if self._secrets is None:
            self._secrets = _Secrets({text for texts in self._texts for text in texts})
        if self._secrets.in_line(line):
            line = "(a line that quotes a message)"
        self._tail.append(line)
        self._logger.info("stderr: %s", line)

    def close(self) -> None:
        """Close the file, until there is something to write again."""
        for handler in self._logger.handlers:
            with suppress(OSError):  # what could not be written to a full disk
                handler.close()


def texts_of(prompt: Prompt) -> tuple[str, ...]:
    """Return the texts of a prompt that no line may quote."""
    said = [prompt.text, prompt.suffix]
    for one in prompt.messages:
        said += [one.content, one.reasoning, one.written]
        said += [call.arguments for call in one.tool_calls]
    return tuple(said)


def _printable(line: str) -> str:
    """`line` without characters that would control a terminal or the direction of text."""
    mark = "\N{REPLACEMENT CHARACTER}"
    return CONTROLS.sub(mark, line).replace("\n", mark)
