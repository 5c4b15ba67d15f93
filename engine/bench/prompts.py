"""Reads the prompts: public benchmark files, a person's own lines, or built-in ones.

Knows file formats; nothing of models.
"""

import gzip
import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.bench.attached import attached_tasks
from models.errors import Problem

_LEDGER = """def monthly_totals(entries):
    totals = {}
    for entry in entries:
        month = entry["date"][:7]
        if month in totals:
            totals[month] = totals[month] + entry["amount"]
        else:
            totals[month] = entry["amount"]
    return totals


def largest(entries):
    best = None
    for entry in entries:
        if best is None or entry["amount"] > best["amount"]:
            best = entry
    return best"""

_NOTICE = (
    "The ferry between the mainland and the two islands will run to a winter timetable from the "
    "first Monday of November until the last Sunday of March. There will be four crossings a day "
    "instead of nine. The first boat leaves the mainland at 7:10 and reaches the northern island "
    "at 7:55 and the southern one at 8:30; the last boat back leaves the southern island at 17:45. "
    "Cars must be booked a day ahead, as only one of the two boats can carry them while the other "
    "is in dry dock. Bicycles and dogs travel free. In strong wind from the west the southern pier "
    "cannot be used, and passengers are taken on by bus from the northern one at no charge. "
    "Tickets bought for the summer timetable stay valid, but seat reservations do not."
)

BUILTIN: tuple[tuple[str, str], ...] = (
    ("chat", "My neighbour's rooster wakes me at four every morning. How do I bring it up kindly?"),
    ("chat", "What should I look at when I buy a used bicycle? Give me a short checklist."),
    ("writing", "Write a letter from a lighthouse keeper to the ship that never answers."),
    ("writing", "Describe a bakery at four in the morning, in three paragraphs, without dialogue."),
    (
        "reasoning",
        "Four friends share a taxi and leave it one after another. Only the last one pays. "
        "Explain step by step how they could split the fare fairly.",
    ),
    (
        "math",
        "A tank holds 240 litres. One tap fills it in 8 hours, a drain empties it in 12. Both are "
        "open, and the tank is a quarter full. When is it full? Show every step.",
    ),
    (
        "code",
        "Write a Python function that takes a list of (start, end) intervals and returns them "
        "merged where they overlap, with a docstring and three assertions that test it.",
    ),
    (
        "code",
        "Write a small command line program in Python that counts words in text files given as "
        "arguments, and prints the twenty most frequent ones with their counts.",
    ),
    (
        "edit",
        "Add type hints and docstrings to this module, change nothing else, and give me all of "
        f"it:\n\n```python\n{_LEDGER}\n```",
    ),
    ("summarization", f"Summarize this notice in three sentences:\n\n{_NOTICE}"),
    (
        "extraction",
        f"List every time of day in this notice, with what happens then, as JSON:\n\n{_NOTICE}",
    ),
    (
        "translation",
        "Translate into German: The museum is closed on Tuesdays, but the garden stays open until "
        "dusk, and the café by the river serves soup all day.",
    ),
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question. `id` is unique within a benchmark; results are grouped by `category`."""

    id: str
    category: str
    text: str


def spread[T](items: Sequence[T], count: int) -> list[T]:
    """`count` of `items`, evenly spaced, in order; all of them if there are no more."""
    if count >= len(items):
        return list(items)
    return [items[i * len(items) // count] for i in range(count)]


def foremost[T](items: Sequence[T], count: int) -> list[T]:
    """The first `count` of `items`."""
    return list(items[:count])


_Choose = Callable[[Sequence[Prompt], int], list[Prompt]]


@dataclass(frozen=True, slots=True)
class _Source:
    """A public set: its name, file names, repository and path, and a function that reads a row.

    `choose` picks some prompts of a category.
    """

    name: str
    files: tuple[str, ...]
    repository: str
    path: str
    read: Callable[[dict[str, Any]], tuple[str, str]]
    choose: _Choose = spread


def _spec_bench(row: dict[str, Any]) -> tuple[str, str]:
    """Category and text. The first eight categories are MT-Bench's, which counts as one."""
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
    _Source(  # for measuring only: no drafter may learn from it
        "wizardlm",
        ("wizardlm_testset.jsonl", "WizardLM_testset.jsonl"),
        "nlpxucan/WizardLM",
        "WizardLM/data/WizardLM_testset.jsonl",
        lambda row: (row["Skill"], row["Instruction"]),
        foremost,
    ),
)
SETS: tuple[str, ...] = tuple(source.name for source in _SOURCES)


