"""Computes figures from measurements: pure functions, no clock, no MLX.

A ratio of speeds is taken prompt by prompt, between answers that were written at most minutes
apart, so that a machine that slows down affects both. Median and quartiles are over prompts;
`total` weighs every token alike: all tokens / all seconds.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import zip_longest
from typing import Any

from engine.conversation.rounds import committed
from engine.conversation.stats import NoRatio, against_plain
from engine.events import Event, Origin, Stats, TokenVerdict, Verdict, WrittenToken

_OF_ONE_ANSWER = ("plain_round_seconds", "reference_seconds")


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the first and third quartile (`low`, `high`) of `count` values."""

    median: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class Ratio:
    """A speed / the baseline's: its spread over `prompts`, and the `total` over all tokens."""

    prompts: Spread
    total: float


@dataclass(frozen=True, slots=True)
class Timed:
    """An answer for a ratio: its prompt's name, its tokens and seconds. `stats`: its other figures,
    if its rounds were timed."""

    prompt: str
    tokens: int
    seconds: float
    stats: Stats | None = None


def spread_of(values: Sequence[float]) -> Spread | None:
    """Median and quartiles, interpolated within the values; None without values."""
    if not values:
        return None
    if len(values) == 1:
        return Spread(values[0], values[0], values[0], 1)
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high, len(values))


def ratio(runs: Iterable[Timed], baseline: Iterable[Timed]) -> Ratio | None:
    """The ratio over the prompts of both; a prompt's speed is the median of its repeats."""
    ours, theirs = _by_prompt(runs), _by_prompt(baseline)
    common = [prompt for prompt in ours if prompt in theirs]
    over_prompts = spread_of([_median_speed(ours[p]) / _median_speed(theirs[p]) for p in common])
    if over_prompts is None:
        return None
    total = _total_speed(ours, common) / _total_speed(theirs, common)
    return Ratio(over_prompts, total)


def comparable(runs: Iterable[Timed], plain: Iterable[Timed]) -> list[Timed]:
    """Drop runs during which the machine was less busy than during the plain answers to the same
    prompt: see `engine.conversation.stats.against_plain`."""
    passes = {prompt: 1 / _median_speed(of) for prompt, of in _by_prompt(plain).items()}
    return [
        run
        for run in runs
        if run.stats is None
        or run.prompt not in passes
        or against_plain(run.stats, passes[run.prompt]) is not NoRatio.NOT_COMPARABLE
    ]


def _by_prompt(runs: Iterable[Timed]) -> dict[str, list[Timed]]:
    by_prompt: dict[str, list[Timed]] = {}
    for run in runs:
        if run.tokens and run.seconds > 0:
            by_prompt.setdefault(run.prompt, []).append(run)
    return by_prompt


def _median_speed(runs: list[Timed]) -> float:
    return statistics.median(run.tokens / run.seconds for run in runs)


def _total_speed(runs: dict[str, list[Timed]], prompts: list[str]) -> float:
    chosen = [run for prompt in prompts for run in runs[prompt]]
    return sum(run.tokens for run in chosen) / sum(run.seconds for run in chosen)


def merge(many: Iterable[Stats]) -> Stats:
    """Add the stats of several runs: counts, seconds, and positions one by one; without the seconds
    of single rounds."""
    merged = Stats()
    for stats in many:
        sums = {
            field.name: _sum(getattr(merged, field.name), getattr(stats, field.name))
            for field in fields(Stats)
            if field.name not in _OF_ONE_ANSWER
        }
        merged = Stats(**sums)
    return merged


def _sum(left: Any, right: Any) -> Any:
    if isinstance(left, tuple):
        return tuple(a + b for a, b in zip_longest(left, right, fillvalue=0))
    return left + right


def acceptance_by_position(stats: Stats) -> tuple[float, ...]:
    """Accepted / proposed tokens at each position of a draft.

    A token falls with the tokens before it, so this sinks along the draft even if all guesses are
    equally good.
    """
    pairs = zip_longest(stats.accepted_by_position, stats.proposed_by_position, fillvalue=0)
    return tuple(accepted / proposed for accepted, proposed in pairs if proposed)


def committed_ids(events: Iterable[Event]) -> list[int]:
    """The token ids that a generation committed, from its events."""
    return [token.id for token in committed(events)]


def without_first_round(events: Iterable[Event]) -> list[Event]:
    """The events without the first verdict, so that figures are of the rounds after it."""
    rounds = 0
    kept: list[Event] = []
    for event in events:
        rounds += isinstance(event, Verdict)
        if not (isinstance(event, Verdict) and rounds == 1):
            kept.append(event)
    return kept


def verdicts_of_flags(flags: Sequence[bool], *, length: int) -> list[Verdict]:
    """The verdicts behind mlx-lm's tokens, from its flag for each: whether it was drafted.

    Every round drafts `length` tokens and ends with a token of the target's own; only the last
    round may lack it, if a drafted token ended the text. Probabilities and times are 0.
    """
    judgements = (TokenVerdict(0.0, 0.0),) * length
    verdicts: list[Verdict] = []

    def end(accepted: int, own: WrittenToken | None) -> None:
        round = len(verdicts) + 1
        verdicts.append(Verdict("", round, accepted, judgements, own, 0.0, 0.0, 0.0, ""))

    accepted = 0
    for drafted in flags:
        if drafted:
            accepted += 1
            continue
        origin: Origin = "bonus" if accepted == length else "correction"
        end(accepted, WrittenToken(0, "", 0.0, origin if length else "plain"))
        accepted = 0
    if accepted:
        end(accepted, None)
    return verdicts


def first_difference(ids: Sequence[int], reference: Sequence[int], *, limit: int) -> int | None:
    """The first of `limit` places at which the tokens differ, or one text ends; None if equal."""
    pairs = zip_longest(ids[:limit], reference[:limit])
    return next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
