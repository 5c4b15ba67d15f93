"""The values that the store returns and takes; they cross between threads.

Knows no SQL and no file format. A conversation's settings are the engine's own `Request`, so that
only the engine defines them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from app.conversations.answer_figures import AnswerFigures
from app.conversations.stored_json import read_or, write
from app.conversations.think_tags import stretches_in, tagged
from engine.documents import Document
from engine.documents.prompt import Sent, SentDocument
from engine.documents.words import WORD
from engine.request import ChatMessage, Picture, Request, Role
from engine.stretches import Stretch, said
from engine.tools.steps import Step, messages_of
from engine.tools.turn import Permissions
from models.in_words import one_line

MessageState = Literal["complete", "streaming", "interrupted", "failed", "cancelled", "length"]
"""How a message is, or how it ended. Only an answer is ever anything but complete.

`streaming` while it is written; `interrupted` where the app died meanwhile; `length` where it
was cut at the most tokens it might have.
"""

LONGEST_TITLE = 60
_LONGEST_LINE = 1_000  # characters in which marks are looked for
_DIGEST = re.compile("[0-9a-f]{64}")
_LINK = re.compile(r"!?\[([^\[\]]+)\]\([^()\s]*\)")
_EMPHASIS = re.compile(rf"(?<!{WORD})(\*{{1,3}}|~~|`+)(?=[^\s*])(.+?)(?<=[^\s*])\1(?!\w)")
_BEFORE_A_LINE = re.compile(r"^(#{1,6}|>|[-*+]|\d{1,3}[.)])\s+")
_WITH_EDIT = re.compile("(.*)\x1e([0-9]+)\x1e(.*)", re.DOTALL)  # no field takes this character
_LATEST_MILLISECONDS = 253_370_764_800_000  # the year 9999


@dataclass(frozen=True, slots=True)
class Conversation:
    """A line of the sidebar, and the settings of its chat."""

    id: int
    title: str
    pinned: bool
    system_prompt: str
    settings: Request | None
    unsent: str
    leaf: int | None
    created: datetime
    updated: datetime
    folder: int | None = None
    archived: bool = False
    titled: bool = True
    queued: tuple[str, ...] = ()
    permissions: Permissions = field(default_factory=Permissions)


@dataclass(frozen=True, slots=True)
class Unsent:
    """The composer's contents: the text of a new message, and the `version` of the message
    `version_of` that is being edited, 0 for none."""

    text: str = ""
    version_of: int = 0
    version: str = ""

    @classmethod
    def read(cls, stored: str) -> "Unsent":
        """Return the contents that are kept as `stored`."""
        found = _WITH_EDIT.fullmatch(stored)
        return cls(found[1], int(found[2]), found[3]) if found else cls(stored)

    @property
    def stored(self) -> str:
        """One text with all of it."""
        edit = f"\x1e{self.version_of}\x1e{self.version}" if self.version_of else ""
        return self.text + edit

    def joined(self, text: str, version_of: int = 0) -> "Unsent":
        """Return it with a text that comes back, of a new message or another version of one. It
        takes no other text's place."""
        if version_of and self.version in ("", text):
            return replace(self, version_of=version_of, version=text)
        if f"{self.text}\n\n".startswith(f"{text}\n\n"):  # it is kept already
            return self
        return replace(self, text="\n\n".join(filter(None, (text, self.text))))


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the sidebar. `open` is True if its conversations are listed. New conversations
    in it begin with the system prompt `instruction`, and with the `files` at these paths."""

    id: int
    name: str
    open: bool = True
    instruction: str = ""
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Filing:
    """The folder of a conversation, whether it is archived, and when it was deleted."""

    conversation: int
    folder: int | None
    archived: bool
    deleted_ms: int | None


@dataclass(frozen=True, slots=True)
class Undo:
    """The state that `Store.undo` returns to: the earlier filing, and the folder that was deleted,
    if any."""

    filings: tuple[Filing, ...]
    folder: Folder | None = None


@dataclass(frozen=True, slots=True)
class DeletedMessages:
    """Deleted messages, as `Store.undo` puts them back: `count` of them, the first with the id
    `message`. `id`: of the hidden conversation that they are in."""

    id: int
    conversation: int
    message: int
    count: int

    @property
    def in_words(self) -> str:
        """A description of the change: "Deleted a message"."""
        after = self.count - 1
        if not after:
            return "Deleted a message"
        return f"Deleted a version and the {after:,} message{'s' * (after > 1)} after it"


@dataclass(frozen=True, slots=True)
class Deleted:
    """An entry of the list of deletions. `change` is what `Store.undo` and `Store.erase`
    take."""

    title: str
    when: datetime
    change: Undo | DeletedMessages


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the tree. `parent` is None for a first message."""

    id: int
    conversation: int
    parent: int | None
    role: Role
    content: str
    state: MessageState
    target: str
    drafter: str
    created: datetime
    place: int
    siblings: int
    figures: AnswerFigures | None = None
    sent: Sent | None = None
    edited: bool = False
    stretches: tuple[Stretch, ...] = ()
    steps: tuple[Step, ...] = ()

    @property
    def tagged(self) -> str:
        """The text to be edited or exported: see `app.conversations.think_tags`."""
        return tagged(self.content, self.stretches) if self.role == "assistant" else self.content

    def pictures(self, folder: Path) -> tuple[Picture, ...]:
        """The pictures that the model sees with the message; `folder` has the store's copies."""
        documents = self.sent.documents if self.sent else ()
        pictures = (picture_of(document, folder) for document in documents)
        return tuple(picture for picture in pictures if picture is not None)

    @property
    def as_chat(self) -> tuple[ChatMessage, ...]:
        """The message as the model gets it: of an answer that called tools, several."""
        if self.sent is not None:
            return (ChatMessage(self.role, self.sent.text, attached=self.sent.attached),)
        if self.steps:
            return messages_of(self.content, self.stretches, self.steps)
        reasoning = said(self.content, self.stretches, "reasoning")
        return (ChatMessage(self.role, said(self.content, self.stretches), reasoning=reasoning),)