def load_prompts(
    place: Path | None, *, sets: Sequence[str], per_category: int, attach: bool = False
) -> list[Prompt]:
    """At most `per_category` prompts of each category of each set. Raises `Problem`.

    `place` is one of: a folder with public files (`sets` names the sets to take; () takes all); a
    public file, with its set in `sets`; a text file with a prompt on each line; None for built-in
    prompts, which are about documents if `attach`.
    """
    if per_category < 1:
        raise Problem("No prompts per category were asked for.", "Choose 1 or more.")
    if attach and (place is not None or sets):
        raise Problem(
            "--attach measures tasks of its own.", "Leave out --prompts and --set, or --attach."
        )
    chosen: list[Prompt] = []
    seen = set[str]()  # Spec-Bench holds MT-Bench
    for prompts, choose in [_attached()] if attach else _loaded(place, sets):
        by_category: dict[str, list[Prompt]] = {}
        for prompt in prompts:
            if prompt.text not in seen:
                seen.add(prompt.text)
                by_category.setdefault(prompt.category, []).append(prompt)
        chosen += [each for group in by_category.values() for each in choose(group, per_category)]
    return chosen


def _loaded(place: Path | None, sets: Sequence[str]) -> Iterator[tuple[list[Prompt], _Choose]]:
    """Yield the prompts of each set, and the function that chooses among them."""
    sources = _named(sets)
    if place is None and sources:
        raise Problem(
            "Slipstream does not include the public prompt sets.",
            "Give their folder with --prompts, or fetch them into one first: "
            f"{fetch_command(Path('prompts'), sources)}",
        )
    if place is None:
        yield [Prompt(f"built-in/{i}", *entry) for i, entry in enumerate(BUILTIN)], spread
    elif place.is_dir():
        yield from _public(place, sources)
    elif sources:
        if len(sources) > 1:
            raise Problem(f"{place} holds one prompt set.", "Give one --set, or the folder.")
        yield list(_read(place, sources[0])), sources[0].choose
    else:
        yield list(_own(place)), spread


def _attached() -> tuple[list[Prompt], _Choose]:
    tasks = enumerate(attached_tasks())
    return [Prompt(f"attached/{number}", *task) for number, task in tasks], spread


def _named(sets: Sequence[str]) -> list[_Source]:
    unknown = set(sets) - set(SETS)
    if unknown:
        raise Problem(
            f"There is no prompt set {sorted(unknown)[0]!r}.", f"Choose from {', '.join(SETS)}."
        )
    return [source for source in _SOURCES if source.name in sets]


def _public(folder: Path, wanted: Sequence[_Source]) -> Iterator[tuple[list[Prompt], _Choose]]:
    """Yield the prompts of the `wanted` sources in `folder`, or of all sources that are there."""
    found = False
    for source in wanted or _SOURCES:
        path = next((folder / name for name in source.files if (folder / name).is_file()), None)
        if path is not None:
            found = True
            yield list(_read(path, source)), source.choose
        elif wanted:
            raise _missing(folder, [source])
    if not found:
        raise _missing(folder, _SOURCES)


def fetch_command(folder: Path, sources: Sequence[_Source] = _SOURCES) -> str:
    """A shell command that would fetch the public files into `folder`."""
    return " && ".join(
        f"curl -fL --create-dirs -o {shlex.quote(str(folder / source.files[0]))} "
        f"https://raw.githubusercontent.com/{source.repository}/HEAD/{source.path}"
        for source in sources
    )


def _missing(folder: Path, sources: Sequence[_Source]) -> Problem:
    return Problem(
        f"{folder} does not have these prompt sets.",
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
