"""What was answered earlier on this machine, to draft from: the same tokens again, in a private file.

Nobody's answers are kept unless a person has asked for it: `begin` makes the folder, and where there
is none nothing is read or written. The folder has a file for each vocabulary, as ids of another one
mean something else. The file is the truth: a process that finds it changed reads it again, and one
that finds it gone forgets all it had read. A file that is damaged counts as empty.

What is used least goes first. Knows files and token ids; no text, no model and no MLX.
"""

import hashlib
import json
import os
import shutil
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import FileLock

from engine.places import GAP, Places
from models.files import data_folder, replacing
from models.typed_json import decode

MOST_TOKENS = 1 << 17  # in the file: less than a megabyte of them
LEAD = 4  # tokens of the prompt that are kept before an answer: how it begins is copied behind them
_LEAST_TOKENS = 8  # in shorter answers there is little to copy
_KEPT = 0.75  # of the most, where there were more: so that not every answer makes another index
_VERSION = 1


@dataclass(frozen=True, slots=True)
class _Answer:
    """`used`: how many answers had been learned when it was drafted from last, or learned."""

    used: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _File:
    version: int
    vocabulary: str
    answers: tuple[_Answer, ...]


class EarlierAnswers:
    """The answers in the token ids of one vocabulary, for all sessions of this process.

    Attribute: `places`, the index of all of them; another object once some are gone.
    """

    def __init__(self, folder: Path, vocabulary: Mapping[str, int], *, size: int) -> None:
        """`vocabulary`: the tokens by name; ids from `size` on are none."""
        self._vocabulary, self._size = _digest(vocabulary), size
        self._path = folder / f"{self._vocabulary[:16]}.json"
        self._stamp: tuple[int, ...] | None = None  # of the file when it was last read or written
        self._answers: list[_Answer] = []
        self._begins: list[int] = []  # of each, in the index
        self.places = Places(slots=1)
        self.refresh()

    def refresh(self) -> None:
        """Read the file again if it is another one, before an answer is written."""
        stamp = self._present()
        if stamp != self._stamp:
            self._stamp = stamp
            self._answers = self._read() if stamp else []
            self._index()

    def use(self, place: int) -> None:
        """What was drafted from there was accepted: that answer is kept longer."""
        number = bisect_right(self._begins, place) - 1
        if 0 <= number < len(self._answers):
            self._answers[number] = replace(self._answers[number], used=self._learned)

    def learn(self, answer: Sequence[int]) -> None:
        """Keep the tokens of an answer, and the `LEAD` before it. What cannot be written, as the
        folder is gone or the disk is full, is not learned."""
        tokens = tuple(answer[:MOST_TOKENS])
        if len(tokens) < _LEAST_TOKENS or not self._path.parent.is_dir():
            return
        with suppress(OSError), FileLock(_lock(self._path.parent)):
            self.refresh()
            learned = self._learned + 1
            kept = [each for each in self._answers if each.tokens != tokens]
            answers = _bounded([*kept, _Answer(learned, tokens)])
            self._write(answers)
            self._stamp = self._present()
            same = len(kept) == len(self._answers) == len(answers) - 1
            self._answers = answers
            if same:
                self._begins.append(len(self.places.text))
                self.places.extend((GAP, *tokens))
            else:
                self._index()

    @property
    def _learned(self) -> int:
        return max((each.used for each in self._answers), default=0)

    def _index(self) -> None:
        self._begins, self.places = [], Places(slots=MOST_TOKENS if self._answers else 1)
        for each in self._answers:
            self._begins.append(len(self.places.text))
            self.places.extend((GAP, *each.tokens))

    def _present(self) -> tuple[int, ...] | None:
        """What tells the file from any other that was here; None where there is none."""
        with suppress(OSError):
            found = self._path.stat()
            return found.st_ino, found.st_mtime_ns, found.st_size
        return None

    def _read(self) -> list[_Answer]:
        with suppress(OSError, ValueError, RecursionError):
            value = json.loads(self._path.read_text(encoding="utf-8"))
            file = decode(_File, value, place="answers")
            if (file.version, file.vocabulary) == (_VERSION, self._vocabulary) and all(
                0 <= token < self._size for each in file.answers for token in each.tokens
            ):
                return _bounded(list(file.answers))
        return []

    def _write(self, answers: Sequence[_Answer]) -> None:
        """Replace the file, which nobody else can read at any moment. Raises OSError."""
        listed = [{"used": each.used, "tokens": each.tokens} for each in answers]
        value = {"version": _VERSION, "vocabulary": self._vocabulary, "answers": listed}
        with replacing(self._path) as partial:
            partial.unlink(missing_ok=True)  # what a killed process left
            number = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(number, "w", encoding="utf-8") as file:
                json.dump(value, file)


def earlier_answers_folder(home: Path | None = None) -> Path:
    """Where the files are: under `home`, else $SLIPSTREAM_HOME, else the user's data folder."""
    return data_folder(home) / "earlier-answers"


def begin(folder: Path) -> None:
    """A person wants answers to be kept. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def forget(folder: Path) -> None:
    """Delete what was kept; what is answered from now on is kept again. Raises OSError."""
    if folder.is_dir():
        with FileLock(_lock(folder)):
            for path in folder.iterdir():
                path.unlink()


def end(folder: Path) -> None:
    """A person wants nothing to be kept any more: delete all of it. Raises OSError."""
    if folder.is_dir():
        with FileLock(_lock(folder)):
            shutil.rmtree(folder)


def _lock(folder: Path) -> Path:
    """Beside the folder, so that a lock never makes it."""
    return folder.with_name(f".{folder.name}.lock")


def _bounded(answers: list[_Answer]) -> list[_Answer]:
    """The answers, without those used longest ago where there are too many tokens."""
    held = sum(len(each.tokens) for each in answers)
    if held <= MOST_TOKENS:
        return answers
    left, kept = int(_KEPT * MOST_TOKENS), set[int]()
    for number in sorted(range(len(answers)), key=lambda n: (answers[n].used, n), reverse=True):
        left -= len(answers[number].tokens)
        if left < 0 and kept:
            break
        kept.add(number)
    return [each for number, each in enumerate(answers) if number in kept]


def _digest(vocabulary: Mapping[str, int]) -> str:
    listed = sorted((number, token) for token, number in vocabulary.items())
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()
