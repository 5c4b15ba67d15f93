"""The state of a message as values, and the commands of its buttons and its menu. Knows no widget
and no conversation."""

from collections.abc import Callable
from dataclasses import dataclass, field

from app.chat.approval_card import Approval
from app.conversations.answer_figures import AnswerFigures
from app.conversations.records import MessageState
from app.documents.answer_words import AnswerWords
from app.documents.chips import Chip
from app.markdown.asides import Aside
from app.markdown.page import TextMark
from app.rounds.trace import Piece, PieceKind, TextTally
from engine.conversation.rounds import Round
from engine.stretches import Stretch
from engine.tools.turn import Decision
from models.in_words import clean

_CUT = "Interrupted: Slipstream or its engine stopped."
_ENDINGS: dict[MessageState, str] = {
    "complete": "",
    "streaming": _CUT,  # as stored after a crash
    "interrupted": _CUT,
    "cancelled": "You stopped this answer.",
    "failed": "The answer failed.",
    "length": "Stopped at the token limit.",
}


@dataclass(frozen=True, slots=True)
class Ending:
    """How an answer ended. After a failure, `message` names the fault, and `remedy` the way
    out."""

    state: MessageState = "complete"
    message: str = ""
    remedy: str = ""

    @property
    def text(self) -> str:
        """The ending as text; empty for an answer that is complete."""
        if self.state != "failed":
            return _ENDINGS[self.state]
        return clean(" ".join(filter(None, (self.message or _ENDINGS["failed"], self.remedy))))


@dataclass(frozen=True, slots=True)
class MessageView:
    """Everything that a message shows, apart from its text.

    ending: None while the message is written.
    branch: the number of the version, and the number of versions.
    approval: a call that the user is asked about.
    pieces, reasoning: the tokens; the number and time of reasoning tokens; None if not known.
    reasoned: the number of reasoning tokens so far, while the reasoning is written.
    marks: the hits of a search.
    words: the words of an answer that documents have or lack; `marked`, whether they are marked.
    tokens: whether the tokens are shown; `hidden`, the kinds that are not, None for the usual ones.
    fades_after: the seconds for which each new token is marked. If `calm`, nothing moves.
    edited: whether another version of it is being written.
    ahead: a draft after the text that is being written, or a line with `share` before there is one.
    """

    ending: Ending | None = None
    branch: tuple[int, int] = (1, 1)
    figures: AnswerFigures | None = None
    note: str = ""
    stretches: tuple[Stretch, ...] = ()
    asides: tuple[Aside, ...] = ()
    approval: Approval | None = None
    pieces: tuple[Piece, ...] | None = None
    reasoning: TextTally | None = None
    reasoned: int = 0
    marks: tuple[TextMark, ...] = ()
    documents: tuple[Chip, ...] = ()
    words: AnswerWords = field(default_factory=AnswerWords)
    marked: bool = False
    tokens: bool = False
    hidden: frozenset[PieceKind] | None = None
    fades_after: float = 0.0
    edited: bool = False
    calm: bool = False
    ahead: Round | str | None = None
    share: float | None = None

    @property
    def height_values(self) -> tuple[object, ...]:
        """The values that decide the height of a message with the same text."""
        ways = self.note, self.approval, self.words, self.tokens, self.hidden
        return (*ways, self.documents, self.asides, self.ending)


def _nothing(*_: object) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCommands:
    """What the buttons and the menu of a message do. The first argument is the message's id; the
    second, in this order, the number of a version, whether tokens are shown, the index of a call,
    or the index of a document. A command that is not given does nothing."""

    edit: Callable[[int], None] = _nothing
    duplicate: Callable[[int], None] = _nothing
    delete: Callable[[int], None] = _nothing
    regenerate: Callable[[int], None] = _nothing
    go_on: Callable[[int], None] = _nothing
    replay: Callable[[int], None] = _nothing
    race: Callable[[int], None] = _nothing
    show_version: Callable[[int, int], None] = _nothing
    show_tokens: Callable[[int, bool], None] = _nothing
    show_call: Callable[[int, int], None] = _nothing
    show_document: Callable[[int, int], None] = _nothing
    delete_document: Callable[[int, int], None] = _nothing
    decide: Callable[[int, str, Decision, str], None] = _nothing
    """With the id of a call, the decision, and the arguments."""
    open_link: Callable[[str], object] = _nothing
    explain_tokens: Callable[[], None] = _nothing
    leave: Callable[[], None] = _nothing
    """Give up the focus."""


NO_COMMANDS = MessageCommands()
