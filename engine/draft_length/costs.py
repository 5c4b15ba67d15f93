"""What a pass over n rows costs, and what drafting n tokens costs: measured once, then followed.

A calibration has both at a few context depths. Costs are linear between the measured points and
beyond them, and more rows never make a pass cheaper. The farther beyond what was measured, the more
they are in doubt, until live rounds have shown them. Live rounds correct the calibration: heat and
load move the level of all rows, other load the slope over them, and each number of rows has an
error of its own. Without a calibration a typical curve stands in, and is corrected faster. Pure:
knows no clock.

Several generations may share a pass. To the weights its rows are rows, whoever's they are; what a
deep context costs, each of them costs anew.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import exp, log, log2, sqrt
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.limits import LONGEST_DRAFT, ROUND_ROWS
from models.typed_json import decode

ROWS = LONGEST_DRAFT + 1  # a draft, and the token before it
MOST_ROWS = ROUND_ROWS

_SHAPE = ((1, 1.0), (ROWS, 1.0 + 0.15 * (ROWS - 1)))  # without a calibration
_STEP = 0.05  # the cost of a drafted token, in passes, there
_WATCH = 0.3  # the cost of a look at it, in steps
_READ = 0.1  # the cost of a token that the drafter has to read first, in steps
_FEW = 4  # so few of those hardly matter
_NEARLY = 32  # tokens of context, between which passes and drafting cost the same
_LEAST = 1e-7  # seconds; clocks may stand still
_WORST = 1.25  # what n rows may cost, in n plain passes: no published curve goes beyond 1.0
_ROWS = np.arange(1, MOST_ROWS + 1)
_PARTS = np.log2(_ROWS) / 4.0  # of the slope
_AT_MOST = np.where(_ROWS > 1, _WORST * _ROWS, 1.0)  # in plain passes: no disturbance exceeds it
_ENDS = (1, 2, 3, 4, 5, 6, 8, 11, ROWS, MOST_ROWS)  # of rows that have one error in common
_KINDS = np.searchsorted(_ENDS, _ROWS)  # of each number of rows, from 1
_NEAR = 1024  # tokens of context up to which a calibration must be right in any case

Points = Sequence[tuple[float, float]]
SecondsByRows = NDArray[np.float64]
Seconds = tuple[float, float, float, float]  # of a draft: as in `DraftCosts`
_NOTHING: Seconds = (0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class PassCosts:
    """`seconds` of passes over `rows` rows, with `context` tokens in the caches."""

    context: int
    rows: tuple[int, ...]
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class DraftCosts:
    """Seconds of drafting n tokens: `start_seconds` + n `step_seconds`.

    `watch_seconds` is added for each token where the drafter looks at every one, to stop where it
    is not confident; `read_seconds` for each token that it has to read first.
    """

    drafter: str
    context: int
    start_seconds: float
    step_seconds: float
    watch_seconds: float = 0.0
    read_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured of a pair, at one or more context depths in rising order."""

    passes: tuple[PassCosts, ...]
    drafts: tuple[DraftCosts, ...] = ()

    def __post_init__(self) -> None:
        depths = [each.context for each in self.passes]
        if not depths or depths != sorted(set(depths)):
            raise ValueError("the depths do not rise")
        for each in self.passes:
            if not each.rows or list(each.rows) != sorted(set(each.rows)) or each.rows[0] < 1:
                raise ValueError("the rows do not rise")
            if len(each.rows) != len(each.seconds) or not all(0 < s < 1e6 for s in each.seconds):
                raise ValueError("the seconds of a pass are out of range")
        for draft in self.drafts:
            parts = (draft.start_seconds, draft.step_seconds)
            if not all(0 <= s < 1e6 for s in (*parts, draft.watch_seconds, draft.read_seconds)):
                raise ValueError("the seconds of a draft are out of range")

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> "Calibration":
        """What `to_json` gave. Raises ValueError on anything else."""
        return decode(cls, value, place="calibration")


