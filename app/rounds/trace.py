"""The trace of an answer: its events, the pieces of text that they describe, and their replay.

Knows events; no Qt, no files, and not how anything is drawn.

The tests check these laws on every trace:
    the texts of the `written` pieces, joined in order, are exactly the answer's text
    a piece's text is what the engine reported for its token (`engine.events.Span`)
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from engine.conversation.rounds import EventOrRound, Round, Rounds, Token
from engine.conversation.stats import update
from engine.events import Done, Event, Failed, Stats, Text, Verdict, to_json
from engine.stretches import Stretch, extend, joined
from engine.tree import COMMITTED

PieceKind = Literal["accepted", "correction", "bonus", "plain", "forced", "rejected", "discarded"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A token of the answer, or a rejected or discarded token at the place where it would have
    been.

    Of a tree, only the tokens of one branch are pieces: the accepted branch, and its most promising
    continuation.

    `text` is the text that the token gave to the answer: the first half of a character gives none,
    and the token that completes it gives the whole. A piece that was not written has the token's
    own text. `kind` is "rejected" for the first drafted token that was not accepted, and
    "discarded" for those after it. `alternatives` were tried in the token's place and rejected.
    `position` is the place in the draft, from 1; it is 0 for a token that was not drafted, which
    has no `q`, `chance` or `confidence`. `drafter` is empty in a round without a draft. `round` is
    0 for text before the first round, whose tokens are not known.
    """

    text: str
    kind: PieceKind
    round: int
    position: int
    p: float | None
    q: float | None
    chance: float | None
    drafter: str
    confidence: float | None = None
    alternatives: tuple[Token, ...] = ()

    @property
    def written(self) -> bool:
        """Whether the token is part of the answer."""
        return self.kind not in ("rejected", "discarded")


@dataclass(frozen=True, slots=True)
class TextTally:
    """The cost of a part of an answer's text: its number of tokens, and the seconds of their
    rounds."""

    tokens: int
    seconds: float


