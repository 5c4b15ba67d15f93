"""The prompts for a distillation, from JSON, JSON lines, CSV, or plain lines.

Knows file formats; nothing of models. The files are taken in turn, so that a long one does not
outweigh a short one.
"""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

from models.errors import Problem

_FIELDS = ("prompt", "question", "instruction", "text", "query", "content", "value")
_PEOPLE = ("user", "human", "prompter")
_LONGEST = 4000  # characters; longer ones teach little more for their time
_MOST_BYTES = 1 << 30


def read_prompts(paths: Sequence[Path], *, seed: int = 0) -> list[str]:
    """Every prompt in `paths` once, a file's in random order, one of each file in turn.

    Raises `Problem` for a file that cannot be read, or holds none.
    """
    groups = []
    for number, path in enumerate(paths):
        prompts = list(dict.fromkeys(filter(_usable, _read(path))))
        if not prompts:
            raise Problem(f"{path} contains no prompts.", "Write one prompt a line, or give JSON.")
        Random(f"{seed} {number}").shuffle(prompts)
        groups.append(prompts)
    turns = zip_longest(*groups)
    return list(dict.fromkeys(text for turn in turns for text in turn if text is not None))


def _usable(text: str) -> bool:
    if not 8 <= len(text.strip()) <= _LONGEST:
        return False
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def _read(path: Path) -> Iterator[str]:
    try:
        packed = path.suffix.lower() == ".gz"
        with gzip.open(path) if packed else path.open("rb") as file:
            data = file.read(_MOST_BYTES)
        text = data.decode("utf-8-sig")
        kind = Path(path.stem).suffix.lower() if packed else path.suffix.lower()
        if kind == ".jsonl":
            for line in text.split("\n"):  # a text may contain other ends of lines
                if line.strip():
                    yield from _texts(json.loads(line))
        elif kind == ".json":
            yield from _texts(json.loads(text))
        elif kind == ".csv":
            yield from filter(None, map(_text_of, _table(text)))
        else:
            yield from text.splitlines()
    except (OSError, EOFError, zlib.error, ValueError, RecursionError, csv.Error) as error:
        raise Problem(
            f"The prompts in {path} cannot be read: {' '.join(str(error).split())[:150]}.",
            "Give JSON, JSON lines, CSV with a column named prompt, or a prompt a line, in UTF-8.",
        ) from error


def _table(text: str) -> list[dict[str, Any]]:
    """The rows of a CSV file, however long their cells are."""
    longest = csv.field_size_limit(_MOST_BYTES)
    try:
        return list(csv.DictReader(io.StringIO(text)))
    finally:
        csv.field_size_limit(longest)


def _texts(value: Any) -> Iterator[str]:
    """Yield the prompts in a JSON value: a text, an object that holds a prompt, or a list of such
    values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            # A row of a table: its first column is the prompt.
            yield from _texts(item[0] if isinstance(item, list) and item else item)
    elif isinstance(value, dict):
        text = _text_of(value)
        if text is not None:
            yield text
        else:
            for item in value.values():
                if isinstance(item, list):
                    yield from _texts(item)


def _text_of(row: dict[str, Any]) -> str | None:
    """Return the first message of the user in a row; None if there is none."""
    for name in ("turns", "messages", "conversations"):
        turns = row.get(name)
        if isinstance(turns, list) and turns:
            return next(_texts([turn for turn in turns if _is_a_persons(turn)]), None)
    for name in _FIELDS:
        text = row.get(name)
        if isinstance(text, str) and text.strip():
            more = row.get("input")
            return f"{text}\n{more}" if isinstance(more, str) and more.strip() else text
    return None


def _is_a_persons(turn: Any) -> bool:
    who = turn.get("role", turn.get("from")) if isinstance(turn, dict) else None
    return who is None or who in _PEOPLE
