"""Finds which words of an answer are in documents and where, and which are in none. The result
of a tool's call is a document, too.

Knows documents and texts; no widget. Takes a moment: call it in a thread.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.documents import Document
from engine.documents.copied import CopiedPlace, CopiedSpan, WordIndex, find_copied, in_words, share
from engine.documents.not_found import NotFound, known_words, not_found
from engine.documents.prompt import Sent
from engine.events import Draft, Event, Verdict

_SENTENCE = 160  # most characters on each side of a place
_ENDS = re.compile(r"[.!?:](?=\s)|\n\s*\n|[\u3002\uff01\uff1f]")
_MOST_PLACES = 3  # places in a tooltip
MISSING: dict[str, str] = {
    "number": "This number",
    "quotation": "This quotation, word for word,",
}


@dataclass(frozen=True, slots=True)
class AnswerWords:
    """`tips` name the source of each copied span. `line` says how much is copied and from where,
    and how much was not found; empty without either."""

    copied: tuple[CopiedSpan, ...] = ()
    tips: tuple[str, ...] = ()
    missing: tuple[NotFound, ...] = ()
    line: str = ""


def letter(document: int) -> str:
    """Return the letter of the document with this number, for those who do not see colours."""
    return chr(ord("A") + (document - 1) % 26)


def words_of(
    answer: str,
    *,
    documents: Mapping[int, Document],
    indexes: Mapping[int, WordIndex],
    said: Sequence[str],
    complete: bool = True,
) -> AnswerWords:
    """Find copied and missing words of an answer, by the documents that the model was given.

    `said` is what the user wrote. If the documents are not `complete`, as one was deleted, no
    word counts as missing.
    """
    copied = find_copied(answer, indexes)
    texts = [*indexes.values(), known_words(documents.values(), said)]
    missing = not_found(answer, texts) if complete else ()
    lines = (
        in_words(share(answer, copied, documents), documents),
        f"{len(missing)} not found in the documents" if missing else "",
    )
    return AnswerWords(
        copied,
        tuple(_tip(span, documents) for span in copied),
        missing,
        " · ".join(filter(None, lines)),
    )


def format_place(place: CopiedPlace, document: Document) -> str:
    """Return "contract.pdf, page 3"; the name alone if the document has only one part."""
    section = document.sections[document.section_at(place.start)]
    return document.name if len(document.sections) == 1 else f"{document.name}, {section.place}"


def _tip(span: CopiedSpan, documents: Mapping[int, Document]) -> str:
    lines = [
        f"{letter(place.document)}  {format_place(place, documents[place.document])}"
        for place in span.places[:_MOST_PLACES]
    ]
    if (more := len(span.places) - len(lines)) > 0:
        lines.append(f"and in {more} more place{'' if more == 1 else 's'}")
    first = span.places[0]
    around = sentence(documents[first.document].text, first.start, first.end)
    return "\n".join((*lines, "", f"“{around}”"))


def sentence(text: str, start: int, end: int) -> str:
    """Return the sentence around a part of a text, or as much of it as fits, in one line."""
    floor, ceiling = max(0, start - _SENTENCE), min(len(text), end + _SENTENCE)
    begin = max((match.end() for match in _ENDS.finditer(text, floor, start)), default=floor)
    stop = _ENDS.search(text, max(end - 1, start), ceiling)
    last = stop.end() if stop else ceiling
    before = "… " if begin == floor > 0 else ""
    behind = " …" if last == ceiling < len(text) and stop is None else ""
    return before + " ".join(text[begin:last].split()) + behind


@dataclass(frozen=True, slots=True)
class CopiedDrafts:
    """How many drafted tokens were copied from documents and results, and how many of these were
    accepted."""

    drafted: int = 0
    accepted: int = 0

    def __str__(self) -> str:
        """ "18 of 40 copied tokens accepted". Empty if nothing was copied."""
        return f"{self.accepted} of {self.drafted} copied tokens accepted" if self.drafted else ""


Given = Sent | Literal["result"] | None
"""What of a message a draft may be copied from: its documents; all of it, as it is a tool's result;
or nothing that counts."""


def copied_drafts(events: Iterable[Event], chat: Sequence[Given]) -> CopiedDrafts:
    """Count the drafted tokens of an answer that were copied from documents and results.

    `events` are the answer's. `chat` has an item for each message of its prompts.
    """
    copied, drafted, accepted = False, 0, 0
    for event in events:
        if isinstance(event, Draft):
            source = event.source
            given = chat[source.message] if source and source.message < len(chat) else None
            copied = given == "result" or (
                isinstance(given, Sent)
                and source is not None
                and given.source(source.offset) is not None
            )
        elif isinstance(event, Verdict):
            if copied:
                drafted += len(event.judgements)
                accepted += event.accepted
            copied = False
    return CopiedDrafts(drafted, accepted)
