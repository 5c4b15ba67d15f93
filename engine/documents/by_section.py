"""A question about all of a document that does not fit: asked of each part, then of the notes.

Counting, comparing and summing up need every part of a document, and passages are some of them.
Reading them takes as long as reading all of it; the last answer knows of it what the notes say, and
no more. Knows no model: whoever asks gets prompts from here, and gives back the answers.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.documents import Document, Section
from engine.documents.passages import cut
from engine.documents.prompt import Attached, Note, Noted, Sent, write_message, write_notes
from models.errors import Problem

NOTE_TOKENS = 256
"""That an answer about a part may have."""

_FEWEST_TOKENS = 4 * NOTE_TOKENS  # of a part: its note is much shorter, also of other notes
_OF_A_PART = (
    "\n\nAnswer from this part of the document only, briefly, with the names and figures that it "
    'has. If it has nothing on that, write "Nothing."'
)
_NOTHING = "nothing"
_END_OF_REASONING = "</think>"
_AROUND_A_PASSAGE = 12  # tokens of its place and of the lines around it


@dataclass(frozen=True, slots=True)
class _Part:
    """`start` and `end`: where in the text its first and its last characters are."""

    attached: Attached
    start: int
    end: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Ask:
    """A prompt about a part of a document, the `number`-th, from 1, of `among`, which have about so
    many `tokens` together; at what `place` it is. `sent`: the message with the notes so far, which
    can be answered if no more are made."""

    prompt: str
    number: int
    among: int
    tokens: int
    place: str
    sent: Sent


def section_by_section(
    question: str, documents: Mapping[int, Document], *, count: Callable[[str], int], room: int
) -> Generator[Ask, str, Sent]:
    """What to ask, one after the other; each is sent its answer. Returns the message to answer at
    last.

    `count` says how many tokens a text has; `room` is how many a prompt may have beside the
    question. Notes that are too long for one prompt are read as documents are. Raises Problem where
    there is hardly any room.
    """
    room -= count(_OF_A_PART)
    if room < _FEWEST_TOKENS:
        raise Problem(
            f"There is room for {max(room, 0):,} tokens of a document, too few for a part of it.",
            "Give a larger context.",
        )
    parts = {n: list(_parts(n, document, count, room)) for n, document in documents.items()}
    noted = {n: Noted(n, documents[n], len(cut)) for n, cut in parts.items() if cut}
    every = [part for cut in parts.values() for part in cut]
    number = 0
    for each in noted:
        for part in parts[each]:
            number += 1
            place = documents[each].place
            note = Note(place(part.start), place(part.end), "")
            note = yield from _ask(question, note, noted, every, number)
            notes = (*noted[each].notes, *_worth_keeping(note))
            noted[each] = replace(noted[each], read=noted[each].read + 1, notes=notes)
    while (excess := count(write_notes("", list(noted.values())).text) - room) > 0:
        longest = max(noted.values(), key=lambda each: count(write_notes("", [each]).text))
        if len(longest.notes) < 2:
            raise Problem(
                f"The notes on {len(noted):,} documents are {excess:,} tokens too long.",
                "Attach fewer documents, or give a larger context.",
            )
        yield from _read_again(question, longest, noted, count, room)
    return write_notes(question, list(noted.values()))


def _read_again(
    question: str,
    long: Noted,
    noted: dict[int, Noted],
    count: Callable[[str], int],
    room: int,
) -> Generator[Ask, str]:
    """Make notes on the notes on a document, in their place."""
    sections = tuple(
        Section("part", number, note.text, note.place)
        for number, note in enumerate(long.notes, start=1)
    )
    document = Document(f"notes on {long.document.name}", "text", "", sections)
    parts = list(_parts(long.number, document, count, room))
    done: tuple[Note, ...] = ()
    for number, part in enumerate(parts, start=1):
        first, last = document.section_at(part.start), document.section_at(part.end)
        note = Note(long.notes[first].first, long.notes[last].last, "")
        note = yield from _ask(question, note, noted, parts, number)
        done = (*done, *_worth_keeping(note))
        noted[long.number] = replace(long, notes=(*done, *long.notes[last + 1 :]))


def _ask(
    question: str, note: Note, noted: dict[int, Noted], parts: Sequence[_Part], number: int
) -> Generator[Ask, str, Note]:
    """The note with what is said of the part with this number, from 1."""
    part = parts[number - 1].attached
    said = yield Ask(
        write_message(question + _OF_A_PART, [part]).text,
        number,
        len(parts),
        sum(each.tokens for each in parts),
        f"{part.document.name}, {note.place}",
        write_notes(question, list(noted.values())),
    )
    return replace(note, text=said.rpartition(_END_OF_REASONING)[2].strip())


def _worth_keeping(note: Note) -> tuple[Note, ...]:
    return () if note.text.casefold().startswith(_NOTHING) or not note.text else (note,)


def _parts(
    number: int, document: Document, count: Callable[[str], int], room: int
) -> Iterator[_Part]:
    """The document in parts that fit, each as long as it can be."""
    passages = cut(document)
    around = count(write_message("", [Attached(number, document, (), len(passages))]).text)
    start, used = 0, around
    for end, passage in enumerate([*passages, None]):
        cost = room
        if passage is not None:
            cost = count(document.text[passage.start : passage.end]) + _AROUND_A_PASSAGE
        if start < end and used + cost > room:
            given = passages[start:end]
            attached = Attached(number, document, given, len(passages))
            yield _Part(attached, given[0].start, given[-1].end - 1, used)
            start, used = end, around
        used += cost
