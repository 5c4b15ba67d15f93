"""The costs of a pass over n rows, and of drafting n tokens: measured once, then followed.

A calibration has the seconds of passes by rows. Between the measured points costs lie on lines,
beyond them the last slope continues. More rows cost less only where that was measured: a GPU may
have a better kernel for six rows than for five. Live rounds correct all of it: heat, load, a
deep context and other generations that share passes make them dearer. Without a calibration a
typical curve takes its place, and is corrected faster. Pure: knows no clock.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import log, sqrt
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.limits import LONGEST_DRAFT, ROUND_ROWS
from models.typed_json import decode

ROWS = LONGEST_DRAFT + 1  # a draft, and the token before it
MOST_ROWS = ROUND_ROWS
STEADY = log(1.4)  # the most spread of a calibration that is stored

_STEP = 0.05  # the cost of a token of a drafter that was not calibrated, in plain passes
_FEW = 4  # tokens to read that hardly matter
_LEAST = 1e-7  # seconds, as two readings of a clock may be equal
_NEAR = 1024  # tokens of context up to which a calibration must be right
_FAR = log(4 / 3)  # how wrong a calibration may be
_LONG = 32  # plain passes that show it

_ROWS = np.arange(1, MOST_ROWS + 1)
_ENDS = np.array((1, 2, 3, 4, 5, 6, 8, 11, ROWS, MOST_ROWS))  # of rows that have one error
_KINDS = np.searchsorted(_ENDS, _ROWS)  # of each number of rows, from 1
_PARTS = np.log2(_ENDS) / 4.0  # of the slope
_OWN = [np.diag(each) for each in np.eye(len(_ENDS))]  # the covariance of one kind alone

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PassCosts:
    """The `seconds` of passes over `rows` rows, with `context` tokens in the caches."""

    context: int
    rows: tuple[int, ...]
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class DraftCosts:
    """Seconds of drafting n tokens: `start_seconds` + n `step_seconds`, and `read_seconds` for each
    token that the drafter has to read first."""

    drafter: str
    start_seconds: float
    step_seconds: float
    read_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """The measured seconds of a pair: of passes by rows, and of drafts by tokens.

    `spread`: how far repeated passes were apart, in logarithms: the less they are to be believed.
    """

    passes: PassCosts
    drafts: tuple[DraftCosts, ...] = ()
    spread: float = 0.0

    def __post_init__(self) -> None:
        rows, seconds = self.passes.rows, self.passes.seconds
        if not rows or list(rows) != sorted(set(rows)) or rows[0] < 1:
            raise ValueError("the rows do not rise")
        if len(rows) != len(seconds) or not all(0 < each < 1e6 for each in seconds):
            raise ValueError("the seconds of a pass are out of range")
        if not 0.0 <= self.spread < 100.0:
            raise ValueError("the spread is out of range")
        for draft in self.drafts:
            parts = (draft.start_seconds, draft.step_seconds, draft.read_seconds)
            if not all(0 <= seconds < 1e6 for seconds in parts):
                raise ValueError("the seconds of a draft are out of range")

    @property
    def steady(self) -> bool:
        """Whether passes took as long when repeated; else this is used, and not stored."""
        return self.spread <= STEADY

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> "Calibration":
        """Return the calibration that `to_json` turned into `value`. Raises ValueError on anything
        else."""
        return decode(cls, value, place="calibration")


_TYPICAL = Calibration(PassCosts(0, (1, ROWS), (1.0, 1.0 + 0.15 * (ROWS - 1))))


class Costs:
    """The present estimates of a pair's costs."""

    def __init__(self, calibration: Calibration | None = None) -> None:
        known = calibration or _TYPICAL
        self._passes = _by_rows(known.passes.rows, known.passes.seconds)
        self._beyond = max(self._passes.item(-1) - self._passes.item(-2), 0.0)  # of each more row
        self._drafts = {draft.drafter: draft for draft in known.drafts}
        self._calibrated = calibration is not None
        self._calibrated_drafters = frozenset(self._drafts)
        self._correction = _Correction(calibration.spread if calibration else None)
        self._drafting: dict[tuple[str, bool], _RobustAverage] = {}  # trees apart
        # Seconds for a token, of late, by drafters that were not calibrated.
        self._reading: dict[str, deque[float]] = {}
        self._far = 0  # plain passes in a row with the calibration wrong by more than `_FAR`
        self._asked: dict[int, list[float]] = {}  # by `sharing`, since the last pass
        self._shared: dict[int, tuple[Array, NDArray[np.int64]]] = {}

    def passes(self, *, sharing: int = 1, most: int = ROWS) -> list[float]:
        """Seconds of a pass over 1, 2, ... `most` rows, divided by the `sharing` generations that
        use it, all with as many rows."""
        if sharing not in self._asked:
            expected, kinds = self._calibrated_for(sharing)
            rising = np.maximum.accumulate(expected)
            corrected = np.maximum.accumulate(rising * np.exp(self._correction.errors)[kinds])
            self._asked[sharing] = (corrected * (expected / rising)).tolist()
        return self._asked[sharing][:most]

    def doubt(self, rows: int, *, sharing: int = 1) -> float:
        """Return the standard deviation, in logarithms, of the cost of `rows` rows over the cost of
        one row, each multiplied by the `sharing` generations of a pass."""
        return self._correction.doubt(_kind(sharing), _kind(sharing * rows))

    @property
    def outdated(self) -> bool:
        """Whether plain passes have differed from the calibration for long: it must be redone."""
        return self._far >= _LONG

    def draft(self, drafter: str, *, behind: int = 0, tree: bool = False) -> DraftCosts:
        """Return the cost of drafting, if the drafter has to read `behind` tokens first."""
        known = self._known(drafter)
        followed = self._drafting.get((drafter, tree)) or self._drafting.get((drafter, False))
        factor = followed.value if followed else 1.0
        read = min(self._reading.get(drafter, [known.read_seconds]))
        start = known.start_seconds * factor + behind * read
        return DraftCosts(drafter, start, known.step_seconds * factor, read)

    def observe_pass(self, rows: int, seconds: float, *, context: int) -> None:
        """Learn that a pass over `rows` rows, of all generations that shared it, took `seconds`."""
        self._asked.clear()
        expected = self._passes.item(min(rows, MOST_ROWS) - 1)
        expected += max(rows - MOST_ROWS, 0) * self._beyond
        self._correction.observe(_kind(rows), log(max(seconds, _LEAST) / expected))
        if self._calibrated and context <= _NEAR:
            far = abs(self._correction.errors.item(0)) > _FAR
            self._far = self._far + (rows == 1) if far else 0

    def observe_draft(
        self,
        drafter: str,
        tokens: float,
        seconds: float,
        *,
        behind: int = 0,
        tree: bool = False,
    ) -> None:
        """Learn that a draft of `tokens` took `seconds`, with `behind` tokens to read first.

        `tree`: it was a tree, and `tokens` are its `tree_steps`."""
        # From now on its own: passes whose costs change say nothing about this drafter.
        known = self._drafts.setdefault(drafter, self._known(drafter))
        if behind <= _FEW:
            expected = max(known.start_seconds + tokens * known.step_seconds, _LEAST)
            followed = self._drafting.setdefault((drafter, tree), _RobustAverage())
            followed.observe(seconds / expected)
        elif drafter not in self._calibrated_drafters:
            draft = self.draft(drafter, tree=tree)
            read = (seconds - draft.start_seconds - tokens * draft.step_seconds) / behind
            self._reading.setdefault(drafter, deque(maxlen=3)).append(max(read, 0.0))

    def _known(self, drafter: str) -> DraftCosts:
        """The calibrated costs of a drafter, or a part of a pass where it was not calibrated: then
        reading is taken for free until it is measured, as else it might never be."""
        if drafter in self._drafts:
            return self._drafts[drafter]
        return DraftCosts(drafter, 0.0, _STEP * self.passes()[0])

    def _calibrated_for(self, sharing: int) -> tuple[Array, NDArray[np.int64]]:
        """Return the calibrated seconds of a pass over 1, 2, ... rows of each of `sharing`
        generations, divided by these, and the kind of each such pass."""
        if sharing not in self._shared:
            rows = sharing * _ROWS
            inside = np.minimum(rows, MOST_ROWS) - 1
            seconds = self._passes[inside] + np.maximum(rows - MOST_ROWS, 0) * self._beyond
            self._shared[sharing] = seconds / sharing, _KINDS[inside]
        return self._shared[sharing]


