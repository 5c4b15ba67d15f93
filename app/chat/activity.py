"""The states of an answer before and while it is written: waiting, reading, writing, calling
tools.

`Answers` derives them from the engine's events. Everything that shows a state takes its words from
here. Knows no widget.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from engine.events import Prefill
from models.in_words import left, one_line


@dataclass(frozen=True, slots=True)
class AwaitingModel:
    """The engine has no model yet. `calibrated` is the finished share of the pair's calibration: 0
    before it starts."""

    calibrated: float = 0.0


@dataclass(frozen=True, slots=True)
class AwaitingTurn:
    """The engine writes as many answers as it may. `ahead` others start first; None if not
    known."""

    ahead: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """The engine reads the prompt: `processed` of `total` tokens, `reused` of them from the
    cache."""

    processed: int
    total: int
    reused: int
    seconds: float

    @property
    def left_seconds(self) -> float | None:
        """The estimated time until the prompt is read; None before the rate is known."""
        read = self.processed - self.reused
        if read <= 0 or self.seconds <= 0.0:
            return None
        return (self.total - self.processed) * self.seconds / read

    @property
    def share(self) -> float:
        """The share of the prompt that has been read, from 0 to 1."""
        return self.processed / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class BeingWritten:
    """The prompt is read; rounds follow."""


@dataclass(frozen=True, slots=True)
class AwaitingPerson:
    """The model calls this tool, and the user decides whether it runs."""

    tool: str


@dataclass(frozen=True, slots=True)
class RunningTool:
    """A tool that the model called runs."""

    tool: str


@dataclass(frozen=True, slots=True)
class Stopping:
    """The user stopped the answer. It ends after the engine's current pass."""


Activity = (
    AwaitingModel | AwaitingTurn | Reading | BeingWritten | AwaitingPerson | RunningTool | Stopping
)


def progress(prefill: Prefill) -> Reading | BeingWritten:
    """Return the state that a prefill event means."""
    if prefill.processed >= prefill.total:
        return BeingWritten()
    return Reading(prefill.processed, prefill.total, prefill.reused, prefill.seconds)


def long_status(activity: Activity) -> str:
    """Describe a state in a line, with figures: "Reading the prompt: 512 of 2,048 tokens"."""
    match activity:
        case AwaitingModel(calibrated=0.0):
            return "Waiting for the model to load"
        case AwaitingModel(calibrated=calibrated):
            return f"Waiting for the model: calibrating, {calibrated:.0%}"
        case AwaitingTurn(ahead=None):
            return "Waiting for the engine"
        case AwaitingTurn(ahead=0):
            return "Queued: next"
        case AwaitingTurn(ahead=ahead):
            return f"Queued: {ahead:,} {'answer' if ahead == 1 else 'answers'} ahead"
        case Reading(processed=processed, total=total, left_seconds=seconds):
            if processed >= total - 1:  # the first round reads the last token
                return "The drafter is reading the prompt"
            rest = "" if seconds is None else f", {left(seconds)}"
            return f"Reading the prompt: {processed:,} of {total:,} tokens{rest}"
        case BeingWritten():
            return "Writing"
        case AwaitingPerson(tool=tool):
            return f"Waiting for you: may {one_line(tool)} run?"
        case RunningTool(tool=tool):
            return f"Running {one_line(tool)}"
        case Stopping():
            return "Stopping"
        case _:
            assert_never(activity)


def short_status(activity: Activity) -> str:
    """Describe a state in a word or two: "Reading, 25%"."""
    match activity:
        case AwaitingModel() | AwaitingTurn():
            return "Waiting"
        case Reading():
            return f"Reading, {activity.share:.0%}"
        case BeingWritten():
            return "Writing"
        case AwaitingPerson():
            return "Waiting for you"
        case RunningTool():
            return "Running a tool"
        case Stopping():
            return "Stopping"
        case _:
            assert_never(activity)


def status_of_several(activities: Sequence[Activity]) -> str:
    """Describe the states of several answers: "2 writing, 1 waiting"."""
    match activities:
        case []:
            return ""
        case [activity]:
            return short_status(activity)
    words = Counter(short_status(activity).partition(",")[0].lower() for activity in activities)
    return ", ".join(f"{count} {word}" for word, count in words.most_common())