def line(points: Points, x: float) -> float:
    """The value at `x` of lines through `points`, whose x rise.

    Beyond them the last slope continues, unless it falls. Through one point the line is level.
    """
    if len(points) == 1:
        return points[0][1]
    right = min(max(bisect_right(points, x, key=lambda point: point[0]), 1), len(points) - 1)
    (x0, y0), (x1, y1) = points[right - 1], points[right]
    if (x > x1 and y1 < y0) or (x < x0 and y0 > y1):
        return y1 if x > x1 else y0
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


class Costs:
    """The present estimates of a pair's costs."""

    def __init__(self, calibration: Calibration | None = None) -> None:
        self._depths = [(0, _by_rows(_SHAPE))]
        self._known: dict[str, list[DraftCosts]] = {}
        if calibration is not None:
            curves = [
                list(zip(each.rows, each.seconds, strict=True)) for each in calibration.passes
            ]
            shallow = _by_rows(curves[0])
            self._depths = [
                (each.context, _by_rows(curve, shallow))
                for each, curve in zip(calibration.passes, curves, strict=True)
            ]
            for draft in sorted(calibration.drafts, key=lambda draft: draft.context):
                self._known.setdefault(draft.drafter, []).append(draft)
        self._correction = _Correction(calibration.passes[0].rows[-1] if calibration else 0)
        self._reach = max(self._depths[-1][0], _NEAR) if calibration is not None else -1
        self._calibrated = calibration is not None
        self._trees = _RobustAverage()
        self._deviation = _Deviation()
        self._drafting: dict[tuple[str, bool], _RobustAverage] = {}  # by drafter, trees apart
        self._reading: dict[str, _RobustAverage] = {}
        self._asked: dict[tuple[int, int, bool], list[float]] = {}  # since the last pass
        self._calibrated_at: dict[str, tuple[int, Seconds]] = {}  # the depth asked last, by drafter
        self._based_at = -1, self._depths[0][1]

    def passes(
        self, context: int, *, sharing: int = 1, most: int = ROWS, trees: bool = False
    ) -> list[float]:
        """Seconds of a pass over 1, 2, ... `most` rows, divided by the `sharing` generations that
        use it, all with as many rows. `trees`: the rows behind the first are a tree."""
        asked = context, sharing, trees and self._tree_factor > 1.0
        if asked not in self._asked:
            self._asked[asked] = self._passes_over(*asked)
        return self._asked[asked][:most]

    def _passes_over(self, context: int, sharing: int, trees: bool) -> list[float]:
        rows = np.minimum(sharing * _ROWS, MOST_ROWS)
        seconds = self._expected(sharing * _ROWS, context=context, sharing=sharing)
        seconds = seconds * self._correction.factors[rows - 1]
        if trees:
            seconds[1:] *= self._tree_factor
        plain = seconds[0]
        seconds[1:] = np.minimum.accumulate(seconds[:0:-1])[::-1]  # more rows never cost less
        seconds = np.maximum(np.minimum(seconds, plain * _AT_MOST), plain)
        return (seconds / sharing).tolist()

    def doubt(self, rows: int, *, sharing: int = 1) -> float:
        """The standard deviation of the ratio of a pass over `rows` to a plain one, in
        logarithms. Both by each of the `sharing` generations."""
        return self._correction.doubt(min(sharing, MOST_ROWS), min(sharing * rows, MOST_ROWS))

    def knows(self, drafter: str) -> bool:
        """Whether the calibration has measured this drafter, looks at its tokens included."""
        return drafter in self._known

    @property
    def outdated(self) -> bool:
        """Whether plain passes have differed from the calibration for long: it must be redone."""
        return self._deviation.long

    def draft(
        self, drafter: str, *, context: int, behind: int = 0, tree: bool = False
    ) -> DraftCosts:
        """What drafting costs at this depth, with `behind` tokens to be read first."""
        start, step, watch, read = self._draft_base(drafter, context)
        factor = self._drafting_factor(drafter, tree=tree)
        read *= self._reading[drafter].value if drafter in self._reading else 1.0
        start = start * factor + behind * read
        return DraftCosts(drafter, context, start, step * factor, watch * factor, read)

    def observe_pass(
        self, rows: int, seconds: float, *, context: int, sharing: int = 1, tree: bool = False
    ) -> None:
        """A pass over `rows`, of all that were `sharing` it, took `seconds`.

        Where it was calibrated what up to `ROWS` rows cost in a chain, they show what a `tree`
        costs beyond that. More rows are taken to do so too.
        """
        self._asked.clear()
        if sharing == 1 and rows <= MOST_ROWS:
            expected = float(self._base(context)[rows - 1])
        else:
            (expected,) = self._expected(np.array([rows]), context=context, sharing=sharing)
        off, row = log(max(seconds, _LEAST) / expected), min(rows, MOST_ROWS)
        if tree and row <= ROWS and self._calibrated:
            self._trees.observe(exp(off) / self._correction.factor(row))
            return
        self._correction.observe(row, off - log(self._tree_factor) if tree else off)
        if context <= self._reach:
            self._deviation.observe(self._correction.plain, plain=rows == 1)

    def observe_draft(
        self,
        drafter: str,
        tokens: float,
        seconds: float,
        *,
        context: int,
        behind: int = 0,
        watched: bool = False,
        tree: bool = False,
    ) -> None:
        """Drafting `tokens` took `seconds`, with `behind` that had to be read first. A `tree` takes
        as long as so many tokens of a chain."""
        start, step, watch, read = self._draft_base(drafter, context)
        expected = max(start + tokens * (step + watch * watched), _LEAST)
        if behind <= _FEW:
            level = self._drafting.setdefault((drafter, tree), _RobustAverage())
            level.observe(seconds / expected)
            return
        drafting = self._drafting_factor(drafter, tree=tree)
        rest = max(seconds - expected * drafting, 0.0)  # which tells little about drafting itself
        level = self._reading.setdefault(drafter, _RobustAverage())
        level.observe(rest / (behind * max(read, _LEAST)))

    @property
    def _tree_factor(self) -> float:
        """What a pass over a tree takes, as a multiple of one over a chain of as many tokens: what
        looks like less is a machine that has just become faster."""
        return max(self._trees.value, 1.0)

    def _drafting_factor(self, drafter: str, *, tree: bool) -> float:
        """What it takes as a multiple of the calibration, which has measured chains."""
        known = self._drafting.get((drafter, tree)) or self._drafting.get((drafter, False))
        return known.value if known else 1.0

    def _expected(self, rows: NDArray[Any], *, context: int, sharing: int) -> SecondsByRows:
        """The calibrated seconds of passes over so many rows, of all that are `sharing` them."""
        base = self._base(context)
        if sharing == 1 and rows[-1] <= MOST_ROWS:
            return base[rows - 1]
        shallow, alone = self._depths[0][1], rows / sharing
        own, weights = _at(base, alone), _at(shallow, alone)
        attention = np.maximum(own - weights, 0.0)
        return own + (_at(shallow, rows) - weights) + (sharing - 1) * attention

    def _base(self, context: int) -> SecondsByRows:
        """The calibrated seconds at this depth; without a calibration, a shape without a unit."""
        if len(self._depths) == 1:
            return self._depths[0][1]
        at, curve = self._based_at
        if at != context // _NEARLY:
            at, curve = context // _NEARLY, self._between_depths(context - context % _NEARLY)
            self._based_at = at, curve
        return curve

    def _between_depths(self, context: int) -> SecondsByRows:
        depths = [depth for depth, _ in self._depths]
        right = min(max(bisect_right(depths, context), 1), len(depths) - 1)
        (near, shallow), (far, deep) = self._depths[right - 1], self._depths[right]
        share = (context - near) / (far - near)
        rise = deep - shallow
        if not 0.0 <= share <= 1.0:
            rise = np.maximum(rise, 0.0)
        return np.maximum(shallow + share * rise, 0.1 * shallow)

    def _draft_base(self, drafter: str, context: int) -> Seconds:
        """The calibrated seconds of a start, a step, a look, and a token that is read."""
        known = self._known.get(drafter)
        if not known:
            step = _STEP * self.passes(context)[0]
            return 0.0, step, _WATCH * step, _READ * step
        depth, seconds = self._calibrated_at.get(drafter, (-1, _NOTHING))
        if depth != context // _NEARLY:

            def at(name: str) -> float:
                points = [(each.context, getattr(each, name)) for each in known]
                return max(line(points, context - context % _NEARLY), 0.0)

            seconds = (
                at("start_seconds"),
                at("step_seconds"),
                at("watch_seconds"),
                at("read_seconds"),
            )
            self._calibrated_at[drafter] = context // _NEARLY, seconds
        return seconds


