"""Reads a folder as one document: its texts in sections of a few lines, as source code is cited by
its lines, and its PDFs, office files and the like as their readers read them.

Files that Git ignores are left out, and files without text: each with the reason.
"""

import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from pathspec import GitIgnoreSpec

from engine.documents import LABELS_APART, Format, Section
from engine.documents.kinds import kind_of
from engine.documents.limits import (
    FILE_BYTES,
    FOLDER_ENTRIES,
    FOLDER_FILE_BYTES,
    FOLDER_SHARE,
    TEXT_BYTES,
    Effort,
    size,
)
from engine.documents.plain import read_text
from engine.documents.read import Read, left_out_line, reader_of
from models.errors import Problem

_LINES: tuple[Format, ...] = ("text", "markdown", "csv", "html")
"""The formats that are read as lines."""
_NEVER_NAMED = re.compile(r"\.git|\.hg|\.svn|\.DS_Store")
_TOOLS = re.compile(r"\.venv|__pycache__|node_modules")
_LOCK = re.compile(r".+\.lock|package-lock\.json|npm-shrinkwrap\.json|pnpm-lock\.yaml|go\.sum")
_IGNORE_FILE = ".gitignore"
_OWN_IGNORE_FILE = ".git/info/exclude"


def read_folder(
    folder: Path,
    *,
    seconds: float = Effort().seconds,
    progress: Callable[[int, int], None] = lambda read, of: None,
) -> tuple[Read, str]:
    """Return the texts in a folder, and a digest of them. Raises `Problem`.

    Documents are read for a share of `seconds`; the rest is left out.
    `progress(3, 40)`: 3 of 40 files are read.
    """
    late = time.monotonic() + seconds * FOLDER_SHARE
    left_out = _LeftOut()
    sections: list[Section] = []
    digest, total = sha256(), 0
    files = list(_files(folder, left_out))
    for number, path in enumerate(files):
        progress(number, len(files))
        name = path.relative_to(folder).as_posix()
        data = _data(path, name, left_out)
        if data is None:
            continue
        found = _read(name, data, left_out, late=time.monotonic() > late)
        if found is None:
            continue
        digest.update(f"{name}\0{len(data)}\0".encode(errors="surrogateescape") + data)
        total += sum(len(section.text.encode(errors="replace")) for section in found)
        if total > TEXT_BYTES:
            raise Problem(
                f"The folder has more than {size(TEXT_BYTES)} of text.", "Attach a part of it."
            )
        sections += found
    if not sections:
        raise Problem(
            " ".join(("The folder has no text that can be read.", *left_out.lines())),
            "Attach another folder, or single files.",
        )
    return Read(tuple(sections), left_out=left_out.lines()), digest.hexdigest()


@dataclass(slots=True)
class _LeftOut:
    """The names of files that are not read, by the reason."""

    names: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, name: str) -> None:
        self.names.setdefault(reason, []).append(name)

    def lines(self) -> tuple[str, ...]:
        return tuple(line for each in self.names.items() for line in left_out_line(*each))


@dataclass(frozen=True, slots=True)
class _Rules:
    """A .gitignore, and its folder."""

    folder: Path
    spec: GitIgnoreSpec

    def ignore(self, path: Path, *, is_folder: bool) -> bool | None:
        """Whether the rules ignore `path`; None if they do not mention it."""
        name = path.relative_to(self.folder).as_posix() + ("/" if is_folder else "")
        return self.spec.check_file(name).include


