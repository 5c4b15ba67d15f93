"""The trace of an answer: its events, and the tokens that can be shown of them.

Knows events. Knows nothing of Qt, of files, or of how anything is drawn.

Laws, checked by the tests on every trace:
    the texts of the pieces that were not rejected are, in order, exactly the answer's text
    a piece's text is what the engine said that its token gave (`engine.events.Span`)
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from engine.events import Done, Event, Failed, Text, Verdict, to_json
from engine.rounds import EventOrRound, Round, Rounds, Token

Kind = Literal["accepted", "correction", "bonus", "plain", "rejected"]


@dataclass(frozen=True, slots=True)
class Piece:
    """One token of the answer as it was written; rejected drafts stand where they would have stood.

    `text` is what the token gave to the answer: for half a character that is nothing, and the
    token that completes it has the whole. A rejected piece has the token's own text.
    `kind`: "rejected" is the first drafted token that fell, and those behind it in its round.
    `position` is the place in the draft, from 1; 0 for a token that the target wrote itself, which
    has no `q` and no `chance` either. `drafter` is empty in a round without a draft. `round` is 0
    for text of which no token is known: it was there before the first round.
    """

    text: str
    kind: Kind
    round: int
    position: int
    p: float | None
    q: float | None
    chance: float | None
    drafter: str


def pieces(events: Iterable[Event]) -> tuple[Piece, ...]:
    """The answer's tokens, as far as `events` go."""
    return Trace(events).pieces


class Trace:
    """An answer as it comes. Of all that the window shows of rounds this is the one source.

    Attributes: `events`; `rounds`, those that were judged.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events: list[Event] = []
        self.rounds: list[Round] = []
        self._joined = Rounds()
        self._pieces: list[Piece] = []
        self._waiting: dict[tuple[int, int], int] = {}  # by round and index: place in `_pieces`
        for event in events:
            self.push(event)

    @property
    def committed(self) -> tuple[Token, ...]:
        """The answer's tokens, in order, the one that ended it included."""
        return tuple(token for one in self.rounds for token in one.committed)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All pieces so far; a token whose text has not come yet has none."""
        return tuple(self._pieces)

    @property
    def final(self) -> tuple[Piece, ...]:
        """Those that no event changes any more: up to the first token that waits for its text."""
        return tuple(self._pieces[: next(iter(self._waiting.values()), None)])

    def push(self, event: Event) -> EventOrRound:
        """Take one more event; what it says."""
        self.events.append(event)
        happening = self._joined.push(event)
        match happening:
            case Round(verdict=Verdict()):
                self.rounds.append(happening)
                self._add(happening)
            case Text():
                self._give(happening)
            case Done() | Failed():
                self._waiting.clear()  # these tokens gave nothing to the text
        return happening

    def _add(self, judged: Round) -> None:
        """The round's tokens, in the order in which they would be read."""
        index = 0
        for position, token in enumerate(judged.tokens, start=1):
            kind: Kind = "rejected"
            text = token.text
            match token.fate:
                case "accepted" | "correction" | "bonus" | "plain" as origin:
                    kind, text = origin, ""
                    self._waiting[judged.number, index] = len(self._pieces)
                    index += 1
                case _ if judged.own is None:
                    break  # discarded behind the end of the text: nobody rejected these
            self._pieces.append(
                Piece(
                    text=text,
                    kind=kind,
                    round=judged.number,
                    position=0 if token.q is None else position,
                    p=token.p,
                    q=token.q,
                    chance=token.chance,
                    drafter=judged.drafter,
                )
            )

    def _give(self, text: Text) -> None:
        """Each token its part of the text."""
        start = 0
        for span in text.spans:
            place = self._waiting.pop((span.round, span.index), None)
            if place is None:
                break  # the engine never sends such a one
            given = text.delta[start : start + span.length]
            self._pieces[place] = replace(self._pieces[place], text=given)
            start += span.length
        if start < len(text.delta):
            self._pieces.append(Piece(text.delta[start:], "plain", 0, 0, None, None, None, ""))


class Replay:
    """The rounds of an answer, and how far the answer was after each. Place n is after n rounds.

    Attributes: `events`, all of them; `rounds`, those that were judged; `pieces`, the answer's
    tokens, each with all the text that it has in the end.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = tuple(events)
        self._event_ends: list[int] = []
        trace = Trace()
        begun: int | None = None  # events before the round's draft
        for index, event in enumerate(self.events):
            match trace.push(event):
                case Round(verdict=None):
                    begun = index
                case Round():
                    # Where a round begins the one before is over, with the text that came after it.
                    self._event_ends.append(index if begun is None else begun)
                    begun = None
        self.rounds, self.pieces = tuple(trace.rounds), trace.pieces
        # The last round takes all that is left: text without a round too, where there is any.
        self._event_ends.append(len(self.events))

    def __len__(self) -> int:
        return len(self.rounds)

    def events_until(self, place: int) -> tuple[Event, ...]:
        """The events up to this place, the text that came with its last round included."""
        return self.events[: self._event_ends[place]]

    def pieces_until(self, place: int) -> tuple[Piece, ...]:
        """The tokens written up to this place."""
        if place == len(self.rounds):
            return self.pieces
        return self.pieces[: bisect_left(self.pieces, self.rounds[place].number, key=_round)]


def _round(piece: Piece) -> int:
    return piece.round


def to_document(events: Iterable[Event]) -> str:
    """One JSON array, for other programs; an event a line, so that people can read it too."""
    return "[\n" + ",\n".join(to_json(event) for event in events) + "\n]\n"
