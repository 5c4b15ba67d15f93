"""A trace, ready to be walked through round by round. Knows events; nothing of Qt."""

from bisect import bisect_left
from collections.abc import Iterable

from app.rounds.trace import Piece, Trace
from engine.events import Event
from engine.rounds import Round


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
