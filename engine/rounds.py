"""The rounds of a generation: what was drafted and what became of it, as one value.

The one place where drafts and verdicts are put together: terminal, window and benchmarks listen
to what comes out here. Knows events and nothing else.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from engine.events import Done, Draft, Event, Failed, Origin, Prefill, Text, Verdict

Fate = Literal["drafted", "accepted", "rejected", "discarded"] | Origin


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a round, and what became of it. Figures as in `engine.events`.

    `fate`: "drafted" before the verdict; of the drafted tokens that fell only the first was
    rejected, the others were discarded unread. One that the target wrote itself has its origin
    here, and neither `q` nor `chance`.
    """

    id: int
    text: str
    fate: Fate
    q: float | None = None
    p: float | None = None
    chance: float | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """A round as far as it has come. `verdict` is None while it is drafted and not judged yet.

    `tokens` are the drafted ones in their order, then the target's own, where it wrote one.
    `drafter` is empty where nothing was drafted.
    """

    number: int
    drafter: str
    tokens: tuple[Token, ...]
    verdict: Verdict | None

    @property
    def drafted(self) -> tuple[Token, ...]:
        return tuple(token for token in self.tokens if token.q is not None)

    @property
    def own(self) -> Token | None:
        """The target's own token; None where an accepted one ended the text."""
        return next((token for token in self.tokens if token.q is None), None)

    @property
    def committed(self) -> tuple[Token, ...]:
        """Those that are of the answer: `Span.index` counts them."""
        fallen = ("drafted", "rejected", "discarded")
        return tuple(token for token in self.tokens if token.fate not in fallen)


EventOrRound = Prefill | Round | Text | Done | Failed
"""An event, or the round that a draft began or a verdict ended."""


class Rounds:
    """Puts drafts and verdicts together as they come."""

    def __init__(self) -> None:
        self._draft: Draft | None = None

    def push(self, event: Event) -> EventOrRound:
        """What `event` says: twice of a round with a draft, before its verdict and with it."""
        match event:
            case Draft():
                self._draft = event
                drafted = tuple(Token(t.id, t.text, "drafted", t.q) for t in event.tokens)
                return Round(event.round, event.drafter, drafted, None)
            case Verdict():
                draft, self._draft = self._draft, None
                return _judged(draft if draft and draft.round == event.round else None, event)
            case _:
                return event


def joined(events: Iterable[Event]) -> Iterator[EventOrRound]:
    """What these events say, one by one."""
    return map(Rounds().push, events)


def judged(events: Iterable[Event]) -> tuple[Round, ...]:
    """The rounds that were judged, in order."""
    return tuple(one for one in joined(events) if isinstance(one, Round) and one.verdict)


def committed(events: Iterable[Event]) -> tuple[Token, ...]:
    """The tokens of the answer, in order, the one that ended it included."""
    return tuple(token for one in judged(events) for token in one.committed)


def _judged(draft: Draft | None, verdict: Verdict) -> Round:
    pairs = tuple(zip(draft.tokens if draft else (), verdict.judgements, strict=False))
    fates: list[Fate] = ["discarded"] * len(pairs)
    fates[: verdict.accepted] = ["accepted"] * min(verdict.accepted, len(pairs))
    own = verdict.next
    if own is not None and verdict.accepted < len(pairs):
        fates[verdict.accepted] = "rejected"
    drafted = tuple(
        Token(token.id, token.text, fate, token.q, of_token.p, of_token.chance)
        for (token, of_token), fate in zip(pairs, fates, strict=True)
    )
    last = () if own is None else (Token(own.id, own.text, own.origin, p=own.p),)
    return Round(verdict.round, draft.drafter if draft else "", (*drafted, *last), verdict)
