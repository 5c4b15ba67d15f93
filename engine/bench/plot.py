"""A report as one picture: what passes cost, how far ahead was drafted, and what came of it.

matplotlib is an optional extra: nothing else imports this module's half of it. Draws figures that
`report` already holds; computes none.
"""

import importlib
import re
import statistics
from collections.abc import Sequence
from itertools import accumulate, batched, groupby
from pathlib import Path
from typing import Any

from engine.bench.report import ALL, BenchReport, DraftHistory, ResultRow, temperature_words
from models.errors import Problem

_INK, _QUIET, _GRID = "#1f2328", "#6e7781", "#d8dee4"
_BAND = "#f6f8fa"
# Told apart by people who see colours differently, too (Okabe and Ito).
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_SHOWN = len(_COLOURS)
_BARS = 360  # more would be thinner than the eye sees
_HEADER, _FOOTER = 0.72, 0.34  # inches
_AUTOMATIC = re.compile(r" auto( block| token)?$")  # its length, not its drafter
_STYLE = {
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": _INK,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _QUIET,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "xtick.color": _QUIET,
    "ytick.color": _QUIET,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.facecolor": "white",
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
    histories = [
        history for history in report.draft_histories if history.temperature == temperature
    ]
    shown = _most_telling(histories)
    categories = len({row.category for row in report.rows})
    heights = [max(3.4, 0.42 * categories), *([1.6] * max(1, len(shown)))]
    height = sum(heights) + _HEADER + _FOOTER
    figure = figures.Figure(figsize=(11, height), layout="constrained")
    inside = (0.01, _FOOTER / height, 0.98, 1 - (_HEADER + _FOOTER) / height)
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.09, rect=inside)
    grid = figure.add_gridspec(len(heights), 2, height_ratios=heights, width_ratios=(5, 7))
    _cost(figure.add_subplot(grid[0, 0]), report)
    _speed(figure.add_subplot(grid[0, 1]), report, temperature)
    for number, history in enumerate(shown, 1):
        _lengths(figure.add_subplot(grid[number, :]), history)
    if not shown:
        _empty(figure.add_subplot(grid[1, :]), "Draft length", "nobody drafted")
    top = 1 - 0.16 / height
    figure.text(0.02, top, f"{report.target}: {report.label}", size=13, weight="bold", va="top")
    machine = report.machine
    under = (
        f"{machine.processor}, {machine.cores} cores · mlx {machine.mlx} · "
        f"{temperature_words(temperature)} · {report.date[:10]}"
        + (" · partial" if report.partial else "")
    )
    figure.text(0.02, top - 0.27 / height, under, size=9, color=_QUIET, va="top")
    figure.text(
        0.02,
        0.1 / height,
        "Measured side by side in one run. Speed-up: median over prompts, lines from first to third"
        " quartile.",
        size=8,
        color=_QUIET,
    )
    return figure


def _most_telling(histories: Sequence[DraftHistory]) -> list[DraftHistory]:
    """Two whose length was chosen round by round; where there is none, one of the others."""
    chosen = [history for history in histories if _AUTOMATIC.search(history.runner)]
    return chosen[:2] or list(histories[:1])


def _cost(axes: Any, report: BenchReport) -> None:
    """Passes by rows, in milliseconds: measured apart as a line, while answering as dots."""
    title = "What a pass costs, by its rows"
    curve = report.curve
    dots = [dot for dot in report.passes if dot.count >= 3]
    if curve is None and not dots:
        return _empty(axes, title, "not measured")
    if curve is not None:
        rows = [point.rows for point in curve.points]
        line = [1e3 * point.seconds for point in curve.points]
        axes.plot(
            rows,
            line,
            color=_COLOURS[0],
            linewidth=2,
            marker="o",
            markersize=3.5,
            label=f"by itself, {curve.depth} tokens deep",
        )
        one = line[0]
        axes.plot(
            [1, rows[-1]],
            [one, one * rows[-1]],
            color=_QUIET,
            linewidth=1,
            linestyle=(0, (2, 3)),
            label="as many plain passes",
        )
        axes.set_ylim(0, 1.25 * max(line))
    if dots:
        axes.scatter(
            [dot.rows for dot in dots],
            [1e3 * dot.seconds for dot in dots],
            s=30,
            facecolor="white",
            edgecolor=_COLOURS[1],
            linewidth=1.5,
            zorder=3,
            label="while answering, median",
        )
        axes.set_ylim(0, max(axes.get_ylim()[1], 1.25 * 1e3 * max(dot.seconds for dot in dots)))
    axes.set_title(title)
    axes.set_xlabel("rows: one, and one for each drafted token")
    axes.set_ylabel("milliseconds")
    axes.grid(axis="y")
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.17), ncols=2, handlelength=1.6)
    axes.set_xticks([1, 2, 4, 6, 8, 10, 12, 16])
    return None