def _kind(rows: int) -> int:
    """Return the kind of this number of rows. All numbers of a kind have one error in common."""
    return _KINDS.item(min(rows, MOST_ROWS) - 1)


def _by_rows(rows: Sequence[int], seconds: Sequence[float]) -> Array:
    """Return the seconds of passes over 1, 2, ... `MOST_ROWS` rows: on lines between the measured
    points. Beyond the last point, the slope over the upper half of the rows continues, if it
    rises."""
    inside = np.interp(_ROWS, rows, seconds)
    last, half = rows[-1], (rows[-1] + 1) // 2
    slope = max(inside[last - 1] - inside[half - 1], 0.0) / max(last - half, 1)
    return inside + slope * np.maximum(_ROWS - last, 0)


def _covariance(level: float, slope: float, own: float) -> Array:
    """Return the covariance of the errors, by kind of number of rows. It is made of standard
    deviations: of a `level` that all have in common, of a `slope` over the logarithm of the rows,
    and of each kind's `own` part."""
    every: Array = level**2 + slope**2 * np.outer(_PARTS, _PARTS) + own**2 * np.eye(len(_ENDS))
    return every


class _Estimate(NamedTuple):
    """How far passes are off, in logarithms: `errors` by kind of number of rows, and their
    `covariance`."""

    errors: Array
    covariance: Array

    def doubted(self, covariance: Array) -> "_Estimate":
        """Return the same errors with that much more doubt."""
        return _Estimate(self.errors, self.covariance + covariance)

    def learned(self, kind: int, error: float, noise: float) -> "_Estimate":
        """Return the estimate after a pass of this kind was off by `error`."""
        gain = self.covariance[kind] / (self.covariance.item(kind, kind) + noise**2)
        errors = self.errors + gain * (error - self.errors.item(kind))
        return _Estimate(errors, self.covariance - gain[:, None] * self.covariance[kind])


