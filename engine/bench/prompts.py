"""Reads the prompts: lines of a file, or resources/bench_prompts.json. Knows nothing of models."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from models.errors import Problem

_PATH = Path(__file__).parents[2] / "resources" / "bench_prompts.json"
BUILTIN: tuple[tuple[str, str], ...] = tuple(
    (category, text) for category, text in json.loads(_PATH.read_text(encoding="utf-8"))
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


def load_prompts(place: Path | None, *, per_category: int) -> list[Prompt]:
    """At most `per_category` prompts of each category: of the built-in ones, or of the text file
    `place`, whose lines are one category. Raises `Problem`."""
    if per_category < 1:
        raise Problem("No prompts per category were asked for.", "Choose 1 or more.")
    if place is None:
        prompts = [Prompt(f"built-in/{i}", *entry) for i, entry in enumerate(BUILTIN)]
    else:
        prompts = _own(place)
    by_category: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        by_category.setdefault(prompt.category, []).append(prompt)
    return [each for group in by_category.values() for each in spread(group, per_category)]


def _own(path: Path) -> list[Prompt]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise Problem(
            f"The prompts in {path} cannot be read: {error}.",
            "Give a text file with one prompt a line.",
        ) from error
    prompts = [
        Prompt(f"own/{number}", "own", line)
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    if not prompts:
        raise Problem(f"{path} contains no prompts.", "Write one prompt a line.")
    return prompts
