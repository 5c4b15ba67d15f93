"""What a model is given of a document: text in the message that the document was attached to.

It stands before the question, whole or in passages, each under the name of its place, and is never
moved or written anew: so what was read of the conversation stays read, and a copy is found. Knows
which characters of a message are which of a document. Pure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.documents import Document


@dataclass(frozen=True, slots=True)
class Passage:
    """The characters from `start` to `end` of a document's text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Attached:
    """A document of a conversation, by its number from 1. `passages`: those that are given, in
    order and apart, of all `among`; None: all of it is given."""

    number: int
    document: Document
    passages: tuple[Passage, ...] | None = None
    among: int = 0


@dataclass(frozen=True, slots=True)
class Range:
    """`length` characters, which begin at `start` in the message and at `offset` in the document's
    text."""

    start: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class SentDocument:
    """What a message has of a document: `passages` of `among`, or all of it, where these are 0."""

    number: int
    name: str
    ranges: tuple[Range, ...]
    passages: int = 0
    among: int = 0


@dataclass(frozen=True, slots=True)
class Sent:
    """The text of a message as the model gets it, and what documents it has in it."""

    text: str
    documents: tuple[SentDocument, ...] = ()

    def source(self, place: int) -> tuple[int, int] | None:
        """The number of the document that the character at `place` comes from, and where it stands
        in the document's text; None for what is not a document's."""
        for document in self.documents:
            for part in document.ranges:
                if 0 <= place - part.start < part.length:
                    return document.number, part.offset + place - part.start
        return None


def write_message(question: str, attached: Sequence[Attached]) -> Sent:
    """The documents, one after the other, then the question."""
    text, documents = "", []
    for each in attached:
        document, ranges = each.document, []
        text += f"[{_heading(each)}]\n"
        for lead, part in _parts(each):
            text += lead
            ranges.append(Range(len(text), part.start, part.end - part.start))
            text += document.text[part.start : part.end] + "\n"
        text += f"[End of document {each.number}]\n\n"
        given = 0 if each.passages is None else len(each.passages)
        documents.append(
            SentDocument(each.number, document.name, tuple(ranges), given, given and each.among)
        )
    return Sent(text + question, tuple(documents))


def _heading(attached: Attached) -> str:
    name = f"Document {attached.number}: {attached.document.name}"
    if attached.passages is None:
        return name
    return f"{name}, {in_passages(len(attached.passages), attached.among)}"


def in_passages(given: int, among: int) -> str:
    """How much that is of a document: "9 passages of 140"."""
    return f"{given:,} passage{'s' * (given != 1)} of {among:,}"


def _parts(attached: Attached) -> Iterator[tuple[str, Passage]]:
    """What is given, cut where another section begins, each part with what stands before it: its
    place, but for a document that has one and is given whole; or the blank lines of a text."""
    document = attached.document
    given = attached.passages
    if given is None:
        given = (Passage(0, len(document.text)),)
    named = attached.passages is not None or len(document.sections) > 1
    for passage in _joined(given, document.text):
        first, last = document.section_at(passage.start), document.section_at(passage.end - 1)
        for number in range(first, last + 1):
            section, start = document.sections[number], document.starts[number]
            begin, end = max(start, passage.start), min(start + len(section.text), passage.end)
            if begin >= end:
                continue
            lead = f"\n[{document.place(begin)}]\n" if named or section.label else ""
            if number > first and document.continues(number):
                before = document.sections[number - 1]
                lead = "\n" * (section.number - before.number - before.text.count("\n") - 1)
            yield lead, Passage(begin, end)


def _joined(passages: Sequence[Passage], text: str) -> Iterator[Passage]:
    """Passages with nothing but white space between them become one."""
    current: Passage | None = None
    for passage in passages:
        if current is not None and not text[current.end : passage.start].strip():
            current = Passage(current.start, passage.end)
            continue
        if current is not None:
            yield current
        current = passage
    if current is not None:
        yield current