def _by_rows(points: Points, shallow: SecondsByRows | None = None) -> SecondsByRows:
    """The values of `line` at 1, 2, ... `MOST_ROWS` rows, made never to fall. Where no more than
    `ROWS` were measured, their second half continues, or its difference to a `shallow` context."""
    near = np.array([max(line(points, rows), _LEAST) for rows in range(1, ROWS + 1)])
    more = np.arange(ROWS + 1, MOST_ROWS + 1)
    if points[-1][0] > ROWS:
        far = np.array([max(line(points, rows), _LEAST) for rows in more.tolist()])
    elif shallow is not None:
        far = shallow[ROWS:] + _at(near - shallow[:ROWS], more)
    else:
        far = _at(np.maximum.accumulate(near), more)
    return np.maximum.accumulate(np.concatenate([near, far]))


def _at(curve: SecondsByRows, rows: NDArray[Any]) -> SecondsByRows:
    """The seconds at `rows`, any numbers; beyond the curve its second half continues."""
    inside: SecondsByRows = np.interp(rows, np.arange(1, len(curve) + 1), curve)
    return inside + _slope(curve) * np.maximum(rows - len(curve), 0.0)


def _slope(curve: SecondsByRows) -> float:
    """Of its second half, in seconds a row."""
    last, half = len(curve) - 1, len(curve) // 2
    return float(curve[last] - curve[half]) / (last - half)


