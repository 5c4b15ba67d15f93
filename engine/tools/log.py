"""The log of a server: its standard error, with the keys masked, in two files of bounded size."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engine.tools.configuration import MASK, SHORTEST_KEY, keys_of
from engine.tools.protocol import Server
from engine.tools.reason import reason
from models.files import file_stem
from models.in_words import one_line

_LARGEST_FILE_BYTES = 512 << 10  # and one older file
_LONGEST_LINE = 2000  # bytes
_KEPT_BYTES = 64 << 10  # of its end, for a reason


class ServerLog:
    """Attributes: `path`; `heard`, called whenever the server writes."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.path = folder / f"tools-{file_stem(server.name) or 'server'}.log"
        lines = {line.strip() for key in keys_of(server) for line in (key, *key.splitlines())}
        keys = [line.encode(errors="replace") for line in lines if len(line) >= SHORTEST_KEY]
        self._keys = sorted(keys, key=len, reverse=True)
        self._rest = b""
        self._dropping = False  # the rest of a line that is too long
        self._end = b""
        self.heard: Callable[[], object] = lambda: None

    @property
    def reason(self) -> str:
        """Why the server ended, as far as it said; in one line and masked."""
        return one_line(reason(self._end.decode(errors="replace")))

    def masked(self, text: str) -> str:
        """`text` in one line and without the keys."""
        return one_line(self._mask(text.encode(errors="replace")).decode(errors="replace"))

    def note(self, line: str) -> None:
        """Write down what happened to the server."""
        self._write(f"-- {line}\n".encode())

    def add(self, data: bytes) -> None:
        """Write down a piece of standard error. The end of a line may follow with the next."""
        self.heard()
        if self._dropping:
            _, ended, data = data.partition(b"\n")
            self._dropping = not ended
        whole, ended, self._rest = (self._rest + data).rpartition(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            line = self._mask(self._rest)
            whole += ended + line[: len(line) - max(map(len, self._keys), default=0)]
            self._rest, self._dropping = b"", True  # where it is cut a key may begin
        if whole := self._mask(whole)[-_LARGEST_FILE_BYTES:].strip(b"\r\n"):
            self._write(whole + b"\n")
            self._end = (self._end + whole + b"\n")[-_KEPT_BYTES:]

    def close(self) -> None:
        """Write down a line that has no end."""
        self.add(b"\n" if self._rest else b"")

    def _mask(self, data: bytes) -> bytes:
        for key in self._keys:
            data = data.replace(key, MASK.encode())
        return data

    def _write(self, data: bytes) -> None:
        with suppress(OSError):  # on a full disk the log is lost, and the server goes on
            self.path.parent.mkdir(parents=True, exist_ok=True)
            size = self.path.stat().st_size if self.path.exists() else 0
            if size + len(data) > _LARGEST_FILE_BYTES:
                self.path.replace(self.path.with_suffix(".old.log"))
            opened = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(opened, "ab") as file:
                file.write(data)
