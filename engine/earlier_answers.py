"""Stores earlier answers on this machine as token ids to draft from, in a private file.

Answers are kept only if the user has asked for it: `begin` makes the folder, and without the folder
nothing is read or written. It has a file for each vocabulary, because ids mean something else in
another. The file is the truth: a process that finds it changed reads it again, and a process that
finds it gone forgets its answers. A damaged file counts as empty.

The answers that were least recently drafted from go first. Knows files and ids; no text, no model
and no MLX.
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

from engine.places import GAP, Places
from models.files import data_folder, locked, replacing
from models.typed_json import decode

MOST_TOKENS = 1 << 17  # in the file: less than a megabyte of them
LEAD = 4  # tokens of the prompt that are kept before an answer: how it begins is copied after them
_LEAST_TOKENS = 8  # in shorter answers there is little to copy
_KEPT = 0.75  # of the most, where there were more: so that not every answer makes another index
_MOST_BYTES = 16 * MOST_TOKENS  # no file of ours is longer
_VERSION = 1
LOCK_SECONDS = 3.0  # to wait for another process, which needs less than one of them


@dataclass(frozen=True, slots=True)
class _Answer:
    """`used`: the number of learned answers when it was last drafted from, or learned."""

    used: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _File:
    version: int
    vocabulary: str
    answers: tuple[_Answer, ...]


class EarlierAnswers:
    """The answers in the ids of one vocabulary, for all sessions of this process.

    Attribute: `places`, the index of all of them; another object once some are gone.
    """

    def __init__(self, folder: Path, vocabulary: Mapping[str, int], *, size: int) -> None:
        """`vocabulary`: the ids by token. Ids from `size` on mean nothing to the target."""
        self._vocabulary, self._size = _digest(vocabulary), size
        self._path = folder / f"{self._vocabulary[:16]}.json"
        self._stamp: tuple[int, ...] | None = None  # of the file when it was last read or written
        self._answers: list[_Answer] = []
        self._begins: list[int] = []  # of each, in the index
        self._learned = 0  # how many answers, ever
        self.places = Places(slots=1)
        self.refresh()

    def refresh(self) -> None:
        """Read the file again if it has changed. Called before an answer is written."""
        stamp = self._present()
        if stamp != self._stamp:
            self._stamp = stamp
            self._take(self._read() if stamp else [])

    def use(self, place: int) -> None:
        """Keep the answer at this place longer: a draft from it was accepted."""
        number = bisect_right(self._begins, place) - 1
        if 0 <= number < len(self._answers):
            self._answers[number] = replace(self._answers[number], used=self._learned)

    def learn(self, tokens: Sequence[int]) -> None:
        """Keep an answer, with the `LEAD` before it. Does nothing if it cannot be written, because
        the folder is gone or the disk is full."""
        kept = tuple(tokens[:MOST_TOKENS])
        if len(kept) < _LEAST_TOKENS or not self._path.parent.is_dir():
            return
        with suppress(OSError), locked(self._path.parent, seconds=LOCK_SECONDS):
            self.refresh()
            others = [each for each in self._answers if each.tokens != kept]
            answers = _bounded([*others, _Answer(self._learned + 1, kept)])
            self._write(answers)
            self._stamp = self._present()
            if self._answers and len(answers) == len(self._answers) + 1:  # the others stay in place
                self._answers = answers
                self._append(answers[-1])
            else:
                self._take(answers)

    def _take(self, answers: list[_Answer]) -> None:
        self._answers, self._begins, self._learned = answers, [], 0
        self.places = Places(slots=MOST_TOKENS if answers else 1)
        for each in answers:
            self._append(each)

    def _append(self, answer: _Answer) -> None:
        self._learned = max(self._learned, answer.used)
        self._begins.append(len(self.places.text))
        self.places.extend((GAP, *answer.tokens))

    def _present(self) -> tuple[int, ...] | None:
        """Identifies the file among all that were here; None without a file."""
        with suppress(OSError):
            found = self._path.stat()
            return found.st_ino, found.st_mtime_ns, found.st_size
        return None

    def _read(self) -> list[_Answer]:
        with suppress(OSError, ValueError, RecursionError):
            if self._path.stat().st_size > _MOST_BYTES:
                return []
            value = json.loads(self._path.read_text(encoding="utf-8"))
            file = decode(_File, value, place="answers")
            ids = {token for each in file.answers for token in each.tokens}
            if (file.version, file.vocabulary) == (_VERSION, self._vocabulary) and all(
                0 <= token < self._size for token in ids
            ):
                return _bounded(list(file.answers))
        return []

    def _write(self, answers: Sequence[_Answer]) -> None:
        """Replace the file, which other users can read at no moment. Raises OSError."""
        listed = [{"used": each.used, "tokens": each.tokens} for each in answers]
        value = {"version": _VERSION, "vocabulary": self._vocabulary, "answers": listed}
        with replacing(self._path) as partial:
            partial.unlink(missing_ok=True)  # the leftover of a killed process
            number = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(number, "w", encoding="utf-8") as file:
                file.write(json.dumps(value))  # `dump` takes five times as long


def earlier_answers_folder(home: Path | None = None) -> Path:
    """The folder of the files: under `home`, else $SLIPSTREAM_HOME, else the user's data folder."""
    return data_folder(home) / "earlier-answers"


def begin(folder: Path) -> None:
    """Keep answers from now on, as the user asked. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def forget(folder: Path) -> None:
    """Delete all kept answers. New ones are kept again. Raises OSError."""
    if folder.is_dir():
        with locked(folder, seconds=LOCK_SECONDS):
            for path in folder.iterdir():
                path.unlink()


def end(folder: Path) -> None:
    """Delete all kept answers, and keep no more. Raises OSError."""
    if folder.is_dir():
        with locked(folder, seconds=LOCK_SECONDS):
            shutil.rmtree(folder)


def _bounded(answers: list[_Answer]) -> list[_Answer]:
    """The answers, without the least recently used if they have too many tokens."""
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