def _files(top: Path, left_out: _LeftOut) -> Iterator[Path]:
    """Yield the files that may be texts; a folder's own files before its subfolders'."""
    waiting = [(top, _rules_above(top))]
    entries = 0
    while waiting:
        folder, above = waiting.pop()
        rules = [*above, *_rules_in(folder)]
        try:
            found = sorted(folder.iterdir())
        except OSError:
            left_out.add("No permission to read", folder.relative_to(top).as_posix())
            continue
        entries += len(found)
        if entries > FOLDER_ENTRIES:
            raise Problem(
                f"The folder has more than {FOLDER_ENTRIES:,} files.", "Attach a part of it."
            )
        inner = []
        for path in found:
            name = path.relative_to(top).as_posix()
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:  # another program has deleted it since
                continue
            except OSError:
                left_out.add("No permission to read", name)
                continue
            if _NEVER_NAMED.fullmatch(path.name):
                continue
            if stat.S_ISLNK(mode):
                left_out.add("Links", name)
            elif _TOOLS.fullmatch(path.name):
                left_out.add("Tool folders", name)
            elif _ignored(path, rules, is_folder=stat.S_ISDIR(mode)):
                left_out.add("Ignored by Git", name)
            elif stat.S_ISDIR(mode):
                inner.append((path, rules))
            elif not stat.S_ISREG(mode):
                left_out.add("Special files", name)
            else:
                yield path
        waiting += reversed(inner)


def _data(path: Path, name: str, left_out: _LeftOut) -> bytes | None:
    if _LOCK.fullmatch(path.name):
        left_out.add("Lock files", name)
        return None
    try:
        with path.open("rb") as file:
            data = file.read(FOLDER_FILE_BYTES + 1)
            if len(data) > FOLDER_FILE_BYTES and _is_document(path.name, data):
                data += file.read(FILE_BYTES + 1 - len(data))
    except OSError:
        left_out.add("No permission to read", name)
        return None
    if len(data) > FILE_BYTES:
        left_out.add(f"Larger than {size(FILE_BYTES)}", name)
        return None
    return data


def _is_document(name: str, start: bytes) -> bool:
    """Whether a file whose start is known is worth reading to its end."""
    try:
        return start.startswith(b"PK") or kind_of(name, start) not in _LINES
    except Problem:
        return False


def _read(name: str, data: bytes, left_out: _LeftOut, *, late: bool) -> tuple[Section, ...] | None:
    """The sections of a file, which name it in their labels; None if it is left out."""
    try:
        kind = kind_of(name, data)
        if kind in _LINES and len(data) > FOLDER_FILE_BYTES:
            left_out.add(f"Larger than {size(FOLDER_FILE_BYTES)}", name)
            return None
        text = read_text(data) if kind in _LINES else None
    except Problem:
        left_out.add("Not text", name)
        return None
    if text is not None:
        for remark in text.left_out:
            left_out.add(remark.rstrip("."), name)
        return tuple(replace(each, label=name) for each in text.sections)
    if late:
        left_out.add("Not read in time", name)
        return None
    try:
        found = reader_of(kind)(data)
    except Problem as problem:
        left_out.add(problem.message.rstrip("."), name)
        return None
    for line in found.left_out:
        left_out.add(f"Of {name}", line.rstrip("."))
    if found.without_text:
        pages = ", ".join(map(str, found.without_text))
        left_out.add("Without text", f"{name}, {pages}")
    return tuple(
        replace(each, label=LABELS_APART.join(filter(None, (name, each.label))))
        for each in found.sections
    )


def _ignored(path: Path, rules: Sequence[_Rules], *, is_folder: bool) -> bool:
    """Whether Git ignores `path`: the nearest .gitignore that mentions it decides."""
    for each in reversed(rules):
        if (ignored := each.ignore(path, is_folder=is_folder)) is not None:
            return ignored
    return False


def _rules_in(folder: Path) -> list[_Rules]:
    """The rules in a folder; rules of its repository's own file count less."""
    rules = []
    for name in (_OWN_IGNORE_FILE, _IGNORE_FILE):
        try:
            with (folder / name).open("rb") as file:
                lines = file.read(FOLDER_FILE_BYTES).decode(errors="replace").splitlines()
            rules.append(_Rules(folder, GitIgnoreSpec.from_lines(lines)))
        except (OSError, ValueError):
            continue
    return rules


def _rules_above(top: Path) -> list[_Rules]:
    """The rules of the folders above `top`, up to the top of its repository."""
    above = [top, *top.parents]
    for number, folder in enumerate(above):
        if (folder / ".git").exists():
            return [rules for each in reversed(above[1 : number + 1]) for rules in _rules_in(each)]
    return []
