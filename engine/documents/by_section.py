"""A question about all of a document that does not fit: asked of each part, then of the notes.

Counting, comparing and summing up need every part of a document, and passages are some of them.
Reading them takes as long as reading all of it; the last answer knows of it what the notes say, and
no more. Knows no model: whoever asks gets prompts from here, and gives back the answers.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass

from engine.documents import Document, Section
from engine.documents.passages import cut
from engine.documents.prompt import Attached, write_message
from models.errors import Problem

NOTE_TOKENS = 256
"""That an answer about a part may have."""

_FEWEST_TOKENS = 4 * NOTE_TOKENS  # of a part: its note is much shorter, also of other notes
_OF_A_PART = (
    "\n\nAnswer from this part of the document only, briefly, with the names and figures that it "
    'has. If it has nothing on that, write "Nothing."'
)
_OF_NOTES = "These are notes on every part of the documents, in their order.\n\n"
_NOTHING = "nothing"
_AROUND_A_PASSAGE = 12  # tokens of its place and of the lines around it

type _Note = tuple[str, str]  # of what place, and what


@dataclass(frozen=True, slots=True)
class Ask:
    """A prompt for a conversation of its own, the `number`-th, from 1, of `among`.

    `place`: what part of a document it is about; empty for the last one, which gets the answer.
    """

    prompt: str
    number: int = 1
    among: int = 1
    place: str = ""


def section_by_section(
    question: str, documents: Mapping[int, Document], *, count: Callable[[str], int], room: int
) -> Generator[Ask, str]:
    """What to ask, one after the other: all but the last are sent their answers.

    `count` says how many tokens a text has; `room` is how many a prompt may have beside the
    question. Notes that are too long for one prompt are read as documents are. Raises Problem where
    there is hardly any room.
    """
    room -= max(count(_OF_A_PART), count(_OF_NOTES))
    if room < _FEWEST_TOKENS:
        raise Problem(
            f"There is room for {max(room, 0):,} tokens of a document, too few for a part of it.",
            "Give a larger context.",
        )
    notes = yield from _notes(question, documents, count, room)
    while count(_listed(notes)) > room:
        sections = tuple(
            Section("part", number, text, place)
            for number, (place, text) in enumerate(notes, start=1)
        )
        read_again = {1: Document("notes", "text", "", sections)}
        notes = yield from _notes(question, read_again, count, room)
    yield Ask(f"{_OF_NOTES}{_listed(notes)}\n\n{question}")


def _notes(
    question: str, documents: Mapping[int, Document], count: Callable[[str], int], room: int
) -> Generator[Ask, str, list[_Note]]:
    """What was said of each part that has something on the question."""
    parts = [
        part for number in documents for part in _parts(number, documents[number], count, room)
    ]
    notes: list[_Note] = []
    for index, (place, part) in enumerate(parts, start=1):
        text = write_message(question + _OF_A_PART, [part]).text
        note = (yield Ask(text, index, len(parts), place)).strip()
        if not note.casefold().startswith(_NOTHING):
            notes.append((place, note))
    return notes


def _parts(
    number: int, document: Document, count: Callable[[str], int], room: int
) -> Iterator[tuple[str, Attached]]:
    """The document in parts that fit, each as long as it can be, with its place."""
    passages = cut(document)
    around = count(write_message("", [Attached(number, document, (), len(passages))]).text)
    start, used = 0, around
    for end, passage in enumerate([*passages, None]):
        cost = room
        if passage is not None:
            cost = count(document.text[passage.start : passage.end]) + _AROUND_A_PASSAGE
        if start < end and used + cost > room:
            given = passages[start:end]
            places = (document.place(given[0].start), document.place(given[-1].end - 1))
            place = f"{document.name}, {' to '.join(dict.fromkeys(places))}"
            yield place, Attached(number, document, given, len(passages))
            start, used = end, around
        used += cost


def _listed(notes: list[_Note]) -> str:
    return "\n\n".join(f"[{place}]\n{text}" for place, text in notes)
