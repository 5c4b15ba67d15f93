"""What is asked: the public benchmark files, one's own lines, or a few prompts that come along.

Knows file formats; nothing of models.
"""

import gzip
import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.bench.builtin import BUILTIN
from models.errors import Problem


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question. `id` is unique within a benchmark; results are grouped by `category`."""

    id: str
    category: str
    text: str


@dataclass(frozen=True, slots=True)
class _Source:
    """A public file: the set's name, the names it goes by, where it is from, how a row is read."""

    name: str
    files: tuple[str, ...]
    repository: str
    path: str
    read: Callable[[dict[str, Any]], tuple[str, str]]


def _spec_bench(row: dict[str, Any]) -> tuple[str, str]:
    """Its first eight categories are MT-Bench's; with them there are six tasks."""
    tasks = ("translation", "summarization", "qa", "math_reasoning", "rag")
    category = row["category"]
    return category if category in tasks else "mt-bench", row["turns"][0]


_SOURCES = (
    _Source(
        "spec-bench",
        ("spec_bench_question.jsonl", "question.jsonl"),
        "hemingkx/Spec-Bench",
        "data/spec_bench/question.jsonl",
        _spec_bench,
    ),
    _Source(
        "humaneval",
        ("HumanEval.jsonl.gz", "HumanEval.jsonl"),
        "openai/human-eval",
        "data/HumanEval.jsonl.gz",
        lambda row: ("humaneval", "Complete this function:\n" + row["prompt"]),
    ),
    _Source(
        "gsm8k",
        ("gsm8k_test.jsonl", "test.jsonl"),
        "openai/grade-school-math",
        "grade_school_math/data/test.jsonl",
        lambda row: ("gsm8k", row["question"]),
    ),
    _Source(
        "mt-bench",
        ("mt_bench_question.jsonl",),
        "SafeAILab/EAGLE",
        "eagle/data/mt_bench/question.jsonl",
        lambda row: ("mt-bench", row["turns"][0]),
    ),
)
SETS: tuple[str, ...] = tuple(source.name for source in _SOURCES)


def load_prompts(place: Path | None, *, sets: Sequence[str], per_category: int) -> list[Prompt]:
    """At most `per_category` prompts of each category, spread evenly over it.

    `place` is a folder with the public files (of which `sets` are taken, all that are there
    where it is empty), a text file with a prompt a line, or None for the built-in ones.
    Raises `Problem`.
    """
    if per_category < 1:
        raise Problem("No prompts per category were asked for.", "Choose 1 or more.")
    if place is None:
        prompts = [Prompt(f"built-in/{i}", *entry) for i, entry in enumerate(BUILTIN)]
    elif place.is_dir():
        prompts = list(_public(place, sets))
    else:
        prompts = list(_own(place))
    first: dict[str, Prompt] = {}
    for prompt in prompts:
        first.setdefault(prompt.text, prompt)  # Spec-Bench holds MT-Bench
    by_category: dict[str, list[Prompt]] = {}
    for prompt in first.values():
        by_category.setdefault(prompt.category, []).append(prompt)
    return [chosen for group in by_category.values() for chosen in spread(group, per_category)]


def spread[T](items: Sequence[T], count: int) -> list[T]:
    """`count` of `items`, evenly spaced, in order; all of them where there are no more."""
    if count >= len(items):
        return list(items)
    return [items[i * len(items) // count] for i in range(count)]


def _public(folder: Path, sets: Sequence[str]) -> Iterator[Prompt]:
    unknown = set(sets) - set(SETS)
    if unknown:
        raise Problem(
            f"There is no prompt set {sorted(unknown)[0]!r}.", f"Choose from {', '.join(SETS)}."
        )
    found = False
    for source in _SOURCES:
        if sets and source.name not in sets:
            continue
        path = next((folder / name for name in source.files if (folder / name).is_file()), None)
        if path is not None:
            found = True
            yield from _read(path, source)
        elif sets:
            raise _missing(folder, [source])
    if not found:
        raise _missing(folder, _SOURCES)


def fetch_command(folder: Path, sources: Sequence[_Source] = _SOURCES) -> str:
    """What puts the public files into `folder`, for a shell; nothing here uses the network."""
    return " && ".join(
        f"curl -fL --create-dirs -o {shlex.quote(str(folder / source.files[0]))} "
        f"https://raw.githubusercontent.com/{source.repository}/HEAD/{source.path}"
        for source in sources
    )


def _missing(folder: Path, sources: Sequence[_Source]) -> Problem:
    return Problem(
        f"{folder} lacks the prompts that are asked for.",
        f"Fetch them from GitHub: {fetch_command(folder, sources)}",
    )


def _read(path: Path, source: _Source) -> Iterator[Prompt]:
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    category, text = source.read(json.loads(line))
                    yield Prompt(f"{source.name}/{number}", category, text)
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise Problem(
            f"{path} cannot be read as {source.name}'s prompts: {type(error).__name__}: {error}.",
            f"Fetch it again: {fetch_command(path.parent, [source])}",
        ) from error


def _own(path: Path) -> Iterator[Prompt]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise Problem(
            f"The prompts in {path} cannot be read: {error}.",
            "Give a folder with the public files, or a text file with one prompt a line.",
        ) from error
    prompts = [
        Prompt(f"own/{number}", "own", line)
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    if not prompts:
        raise Problem(f"{path} holds no prompt.", "Write one prompt a line.")
    yield from prompts
