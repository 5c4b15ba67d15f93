"""Gives documents to a model in a terminal: reads them, sends them, and reports on them.

Knows a session, a console, and a function that reads files. A message with documents is kept as it
was sent, and is never made again.
"""

import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from rich.console import Console
from rich.markup import escape
from rich.text import Text as Styled

from engine.cli.sessions import AnySession
from engine.documents import Document
from engine.documents.copied import WordIndex, find_copied, in_words, share
from engine.documents.in_words import lacks, size_in_words
from engine.documents.passages import PassageIndex
from engine.documents.plan import Plan, plan
from engine.documents.prompt import Attached, Sent, SentDocument, in_passages, write_message
from engine.documents.reading import Cancelled, Progress
from engine.documents.slow import is_slow, room_in_time, to_read
from engine.events import Stats
from engine.process.interrupts import noting
from engine.request import ChatMessage, Picture, Request, chat
from engine.virtual_ids import is_virtual
from models.errors import Problem
from models.in_words import clean, one_line

_FEWEST_READ = 64  # tokens, for a speed of reading to mean something


class Reader(Protocol):
    """As `engine.documents.reading.read_document` does."""

    def __call__(
        self, path: Path, *, cancelled: Callable[[], bool], progress: Progress
    ) -> Document: ...


def read_attached(path: Path, console: Console, read: Reader) -> Document:
    """Read a file or a folder, and print which parts of it could not be read. Raises Problem, also
    after a Ctrl-C."""
    name = one_line(path.name or str(path))
    doing = f"Reading {escape(name)}"
    with noting(signal.SIGINT) as interrupted, console.status(doing) as status:

        def report(read_files: int, files: int) -> None:
            status.update(f"{doing}: {read_files:,} of {files:,} files")

        try:
            document = read(path, cancelled=interrupted, progress=report)
        except Cancelled:
            raise Problem(f"{name} was not read to its end.", "Attach it again.") from None
    for line in lacks(document):
        _tell(console, f"{document.name}: {line}", style="yellow")
    return document


class PictureReader(Protocol):
    """As `engine.documents.reading.normalize` does."""

    def __call__(self, source: Path, into: Path, *, cancelled: Callable[[], bool]) -> Picture: ...


def keep_what_was_read(session: AnySession) -> list[str]:
    """Keep on disk the caches of documents, until a Ctrl-C. Returns why they cannot be kept."""
    with noting(signal.SIGINT) as interrupted:
        while not interrupted() and session.keep():
            pass
    return [session.unkept.value] if session.unkept else []


