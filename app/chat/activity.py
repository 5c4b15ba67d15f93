"""What is being done for an answer: it waits for its turn, its prompt is read, it is written.

`Answers` makes these values of the engine's events, for each answer by itself; whatever shows them
takes its words from here. Knows no widget.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from engine.events import Prefill
from models.in_words import left, one_line


@dataclass(frozen=True, slots=True)
class AwaitingModel:
    """The engine has no model yet. `calibrated` is the share of the pair's calibration that is
    done, 0 before that has begun."""

    calibrated: float = 0.0


@dataclass(frozen=True, slots=True)
class AwaitingTurn:
    """As many run as may side by side, and `ahead` others are to begin first; None where the engine
    has not said."""

    ahead: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """The prompt is read: `processed` of `total` tokens, `reused` of them from the cache."""

    processed: int
    total: int
    reused: int
    seconds: float

    @property
    def left_seconds(self) -> float | None:
        """How long it still takes at the rate so far; None while that is not known."""
        read = self.processed - self.reused
        if read <= 0 or self.seconds <= 0.0:
            return None
        return (self.total - self.processed) * self.seconds / read

    @property
    def share(self) -> float:
        """How much of the prompt has been read, from 0 to 1."""
        return self.processed / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class MakingNotes:
    """A note is made on part `number`, from 1, of `among`, which is at `place`; `part_share` of its
    prompt has been read. Those before it took `seconds`."""

    number: int
    among: int
    place: str
    part_share: float = 0.0
    seconds: float = 0.0

    @property
    def left_seconds(self) -> float | None:
        """How long the others still take at the rate so far; None for the first."""
        done = self.number - 1
        return (self.among - done) * self.seconds / done if done else None

    @property
    def share(self) -> float:
        """How much of all parts has been read, from 0 to 1."""
        return (self.number - 1 + self.part_share) / self.among


@dataclass(frozen=True, slots=True)
class BeingWritten:
    """The prompt is read, and rounds follow."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """It was stopped, and ends with the pass that the engine is at."""


Activity = AwaitingModel | AwaitingTurn | Reading | MakingNotes | BeingWritten | Stopping


def progress(prefill: Prefill) -> Reading | BeingWritten:
    """What an event of the prompt means for the answer."""
    if prefill.processed >= prefill.total:
        return BeingWritten()
    return Reading(prefill.processed, prefill.total, prefill.reused, prefill.seconds)


def long_status(activity: Activity) -> str:
    """What is being done, with the figures there are, as it is shown where the answer will be."""
    match activity:
        case AwaitingModel(calibrated=0.0):
            return "Waiting for the model to be loaded"
        case AwaitingModel(calibrated=calibrated):
            return f"Waiting for the model: calibrating, {calibrated:.0%}"
        case AwaitingTurn(ahead=None):
            return "Waiting for the engine"
        case AwaitingTurn(ahead=0):
            return "Waiting for its turn: it is next"
        case AwaitingTurn(ahead=ahead):
            others = "1 other begins" if ahead == 1 else f"{ahead:,} others begin"
            return f"Waiting for its turn: {others} first"
        case Reading(processed=processed, total=total, left_seconds=seconds):
            if processed >= total - 1:  # the last token is read with the first round
                return "The drafter is reading the prompt"
            rest = "" if seconds is None else f", {left(seconds)}"
            return f"Reading the prompt: {processed:,} of {total:,} tokens{rest}"
        case MakingNotes(number=number, among=among, place=place, left_seconds=seconds):
            rest = "" if seconds is None else f", {left(seconds)}"
            return f"Making notes on part {number:,} of {among:,}: {one_line(place)}{rest}"
        case BeingWritten():
            return "Writing"
        case Stopping():
            return "Stopping"
        case _:
            assert_never(activity)


def short_status(activity: Activity) -> str:
    """The same where there is no room for figures."""
    match activity:
        case AwaitingModel() | AwaitingTurn():
            return "Waiting"
        case Reading():
            return f"Reading, {activity.share:.0%}"
        case MakingNotes(number=number, among=among):
            return f"Making notes, {number:,} of {among:,}"
        case BeingWritten():
            return "Writing"
        case Stopping():
            return "Stopping"
        case _:
            assert_never(activity)


def status_of_several(activities: Sequence[Activity]) -> str:
    """What is being done for these answers, in a few words."""
    match activities:
        case []:
            return ""
        case [activity]:
            return short_status(activity)
    words = Counter(short_status(activity).partition(",")[0].lower() for activity in activities)
    return ", ".join(f"{count} {word}" for word, count in words.most_common())
