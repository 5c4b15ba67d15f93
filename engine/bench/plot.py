"""A report as one picture: what passes cost, how far ahead was drafted, and what came of it.

matplotlib is an optional extra, which only this module imports. Draws figures that the report
already holds, and computes none.
"""

import importlib
import statistics
from collections.abc import Sequence
from itertools import accumulate, batched, groupby
from pathlib import Path
from typing import Any

from engine.bench.report import ALL, BenchReport, DraftHistory, ResultRow, temperature_words
from models.errors import Problem

_QUIET, _GRID, _BAND = "#6e7781", "#d8dee4", "#f6f8fa"
# Distinguishable by people who see colours differently, too (Okabe and Ito).
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_BARS = 360  # more would be thinner than the eye sees
_STYLE = {
    "font.size": 9,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _QUIET,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}


def require_matplotlib() -> None:
    """Raise `Problem` where there is none: better before an hour of measuring than after it."""
    try:
        importlib.import_module("matplotlib")
    except ImportError as error:
        raise Problem(
            "A plot needs matplotlib, which is not installed.",
            "Install it: pip install 'slipstream[plot]', or in the clone pip install matplotlib.",
        ) from error


def write_plot(report: BenchReport, path: Path) -> None:
    """Draw the report into a PNG file. Raises `Problem`."""
    require_matplotlib()
    matplotlib = importlib.import_module("matplotlib")
    figures = importlib.import_module("matplotlib.figure")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context(_STYLE):
            figure = _figure(figures, report)
            figure.savefig(path, format="png", dpi=160)  # a bare figure: no window, no state
    except OSError as error:
        raise Problem(
            f"The plot cannot be written to {path}: {error.strerror or error}.", "Check the path."
        ) from error


def _figure(figures: Any, report: BenchReport) -> Any:
    temperature = next(iter(report.temperatures), 0.0)
    histories = [each for each in report.draft_histories if each.temperature == temperature]
    # Two whose length was chosen round by round; where there is none, one of the others.
    shown = [each for each in histories if _is_automatic(each)][:2] or histories[:1]
    categories = len({row.category for row in report.rows})
    heights = [max(3.4, 0.42 * categories), *([1.6] * max(1, len(shown)))]
    figure = figures.Figure(figsize=(11, sum(heights) + 1), layout="constrained")
    grid = figure.add_gridspec(len(heights), 2, height_ratios=heights, width_ratios=(5, 7))
    _cost(figure.add_subplot(grid[0, 0]), report)
    _speed(figure.add_subplot(grid[0, 1]), report, temperature)
    for number, history in enumerate(shown, 1):
        _lengths(figure.add_subplot(grid[number, :]), history)
    if not shown:
        _empty(figure.add_subplot(grid[1, :]), "Draft length", "nobody drafted")
    machine = report.machine
    figure.suptitle(
        f"{report.target}: {report.label}, {temperature_words(temperature)}\n"
        f"{machine.processor}, {machine.cores} cores · mlx {machine.mlx} · {report.date[:10]}"
        + (" · partial" if report.partial else "")
        + " · speed-up: median over prompts, lines from first to third quartile",
        size=9.5,
    )
    return figure


def _is_automatic(history: DraftHistory) -> bool:
    """Whether the length is automatic (and not only the drafter)."""
    words = history.runner.removesuffix(" block").removesuffix(" token").split()
    return len(words) > 2 and words[-1] == "auto"


def _cost(axes: Any, report: BenchReport) -> None:
    """Passes by rows, in milliseconds: measured apart as a line, while answering as dots."""
    title = "What a pass costs, by its rows"
    curve = report.curve
    dots = [timing for timing in report.passes if timing.count >= 3]
    if curve is None and not dots:
        return _empty(axes, title, "not measured")
    highest = [1e3 * dot.seconds for dot in dots]
    if curve is not None:
        rows = [point.rows for point in curve.points]
        times = [1e3 * point.seconds for point in curve.points]
        label = f"by itself, {curve.depth} tokens deep"
        axes.plot(rows, times, "o-", color=_COLOURS[0], markersize=3.5, label=label)
        plain = [times[0], times[0] * rows[-1]]
        axes.plot([1, rows[-1]], plain, ":", color=_QUIET, label="as many plain passes")
        highest += times
    axes.scatter(
        [dot.rows for dot in dots],
        [1e3 * dot.seconds for dot in dots],
        facecolor="white",
        edgecolor=_COLOURS[1],
        zorder=3,
        label="while answering, median",
    )
    axes.set_ylim(0, 1.25 * max(highest))
    axes.set_title(title)
    axes.set_xlabel("rows: one, and one for each drafted token")
    axes.set_ylabel("milliseconds")
    axes.set_xticks([1, 2, 4, 6, 8, 10, 12, 16])
    axes.grid(axis="y")
    axes.legend(loc="lower right")
    return None


