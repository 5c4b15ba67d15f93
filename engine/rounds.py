"""The rounds of a generation: a draft and its verdict as one value.

The one place where drafts and verdicts are joined: terminal, window and benchmarks listen to what
comes out here. Knows events and nothing else.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.events import (
    Done,
    Draft,
    Event,
    Failed,
    Origin,
    Prefill,
    PromptLogprobs,
    Source,
    Text,
    Verdict,
    Waiting,
)
from engine.tree import COMMITTED, Tree

Fate = Literal["drafted", "accepted", "rejected", "discarded"] | Origin


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a round, and what became of it. Figures as in `engine.events`.

    `fate`: "drafted" before the verdict, then "accepted", "rejected" (it stands behind an accepted
    or a committed token, and is not accepted) or "discarded" (it stands behind one that is not
    accepted, or the text has ended before it). The target's own token has its origin here, and
    neither `q` nor `chance` nor `confidence`. `parent` as in `Draft.parents`, also of chains.
    """

    id: int
    text: str
    fate: Fate
    q: float | None = None
    p: float | None = None
    chance: float | None = None
    confidence: float | None = None
    parent: int = COMMITTED


@dataclass(frozen=True, slots=True)
class Round:
    """A round as far as it has come. `verdict` is None as long as it is only drafted.

    `tokens` are the drafted ones in their order, then the target's own, where it wrote one; or
    those that a grammar forced. `drafter` is empty where nothing was drafted. `source` as in
    `Draft`.
    """

    number: int
    drafter: str
    tokens: tuple[Token, ...]
    verdict: Verdict | None
    source: Source | None = None

    @property
    def drafted(self) -> tuple[Token, ...]:
        return tuple(token for token in self.tokens if token.q is not None)

    @property
    def tree(self) -> Tree:
        """The shape of what was drafted."""
        return Tree(tuple(token.parent for token in self.drafted))

    @property
    def best_path(self) -> tuple[Token, ...]:
        """The drafted tokens of the most promising branch: of a chain all of them."""
        drafted = self.drafted
        return tuple(drafted[number] for number in branches(drafted)[0]) if drafted else ()

    @property
    def own(self) -> Token | None:
        """The target's own token; None where an accepted one ended the text, or all are forced."""
        own = (token for token in self.tokens if token.q is None and token.fate != "forced")
        return next(own, None)

    @property
    def committed(self) -> tuple[Token, ...]:
        """The tokens that belong to the answer, in the order that `Span.index` counts."""
        dropped = ("drafted", "rejected", "discarded")
        return tuple(token for token in self.tokens if token.fate not in dropped)


EventOrRound = Waiting | Prefill | PromptLogprobs | Round | Text | Done | Failed
"""An event, or the round that a draft began or a verdict ended."""


class Rounds:
    """Puts drafts and verdicts together as they come."""

    def __init__(self) -> None:
        self._draft: Draft | None = None

    def push(self, event: Event) -> EventOrRound:
        """The event, or its round: once with the draft, once more with the verdict."""
        match event:
            case Draft():
                self._draft = event
                drafted = tuple(
                    Token(t.id, t.text, "drafted", t.q, confidence=t.confidence, parent=parent)
                    for t, parent in zip(event.tokens, _parents(event), strict=False)
                )
                return Round(event.round, event.drafter, drafted, None, event.source)
            case Verdict():
                draft, self._draft = self._draft, None
                return _judged(draft if draft and draft.round == event.round else None, event)
            case _:
                return event


def joined(events: Iterable[Event]) -> Iterator[EventOrRound]:
    """These events, with rounds in place of drafts and verdicts."""
    return map(Rounds().push, events)


def judged(events: Iterable[Event]) -> tuple[Round, ...]:
    """The rounds that have a verdict, in order."""
    return tuple(item for item in joined(events) if isinstance(item, Round) and item.verdict)


def committed(events: Iterable[Event]) -> tuple[Token, ...]:
    """The tokens of the answer, in order, the one that ended it included."""
    return tuple(token for round in judged(events) for token in round.committed)


def branches(drafted: Sequence[Token]) -> tuple[tuple[int, ...], ...]:
    """Drafted tokens in branches, by their numbers, the most promising first; a chain is one.

    A branch begins behind the committed tokens, or behind a token of an earlier branch, and goes on
    to an end. The first has all tokens that are accepted. Else a branch goes where most tokens can
    be expected to be accepted if the drafter is right: each with q, once those before it and none
    of its alternatives are accepted.
    """
    chances: list[float] = []  # that the path up to each is accepted
    left: dict[int, float] = {}  # the chance that no alternative so far is, by parent
    for token in drafted:
        before = chances[token.parent] if token.parent != COMMITTED else 1.0
        rest, q = left.get(token.parent, 1.0), token.q or 0.0
        left[token.parent] = rest * (1.0 - q)
        chances.append(1.0 if token.fate == "accepted" else before * rest * q)
    expected = list(chances)  # tokens from each on, along the best of what stands behind it
    following: dict[int, int] = {}
    worth: dict[int, tuple[bool, float]] = {}  # of what follows, by parent
    for number in range(len(drafted) - 1, -1, -1):
        if number in following:
            expected[number] += expected[following[number]]
        token = drafted[number]
        its = (token.fate == "accepted", expected[number])
        if its >= worth.get(token.parent, its):
            worth[token.parent], following[token.parent] = its, number
    first = following.get(COMMITTED)
    heads = [n for n, token in enumerate(drafted) if n == first or following[token.parent] != n]
    heads.sort(key=lambda head: (head != first, -expected[head]))
    return tuple(tuple(_from(head, following)) for head in heads)


def _judged(draft: Draft | None, verdict: Verdict) -> Round:
    own = verdict.next
    if verdict.forced:
        forced = tuple(Token(t.id, t.text, t.origin, p=t.p) for t in verdict.forced)
        return Round(verdict.round, "", forced, verdict)
    fates: dict[int, Fate] = {
        **dict.fromkeys(verdict.rejected, "rejected"),
        **dict.fromkeys(verdict.accepted_path, "accepted"),
    }
    tokens = zip(draft.tokens if draft else (), verdict.judgements, _parents(draft), strict=False)
    drafted = tuple(
        Token(
            *(t.id, t.text, fates.get(number, "discarded"), t.q),
            *(of_token.p, of_token.chance, t.confidence, parent),
        )
        for number, (t, of_token, parent) in enumerate(tokens)
    )
    last = () if own is None else (Token(own.id, own.text, own.origin, p=own.p),)
    drafter, source = (draft.drafter, draft.source) if draft else ("", None)
    return Round(verdict.round, drafter, (*drafted, *last), verdict, source)


def _from(head: int, following: dict[int, int]) -> Iterator[int]:
    token: int | None = head
    while token is not None:
        yield token
        token = following.get(token)


def _parents(draft: Draft | None) -> tuple[int, ...]:
    """What each drafted token stands behind."""
    if draft is None:
        return ()
    return draft.parents or tuple(range(-1, len(draft.tokens) - 1))
