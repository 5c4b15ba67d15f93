"""Attaches documents to a chat in a terminal: reads them, sends them, and reports on them.

Knows a session, a console, and a function that reads files. A message with documents is stored as
it was sent, and is never rebuilt.
"""

import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.markup import escape
from rich.text import Text as Styled

from engine.cli.sessions import ChildSession
from engine.documents import Document
from engine.documents.copied import WordIndex, find_copied, in_words, share
from engine.documents.in_words import lacks, size_in_words
from engine.documents.passages import PassageIndex
from engine.documents.plan import Plan, plan
from engine.documents.prompt import Attached, Sent, SentDocument, in_passages, write_message
from engine.documents.reading import Cancelled
from engine.documents.slow import is_slow, room_in_time, to_read
from engine.events import Event, Prefill
from engine.process.interrupts import noting
from engine.request import ChatMessage, Picture, Request
from models.errors import Problem
from models.in_words import clean, one_line

_FEWEST_READ = 64  # tokens, for a speed of reading to mean something


def read_attached(path: Path, console: Console, read: Callable[..., Document]) -> Document:
    """Read a file or a folder, and print which parts of it could not be read. Raises `Problem`,
    also after a Ctrl-C."""
    name = one_line(path.name or str(path))
    doing = f"Reading {escape(name)}"
    with noting(signal.SIGINT) as interrupted, console.status(doing) as status:

        def report(read_files: int, files: int) -> None:
            status.update(f"{doing}: {read_files:,} of {files:,} files")

        try:
            document = read(path, cancelled=interrupted, progress=report)
        except Cancelled:
            raise Problem(f"Reading {name} was stopped.", "Attach it again.") from None
    for line in lacks(document):
        _print(console, f"{document.name}: {line}", style="yellow")
    return document


def cache_documents(session: ChildSession) -> tuple[str, ...]:
    """Wait for the caches of documents to be on disk, until a Ctrl-C. Returns why something of the
    answer could not be stored."""
    with noting(signal.SIGINT) as interrupted:
        return session.keep(interrupted)


