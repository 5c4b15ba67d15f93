"""Two answers written in turns, so that whatever else the machine does slows both alike.

Knows events and clocks; nothing of models or prompts.
"""

from collections.abc import Callable, Iterator
from time import perf_counter

from engine.events import Done, Event, Verdict

_LEAD_SECONDS = 0.1  # how far one answer gets ahead of the other before it rests


class TurnClock:
    """A clock, in seconds, that stands still while its answer does not have the turn."""

    def __init__(self, read: Callable[[], float] = perf_counter) -> None:
        self._read = read
        self._before = 0.0
        self._since: float | None = None

    def __call__(self) -> float:
        return self._before + (0.0 if self._since is None else self._read() - self._since)

    def start(self) -> None:
        self._since = self._read()

    def stop(self) -> None:
        self._before, self._since = self(), None


class Racer:
    """An answer as it is written, and how many `seconds` its rounds have taken so far.

    Attribute: `done`, its last event, once it has come.
    """

    def __init__(self, events: Iterator[Event], clock: TurnClock) -> None:
        self._events, self._clock = events, clock
        self.seconds = 0.0
        self.done: Done | None = None

    def turn(self, until: float, settle: Callable[[], None]) -> Iterator[Event]:
        """Its events until its rounds have taken so many seconds, its last one left out.

        `settle` waits for what is still under way, within the turn: no other turn pays for it.
        """
        self._clock.start()
        for event in self._events:
            if isinstance(event, Done):
                self.done = event
                break
            yield event
            if isinstance(event, Verdict):
                self.seconds += event.seconds
                if self.seconds >= until:
                    break
        settle()
        self._clock.stop()


def in_turns(first: Racer, second: Racer, *, settle: Callable[[], None]) -> Iterator[Event]:
    """The events of both. Whichever has had less time has the turn; both ends come last.

    What one alone still writes when the other has ended is not written under the same conditions.
    """
    racers = [first, second]
    while racers:
        behind = min(racers, key=lambda racer: racer.seconds)
        ahead = max(racers, key=lambda racer: racer.seconds)
        yield from behind.turn(ahead.seconds + _LEAD_SECONDS, settle)
        racers = [racer for racer in racers if racer.done is None]
    for racer in (first, second):
        if racer.done is not None:
            yield racer.done