def chat_of(branch: Iterable[Message], pictures: Path) -> tuple[ChatMessage, ...]:
    """Return messages as the model gets them, with their `pictures`, copies in this folder."""
    chat: list[ChatMessage] = []
    for message in branch:
        first, *rest = message.as_chat
        chat += (replace(first, pictures=message.pictures(pictures)), *rest)
    return tuple(chat)


def picture_of(document: Document | SentDocument, folder: Path) -> Picture | None:
    """Return the picture that is attached, or was sent; None for a text, and for a picture that is
    no longer in the `folder` of the store's copies, such as in an imported conversation."""
    path = folder / f"{document.digest}.png"
    if document.pixels is None or not _DIGEST.fullmatch(document.digest) or not path.exists():
        return None
    return Picture(str(path), document.digest, *document.pixels)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a text around a match. `match` is True if it is the match."""

    text: str
    match: bool


@dataclass(frozen=True, slots=True)
class Hit:
    """A result of a search. `message` is None for a title."""

    conversation: int
    message: int | None
    title: str
    excerpts: tuple[Excerpt, ...]


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """Limits a search to messages from `since` on, and to answers of the model `target`."""

    since: datetime | None = None
    target: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A message of an `ExportedChat`. `parent` is the index of an earlier entry, or None. `sent` is
    what the model got of it, if it has documents. An answer with `steps`, whose places count in its
    content, has the `stretches` of that; of others the content shows them."""

    parent: int | None
    role: Role
    content: str
    state: MessageState = "complete"
    target: str = ""
    drafter: str = ""
    created: datetime | None = None
    sent: Sent | None = None
    edited: bool = False
    stretches: tuple[Stretch, ...] = ()
    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        if self.state == "streaming":
            raise ValueError("an answer that is still written cannot travel")

    @property
    def parts(self) -> tuple[Stretch, ...]:
        """The stretches of the content."""
        return self.stretches if self.steps else stretches_in(self.content)

    @property
    def prompt(self) -> str:
        """The text that the model got, with documents as they were sent and the names of pictures;
        of an answer with steps, its own words."""
        if self.steps:
            return tagged(self.content, self.stretches)
        names = (f"[picture: {one_line(picture.name)}]\n\n" for picture in self.pictures)
        return self.content if self.sent is None else "".join(names) + self.sent.text

    @property
    def pictures(self) -> tuple[SentDocument, ...]:
        """The pictures that were sent."""
        documents = self.sent.documents if self.sent else ()
        return tuple(document for document in documents if document.pixels is not None)