class Attachments:
    """The documents of one conversation, numbered from 1, and the `pictures` of its next message.
    Must be closed."""

    def __init__(
        self, session: ChildSession, console: Console, documents: Sequence[Document] = ()
    ) -> None:
        self._session, self._console = session, console
        self._closing = ExitStack()
        self._documents = dict(enumerate(documents, start=1))
        self.pictures: tuple[Picture, ...] = ()
        self._sent: dict[str, Sent] = {}  # by the text of a message
        self._words: dict[int, WordIndex] = {}
        self._seconds_per_token = 0.0  # unknown until the first long prompt was read

    def attach(self, document: Document) -> None:
        """Attach a document to the next message."""
        self._documents[len(self._documents) + 1] = document

    def show_picture(self, path: Path, read: Callable[..., Picture]) -> None:
        """Attach a picture to the next message, and print its size. Raises `Problem`, also if the
        model does not support pictures, and after a Ctrl-C."""
        name = one_line(path.name)
        with noting(signal.SIGINT) as interrupted:
            try:
                picture = read(path, self._folder, cancelled=interrupted)
            except Cancelled:
                raise Problem(f"Reading {name} was stopped.", "Attach it again.") from None
        shown, unseen = (
            self._session.count([ChatMessage("user", "?", pictures=pictures)])
            for pictures in ((picture,), ())
        )
        size = f"{picture.width:,} x {picture.height:,} pixels"
        _print(self._console, f"{name}: {size}, {shown - unseen:,} tokens")
        self.pictures += (picture,)

    @cached_property
    def _folder(self) -> Path:
        """The temporary folder of the conversation's pictures."""
        return Path(self._closing.enter_context(TemporaryDirectory(prefix="slipstream-")))

    def close(self) -> None:
        self._closing.close()

    @property
    def digests(self) -> tuple[str, ...]:
        """Return the digests of all documents."""
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
        """Return a message: the question, after the parts of the documents that it needs.

        `before`: the earlier messages that are still in the context. `more`: other questions may
        follow and need room too. `passages`: give only passages of documents that take long to
        read. Raises `Problem` if a document does not fit.
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
            _print(self._console, self._size_and_part(made, document))
        if is_slow(made, self._seconds_per_token):
            seconds = room_in_time(self._seconds_per_token) * self._seconds_per_token
            how = "/passages QUESTION" if more else "--passages"
            line = f"{how} sends only relevant passages: {to_read(seconds)} at most."
            _print(self._console, line, "yellow")
        if made.in_part:
            line = _in_part(made, context=self._session.context_length)
            _print(self._console, line, "yellow")
        self._sent[made.sent.text] = made.sent
        return replace(asked, content=made.sent.text, attached=made.sent.attached)

    def learn(self, events: Sequence[Event]) -> None:
        """Take from an answer's events how fast prompts are read."""
        begun = 0.0  # the seconds until the last reused token, which may come from the disk
        for event in events:
            if isinstance(event, Prefill):
                rows = event.processed - event.reused
                begun = begun if rows else event.seconds
                if rows >= _FEWEST_READ:
                    self._seconds_per_token = (event.seconds - begun) / rows

    def show_copied(self, answer: str) -> None:
        """Print how much of an answer is copied word for word from which documents."""
        for number, document in self._documents.items():
            if number not in self._words:
                self._words[number] = WordIndex(document.text, document.starts)
        copied = share(answer, find_copied(answer, self._words), self._documents)
        if line := in_words(copied, self._documents):
            _print(self._console, line)

    def show_all(self, messages: Sequence[ChatMessage]) -> None:
        """Print a line for each document, with the part of it that these messages contain."""
        if not self._documents:
            _print(self._console, "No file is attached. To attach one: /attach FILE")
        sent = self._sent_in(messages)
        for number, document in self._documents.items():
            parts = [part for s in sent for part in s.documents if part.number == number]
            state = "attached to the next message"
            if parts:
                given = sum(part.passages for part in parts)
                state = in_passages(given, parts[0].among) if given else parts[-1].in_words
            facts = filter(None, (document.name, size_in_words(document), state))
            _print(self._console, f"{number}. {', '.join(facts)}")

    def show(self, number: int, messages: Sequence[ChatMessage]) -> None:
        """Print the part of a document that was sent to the model; before that, all of it. Raises
        `Problem`."""
        if number not in self._documents:
            raise Problem(f"No file has the number {number}.", "Type /attachments for a list.")
        text = "".join(sent.given(number) for sent in self._sent_in(messages))
        text = text or write_message("", [Attached(number, self._documents[number])]).text
        self._console.print(Styled(clean(text).rstrip()), soft_wrap=True)

    def _sent_in(self, messages: Sequence[ChatMessage]) -> list[Sent]:
        return [self._sent[m.content] for m in messages if m.content in self._sent]

    def _size_and_part(self, made: Plan, document: SentDocument) -> str:
        size = size_in_words(self._documents[document.number])
        words = [f"{document.name}: {size}" if size else f"{document.name}:", made.told(document)]
        return (", " if size else " ").join(words) + self._seconds(made, document)

    def _seconds(self, made: Plan, document: SentDocument) -> str:
        if not self._seconds_per_token:
            return ""
        seconds = made.tokens[made.sent.documents.index(document)] * self._seconds_per_token
        return f", {to_read(seconds)}"

    def _room(self, messages: Sequence[ChatMessage], request: Request, *, more: bool) -> int:
        """Return how many tokens documents may take in the last of these messages.

        A conversation that continues keeps a quarter of the context for itself; if older turns may
        be dropped, documents get at least half of it.
        """
        limit = request.room(self._session.context_length)
        free = limit - self._session.count(messages)
        if not more:
            return free
        free -= limit // 4
        return free if request.overflow == "stop" else max(free, limit // 2)

    def count(self, text: str) -> int:
        """Return the number of tokens in a text."""
        return self._session.count_text(text)


def _print(console: Console, line: str, style: str = "dim") -> None:
    console.print(Styled(clean(line)), style=style, highlight=False, soft_wrap=True)


def _in_part(made: Plan, *, context: int) -> str:
    names = " and ".join(document.name for document in made.sent.documents if document.passages)
    return (
        f"The model sees only passages of {names}, so it cannot count or summarize the whole. "
        f"The whole has about {made.whole_tokens:,} tokens; the context has {context:,}. Set a "
        "larger --context if the model has one, or ask part by part."
    )