def _speed(axes: Any, report: BenchReport, temperature: float) -> None:
    """Times plain by category, a row for each, a mark for each runner."""
    title = "Times the speed of plain decoding, by category"
    rows = [
        row
        for row in report.rows
        if row.temperature == temperature and row.to_plain and row.stats.proposed
    ]
    runners = list(dict.fromkeys(row.runner for row in rows))[:_SHOWN]
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
    axes.tick_params(axis="y", labelcolor=_INK)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    axes.set_title(title)
    axes.grid(axis="x")
    columns = min(3, len(runners))
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.07), ncols=columns, handletextpad=0.2)
    return None


def _mark(axes: Any, row: ResultRow, height: float, number: int) -> None:
    assert row.to_plain is not None
    over, colour = row.to_plain.prompts, _COLOURS[number]
    axes.plot([over.low, over.high], [height] * 2, color=colour, linewidth=2, alpha=0.45)
    axes.plot([over.median], [height], "o", color=colour, markersize=5)


def _lengths(axes: Any, history: DraftHistory) -> None:
    """Round after round, what was proposed and what of it stood; bands by category."""
    width = max(1, -(-sum(len(part.proposed) for part in history.answers) // _BARS))
    parts = [
        (p.category, _means(p.proposed, width), _means(p.accepted, width)) for p in history.answers
    ]
    proposed = [length for _, lengths, _ in parts for length in lengths]
    accepted = [length for _, _, lengths in parts for length in lengths]
    edges = [width * i for i in range(len(proposed) + 1)]
    for lengths, colour, alpha, name in (
        (proposed, _COLOURS[1], 0.28, "drafted"),
        (accepted, _COLOURS[2], 1.0, "accepted"),
    ):
        axes.fill_between(
            edges, [*lengths, 0], step="post", color=colour, alpha=alpha, linewidth=0, label=name
        )
    top = max(proposed, default=1) + 1
    groups = [(name, list(group)) for name, group in groupby(parts, lambda part: part[0])]
    ends = list(accumulate(width * sum(len(part[1]) for part in group) for _, group in groups))
    for number, ((name, _), end) in enumerate(zip(groups, ends, strict=True)):
        start = ends[number - 1] if number else 0
        if number % 2 == 0:
            axes.axvspan(start, end, color=_BAND, zorder=0)
        if end - start > 0.05 * ends[-1]:
            axes.text(
                (start + end) / 2,
                top * 1.02,
                name,
                size=8,
                color=_QUIET,
                ha="center",
                va="bottom",
                clip_on=False,
            )
    axes.set_title(f"Draft length, round by round: {history.runner}", pad=18)
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(0, top)
    axes.set_ylabel("tokens")
    axes.set_xlabel("rounds" if width == 1 else f"rounds, means of {width}", labelpad=2)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.grid(axis="y")
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.1), ncols=2, handlelength=1.2)


def _means(lengths: Sequence[int], width: int) -> list[float]:
    """Of every `width` lengths their mean, of the rest of an answer too."""
    return [statistics.fmean(some) for some in batched(lengths, width)]


def _empty(axes: Any, title: str, why: str) -> None:
    axes.set_title(title)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(0.5, 0.5, why, ha="center", va="center", color=_QUIET, transform=axes.transAxes)