def _speed(axes: Any, report: BenchReport, temperature: float) -> None:
    """Times plain by category, a line for each, a mark for each runner."""
    title = "Times the speed of plain decoding, by category"
    rows = [
        row
        for row in report.rows
        if row.temperature == temperature and row.to_plain and row.stats.proposed
    ]
    runners = list(dict.fromkeys(row.runner for row in rows))[: len(_COLOURS)]
    categories = [ALL, *dict.fromkeys(row.category for row in rows if row.category != ALL)]
    if not runners:
        return _empty(axes, title, "nobody drafted beside plain decoding")
    for number, runner in enumerate(runners):
        offset = 0.62 * ((number + 0.5) / len(runners) - 0.5)
        for row in rows:
            if row.runner == runner:
                _mark(axes, row, categories.index(row.category) + offset, number)
        axes.plot([], [], "o", color=_COLOURS[number], markersize=5, label=runner)
    axes.axvline(1.0, color=_QUIET, linewidth=1)
    for number in range(0, len(categories), 2):
        axes.axhspan(number - 0.5, number + 0.5, color=_BAND, zorder=0)
    axes.set_ylim(len(categories) - 0.5, -0.5)
    axes.set_yticks(range(len(categories)), categories)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    axes.set_title(title)
    axes.grid(axis="x")
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.07), ncols=min(3, len(runners)))
    return None


def _mark(axes: Any, row: ResultRow, height: float, number: int) -> None:
    assert row.to_plain is not None
    over, colour = row.to_plain.prompts, _COLOURS[number]
    axes.plot([over.low, over.high], [height] * 2, color=colour, linewidth=2, alpha=0.45)
    axes.plot([over.median], [height], "o", color=colour, markersize=5)


def _lengths(axes: Any, history: DraftHistory) -> None:
    """Round after round, what was proposed and what of it was accepted; bands by category."""
    rounds = sum(len(answer.proposed) for answer in history.answers)
    width = max(1, -(-rounds // _BARS))
    proposed, accepted = (
        [mean for lengths in answers for mean in _means(lengths, width)]
        for answers in (
            [answer.proposed for answer in history.answers],
            [answer.accepted for answer in history.answers],
        )
    )
    edges = [width * i for i in range(len(proposed) + 1)]
    for lengths, colour, alpha, name in (
        (proposed, _COLOURS[1], 0.28, "drafted"),
        (accepted, _COLOURS[2], 1.0, "accepted"),
    ):
        axes.fill_between(
            edges, [*lengths, 0], step="post", color=colour, alpha=alpha, linewidth=0, label=name
        )
    groups = [
        (category, width * sum(len(_means(answer.proposed, width)) for answer in answers))
        for category, answers in groupby(history.answers, lambda answer: answer.category)
    ]
    ends = accumulate(size for _, size in groups)
    top = max(proposed, default=1) + 1
    for number, ((category, size), end) in enumerate(zip(groups, ends, strict=True)):
        if number % 2 == 0:
            axes.axvspan(end - size, end, color=_BAND, zorder=0)
        if size > 0.05 * edges[-1]:
            axes.text(end - size / 2, top, category, size=8, color=_QUIET, ha="center", va="top")
    axes.set_title(f"Draft length, round by round: {history.runner}")
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(0, top)
    axes.set_ylabel("tokens")
    axes.set_xlabel("rounds" if width == 1 else f"rounds, means of {width}")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.grid(axis="y")
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)


def _means(lengths: Sequence[int], width: int) -> list[float]:
    """The mean of every `width` lengths, and of the rest of an answer."""
    return [statistics.fmean(some) for some in batched(lengths, width)]


def _empty(axes: Any, title: str, why: str) -> None:
    axes.set_title(title)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(0.5, 0.5, why, ha="center", va="center", color=_QUIET, transform=axes.transAxes)