class Attachments:
    """The documents of one conversation, numbered from 1 in their order, and the `pictures` that
    are shown with its next message. Closed at the end."""

    def __init__(
        self, session: AnySession, console: Console, documents: Sequence[Document] = ()
    ) -> None:
        self._session, self._console = session, console
        self._closing = ExitStack()
        self._documents = dict(enumerate(documents, start=1))
        self.pictures: tuple[Picture, ...] = ()
        self._sent: dict[str, Sent] = {}  # by the text of a message
        self._words: dict[int, WordIndex] = {}
        self._seconds_per_token = 0.0  # until it is measured

    def attach(self, document: Document) -> None:
        """Give the document to the model with the next message."""
        self._documents[len(self._documents) + 1] = document

    def show_picture(self, path: Path, read: PictureReader) -> None:
        """Show a picture with the next message, and print its size. Raises Problem, also if the
        model cannot see, and after a Ctrl-C."""
        name = one_line(path.name)
        with noting(signal.SIGINT) as interrupted:
            try:
                picture = read(path, self._folder, cancelled=interrupted)
            except Cancelled:
                raise Problem(f"{name} was not read to its end.", "Show it again.") from None
        tokens = self._session.encode(chat([ChatMessage("user", "", pictures=(picture,))]))
        size = f"{picture.width:,} x {picture.height:,} pixels"
        _tell(self._console, f"{name}: {size}, {sum(map(is_virtual, tokens)):,} tokens")
        self.pictures += (picture,)

    @cached_property
    def _folder(self) -> Path:
        """Where the pictures are while the conversation lasts."""
        return Path(self._closing.enter_context(TemporaryDirectory(prefix="slipstream-")))

    def close(self) -> None:
        self._closing.close()

    @property
    def digests(self) -> tuple[str, ...]:
        """The digests of all documents."""
        return tuple(document.digest for document in self._documents.values())

    @cached_property
    def _index(self) -> PassageIndex:
        return self._closing.enter_context(PassageIndex())

    def write(
        self,
        question: str,
        request: Request,
        *,
        before: Sequence[ChatMessage],
        more: bool,
        passages: bool = False,
    ) -> ChatMessage:
        """A message: the question, and what it needs of the documents.

        `before`: the messages before it that are still read. `more`: other questions may follow,
        and need room too. `passages`: of documents that take long to read, only these. Raises
        Problem where a document has no room.
        """
        asked = ChatMessage("user", question, pictures=self.pictures)
        if not self._documents:
            return asked
        sent = self._sent_in(before)
        room = self._room([*before, asked], request, more=more)
        if passages:
            room = min(room, room_in_time(self._seconds_per_token))
        made = plan(
            question,
            self._documents,
            index=self._index,
            count=self.count,
            room=room,
            share=0.5 if more else 1.0,
            before=sent,
            asked_before=sent[-1].question if sent else "",
        )
        for document in made.sent.documents:
            _tell(self._console, self._told(made, document))
        if is_slow(made, self._seconds_per_token):
            seconds = room_in_time(self._seconds_per_token) * self._seconds_per_token
            how = "/passages QUESTION" if more else "--passages"
            _tell(
                self._console,
                f"{how} gives only what the question is about: {to_read(seconds)} at most.",
                "yellow",
            )
        if made.in_part:
            line = _in_part(made, context=self._session.target.context_length)
            _tell(self._console, line, "yellow")
        self._sent[made.sent.text] = made.sent
        return replace(asked, content=made.sent.text, attached=made.sent.attached)

    def learn(self, stats: Stats) -> None:
        """Learn from an answer how fast prompts are read."""
        read = stats.prompt_tokens - stats.reused_tokens
        if read >= _FEWEST_READ:
            self._seconds_per_token = stats.prefill_seconds / read

    def show_copied(self, answer: str) -> None:
        """Print how much of an answer stands word for word in the documents, and where."""
        for number, document in self._documents.items():
            if number not in self._words:
                self._words[number] = WordIndex(document.text, document.starts)
        copied = share(answer, find_copied(answer, self._words), self._documents)
        if line := in_words(copied, self._documents):
            _tell(self._console, line)

    def show_all(self, messages: Sequence[ChatMessage]) -> None:
        """Print a line for each document, and how much of it these messages have."""
        if not self._documents:
            _tell(self._console, "No file is attached. /attach FILE attaches one.")
        sent = self._sent_in(messages)
        for number, document in self._documents.items():
            parts = [one for each in sent for one in each.documents if one.number == number]
            state = "goes with the next message"
            if parts:
                given = sum(part.passages for part in parts)
                state = in_passages(given, parts[0].among) if given else parts[-1].in_words
            told = filter(None, (document.name, size_in_words(document), state))
            _tell(self._console, f"{number}. {', '.join(told)}")

    def show(self, number: int, messages: Sequence[ChatMessage]) -> None:
        """Print the part of a document that the model got, or all of it before it is sent. Raises
        Problem."""
        if number not in self._documents:
            raise Problem(f"There is no document {number}.", "/attachments lists them.")
        text = "".join(sent.given(number) for sent in self._sent_in(messages))
        text = text or write_message("", [Attached(number, self._documents[number])]).text
        self._console.print(Styled(clean(text).rstrip()), soft_wrap=True)

    def _sent_in(self, messages: Sequence[ChatMessage]) -> list[Sent]:
        return [self._sent[each.content] for each in messages if each.content in self._sent]

    def _told(self, made: Plan, document: SentDocument) -> str:
        size = size_in_words(self._documents[document.number])
        told = [f"{document.name}: {size}" if size else f"{document.name}:", made.told(document)]
        return (", " if size else " ").join(told) + self._seconds(made, document)

    def _seconds(self, made: Plan, document: SentDocument) -> str:
        if not self._seconds_per_token:
            return ""
        seconds = made.tokens[made.sent.documents.index(document)] * self._seconds_per_token
        return f", {to_read(seconds)}"

    def _room(self, messages: Sequence[ChatMessage], request: Request, *, more: bool) -> int:
        """How many tokens documents may take in the last of these messages. In a conversation that
        goes on, a quarter is left to it; where older turns may be left out, half of all is there.
        """
        limit = self._session.room(request)
        free = limit - len(self._session.encode(chat(messages)))
        if not more:
            return free
        free -= limit // 4
        return free if request.overflow == "stop" else max(free, limit // 2)

    def count(self, text: str) -> int:
        """The tokens of a text."""
        tokenizer = self._session.target.tokenizer
        return len(tokenizer.encode(text, add_special_tokens=False, verbose=False))


def _tell(console: Console, line: str, style: str = "dim") -> None:
    console.print(Styled(clean(line)), style=style, highlight=False, soft_wrap=True)


def _in_part(made: Plan, *, context: int) -> str:
    names = " and ".join(each.name for each in made.sent.documents if each.passages)
    return (
        f"The model gets passages only of {names}: it cannot count or sum up what it does not get. "
        f"All of it has about {made.whole_tokens:,} tokens, and the context {context:,}. Give a "
        "larger --context, where the model has one, or ask part by part."
    )
