"""A report as titled tables of text, the same for the console and for a Markdown file.

Pure: findings in, text out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import batched

from engine.bench.figures import Ratio
from engine.bench.findings import ALL, Findings, Lowest, Row, how

_POSITIONS = 8  # of a draft; the JSON file has them all
_CONTESTANTS = 4  # side by side
_GIB = 2**30

LEGEND = (
    "× is a speed over another's: the median over prompts, its quartiles, and Σ, all tokens by "
    "all seconds. Length: tokens per target pass. Draft, verify, accept and other are shares of "
    "the decode time; accept, judging a draft, happens within the verifying pass and was measured "
    "apart, on models that cost nothing. Bandwidth: what the target's passes read, of what this "
    "machine's memory gave a probe, in all the time and in the time of the passes alone. Peak: "
    "MLX's memory, everybody's models included. Identical: greedy answers with the tokens of "
    "slipstream plain, and @ where the first of the others differs. By category, under the name "
    "of a way of decoding: × plain, the share of drafted tokens that stood, and length."
)


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table: a heading for each column but the first, which holds names. Cells may have lines."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def headline(findings: Findings) -> str:
    """What was measured."""
    return f"{findings.target}: {findings.label}"


def machine_line(findings: Findings) -> str:
    """What it was measured on."""
    machine = findings.machine
    return (
        f"{machine.processor}, {machine.cores} cores, {machine.memory_bytes / _GIB:.0f} GiB, "
        f"{machine.matrix_library}, mlx {machine.mlx}, mlx-lm {machine.mlx_lm}, "
        f"slipstream {machine.slipstream}"
    )


def remarks(findings: Findings) -> list[str]:
    """What has to be known to read the tables, a line each."""
    lines = [f"Drafter {name}: {precision}." for name, precision in findings.drafters]
    if findings.partial:
        lines.append("Partial: stopped before all prompts were done.")
    if findings.skipped:
        lines.append(f"{findings.skipped} prompts were too long for the context and skipped.")
    lines += [f"{name} cannot run this: {message}" for name, message in findings.refused]
    lines += findings.notes
    lines += _roofline_line(findings)
    lines += _cooling_line(findings)
    if findings.peak_rss_bytes is not None:
        lines.append(f"The process had at most {findings.peak_rss_bytes / _GIB:.1f} GiB of memory.")
    return lines


def sheets(findings: Findings) -> Iterator[Sheet]:
    """All categories together, then by category, then along the draft, for each temperature."""
    for temperature in findings.temperatures:
        words = how(temperature)
        here = [row for row in findings.rows if row.temperature == temperature]
        overall = [row for row in here if row.category == ALL]
        yield _speed(overall, words)
        yield _where(overall, words)
        yield _memory(overall, words)
        for shown in batched(overall, _CONTESTANTS):
            yield _by_category(here, shown, words)
        if any(row.acceptance_by_position for row in overall):
            yield _by_position(overall, words)


def _roofline_line(findings: Findings) -> list[str]:
    roofline = findings.roofline
    if roofline is None:
        return []
    return [
        f"A pass reads {roofline.weight_bytes / 1e6:,.0f} MB of weights and, {roofline.depth} "
        f"tokens deep, {roofline.cache_bytes / 1e6:,.1f} MB of caches. The memory gives "
        f"{roofline.bandwidth.bytes_per_second / 1e9:.1f} GB/s ({roofline.bandwidth.probe}): at "
        f"most {roofline.passes_per_second:.1f} passes a second."
    ]


def _cooling_line(findings: Findings) -> list[str]:
    cooling = findings.cooling
    if cooling is None or cooling.fall is None:
        return []
    slower = f"The same short work was at most {cooling.fall:.0%} slower than at the beginning"
    if cooling.rests:
        return [f"{slower}: {cooling.rests} rests, {cooling.rest_seconds:.0f} s, let it cool down."]
    if cooling.hot:
        return [f"{slower}, as it was hot, and there was no time left to rest."]
    if cooling.hot is False:
        return [f"{slower}, and not from heat, as the system says: nobody rested."]
    return [f"{slower}; nobody rested."]


def _speed(rows: list[Row], words: str) -> Sheet:
    headings = ("tokens/s", "× plain", "Σ", "× mlx-lm", "Σ", "identical")
    return Sheet(
        f"Speed, {words}",
        headings,
        tuple(
            (
                row.contestant,
                _number(row.tokens_per_second, ".1f"),
                *_ratio(row.to_plain),
                *_ratio(row.to_mlx_lm),
                _same(row),
            )
            for row in rows
        ),
    )


def _where(rows: list[Row], words: str) -> Sheet:
    headings = ("accepted", "length", "draft", "verify", "accept", "other")
    return Sheet(
        f"Acceptance, and where the time goes, {words}",
        headings,
        tuple(
            (
                row.contestant,
                _number(row.acceptance_rate, ".0%"),
                _number(row.acceptance_length, ".2f"),
                _number(row.draft_share, ".0%"),
                _number(row.verify_share, ".0%"),
                _number(row.accept_share, ".1%"),
                _number(row.own_share, ".1%"),
            )
            for row in rows
        ),
    )


def _memory(rows: list[Row], words: str) -> Sheet:
    return Sheet(
        f"Memory, {words}",
        ("passes/s", "bandwidth", "in passes", "peak MiB"),
        tuple(
            (
                row.contestant,
                _number(_passes_per_second(row), ".1f"),
                _number(row.bandwidth_share, ".0%"),
                _number(row.pass_bandwidth_share, ".0%"),
                _number(None if row.peak_bytes is None else row.peak_bytes / 2**20, ",.0f"),
            )
            for row in rows
        ),
    )


def _by_category(rows: list[Row], overall: Sequence[Row], words: str) -> Sheet:
    """A line for each category, which may be many; then the lowest ones of each of `overall`."""
    prompts: dict[str, int] = {}
    for row in rows:
        prompts[row.category] = max(row.prompts, prompts.get(row.category, 0))
    cells = {(row.contestant, row.category): _cell(row) for row in rows}
    lines = [
        (f"{category} ({count})", *(cells.get((o.contestant, category), "–") for o in overall))
        for category, count in prompts.items()
    ]
    for name, lowest in (
        ("lowest × plain", [row.lowest_to_plain for row in overall]),
        ("lowest length", [row.lowest_length for row in overall]),
    ):
        if any(lowest):
            lines.append((name, *map(_worst, lowest)))
    return Sheet(
        f"× plain, accepted and length by category, {words}",
        tuple(row.contestant.replace(" ", "\n") for row in overall),
        tuple(lines),
    )


def _by_position(rows: list[Row], words: str) -> Sheet:
    longest = min(_POSITIONS, max(len(row.acceptance_by_position) for row in rows))
    return Sheet(
        f"Accepted by position in the draft, {words}",
        tuple(str(i + 1) for i in range(longest)),
        tuple(
            (row.contestant, *_padded(row.acceptance_by_position, longest))
            for row in rows
            if row.acceptance_by_position
        ),
    )


def _padded(shares: Sequence[float], length: int) -> list[str]:
    cells = [f"{share:.0%}" for share in shares[:length]]
    return cells + [""] * (length - len(cells))


def _passes_per_second(row: Row) -> float | None:
    return row.stats.rounds / row.stats.decode_seconds if row.stats.decode_seconds > 0 else None


def _cell(row: Row) -> str:
    speed = "–" if row.to_plain is None else f"{row.to_plain.prompts.median:.2f}×"
    if row.acceptance_rate is None:
        return speed
    return f"{speed} {row.acceptance_rate:.0%} {_number(row.acceptance_length, '.2f')}"


def _worst(lowest: Lowest | None) -> str:
    return "–" if lowest is None else f"{lowest.value:.2f}\n{lowest.category}"


def _ratio(ratio: Ratio | None) -> tuple[str, str]:
    if ratio is None:
        return "–", "–"
    over = ratio.prompts
    return f"{over.median:.2f} {over.low:.2f}–{over.high:.2f}", f"{ratio.total:.2f}"


def _same(row: Row) -> str:
    if not row.compared:
        return "–"
    first = f" @{min(row.differs_at)}" if row.differs_at else ""
    return f"{row.identical}/{row.compared}{first}"


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
