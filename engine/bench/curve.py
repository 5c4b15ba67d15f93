"""What the target's passes cost by their number of rows, and what drafting can gain from that.

The measuring is budgeted: few rows first, more while there is time. The rest is arithmetic.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import mlx.core as mx

from engine.decoder import Decoder
from engine.draft_length.costs import Calibration

ROWS = (1, 4, 8, 2, 16, 3, 6, 5, 12, 10)  # in this order: the first few draw a curve already
_ALWAYS = 2  # of them
_TIMES = 3
_ROOM = 24  # rows that must fit behind the depth without a cache changing its shape


@dataclass(frozen=True, slots=True)
class Point:
    """A pass over `rows` rows takes so many seconds, the median of a few."""

    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Curve:
    """Passes behind `depth` tokens, by rows, from 1 on. `step_seconds`: to draft one token with
    `drafter`, where that was measured."""

    depth: int
    points: tuple[Point, ...]
    drafter: str = ""
    step_seconds: float | None = None

    def relative(self, rows: float) -> float:
        """A pass over `rows` rows, in passes over one: lines between the points and beyond."""
        known = [(point.rows, point.seconds / self.points[0].seconds) for point in self.points]
        if len(known) == 1:
            return rows
        place = next((i for i, (r, _) in enumerate(known[1:-1], 1) if rows <= r), len(known) - 1)
        (r0, c0), (r1, c1) = known[place - 1], known[place]
        return c0 + (c1 - c0) * (rows - r0) / (r1 - r0)

    def gain(self, length: int, *, acceptance: float) -> float:
        """Times plain speed with drafts of `length`, each token standing with this chance."""
        committed = sum(acceptance**i for i in range(length + 1))
        step = (self.step_seconds or 0.0) / self.points[0].seconds
        return committed / (self.relative(length + 1) + length * step)

    def best(self, *, acceptance: float) -> tuple[int, float]:
        """The draft length, 0 included, that gains most, and its gain."""
        lengths = range(self.points[-1].rows)
        gains = {length: self.gain(length, acceptance=acceptance) for length in lengths}
        length = max(lengths, key=lambda each: gains[each])
        return length, gains[length]


def curve_of(calibration: Calibration, drafters: Sequence[str]) -> Curve:
    """What was measured of a pair near the beginning of a text, with the dearest of `drafters`."""
    passes = calibration.passes[0]
    one_token = {
        each.drafter: each.start_seconds + each.step_seconds
        for each in calibration.drafts
        if each.drafter in drafters
    }
    drafter = max(one_token, key=lambda name: one_token[name], default="")
    points = tuple(map(Point, passes.rows, passes.seconds))
    return Curve(passes.context, points, drafter, one_token.get(drafter))


def measure_curve(
    decoder: Decoder,
    *,
    depth: int,
    budget_seconds: float = 5.0,
    clock: Callable[[], float] = perf_counter,
) -> Curve:
    """For the model of `decoder`, which must be empty and is empty afterwards.

    At about `depth` tokens: a little less where a cache would change its shape there. The budget
    is for the measured passes; two points are measured in any case.
    """
    ids = mx.random.randint(0, decoder.vocabulary, (depth + 1,), key=mx.random.key(0))
    tokens: list[int] = ids.tolist()  # type: ignore[assignment]  # one list, as there is one axis
    for _ in decoder.prefill(tokens):
        pass
    if decoder.timeline.room() < _ROOM:
        depth = max(1, depth - _ROOM)
        decoder.rewind(0)
        for _ in decoder.prefill(tokens[: depth + 1]):
            pass
    times: dict[int, list[float]] = {rows: [] for rows in ROWS}
    began = clock()
    for turn in range(_TIMES):
        for number, rows in enumerate(ROWS):
            longest = max((max(t) for t in times.values() if t), default=0.0)
            over = clock() - began + longest > budget_seconds
            if not over or (turn == 0 and number < _ALWAYS):
                times[rows].append(_pass_seconds(decoder, rows, clock))
    decoder.rewind(0)
    # Kernels are built in the first pass of a width: it counts only where there is no other.
    points = [
        Point(rows, statistics.median(taken[1:] or taken))
        for rows, taken in sorted(times.items())
        if taken
    ]
    return Curve(depth, tuple(points))


def _pass_seconds(decoder: Decoder, rows: int, clock: Callable[[], float]) -> float:
    before = decoder.length
    decoder.timeline.mark()
    began = clock()
    mx.eval(decoder.read(mx.zeros((rows,), dtype=mx.int32)))
    seconds = clock() - began
    decoder.rewind(before)
    return seconds