@dataclass(frozen=True, slots=True)
class ExportedChat:
    """A whole conversation outside of the store, for export and import.

    `entries` are its tree, parents first. `leaf` is the index of the last entry of the branch that
    is shown, or None. `folder` is the name of its folder. `pictures`: the files of pictures that
    came with it, by their digests. Traces are not exported.
    """

    title: str
    entries: tuple[Entry, ...]
    leaf: int | None = None
    system_prompt: str = ""
    settings: Request | None = None
    pinned: bool = False
    created: datetime | None = None
    updated: datetime | None = None
    folder: str = ""
    archived: bool = False
    pictures: Mapping[str, bytes] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for index, entry in enumerate(self.entries):
            if entry.parent is not None and not 0 <= entry.parent < index:
                raise ValueError(f"entry {index} comes before its parent {entry.parent}")
        if self.leaf is not None and not 0 <= self.leaf < len(self.entries):
            raise ValueError(f"entry {self.leaf} is missing, and was to be shown")

    def branch(self) -> tuple[Entry, ...]:
        """The entries that are shown, from the first to the leaf."""
        found: list[Entry] = []
        index = self.leaf
        while index is not None:
            found.append(self.entries[index])
            index = self.entries[index].parent
        return tuple(reversed(found))


def settings_to_json(settings: Request | None) -> str:
    """Return the settings as one line of JSON; empty for None."""
    return write(settings)


def settings_from_json(text: str) -> Request | None:
    """Return the settings that `settings_to_json` wrote; None, for the defaults, if this version
    does not understand them."""
    return read_or(Request, text, None)


def texts_from_json(text: str) -> tuple[str, ...]:
    """Return the texts of a list in JSON, without empty ones; none if it is damaged."""
    return tuple(filter(None, read_or(tuple[str, ...], text, ())))


def clean(text: str) -> str:
    """Return the text as it can be stored: half a surrogate pair, which UTF-8 lacks, becomes
    U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def without_marks(line: str) -> str:
    """Return a line without Markdown's marks, unless nothing else is in it."""
    bare = _LINK.sub(r"\1", line)
    bare = _EMPHASIS.sub(r"\2", _EMPHASIS.sub(r"\2", bare))
    bare = _BEFORE_A_LINE.sub("", bare)
    return bare.strip() or line


def title_from(content: str) -> str:
    """Return a title from the first line of a message, cut at a word."""
    lines = (one_line(without_marks(line.strip()[:_LONGEST_LINE])) for line in content.splitlines())
    line = next(filter(None, lines), "")
    if len(line) <= LONGEST_TITLE:
        return line
    cut = line[: LONGEST_TITLE - 1]
    head, space, _ = cut.rpartition(" ")
    return (head if space and len(head) > LONGEST_TITLE // 2 else cut).rstrip(" ,.;:") + "…"


def to_milliseconds(moment: datetime) -> int:
    """Return the milliseconds since 1970, as stored."""
    return round(moment.timestamp() * 1000)


def from_milliseconds(milliseconds: int) -> datetime:
    """Return the time in UTC; for a damaged number, the nearest possible time."""
    return datetime.fromtimestamp(min(max(0, milliseconds), _LATEST_MILLISECONDS) / 1000, UTC)
