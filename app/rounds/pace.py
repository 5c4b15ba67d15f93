"""Chooses the round that the draft lane shows, as rounds come faster than an eye can follow.

A round is shown for a minimum time, its draft before its verdict. Of the rounds that arrive
meanwhile, the newest is shown next; the others are counted and dropped.

Knows rounds, and times in seconds of the caller's clock; no Qt, and not the answer's text, which
never waits for the lane.
"""

from dataclasses import dataclass, replace

from engine.conversation.rounds import Round


@dataclass(frozen=True, slots=True)
class RoundOnShow:
    """A round in the lane. Its draft appears at `drafted_at`, and its verdict at `judged_at`.

    `judged_at` may be in the future; it is None without a verdict.
    """

    round: Round
    drafted_at: float
    judged_at: float | None = None


class LanePace:
    """Takes rounds as they arrive, drafted and then judged, and chooses the one to show.

    Attributes: `shown`, the round on show; `previous`, the one before it; `not_shown`, the number
    of dropped rounds. A draft shows for at least `draft_seconds`, a round for at least
    `round_seconds`.
    """

    def __init__(self, *, draft_seconds: float = 0.07, round_seconds: float = 0.22) -> None:
        self.draft_seconds = draft_seconds
        self.round_seconds = round_seconds
        self.clear()

    def clear(self) -> None:
        """Forget the answer: nothing is on show."""
        self.shown: RoundOnShow | None = None
        self.previous: RoundOnShow | None = None
        self.not_shown = 0
        self._next: RoundOnShow | None = None

    def show(self, judged: Round, now: float, *, animated: bool) -> None:
        """Show an earlier round: from its draft on, or at once with its verdict."""
        previous = self.shown if animated else None
        self.clear()
        self.previous = previous
        draft_seconds = 3 * self.draft_seconds if animated and judged.drafted else 0.0
        drafted_at = now if animated else float("-inf")
        self.shown = RoundOnShow(judged, drafted_at, drafted_at + draft_seconds)

    def push(self, incoming: Round, now: float) -> None:
        """Take the next drafted round of the answer, or the verdict of the last."""
        if incoming.verdict is None:
            self._queue(RoundOnShow(incoming, now), now)
        elif self.shown is not None and _is_draft_of(self.shown, incoming):
            judged_at = max(now, self.shown.drafted_at + self.draft_seconds)
            self.shown = replace(self.shown, round=incoming, judged_at=judged_at)
        elif self._next is not None and _is_draft_of(self._next, incoming):
            self._next = replace(self._next, round=incoming)
        else:  # a round without a draft
            self._queue(RoundOnShow(incoming, now), now)

    def advance(self, now: float) -> bool:
        """Show the waiting round if it is time. Returns whether it did."""
        if self._next is None or now < self._shown_until():
            return False
        self._show(self._next, now)
        self._next = None
        return True

    def due(self) -> float | None:
        """The time at which `advance` will show another round; None if none is waiting."""
        return self._shown_until() if self._next is not None else None

    def _queue(self, incoming: RoundOnShow, now: float) -> None:
        """Show the round now, or let it wait in place of another."""
        self.not_shown += self._next is not None
        if now >= self._shown_until():
            self._next = None
            self._show(incoming, now)
        else:
            self._next = incoming

    def _show(self, incoming: RoundOnShow, now: float) -> None:
        judged_at = None
        if incoming.round.verdict is not None:
            judged_at = now + (self.draft_seconds if incoming.round.drafted else 0.0)
        self.previous = self.shown
        self.shown = replace(incoming, drafted_at=now, judged_at=judged_at)

    def _shown_until(self) -> float:
        """The time at which the round on show has been seen long enough."""
        if self.shown is None:
            return float("-inf")
        until = self.shown.drafted_at + self.round_seconds
        if self.shown.judged_at is None:
            return until
        # A verdict that came late gets its own time on show.
        return max(until, self.shown.judged_at + self.round_seconds - self.draft_seconds)


def _is_draft_of(shown: RoundOnShow, judged: Round) -> bool:
    return shown.round.number == judged.number and shown.round.verdict is None