class Trace:
    """An answer as it arrives: the only source of everything that the window shows of rounds.

    Attributes: `events`, all events; `rounds`, those with a verdict; `stats`, the figures so far.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.stats = Stats()
        self.events: list[Event] = []
        self.rounds: list[Round] = []
        self._joined = Rounds()
        self._stretches: list[Stretch] = []
        self._pieces: list[Piece] = []
        self._waiting: dict[tuple[int, int], int] = {}  # by (round, index): index in `_pieces`
        for event in events:
            self.push(event)

    @property
    def committed(self) -> tuple[Token, ...]:
        """The answer's tokens in order, with the token that ended it."""
        return tuple(token for round in self.rounds for token in round.committed)

    @property
    def last(self) -> Round | None:
        """The last round with a verdict."""
        return self.rounds[-1] if self.rounds else None

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All pieces so far; the text of a piece is empty until it has arrived."""
        return tuple(self._pieces)

    @property
    def final(self) -> tuple[Piece, ...]:
        """The pieces that no event can change: those before the first that waits for its text."""
        return tuple(self._pieces[: next(iter(self._waiting.values()), None)])

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """The stretches of the text."""
        return joined(self._stretches)

    def tally(self, start: int, end: int) -> TextTally:
        """Return the tokens and seconds of the text from `start` to `end`: of the tokens that begin
        in it."""
        place, tokens, rounds = 0, 0, set[int]()
        for piece in self._pieces:
            if piece.written and piece.text:
                if start <= place < end:
                    tokens += 1
                    rounds.add(piece.round)
                place += len(piece.text)
        verdicts = (judged.verdict for judged in self.rounds if judged.number in rounds)
        return TextTally(tokens, sum(verdict.seconds for verdict in verdicts if verdict))

    def push(self, event: Event) -> EventOrRound:
        """Add an event. Returns it, or the round that it begins or ends."""
        self.events.append(event)
        self.stats = update(self.stats, event)
        happening = self._joined.push(event)
        match happening:
            case Round(verdict=Verdict()):
                self.rounds.append(happening)
                self._add(happening)
            case Text():
                self._give(happening)
            case Done() | Failed():
                self._waiting.clear()  # the waiting tokens gave no text
        return happening

    def _add(self, judged: Round) -> None:
        """Add the round's tokens, in reading order."""
        rejected = [token for token in judged.drafted if token.fate == "rejected"]
        last = max(judged.verdict.accepted_path if judged.verdict else (), default=COMMITTED)
        own = [token for token in judged.tokens if token.q is None]
        index = 0
        for place, token in enumerate((*judged.best_path, *own), start=1):
            alternatives: tuple[Token, ...] = ()
            match token.fate:
                case "accepted" | "correction" | "bonus" | "plain" | "forced" as kind:
                    self._waiting[judged.number, index] = len(self._pieces)
                    text, index = "", index + 1
                    behind = token.parent if kind == "accepted" else last
                    alternatives = tuple(other for other in rejected if other.parent == behind)
                case _ if judged.own is None:
                    break  # after the end of the text: nothing was rejected
                case "rejected" | "discarded" as kind:
                    text = token.text
            self._pieces.append(
                Piece(
                    text=text,
                    kind=kind,
                    round=judged.number,
                    position=0 if token.q is None else place,
                    p=token.p,
                    q=token.q,
                    chance=token.chance,
                    confidence=token.confidence,
                    drafter=judged.drafter,
                    alternatives=alternatives,
                )
            )

    def _give(self, text: Text) -> None:
        """Give each token its part of the text."""
        extend(self._stretches, text.parts)
        start = 0
        for span in text.spans:
            place = self._waiting.pop((span.round, span.index), None)
            if place is None:
                break  # never sent by the engine
            given = text.delta[start : start + span.length]
            self._pieces[place] = replace(self._pieces[place], text=given)
            start += span.length
        if start < len(text.delta):
            self._pieces.append(Piece(text.delta[start:], "plain", 0, 0, None, None, None, ""))


class Replay:
    """The rounds of an answer, and the answer's state after each. Place n is after n rounds.

    Attributes: `events`, all events; `rounds`, those with a verdict; `stats`, the figures at each
    place; `pieces`, the answer's tokens with their final texts; `stretches` of its text;
    `calls`, the lines of its calls and their places in the text; `lines`, the same after the piece
    with that index.
    """

    def __init__(self, events: Iterable[Event], lines: Iterable[tuple[int, str]] = ()) -> None:
        """`lines` describe calls, each with its place in the answer's text, in order."""
        self.events, self.calls = tuple(events), tuple(lines)
        trace, stats = Trace(), []
        for event in self.events:
            if isinstance(event, Verdict):
                stats.append(trace.stats)
            trace.push(event)
        self.rounds, self.pieces = tuple(trace.rounds), trace.pieces
        self.stretches = trace.stretches
        self.stats = (*stats, trace.stats)
        ends = tuple(accumulate(len(piece.text) * piece.written for piece in self.pieces))
        self.lines: dict[int, str] = {}
        for place, line in self.calls:
            index = min(bisect_left(ends, place), len(ends) - 1)
            self.lines[index] = f"{self.lines.get(index, '')}\n\u25b8 {line}\n"

    def __len__(self) -> int:
        return len(self.rounds)

    def pieces_until(self, place: int) -> tuple[Piece, ...]:
        """Return the tokens written up to this place."""
        if place == len(self.rounds):
            return self.pieces
        return self.pieces[: bisect_left(self.pieces, self.rounds[place].number, key=_round)]


def _round(piece: Piece) -> int:
    return piece.round


def to_document(events: Iterable[Event]) -> str:
    """Return a JSON array for other programs, with an event on each line so that people can read
    it."""
    return "[\n" + ",\n".join(to_json(event) for event in events) + "\n]\n"
