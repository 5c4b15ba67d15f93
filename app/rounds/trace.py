"""The trace of an answer: its events, folded into the tokens and rounds that can be shown.

Knows events. Knows nothing of Qt, of files, or of how anything is drawn.

Laws, checked by the tests on every trace:
    the texts of the pieces that were not rejected are, in order, exactly the answer's text
    every drafted token of a round is accepted, rejected, or discarded behind an end of text
"""

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from engine.events import (
    Done,
    Draft,
    Event,
    Failed,
    Text,
    Verdict,
    WrittenToken,
    from_json,
    to_json,
)

Kind = Literal["accepted", "correction", "bonus", "plain", "rejected"]
Fate = Literal["accepted", "rejected", "discarded"]

_HALF = "\ufffd"  # how half a character is spelled


@dataclass(frozen=True, slots=True)
class Piece:
    """One token of the answer as it was written; rejected drafts stand where they would have stood.

    `text` is what the token gave to the answer: for half a character that is nothing, and the
    token that completes it has the whole. A rejected piece has the token's own text.
    `kind`: "rejected" is the first drafted token that fell, and those behind it in its round.
    `position` is the place in the draft, from 1; 0 for a token that the target wrote itself, which
    has no `q` and no `chance` either. `drafter` is empty in a round without a draft.
    """

    text: str
    kind: Kind
    round: int
    position: int
    p: float
    q: float | None
    chance: float | None
    drafter: str


@dataclass(frozen=True, slots=True)
class JudgedToken:
    """A drafted token, and what the target thought of it: see `engine.events`."""

    text: str
    q: float
    p: float
    chance: float


@dataclass(frozen=True, slots=True)
class Round:
    """A draft and its verdict. The first `accepted` of the `drafted` tokens stand.

    `own` is the target's own token, None where an accepted one ended the text. `seconds` is wall
    time since the verdict before, the drafting and verifying included.
    """

    number: int
    drafted: tuple[JudgedToken, ...]
    accepted: int
    own: WrittenToken | None
    draft_seconds: float
    verify_seconds: float
    seconds: float
    reason: str
    drafter: str

    @property
    def fates(self) -> tuple[Fate, ...]:
        """What became of each drafted token: only the first that fell was rejected."""
        fates: list[Fate] = ["discarded"] * len(self.drafted)
        fates[: self.accepted] = ["accepted"] * self.accepted
        if self.accepted < len(self.drafted) and self.own is not None:
            fates[self.accepted] = "rejected"
        return tuple(fates)


def judge(draft: Draft | None, verdict: Verdict) -> Round:
    """The round that `verdict` ended; `draft` is the last one seen, its own or not."""
    own_draft = draft if draft is not None and draft.round == verdict.round else None
    tokens = own_draft.tokens if own_draft else ()
    drafted = tuple(
        JudgedToken(token.text, token.q, judgement.p, judgement.chance)
        for token, judgement in zip(tokens, verdict.judgements, strict=False)
    )
    return Round(
        number=verdict.round,
        drafted=drafted,
        accepted=min(verdict.accepted, len(drafted)),
        own=verdict.next,
        draft_seconds=verdict.draft_seconds,
        verify_seconds=verdict.verify_seconds,
        seconds=verdict.seconds,
        reason=verdict.reason,
        drafter=own_draft.drafter if own_draft else "",
    )


def rounds(events: Iterable[Event]) -> tuple[Round, ...]:
    """The rounds that were judged, in order."""
    judged: list[Round] = []
    draft: Draft | None = None
    for event in events:
        if isinstance(event, Draft):
            draft = event
        elif isinstance(event, Verdict):
            judged.append(judge(draft, event))
            draft = None
    return tuple(judged)


def pieces(events: Iterable[Event]) -> tuple[Piece, ...]:
    """The answer's tokens, as far as `events` go."""
    folder = Folder()
    for event in events:
        folder.push(event)
    return folder.pieces


