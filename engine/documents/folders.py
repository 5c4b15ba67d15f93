"""Reads a folder of texts, usually source code, as one document: a section every few lines.

Files that Git ignores are left out, and files that are no text by a person: each with the reason.
"""

import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePath

from pathspec import GitIgnoreSpec

from engine.documents import Section
from engine.documents.decoding import decode
from engine.documents.limits import FOLDER_ENTRIES, FOLDER_FILE_BYTES, TEXT_BYTES, size
from engine.documents.notebook import read_notebook
from engine.documents.plain import cut_lines, lines_of
from engine.documents.read import Read, left_out_line
from models.errors import Problem

_START = 8192  # bytes in which a file that is no text has a NUL
_NEVER_NAMED = re.compile(r"\.git|\.hg|\.svn|\.DS_Store")
_TOOLS = re.compile(r"\.venv|__pycache__|node_modules")
_LOCK = re.compile(r".+\.lock|package-lock\.json|npm-shrinkwrap\.json|pnpm-lock\.yaml|go\.sum")
_IGNORE_FILE = ".gitignore"


def read_folder(folder: Path) -> tuple[Read, str]:
    """Return the texts in a folder, and a digest of them. Raises `Problem`."""
    left_out = _LeftOut()
    sections: list[Section] = []
    digest, total = sha256(), 0
    for path in _files(folder, left_out):
        name = path.relative_to(folder).as_posix()
        data = _text_of(path, name, left_out)
        if data is None:
            continue
        total += len(data)
        if total > TEXT_BYTES:
            raise Problem(
                f"The folder has more than {size(TEXT_BYTES)} of text.", "Attach a part of it."
            )
        digest.update(f"{name}\0{len(data)}\0".encode(errors="surrogateescape") + data)
        try:
            sections += _sections(name, data)
        except Problem:
            left_out.add("No texts", name)
    if not sections:
        raise Problem(
            " ".join(("The folder has no text that can be read.", *left_out.lines())),
            "Attach another one, or the files themselves.",
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
    """A .gitignore, and the folder that it stands in."""

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
            left_out.add("Closed to this program", folder.relative_to(top).as_posix())
            continue
        entries += len(found)
        if entries > FOLDER_ENTRIES:
            raise Problem(
                f"The folder has more than {FOLDER_ENTRIES:,} files.", "Attach a part of it."
            )
        inner = []
        for path in found:
            name = path.relative_to(top).as_posix()
            mode = path.lstat().st_mode
            if _NEVER_NAMED.fullmatch(path.name):
                continue
            if stat.S_ISLNK(mode):
                left_out.add("Links", name)
            elif _TOOLS.fullmatch(path.name):
                left_out.add("Folders of tools", name)
            elif _ignored(path, rules, is_folder=stat.S_ISDIR(mode)):
                left_out.add("Ignored by Git", name)
            elif stat.S_ISDIR(mode):
                inner.append((path, rules))
            elif not stat.S_ISREG(mode):
                left_out.add("Neither files nor folders", name)
            else:
                yield path
        waiting += reversed(inner)


def _text_of(path: Path, name: str, left_out: _LeftOut) -> bytes | None:
    if _LOCK.fullmatch(path.name):
        left_out.add("Lock files", name)
        return None
    try:
        with path.open("rb") as file:
            data = file.read(FOLDER_FILE_BYTES + 1)
    except OSError:
        left_out.add("Closed to this program", name)
        return None
    if b"\0" in data[:_START]:
        left_out.add("No texts", name)
    elif len(data) > FOLDER_FILE_BYTES:
        left_out.add(f"Larger than {size(FOLDER_FILE_BYTES)}", name)
    else:
        return data
    return None


def _sections(name: str, data: bytes) -> tuple[Section, ...]:
    if PurePath(name).suffix.lower() == ".ipynb":
        cells = read_notebook(data).sections
        return tuple(Section("cell", cell.number, cell.text, name) for cell in cells)
    return cut_lines(lines_of(decode(data).text), label=name)


def _ignored(path: Path, rules: Sequence[_Rules], *, is_folder: bool) -> bool:
    """Whether Git ignores `path`: the nearest .gitignore that mentions it decides."""
    for each in reversed(rules):
        if (ignored := each.ignore(path, is_folder=is_folder)) is not None:
            return ignored
    return False


def _rules_in(folder: Path) -> list[_Rules]:
    try:
        with (folder / _IGNORE_FILE).open("rb") as file:
            lines = file.read(FOLDER_FILE_BYTES).decode(errors="replace").splitlines()
        return [_Rules(folder, GitIgnoreSpec.from_lines(lines))]
    except (OSError, ValueError):
        return []


def _rules_above(top: Path) -> list[_Rules]:
    """The rules of the folders above `top`, up to the top of its repository."""
    above = [top, *top.parents]
    for number, folder in enumerate(above):
        if (folder / ".git").exists():
            return [rules for each in reversed(above[1 : number + 1]) for rules in _rules_in(each)]
    return []
