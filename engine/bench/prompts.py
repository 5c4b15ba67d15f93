"""Reads the prompts: the lines of a file, or built-in ones. Knows nothing of models."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
