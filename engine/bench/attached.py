"""Sixteen tasks about attached documents: twelve whose answers copy most of their text, four whose
answers copy hardly a phrase.

The documents are our own, in resources/bench. Knows nothing of models.
"""

import hashlib
from pathlib import Path

from engine.documents import Document, Format, Section
from engine.documents.prompt import Attached, write_message

_FOLDER = Path(__file__).parents[2] / "resources" / "bench"
_FORMATS: dict[str, Format] = {".md": "markdown", ".csv": "csv"}

_LEASE, _PUMP, _MINUTES = "lease.md", "pump.md", "minutes.txt"
_STOCK, _PRICES, _SETTINGS = "stock.py.txt", "prices.csv", "settings.json"

# category, document, question
_TASKS: tuple[tuple[str, str, str], ...] = (
    (
        "quote",
        _LEASE,
        "Quote word for word, with their numbers, all clauses about repairs and about how the "
        "lease can be ended. Write nothing else.",
    ),
    (
        "quote",
        _LEASE,
        "Which clauses say what the Tenant must pay, and when? Quote each of them in full with its "
        "number, and write one short sentence about it.",
    ),
    (
        "quote",
        _PUMP,
        "Copy all warnings, cautions and notes of this manual, and then all steps of the chapter "
        "about descaling, exactly as they are written.",
    ),
    (
        "quote",
        _MINUTES,
        "List for each person what they are to do, and quote the sentence of the minutes that says "
        "so.",
    ),
    (
        "correct",
        _MINUTES,
        "Correct all spelling mistakes in these minutes, change nothing else, and give me the "
        "whole text.",
    ),
    (
        "correct",
        _LEASE,
        'Give me clauses 1 to 4 again with "the Lessor" in place of "the Landlord" and "the '
        'Lessee" in place of "the Tenant". Change nothing else.',
    ),
    (
        "code",
        _STOCK,
        "Rename get_qty to quantity and get_free_qty to free_quantity everywhere in this file, "
        "and give me the whole file.",
    ),
    (
        "code",
        _STOCK,
        "Write a docstring for every method of Warehouse that has none. Give me the whole class, "
        "otherwise unchanged.",
    ),
    (
        "code",
        _SETTINGS,
        'Make this a configuration for production: environment "production", port 80, log level '
        '"warning" throughout, and "prod" in place of "staging" in all host names. Give me the '
        "whole file.",
    ),
    (
        "table",
        _PRICES,
        "Translate the headings of this table into German, leave all rows as they are, and give me "
        "the whole table.",
    ),
    (
        "table",
        _PRICES,
        "Give me all rows whose warehouse is Cardiff, as a Markdown table with all columns.",
    ),
    ("table", _PUMP, "Give me the table of faults as CSV, with the same words."),
    (
        "own words",
        _LEASE,
        "Explain to a joiner who has never rented anything what to be careful about, without using "
        "the agreement's own wording.",
    ),
    (
        "own words",
        _STOCK,
        "What could go wrong when two people use this at the same time? Answer in prose, without "
        "code.",
    ),
    ("own words", _MINUTES, "Write a short cheerful poem about this society for its newsletter."),
    (
        "own words",
        _PRICES,
        "Write an advertisement for this shop for a local newspaper, in three paragraphs.",
    ),
)


def attached_tasks() -> list[tuple[str, str]]:
    """All tasks as (category, message with the document)."""
    return [
        (category, write_message(question, [Attached(1, _document(name))]).text)
        for category, name, question in _TASKS
    ]


def _document(name: str) -> Document:
    path = _FOLDER / name
    data = path.read_bytes()
    sections = (Section("part", 0, data.decode().strip()),)
    kind = _FORMATS.get(path.suffix, "text")
    return Document(name.removesuffix(".txt"), kind, hashlib.sha256(data).hexdigest(), sections)