class Folder:
    """Folds the events of an answer into pieces as they come.

    A committed token has no text until a `Text` says what it gave to the answer; where tokens and
    text disagree (half characters, special tokens, a stop string), the text is right.
    """

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._waiting: deque[tuple[int, str]] = deque()  # place in `_pieces`, text to come
        self._draft: Draft | None = None

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All pieces so far."""
        return tuple(self._pieces)

    def since(self, start: int) -> tuple[Piece, ...]:
        """The pieces from place `start` on."""
        return tuple(self._pieces[start:])

    def push(self, event: Event) -> int:
        """Take one more event; returns how many pieces at the front it left as they were."""
        kept = len(self._pieces)
        match event:
            case Draft():
                self._draft = event
            case Verdict():
                self._add(judge(self._draft, event))
                self._draft = None
            case Text():
                kept = self._settle(event.delta)
            case Done() | Failed():
                self._waiting.clear()  # cut off: these tokens gave nothing to the text
                self._draft = None
        return kept

    def _add(self, judged: Round) -> None:
        """The round's tokens, in the order in which they would be read."""
        for index, (token, fate) in enumerate(zip(judged.drafted, judged.fates, strict=True)):
            rejected = fate != "accepted"
            if rejected and judged.own is None:
                break  # discarded behind the end of the text: nobody rejected these
            if not rejected:
                self._waiting.append((len(self._pieces), token.text))
            self._pieces.append(
                Piece(
                    text=token.text if rejected else "",
                    kind="rejected" if rejected else "accepted",
                    round=judged.number,
                    position=index + 1,
                    p=token.p,
                    q=token.q,
                    chance=token.chance,
                    drafter=judged.drafter,
                )
            )
        if judged.own is not None:
            self._waiting.append((len(self._pieces), judged.own.text))
            self._pieces.append(
                Piece(
                    text="",
                    kind=judged.own.origin,
                    round=judged.number,
                    position=0,
                    p=judged.own.p,
                    q=None,
                    chance=None,
                    drafter=judged.drafter,
                )
            )

    def _settle(self, delta: str) -> int:
        """Give `delta` to the tokens that wait for their text; returns the first that changed."""
        first = self._waiting[0][0] if self._waiting else len(self._pieces)
        while delta and self._waiting:
            place, text = self._waiting[0]
            bare = text.removeprefix(" ")  # SentencePiece strips the first space of a text
            sure = text.partition(_HALF)[0]
            if text and delta.startswith(text):
                self._give(place, text)
                self._waiting.popleft()
                delta = delta[len(text) :]
            elif text.startswith(delta):
                self._give(place, delta)
                self._waiting[0] = (place, text[len(delta) :])
                delta = ""
            elif sure and sure != text and delta.startswith(sure):
                self._give(place, sure)
                self._waiting[0] = (place, text[len(sure) :])
                delta = delta[len(sure) :]
            elif bare != text and bare and (delta.startswith(bare) or bare.startswith(delta)):
                self._waiting[0] = (place, bare)
            else:
                delta = self._pass_over(delta)
        return min(first, self._append(delta)) if delta else first

    def _pass_over(self, delta: str) -> str:
        """Let go of tokens whose text is not in `delta`; returns what is left of it.

        What stands before the next token that is found goes to the last half character passed.
        """
        passed, found = 1, len(delta)
        owner = self._waiting[0][0]
        for index, (place, text) in enumerate(self._waiting):
            if _HALF in text:
                passed, owner = index + 1, place
            elif index and text and (start := _start(text, delta)) >= 0:
                passed, found = index, start
                break
        if found:
            self._give(owner, delta[:found])
        for _ in range(passed):
            self._waiting.popleft()
        return delta[found:]

    def _give(self, place: int, text: str) -> None:
        piece = self._pieces[place]
        self._pieces[place] = replace(piece, text=piece.text + text)

    def _append(self, text: str) -> int:
        """Text that no token waits for: the last token of the answer takes it."""
        for place in range(len(self._pieces) - 1, -1, -1):
            if self._pieces[place].kind != "rejected":
                self._give(place, text)
                return place
        self._pieces.append(Piece(text, "plain", 0, 0, 0.0, None, None, ""))
        return len(self._pieces) - 1


def _start(text: str, delta: str) -> int:
    """Where in `delta` the token's text begins, whole or broken off at the end; -1: nowhere."""
    return 0 if text.startswith(delta) else delta.find(text)


def to_lines(events: Iterable[Event]) -> str:
    """JSON lines, one for each event, each with its end: they can be appended to one another."""
    return "".join(to_json(event) + "\n" for event in events)


def from_lines(lines: str) -> tuple[Event, ...]:
    """The events that `to_lines` wrote; a last line that was cut off is left out.

    Raises ValueError where another line is no event.
    """
    *whole, last = lines.split("\n")
    events = [from_json(line) for line in whole if line.strip()]
    with suppress(ValueError):  # cut off when the power went
        events += [from_json(last)] if last.strip() else []
    return tuple(events)


def to_document(events: Iterable[Event]) -> str:
    """One JSON array, for other programs; an event a line, so that people can read it too."""
    return "[\n" + ",\n".join(to_json(event) for event in events) + "\n]\n"
