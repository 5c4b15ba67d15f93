"""The rounds of a generation: a draft and its verdict as one value.

The one place that joins drafts and verdicts, for terminal, window and benchmarks. Knows events and
nothing else.
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

    `fate` is "drafted" before the verdict, then "accepted", "rejected" (not accepted, after an
    accepted or committed token) or "discarded" (after a token that is not accepted, or after the
    end of the text). The target's own token has its origin as fate, and no `q`, `chance` or
    `confidence`. `parent` as in `Draft.parents`, for chains too.
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
    """A round, drafted or judged. `verdict` is None until it is judged.

    `tokens` are the drafted tokens in order, then the target's own if there is one; or the tokens
    that a grammar forced. `drafter` is empty without a draft. `source` as in `Draft`.
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
        """The shape of the draft."""
        return Tree(tuple(token.parent for token in self.drafted))

    @property
    def best_path(self) -> tuple[Token, ...]:
        """The drafted tokens of the most promising branch; all tokens of a chain."""
        drafted = self.drafted
        return tuple(drafted[number] for number in branches(drafted)[0]) if drafted else ()

    @property
    def own(self) -> Token | None:
        """The target's own token; None if an accepted token ended the text, or all are forced."""
        own = (token for token in self.tokens if token.q is None and token.fate != "forced")
        return next(own, None)

    @property
    def committed(self) -> tuple[Token, ...]:
        """The tokens that belong to the answer, in the order that `Span.index` counts."""
        dropped = ("drafted", "rejected", "discarded")
        return tuple(token for token in self.tokens if token.fate not in dropped)


EventOrRound = Waiting | Prefill | Round | Text | Done | Failed
"""An event, or a round in place of a draft or a verdict."""


class Rounds:
    """Joins drafts and verdicts as they arrive."""

    def __init__(self) -> None:
        self._draft: Draft | None = None

    def push(self, event: Event) -> EventOrRound:
        """Return the event; for a draft the drafted round, for a verdict the judged round."""
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
    """The tokens of the answer in order, with the token that ended it."""
    return tuple(token for round in judged(events) for token in round.committed)


def branches(drafted: Sequence[Token]) -> tuple[tuple[int, ...], ...]:
    """Split a draft into branches of token numbers, the most promising first.

    A branch begins after the committed tokens, or after a token of an earlier branch, and goes on
    to a leaf. Accepted tokens are in the first branch. Otherwise a branch takes the alternative
    with the most expected acceptances, if each token is accepted with its q once its parent is
    accepted and its earlier alternatives are not. Example: a chain of three is ((0, 1, 2),).
    """
    chances: list[float] = []  # that the path up to each token is accepted
    left: dict[int, float] = {}  # by parent: the chance that no alternative so far is accepted
    for token in drafted:
        before = chances[token.parent] if token.parent != COMMITTED else 1.0
        rest, q = left.get(token.parent, 1.0), token.q or 0.0
        left[token.parent] = rest * (1.0 - q)
        chances.append(1.0 if token.fate == "accepted" else before * rest * q)
    expected = list(chances)  # acceptances from each token on, along its best continuation
    following: dict[int, int] = {}  # by parent: its best continuation
    worth: dict[int, tuple[bool, float]] = {}  # by parent: how good that continuation is
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
    """The parent of each drafted token, for chains too."""
    if draft is None:
        return ()
    return draft.parents or tuple(range(-1, len(draft.tokens) - 1))
