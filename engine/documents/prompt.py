"""Writes documents into the message that they are attached to, as a model gets them.

They come before the question, whole or in passages, each under the name of its place, with the
header of the table that it continues. They never change: so the caches of the conversation stay
valid, and copies are found. Maps characters of a message to characters of a document. Pure.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from engine.documents import Document
from engine.documents.tables import header_of
from models.typed_json import decode


@dataclass(frozen=True, slots=True)
class Passage:
    """The characters from `start` to `end` of a document's text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Attached:
    """A document of a conversation, by its number from 1.

    `passages`: the given ones of all `among`, in order, without overlap; None: all of it is given.
    """

    number: int
    document: Document
    passages: tuple[Passage, ...] | None = None
    among: int = 0


@dataclass(frozen=True, slots=True)
class Range:
    """`length` characters that begin at `start` in a message and at `offset` in the document."""

    start: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class SentDocument:
    """The part of a document that a message has, at `start` to `end` of the message, with headings.

    Given in passages: `passages` of `among`. Whole: these are 0. Deleted: a line only, which says
    so. A picture has `pixels`, its width and height, and no text: it comes before the message.
    `digest`: the `Document`'s; empty once it is deleted, and in messages of earlier versions, of
    which some have a model's notes on `among` parts, without `ranges`.
    """

    number: int
    name: str
    ranges: tuple[Range, ...]
    passages: int = 0
    among: int = 0
    start: int = 0
    end: int = 0
    digest: str = ""
    pixels: tuple[int, int] | None = None

    @property
    def whole(self) -> bool:
        return self.pixels is not None or (bool(self.ranges) and not self.passages)

    @property
    def deleted(self) -> bool:
        return not self.ranges and not self.among and self.pixels is None

    @property
    def in_words(self) -> str:
        """Describes the part for people: "whole", "9 passages of 140", "deleted", ..."""
        if self.pixels is not None:
            return "picture {:,} × {:,}".format(*self.pixels)
        if self.deleted:
            return "deleted"
        if self.passages:
            return in_passages(self.passages, self.among)
        return "notes on its parts" if self.among else "whole"


@dataclass(frozen=True, slots=True)
class Sent:
    """A message as the model gets it: its text, and the documents in the text.

    Example: "[Document 1: a.txt]\\n...\\n[End of document 1]\\n\\nWhat is it about?"
    """

    text: str
    documents: tuple[SentDocument, ...] = ()

    def source(self, place: int) -> tuple[int, int] | None:
        """(document's number, offset in its text) of the character at `place`; None if it is not a
        document's."""
        for document in self.documents:
            for part in document.ranges:
                if 0 <= place - part.start < part.length:
                    return document.number, part.offset + place - part.start
        return None

    @property
    def question(self) -> str:
        """The text that the user wrote."""
        return self.text[self.attached :]

    @property
    def attached(self) -> int:
        """The number of characters before the question."""
        return self.documents[-1].end if self.documents else 0

    def given(self, number: int) -> str:
        """The text that the message has of this document, with headings."""
        return "".join(self.text[d.start : d.end] for d in self.documents if d.number == number)

    def asked(self, question: str) -> "Sent":
        """The same message with another question."""
        return replace(self, text=self.text[: self.attached] + question)

    def without(self, number: int) -> "Sent":
        """The same message with a line in place of document `number`."""
        text, documents, moved = self.text, [], 0
        for each in self.documents:
            start, end = each.start + moved, each.end + moved
            if each.number == number:
                kind = "Document" if each.pixels is None else "Picture"
                line = f"[{kind} {number}: {each.name} was deleted]\n\n"
                text = text[:start] + line + text[end:]
                documents.append(
                    SentDocument(number, each.name, (), start=start, end=start + len(line))
                )
                moved += start + len(line) - end
            else:
                ranges = tuple(replace(part, start=part.start + moved) for part in each.ranges)
                documents.append(replace(each, ranges=ranges, start=start, end=end))
        return Sent(text, tuple(documents))

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)


def write_message(question: str, attached: Sequence[Attached]) -> Sent:
    """Write the documents, one after the other, then the question."""
    text, documents = "", []
    for each in attached:
        document, ranges, start = each.document, [], len(text)
        if document.pixels is not None:
            documents.append(
                SentDocument(
                    each.number,
                    document.name,
                    (),
                    start=start,
                    end=start,
                    digest=document.digest,
                    pixels=document.pixels,
                )
            )
            continue
        text += f"[{_heading(each)}]\n"
        for lead, part in _parts(each):
            text += lead
            ranges.append(Range(len(text), part.start, part.end - part.start))
            text += document.text[part.start : part.end] + "\n"
        text += f"[End of document {each.number}]\n\n"
        given = 0 if each.passages is None else len(each.passages)
        documents.append(
            SentDocument(
                each.number,
                document.name,
                tuple(ranges),
                given,
                given and each.among,
                start,
                len(text),
                document.digest,
            )
        )
    return Sent(text + question, tuple(documents))


def sent_from_json(text: str) -> Sent:
    """Read the JSON of `Sent.to_json`. Raises ValueError, also for places outside of its text."""
    value: Any = json.loads(text)
    sent = decode(Sent, value, place="the message", ignore_unknown=True)
    done = 0
    for document in sent.documents:
        begin = document.start
        for part in document.ranges:
            if part.start < begin or min(part.offset, part.length) < 0:
                raise ValueError(f"the places of document {document.number} overlap")
            begin = part.start + part.length
        if not done <= document.start <= begin <= document.end <= len(sent.text):
            raise ValueError(f"document {document.number} is not in the text")
        done = document.end
    return sent


def _heading(attached: Attached) -> str:
    name = f"Document {attached.number}: {attached.document.name}"
    if attached.passages is None:
        return name
    return f"{name}, {in_passages(len(attached.passages), attached.among)}"


def in_passages(given: int, among: int) -> str:
    """Format the share of a document that is given: "9 passages of 140"."""
    return f"{given:,} passage{'s' * (given != 1)} of {among:,}"


def _parts(attached: Attached) -> Iterator[tuple[str, Passage]]:
    """Yield (lead, part): the given text, cut between sections, with the text before each part.

    The lead is the place in brackets, with the header of a table above a part from its middle;
    blank lines if the part continues lines; "" for a whole document of one section without a label.
    """
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
            if begin == passage.start and (header := header_of(document, begin)):
                lead += f"{header}\n"
            if number > first and document.continues(number):
                before = document.sections[number - 1]
                lead = "\n" * (section.number - before.number - before.text.count("\n") - 1)
            yield lead, Passage(begin, end)


def _joined(passages: Sequence[Passage], text: str) -> Iterator[Passage]:
    """Join passages that only white space separates."""
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
