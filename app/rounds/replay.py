"""A trace, ready to be walked through round by round. Knows events; nothing of Qt."""

from collections.abc import Iterable

from app.rounds.trace import Folder, Piece, Round, rounds
from engine.events import Draft, Event, Verdict


class Replay:
    """The rounds of an answer, and how far the answer was after each. Place n is after n rounds.

    Attributes: `events`, all of them; `rounds`, those that were judged; `pieces`, the answer's
    tokens, each with all the text that it has in the end.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = tuple(events)
        self.rounds: tuple[Round, ...] = rounds(self.events)
        self._event_ends: list[int] = []
        self._piece_ends: list[int] = []
        folder = Folder()
        begun: tuple[int, int] | None = None  # events and pieces before the round's draft
        for index, event in enumerate(self.events):
            if isinstance(event, Draft):
                begun = (index, len(folder))
            elif isinstance(event, Verdict):
                # Where a round begins the one before is over, with the text that came after it.
                events_before, pieces_before = begun or (index, len(folder))
                self._event_ends.append(events_before)
                self._piece_ends.append(pieces_before)
                begun = None
            folder.push(event)
        self.pieces: tuple[Piece, ...] = folder.pieces
        # The last round takes all that is left: text without a round too, where there is any.
        self._event_ends.append(len(self.events))
        self._piece_ends.append(len(self.pieces))

    def __len__(self) -> int:
        return len(self.rounds)

    def events_until(self, place: int) -> tuple[Event, ...]:
        """The events up to this place, the text that came with its last round included."""
        return self.events[: self._event_ends[place]]

    def pieces_until(self, place: int) -> tuple[Piece, ...]:
        """The tokens written up to this place."""
        return self.pieces[: self._piece_ends[place]]
