"""Figures from measurements: pure functions, no clock, no MLX.

A ratio of speeds is taken prompt by prompt, between runs that stood minutes apart at most, and
its median and quartiles are over prompts: a machine that slows down slows all alike. `total`
weighs every token alike instead: all tokens by all seconds.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import zip_longest
from typing import Any

from engine.events import Draft, DraftedToken, Event, Stats, Verdict


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the first and third quartile (`low`, `high`) of `count` values."""

    median: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times the baseline's speed: over prompts, and all tokens by all seconds."""

    prompts: Spread
    total: float


@dataclass(frozen=True, slots=True)
class Timed:
    """What a ratio needs of one run. `prompt` names what both sides were asked."""

    prompt: str
    tokens: int
    seconds: float


def spread_of(values: Sequence[float]) -> Spread | None:
    """Median and quartiles, interpolated within the values; None of none."""
    if not values:
        return None
    if len(values) == 1:
        return Spread(values[0], values[0], values[0], 1)
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high, len(values))


def ratio(runs: Iterable[Timed], baseline: Iterable[Timed]) -> Ratio | None:
    """Over the prompts that both have; a prompt's speed is the median of its repeats."""
    ours, theirs = _by_prompt(runs), _by_prompt(baseline)
    common = [prompt for prompt in ours if prompt in theirs]
    over_prompts = spread_of([_median_speed(ours[p]) / _median_speed(theirs[p]) for p in common])
    if over_prompts is None:
        return None
    total = _total_speed(ours, common) / _total_speed(theirs, common)
    return Ratio(over_prompts, total)


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
    """The stats of several runs together: counts and seconds added, positions one by one."""
    merged = Stats()
    for stats in many:
        sums = {
            field.name: _sum(getattr(merged, field.name), getattr(stats, field.name))
            for field in fields(Stats)
        }
        merged = Stats(**sums)
    return merged


def _sum(left: Any, right: Any) -> Any:
    if isinstance(left, tuple):
        return tuple(a + b for a, b in zip_longest(left, right, fillvalue=0))
    return left + right


def acceptance_by_position(stats: Stats) -> tuple[float, ...]:
    """Of the tokens proposed at each position of a draft, the share that stood.

    A token also falls with one before it: this sinks along the draft even where each guess is
    as good as the one before.
    """
    pairs = zip_longest(stats.accepted_by_position, stats.proposed_by_position, fillvalue=0)
    return tuple(accepted / proposed for accepted, proposed in pairs if proposed)


def committed_ids(events: Iterable[Event]) -> list[int]:
    """The token ids that a generation committed, from its events."""
    ids: list[int] = []
    drafted: tuple[DraftedToken, ...] = ()
    for event in events:
        match event:
            case Draft():
                drafted = event.tokens
            case Verdict():
                ids += [token.id for token in drafted[: event.accepted]]
                ids += [event.next.id] if event.next else []
                drafted = ()
    return ids


def without_first_round(events: Iterable[Event]) -> list[Event]:
    """The events, less the first verdict: every figure is then of the rounds after it."""
    rounds = 0
    kept: list[Event] = []
    for event in events:
        rounds += isinstance(event, Verdict)
        if not (isinstance(event, Verdict) and rounds == 1):
            kept.append(event)
    return kept


def stats_of_flags(flags: Sequence[bool], *, length: int, decode_seconds: float) -> Stats:
    """Stats of mlx-lm's tokens, from its flag for each: was it drafted?

    Every round drafts `length` tokens and ends with one of the target's own, so those count the
    target's passes; only the last round may lack it, where a drafted token ended the text.
    """
    rounds: list[int] = []  # drafted tokens that stood
    standing = 0
    for drafted in flags:
        if drafted:
            standing += 1
        else:
            rounds.append(standing)
            standing = 0
    own = len(rounds)
    if standing:
        rounds.append(standing)
    corrections = sum(accepted < length for accepted in rounds[:own])
    proposed, accepted = length * len(rounds), sum(rounds)
    return Stats(
        rounds=len(rounds),
        proposed=proposed,
        accepted=accepted,
        rejected=corrections,
        discarded=proposed - accepted - corrections,
        corrections=corrections,
        bonuses=own - corrections if length else 0,
        plain=0 if length else own,
        plain_seconds=0.0 if length else decode_seconds,
        decode_seconds=decode_seconds,
        proposed_by_position=(len(rounds),) * length,
        accepted_by_position=tuple(sum(n > i for n in rounds) for i in range(length)),
    )


def first_difference(ids: Sequence[int], reference: Sequence[int], *, limit: int) -> int | None:
    """Where the first `limit` tokens differ, or one text ends and the other does not."""
    pairs = zip_longest(ids[:limit], reference[:limit])
    return next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
