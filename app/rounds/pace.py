"""Which round the draft lane shows, and when: rounds come faster than an eye can follow.

Knows rounds and moments, in seconds of a clock that it is told. Knows nothing of Qt, and nothing
of the answer's text, which never waits for this.

A round is shown for a moment at least, its draft before its verdict. Of the rounds that come
meanwhile the newest is shown next; the others are counted, not queued.
"""

from dataclasses import dataclass, replace

from engine.rounds import Round


@dataclass(frozen=True, slots=True)
class Shown:
    """A round in the lane. `appeared` and `judged` are when its draft and its verdict show.

    `judged` may lie ahead of the present, and is None before there is a verdict.
    """

    round: Round
    appeared: float
    judged: float | None = None


class Pace:
    """Takes rounds as they come, drafted and then judged, and says what is on show.

    Attributes: `shown`; `before`, what was on show until `shown` came; `skipped`, how many rounds
    were never shown. `guess_seconds` is how long a draft shows at least, `round_seconds` a round.
    """

    def __init__(self, *, guess_seconds: float = 0.07, round_seconds: float = 0.22) -> None:
        self.guess_seconds = guess_seconds
        self.round_seconds = round_seconds
        self.clear()

    def clear(self) -> None:
        """Another answer: nothing is on show."""
        self.shown: Shown | None = None
        self.before: Shown | None = None
        self.skipped = 0
        self._next: Shown | None = None

    def push(self, coming: Round, now: float) -> None:
        """Take one more round of the answer, or the verdict on the last."""
        if coming.verdict is None:
            self._offer(Shown(coming, now), now)
        elif self.shown is not None and _is_draft_of(self.shown, coming):
            judged = max(now, self.shown.appeared + self.guess_seconds)
            self.shown = replace(self.shown, round=coming, judged=judged)
        elif self._next is not None and _is_draft_of(self._next, coming):
            self._next = replace(self._next, round=coming)
        else:  # nothing was drafted
            self._offer(Shown(coming, now), now)

    def advance(self, now: float) -> bool:
        """Show what waits, if its moment has come; whether it did."""
        if self._next is None or now < self._leaving():
            return False
        self._show(self._next, now)
        self._next = None
        return True

    def due(self) -> float | None:
        """When `advance` will do something; None while nothing waits."""
        return self._leaving() if self._next is not None else None

    def _offer(self, coming: Shown, now: float) -> None:
        if now >= self._leaving():
            self.skipped += self._next is not None
            self._next = None
            self._show(coming, now)
        else:
            self.skipped += self._next is not None
            self._next = coming

    def _show(self, coming: Shown, now: float) -> None:
        judged = None
        if coming.round.verdict is not None:
            judged = now + (self.guess_seconds if coming.round.drafted else 0.0)
        self.before, self.shown = self.shown, replace(coming, appeared=now, judged=judged)

    def _leaving(self) -> float:
        """When the round on show has been seen long enough."""
        if self.shown is None:
            return float("-inf")
        seen = self.shown.appeared + self.round_seconds
        # Its draft may have been long on show when the verdict came: that wants to be seen too.
        verdict_seconds = self.round_seconds - self.guess_seconds
        return seen if self.shown.judged is None else max(seen, self.shown.judged + verdict_seconds)


def _is_draft_of(shown: Shown, judged: Round) -> bool:
    return shown.round.number == judged.number and shown.round.verdict is None
