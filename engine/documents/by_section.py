"""Asks a question about all of a long document: of each part, then of the notes on the parts.

Counting, comparing and summing up need every part of a document; passages are only some. Reading
all parts takes as long as reading the document, and the last answer knows only the notes. Knows no
model: the caller gets prompts from here, and sends back the answers.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from engine.documents import Document, Section
from engine.documents.passages import cut
from engine.documents.prompt import Attached, Note, Noted, Sent, write_message, write_notes
from engine.documents.tables import header_of
from engine.stretches import Stretch, said
from models.errors import Problem

NOTE_TOKENS = 256
"""The longest answer about a part, without reasoning."""
REASONING_TOKENS = 2048
"""The additional tokens of an answer about a part, if the model reasons."""
THINKING: Literal["off"] = "off"
"""The thinking for questions about a part: none."""

_FEWEST_TOKENS = 4 * NOTE_TOKENS  # of a part, so that its note is much shorter
_OF_A_PART = (
    "\n\nAnswer from this part of the document only, briefly, with the names and figures that it "
    'has. If it has nothing on that, write "Nothing."'
)
_NOTHING = ("", "nothing")
_AROUND_NOTHING = " \n\"'“”\u2018’«»„.!*_`"
_AROUND_A_PASSAGE = 12  # tokens of its place and of the lines around it


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a document: the offsets of its first and last characters, and its tokens."""

    attached: Attached
    start: int
    end: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Ask:
    """A prompt about part `number` (from 1) of `among` parts.

    `tokens`: of all parts, about. `place`: of the part, for people. `sent`: the message with the
    notes so far, which can be answered if no more are made. `most_tokens`: the longest answer. If
    the first answer shows that the model reasons, its part is asked about again with more tokens.
    """

    prompt: str
    number: int
    among: int
    tokens: int
    place: str
    sent: Sent
    most_tokens: int = NOTE_TOKENS


@dataclass(frozen=True, slots=True)
class Said:
    """The answer about a part: a `note`, or None if the answer ended within reasoning.

    `reasoned`: whether the answer began with reasoning.
    """

    note: str | None
    reasoned: bool = False


def said_in(reply: str, stretches: Sequence[Stretch]) -> Said:
    """The answer about a part that is in a reply: its text without reasoning."""
    if not stretches:
        return Said(reply)
    return Said(said(reply, stretches).strip() or None, reasoned=True)


def section_by_section(
    question: str, documents: Mapping[int, Document], *, count: Callable[[str], int], room: int
) -> Generator[Ask, Said, Sent]:
    """Yield a question about each part; send its answer. Returns the message to answer at last.

    `count(text)`: the tokens of a text. `room`: the tokens that a prompt may have beside the
    question. Notes that are too long for one prompt are read in parts again. Raises `Problem` if
    there is hardly any room, or if the model's reasoning does not end.
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
    asking = _Asking(question, noted, count)
    number = 0
    for each in noted:
        for part in parts[each]:
            number += 1
            place = documents[each].place
            note = Note(place(part.start), place(part.end), "")
            made = yield from asking.about(every, number, note)
            notes = (*noted[each].notes, *made)
            noted[each] = replace(noted[each], read=noted[each].read + 1, notes=notes)
    while (excess := count(write_notes("", list(noted.values())).text) - room) > 0:
        longest = max(noted.values(), key=lambda each: count(write_notes("", [each]).text))
        if len(longest.notes) < 2:
            raise Problem(
                f"The notes on {len(noted):,} documents are {excess:,} tokens too long.",
                "Attach fewer documents, or give a larger context.",
            )
        yield from _read_again(asking, longest, count, room)
    return write_notes(question, list(noted.values()))


def _read_again(
    asking: "_Asking", long: Noted, count: Callable[[str], int], room: int
) -> Generator[Ask, Said]:
    """Replace the notes on a document by notes on these notes."""
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
        done = (*done, *(yield from asking.about(parts, number, note)))
        asking.noted[long.number] = replace(long, notes=(*done, *long.notes[last + 1 :]))


class _Asking:
    """Asks a question about parts, and learns whether the model reasons.

    Attribute: `noted`, by the documents' numbers.
    """

    def __init__(self, question: str, noted: dict[int, Noted], count: Callable[[str], int]) -> None:
        self.noted = noted
        self._question, self._count = question, count
        self._most_tokens = NOTE_TOKENS

    def about(
        self, parts: Sequence[_Part], number: int, note: Note
    ) -> Generator[Ask, Said, tuple[Note, ...]]:
        """Ask about the part with this number (from 1). Returns `note` with the answer as its text;
        () if the answer says that there is nothing."""
        part = parts[number - 1].attached
        ask = Ask(
            write_message(self._question + _OF_A_PART, [part]).text,
            number,
            len(parts),
            sum(each.tokens for each in parts),
            f"{part.document.name}, {note.place}",
            write_notes(self._question, list(self.noted.values())),
            self._most_tokens,
        )
        answer = yield ask
        if answer.reasoned and self._most_tokens == NOTE_TOKENS:
            self._most_tokens += REASONING_TOKENS
            answer = yield replace(ask, most_tokens=self._most_tokens)
        if answer.note is None:
            raise Problem(
                f"The model reasoned about {ask.place}, and came to no answer in the tokens that "
                "one may have.",
                "Allow more tokens for an answer, or choose a model that reasons less.",
            )
        text = answer.note.strip()
        if text.strip(_AROUND_NOTHING).casefold() in _NOTHING:
            return ()
        return (replace(note, text=self._cut(text) if answer.reasoned else text),)

    def _cut(self, text: str) -> str:
        """Cut a note that is longer than a note may be."""
        while (length := self._count(text)) > NOTE_TOKENS:
            text = text[: len(text) * NOTE_TOKENS // length]
        return text


def _parts(
    number: int, document: Document, count: Callable[[str], int], room: int
) -> Iterator[_Part]:
    """Yield the document in parts that fit into `room`, each as long as possible."""
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
        if passage is not None and start == end:
            used += count(header_of(document, passage.start))
        used += cost
