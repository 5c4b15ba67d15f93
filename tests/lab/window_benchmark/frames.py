"""Frames: what the window's thread worked between one paint and the next; or, where nothing is to
be painted, in the time of a frame. Knows no window.

Waiting is not counted, in whatever call of the event loop it is; a call that worked is, whole. So a
frame is too long where its work does not fit between two pictures of the screen.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """The work up to a paint, by the clock and by what the processor gave to the thread.

    The clock is what a person feels; the processor's time is free of whatever else runs here.
    `characters` is how long the answer was.
    """

    seconds: float
    processor_seconds: float
    characters: int


@dataclass(frozen=True, slots=True)
class Summary:
    """Frames in milliseconds."""

    frames: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    mean_ms: float
    processor_p50_ms: float
    processor_p99_ms: float
    processor_max_ms: float


def summarize(frames: Sequence[Frame]) -> Summary:
    """Of frames, of which there is at least one."""
    wall = sorted(1000 * frame.seconds for frame in frames)
    processor = sorted(1000 * frame.processor_seconds for frame in frames)
    return Summary(
        frames=len(frames),
        p50_ms=at(wall, 0.5),
        p99_ms=at(wall, 0.99),
        max_ms=wall[-1],
        mean_ms=sum(wall) / len(wall),
        processor_p50_ms=at(processor, 0.5),
        processor_p99_ms=at(processor, 0.99),
        processor_max_ms=processor[-1],
    )


def by_thousand(frames: Iterable[Frame]) -> dict[int, Summary]:
    """Those of each thousand characters, by how many thousands stood there before."""
    grouped: dict[int, list[Frame]] = {}
    for frame in frames:
        grouped.setdefault(frame.characters // 1000, []).append(frame)
    return {thousand: summarize(group) for thousand, group in sorted(grouped.items())}


def growth(frames: Sequence[Frame]) -> float | None:
    """The processor's time for a frame in the last third of the text, over that in the first.

    By medians, so that one slow frame is not taken for growth; None where there are too few.
    """
    longest = max((frame.characters for frame in frames), default=0)
    first = sorted(f.processor_seconds for f in frames if f.characters <= longest / 3)
    last = sorted(f.processor_seconds for f in frames if f.characters >= 2 * longest / 3)
    if len(first) < 10 or len(last) < 10:
        return None
    return at(last, 0.5) / at(first, 0.5)


def at(ordered: Sequence[float], share: float) -> float:
    """The value that `share` of them do not exceed."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