class _Surprise(NamedTuple):
    """A pass of a `kind` that was off by `error`: by `excess` more than expected."""

    kind: int
    error: float
    excess: float


class _Correction:
    """Follows how live passes differ from the calibration: a Kalman filter of the errors.

    One pass corrects the errors of all kinds, as heat and load move the level of all rows or the
    slope over them. The noise is how far passes of late were off. Some readings are outliers, so a
    surprise counts only when it has come three times, and the least of the three is believed. Three
    in a row show that all rows have changed. If all three were of one kind, the next pass of
    another kind may show that it alone has, as where a kernel is slow for these rows. Three of
    one kind, while others were as expected, show it as well. That one kind alone has changed is
    believed only where it speaks against drafting.
    """

    _CALIBRATED, _UNCALIBRATED = _covariance(0.2, 0.1, 0.07), _covariance(10.0, 0.5, 0.07)
    _DRIFT = _covariance(0.02, 0.012, 0.002)  # that each round adds
    _CHANGE = _covariance(0.84, 0.55, 0.0)  # of all rows, by a surprise of 1
    _SURPRISE, _TIMES = 3.0, 3  # standard deviations; surprises that show a change
    _LEAST_NOISE, _PASSES = 0.1, 32  # the passes of late
    _MOST, _DEVIATIONS = 0.75, 1.15  # of normal errors this share is smaller than that
    _PATIENCE = 8  # passes until a change is taken as one of all rows

    def __init__(self, spread: float | None) -> None:
        """`spread`: of the calibration; None if there is none."""
        first = self._UNCALIBRATED
        if spread is not None:
            first = self._CALIBRATED * max((spread / self._LEAST_NOISE) ** 2, 1.0)
        self._now = _Estimate(np.zeros(len(_ENDS)), first)
        self._noise = min(max(spread or 0.0, self._LEAST_NOISE), STEADY)
        self._off = deque([self._noise] * self._PASSES, maxlen=self._PASSES)
        self._in_a_row: list[_Surprise] = []
        self._of_kind: dict[int, list[_Surprise]] = {}  # since a pass of this kind was as expected
        self._alone: _Estimate | None = None  # if the kind of `_changed` alone has changed
        self._changed, self._waited = 0, 0

    @property
    def errors(self) -> Array:
        """The estimated errors, by kind."""
        return self._now.errors

    def observe(self, kind: int, error: float) -> None:
        """Learn that a pass of this kind was off by `error`."""
        self._settle(kind, error)
        now = self._now.doubted(self._DRIFT)
        seen = _Surprise(kind, error, error - now.errors.item(kind))
        most = self._SURPRISE * sqrt(now.covariance.item(kind, kind) + self._noise**2)
        self._off.append(abs(seen.excess))
        usual = sorted(self._off)[int(self._MOST * self._PASSES)] / self._DEVIATIONS
        self._noise = max(usual, self._LEAST_NOISE)
        if abs(seen.excess) <= most:
            self._in_a_row.clear()
            self._of_kind.pop(kind, None)
            self._now = now.learned(kind, error, self._noise)
            return
        of_kind = self._of_kind.setdefault(kind, [])
        for row in (self._in_a_row, of_kind):
            if row and (row[-1].excess > 0.0) != (seen.excess > 0.0):
                row.clear()
            row.append(seen)
        against = (seen.excess > 0.0) == (kind > 0)
        if len(self._in_a_row) == self._TIMES:
            if against and {each.kind for each in self._in_a_row} == {kind}:
                self._alone = self._after(now, self._in_a_row, _OWN[kind])
                self._changed, self._waited = kind, 0
            self._now = self._after(now, self._in_a_row, self._CHANGE)
            self._in_a_row.clear()
            self._of_kind.clear()
        elif len(of_kind) >= self._TIMES and against:
            self._now = self._after(now, of_kind, _OWN[kind])
            del self._of_kind[kind]

    def _after(self, now: _Estimate, row: Sequence[_Surprise], change: Array) -> _Estimate:
        """Return the estimate if the least of these surprises shows such a change."""
        least = min(row, key=lambda each: abs(each.excess))
        excess = least.error - now.errors.item(least.kind)
        return now.doubted(excess**2 * change).learned(least.kind, least.error, self._noise)

    def _settle(self, kind: int, error: float) -> None:
        """Decide by a pass of another kind whether all rows or one kind alone has changed."""
        if self._alone is None:
            return
        self._waited += 1
        if kind != self._changed or self._waited > self._PATIENCE:
            if self._waited <= self._PATIENCE:
                both = (self._now, self._alone)
                self._now = min(both, key=lambda each: abs(error - each.errors.item(kind)))
            self._alone = None

    def doubt(self, plain: int, rows: int) -> float:
        """Return the standard deviation of the ratio between rows of two kinds, in logarithms."""
        both = self._now.covariance
        return sqrt(max(both[plain, plain] + both[rows, rows] - 2.0 * both[plain, rows], 0.0))


class _RobustAverage:
    """A moving average of the median of the last three, so that a single outlier has no effect:
    not even the first, which may have had to load weights and kernels."""

    _MEMORY = 0.2

    def __init__(self) -> None:
        self.value = 1.0
        self._recent = deque([self.value, self.value], maxlen=3)
        self._seen = 0

    def observe(self, value: float) -> None:
        self._recent.append(value)
        self._seen += 1
        weight = max(1.0 / max(self._seen - 1, 1), self._MEMORY)
        self.value += weight * (median(self._recent) - self.value)
