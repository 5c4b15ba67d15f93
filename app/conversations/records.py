"""What the store hands out and takes: plain values that cross between threads.

Knows no SQL and no file format. A conversation's settings are the engine's own `Request`, so
that there is one opinion on what may be asked for.
"""

import dataclasses
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from app.conversations.answer_figures import AnswerFigures
from engine.documents.prompt import Sent
from engine.request import ChatMessage, Request, Role
from models.errors import Problem
from models.in_words import one_line
from models.typed_json import decode

MessageState = Literal["complete", "streaming", "interrupted", "failed", "cancelled", "length"]
"""How a message is, or how it ended. Only an answer is ever anything but complete.

`streaming` while it is written; `interrupted` where the app died meanwhile; `length` where it
was cut at the most tokens it might have.
"""

LONGEST_TITLE = 60
_LINK = re.compile(r"!?\[([^\[\]]+)\]\([^()\s]*\)")
_EMPHASIS = re.compile(r"(?<!\w)(\*{1,3}|~~|`+)(?=[^\s*])(.+?)(?<=[^\s*])\1(?!\w)")
_BEFORE_A_LINE = re.compile(r"^(#{1,6}|>|[-*+]|\d{1,3}[.)])\s+")
_LATEST_MILLISECONDS = 253_370_764_800_000  # the year 9999


@dataclass(frozen=True, slots=True)
class Conversation:
    """One line of the sidebar, and what holds for the whole chat.

    `settings` is None where the app's own defaults are meant. `unsent` is the text that waits in
    the composer. `leaf` is the last message of the branch that is shown, None while it is empty.
    `folder` is the id of the folder that it is in, if any. `titled` says whether the title was
    given by a person or the model; the first words of the question are a title until then.
    """

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


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the sidebar. `open` says whether its conversations are listed."""

    id: int
    name: str
    open: bool = True


@dataclass(frozen=True, slots=True)
class Filing:
    """Where a conversation is: in which folder, in the archive, deleted at some time."""

    conversation: int
    folder: int | None
    archived: bool
    deleted_ms: int | None


@dataclass(frozen=True, slots=True)
class Undo:
    """What `Store.undo` needs to take a change back: where the conversations were before, and the
    folder that was deleted, if one was."""

    filings: tuple[Filing, ...]
    folder: Folder | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the tree. `parent` is None for a first one.

    It is the `place`-th, from 1, of `siblings` messages under the same parent. `target` and
    `drafter` say who wrote an answer, in words; both are empty for a user's message. `figures`
    are those of an answer that has ended; None for one from before they were stored. `sent` is what
    the model got of a message with documents; None for one without.
    """

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

    @property
    def prompt(self) -> str:
        """The text that the model gets: documents too, as they were sent."""
        return self.content if self.sent is None else self.sent.text

    @property
    def said(self) -> ChatMessage:
        """The message as the model gets it."""
        attached = 0 if self.sent is None else self.sent.attached
        return ChatMessage(self.role, self.prompt, attached=attached)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a text that was found: `match` where it is what was searched for."""

    text: str
    match: bool


@dataclass(frozen=True, slots=True)
class Hit:
    """Something that was found. `message` is None where it was the title."""

    conversation: int
    message: int | None
    title: str
    excerpts: tuple[Excerpt, ...]


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """What is searched: what is not older than `since`, and answers of the model `target` only."""

    since: datetime | None = None
    target: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A message of an `ExportedChat`. `parent` is the index of an earlier entry, or None. `sent` is
    what the model got of it, where documents were attached."""

    parent: int | None
    role: Role
    content: str
    state: MessageState = "complete"
    target: str = ""
    drafter: str = ""
    created: datetime | None = None
    sent: Sent | None = None

    def __post_init__(self) -> None:
        if self.state == "streaming":
            raise ValueError("an answer that is still written cannot travel")

    @property
    def prompt(self) -> str:
        """The text that the model got: documents too, as they were sent."""
        return self.content if self.sent is None else self.sent.text


@dataclass(frozen=True, slots=True)
class ExportedChat:
    """A whole conversation apart from any store, as it is exported and imported.

    `entries` are its tree, parents first. `leaf` is the index of the last entry of the branch
    that is shown, None where there is none. `folder` is the name of its folder. Traces are not
    exported.
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

    def __post_init__(self) -> None:
        for index, entry in enumerate(self.entries):
            if entry.parent is not None and not 0 <= entry.parent < index:
                raise ValueError(f"entry {index} comes before its parent {entry.parent}")
        if self.leaf is not None and not 0 <= self.leaf < len(self.entries):
            raise ValueError(f"there is no entry {self.leaf} to be shown")

    def branch(self) -> tuple[Entry, ...]:
        """The entries that are shown, from the first to the leaf."""
        found: list[Entry] = []
        index = self.leaf
        while index is not None:
            found.append(self.entries[index])
            index = self.entries[index].parent
        return tuple(reversed(found))


def settings_to_json(settings: Request | None) -> str:
    """The settings as one line of JSON; empty for None."""
    return "" if settings is None else json.dumps(dataclasses.asdict(settings))


def settings_from_json(text: str) -> Request | None:
    """The settings that `settings_to_json` wrote.

    None for those that this version does not understand: the defaults then hold, as they do
    where nothing was chosen.
    """
    if not text:
        return None
    try:
        return decode(Request, json.loads(text), place="settings")
    except (Problem, ValueError, RecursionError):
        return None


def clean(text: str) -> str:
    """The text as it can be stored: half a surrogate pair, which no UTF-8 has, becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def without_marks(line: str) -> str:
    """A line without Markdown's marks, except where nothing else is in it."""
    bare = _LINK.sub(r"\1", line)
    bare = _EMPHASIS.sub(r"\2", _EMPHASIS.sub(r"\2", bare))
    bare = _BEFORE_A_LINE.sub("", bare)
    return bare.strip() or line


def title_from(content: str) -> str:
    """A title from the first line of a message, cut at a word."""
    lines = (one_line(without_marks(line)) for line in content.splitlines())
    line = next(filter(None, lines), "")
    if len(line) <= LONGEST_TITLE:
        return line
    cut = line[: LONGEST_TITLE - 1]
    head, space, _ = cut.rpartition(" ")
    return (head if space and len(head) > LONGEST_TITLE // 2 else cut).rstrip(" ,.;:") + "…"


def to_milliseconds(moment: datetime) -> int:
    """Milliseconds since 1970, as the file has them."""
    return round(moment.timestamp() * 1000)


def from_milliseconds(milliseconds: int) -> datetime:
    """The moment, in UTC; the nearest that there is for a number that is damaged."""
    return datetime.fromtimestamp(min(max(0, milliseconds), _LATEST_MILLISECONDS) / 1000, UTC)
