"""The share of 171 questions whose answer is in the passages of a message.

`make retrieval` reads 22 documents as the product does, plans a message for each question, and
prints tables by kind, language, size and style of question in Markdown, then the questions that
were missed. The questions were written before any result was seen, and the code is not tuned to
them.
"""

import argparse
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from engine.documents import Document
from engine.documents.child import read_bytes
from engine.documents.passages import PassageIndex
from engine.documents.plan import plan
from models.errors import Problem

_DATA = Path(__file__).parents[2] / "data" / "retrieval"
ROOM = 5332  # tokens of documents in a chat with the starter's context of 8,192
_CHARACTERS_IN_A_TOKEN = 3

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a document. `answer`: words that are in it once, and must be given;
    `style`: with the document's words, with other forms of them, by a place, with a number that is
    written in another way, or in other words; `header`: the first row of a table."""

    document: str
    kind: str
    language: str
    style: str
    question: str
    answer: str
    header: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """Whether an answer is `found` in the given passages, and there has the header of its
    `table`; `tokens` of the document."""

    asked: Question
    tokens: int
    found: bool
    headed: bool


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (_DATA / name).read_text("utf-8").splitlines()]


def results(count: Count, room: int) -> Iterator[Result]:
    questions = [Question(**row) for row in _rows("questions.jsonl")]
    with ZipFile(_DATA / "documents.zip") as files:
        for name in files.namelist():
            document = read_bytes(name, files.read(name))
            tokens = count(document.text)
            for asked in questions:
                if asked.document == name:
                    start, end = place(document, asked.answer)
                    given, text = _given(asked.question, document, count, room)
                    found = any(a <= start and end <= b for a, b in given)
                    yield Result(asked, tokens, found, found and asked.header in text)


def place(document: Document, answer: str) -> tuple[int, int]:
    """The offsets of an answer, which is in the text once, with any line breaks."""
    pattern = r"\s+".join(map(re.escape, answer.split()))
    (match,) = re.finditer(rf"(?<!\w){pattern}(?!\d)", document.text)
    return match.span()


def _given(
    question: str, document: Document, count: Count, room: int
) -> tuple[list[tuple[int, int]], str]:
    """The ranges of the document that a message gets, and the message."""
    with PassageIndex() as index:
        try:
            made = plan(question, {1: document}, index=index, count=count, room=room)
        except Problem:
            return [], ""
    ranges = [(r.offset, r.offset + r.length) for d in made.sent.documents for r in d.ranges]
    joined: list[tuple[int, int]] = []
    for start, end in ranges:  # the parts of sections that continue each other
        if joined and not document.text[joined[-1][1] : start].strip():
            start = joined.pop()[0]
        joined.append((start, end))
    return joined, made.sent.text


def table(all_results: Sequence[Result]) -> Iterator[str]:
    """The shares found, by each property, in Markdown."""
    yield "| | questions | found | with header |"
    yield "|---|---|---|---|"
    yield _row("all", all_results)
    properties: tuple[tuple[str, Callable[[Result], str]], ...] = (
        ("kind", lambda each: each.asked.kind),
        ("language", lambda each: each.asked.language),
        ("size", lambda each: _size(each.tokens)),
        ("style", lambda each: each.asked.style),
        ("document", lambda each: each.asked.document),
    )
    for name, value_of in properties:
        yield f"| **{name}** | | | |"
        for value in dict.fromkeys(map(value_of, all_results)):
            yield _row(value, [each for each in all_results if value_of(each) == value])


def _row(name: str, chosen: Sequence[Result]) -> str:
    found = sum(each.found for each in chosen)
    headed = [each.headed for each in chosen if each.asked.header and each.found]
    with_header = f"{sum(headed)} of {len(headed)}" if headed else ""
    return f"| {name} | {len(chosen)} | {found} ({found / len(chosen):.0%}) | {with_header} |"


def _size(tokens: int) -> str:
    return next(
        (f"under {most:,} tokens" for most in (20_000, 60_000) if tokens < most), "60,000 or more"
    )


def _counting(tokenizer: str) -> Count:
    if not tokenizer:
        return lambda text: len(text) // _CHARACTERS_IN_A_TOKEN + 1
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_file(tokenizer)
    return lambda text: len(loaded.encode(text, add_special_tokens=False).ids)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", default="", help="tokenizer.json; otherwise estimated")
    parser.add_argument("--room", type=int, default=ROOM, help="tokens of documents")
    options = parser.parse_args()
    count = _counting(options.tokenizer)
    found = list(results(count, options.room))
    print("\n".join(table(found)))
    print("\nMissed:\n")
    for each in found:
        if not each.found:
            print(f"- {each.asked.document}, {each.asked.style}: {each.asked.question}")


if __name__ == "__main__":
    main()