class _Correction:
    """How live passes differ from the calibration, in logarithms: a Kalman filter.

    A pass over n rows differs by a level, which heat and load move, by log2(n) / 4 of a slope,
    which moves what rows behind the first cost, and by an error of its own of that number of rows.
    Some readings are outliers, so a surprise counts only when it has come three times. Of more rows
    than were calibrated little is known (`_BEYOND` by doubling), beyond those of a chain.
    """

    _LEVEL, _SLOPE, _OWN = 0.2, 0.1, 0.07  # standard deviations at first, and what a round adds:
    _LEVEL_DRIFT, _SLOPE_DRIFT, _OWN_DRIFT = 0.02, 0.012, 0.002
    _UNCALIBRATED = 10.0, 0.5  # level and slope
    _BEYOND = 0.3
    _KEPT = 0.98  # of the error of such numbers: as it is large at first, what lasts is the level's
    _NOISE, _LEAST_NOISE, _MOST_NOISE = 0.06, 0.03, 0.3
    _SURPRISE = 3.0  # standard deviations

    def __init__(self, calibrated: int) -> None:
        """`calibrated`: the most rows that were; 0: none."""
        self._level = self._slope = 0.0
        self._own = [0.0] * len(_ENDS)  # by kind of number of rows
        level, slope = (self._LEVEL, self._SLOPE) if calibrated else self._UNCALIBRATED
        self._variances = level**2, 0.0, slope**2  # of the level, of both together, of the slope
        warm = max(calibrated, ROWS)
        beyond = [max(log2(end / warm), 0.0) for end in _ENDS]
        self._own_variances = [self._OWN**2 + (self._BEYOND * each) ** 2 for each in beyond]
        self._noise = self._NOISE**2
        self._recent = deque[float](maxlen=3)
        self._alike = defaultdict[int, deque[float]](lambda: deque(maxlen=3))  # by number of rows
        self._warm = warm if calibrated else 0

    @property
    def factors(self) -> SecondsByRows:
        """The factors of the calibrated seconds, by rows from 1: (MOST_ROWS,)."""
        off = self._level + self._slope * _PARTS + np.array(self._own)[_KINDS]
        factors: SecondsByRows = np.exp(off)
        return factors

    def factor(self, rows: int) -> float:
        """The factor of a pass over `rows`."""
        return exp(self._level + self._slope * log2(rows) / 4.0 + self._own[_kind(rows)])

    @property
    def plain(self) -> float:
        """How far plain passes are off."""
        return self._level + self._own[0]

    def observe(self, rows: int, value: float) -> None:
        part, i = log2(rows) / 4.0, _kind(rows)
        # The first pass over so many rows may have had to load its kernels.
        cold = rows > self._warm and not self._alike[i]
        noise = self._MOST_NOISE**2 if cold else self._noise
        level, both, slope = self._variances
        level, slope = level + self._LEVEL_DRIFT**2, slope + self._SLOPE_DRIFT**2
        own = self._own_variances[i] + self._OWN_DRIFT**2
        surprise = value - self._level - part * self._slope - self._own[i]
        self._recent.append(surprise)
        self._alike[i].append(surprise)
        believed = level + 2.0 * part * both + part**2 * slope + own
        most = self._SURPRISE * sqrt(believed + noise)
        if abs(surprise) > most:
            if not _changed(self._recent, most) and not _changed(self._alike[i], most):
                return
            level, slope = level + 0.7 * surprise**2, slope + 0.3 * surprise**2
            believed = level + 2.0 * part * both + part**2 * slope + own
        with_level, with_slope = level + part * both, both + part * slope
        gain = 1.0 / (believed + noise)
        self._level += gain * with_level * surprise
        self._slope += gain * with_slope * surprise
        kept = self._KEPT if rows > ROWS else 1.0
        self._own[i] = kept * self._own[i] + gain * own * surprise
        self._own_variances[i] = own - gain * own**2
        self._variances = (
            level - gain * with_level**2,
            both - gain * with_level * with_slope,
            slope - gain * with_slope**2,
        )
        if believed < 4.0 * noise:  # else the surprise is due to the estimates
            latest = self._noise + 0.05 * (max(surprise**2 - believed, 0.0) - self._noise)
            self._noise = min(max(latest, self._LEAST_NOISE**2), self._MOST_NOISE**2)

    def doubt(self, plain: int, rows: int) -> float:
        """Of the ratio of `rows` to `plain` rows."""
        if rows == plain:
            return 0.0
        apart = log2(rows / plain) / 4.0
        own = self._own_variances[_kind(rows)] + self._own_variances[_kind(plain)]
        return sqrt(max(apart**2 * self._variances[2] + own, 0.0))


def _changed(surprises: Sequence[float], most: float) -> bool:
    """Whether three in a row point the same way."""
    return len(surprises) == 3 and (min(surprises) > most or max(surprises) < -most)


def _kind(rows: int) -> int:
    """Which numbers of rows have an error in common with this one."""
    return bisect_left(_ENDS, rows)


class _Deviation:
    """How long plain passes have differed from the calibration by more than a third."""

    _FAR = log(4 / 3)
    _ROUNDS, _PLAIN = 48, 2  # rounds in a row, and plain ones among them

    def __init__(self) -> None:
        self._rounds = self._plain = 0

    def observe(self, level: float, *, plain: bool) -> None:
        """After a round the filter's estimate for plain passes is `level`, a logarithm."""
        if abs(level) <= self._FAR:
            self._rounds = self._plain = 0
            return
        self._rounds += 1
        self._plain += plain

    @property
    def long(self) -> bool:
        return self._rounds >= self._ROUNDS and self._plain >= self._PLAIN


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
