"""Figures from measurements: pure functions, no clock, no MLX.

A ratio of speeds is taken prompt by prompt, between answers that were written minutes apart at
most, and its median and quartiles are over prompts: a machine that slows down slows all alike.
`total` weighs every token alike instead: all tokens by all seconds.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import zip_longest
from typing import Any

from engine.events import Event, Stats, Verdict
from engine.rounds import committed
from engine.stats import NoRatio, against_plain

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
    """How many times the baseline's speed: over prompts, and all tokens by all seconds."""

    prompts: Spread
    total: float


@dataclass(frozen=True, slots=True)
class RoundCounts:
    """One round: how many tokens were `proposed` and `accepted`; `own`: the target wrote one more
    itself. Seconds are 0 where they were not measured."""

    proposed: int
    accepted: int
    own: bool = True
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Timed:
    """What a ratio needs of one answer: its prompt's name, its tokens and its seconds. `stats` are
    the rest of its figures, where its rounds were timed."""

    prompt: str
    tokens: int
    seconds: float
    stats: Stats | None = None


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


def comparable(runs: Iterable[Timed], plain: Iterable[Timed]) -> list[Timed]:
    """The runs without those that were measured while the machine was less busy than during the
    plain answers to the same prompt: see `engine.stats.against_plain`."""
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


def seconds_to_go(
    answers: Sequence[Stats],
    *,
    prompts: int,
    left: Sequence[int],
    limit: int,
    elapsed_seconds: float,
) -> float:
    """An estimate of how long the rest of a benchmark takes.

    So far there are the `answers` to so many `prompts`, in so many seconds; `left` has the lengths,
    in tokens, of the prompts that are left. Reading them takes time by their tokens. All other time
    is spent writing: each is expected to take as many tokens as the mean of those so far and of one
    more that reaches the `limit`, so that a short first answer does not promise too much.
    """
    if not answers:
        return 0.0
    whole = merge(answers)
    each = len(answers) / prompts  # to one prompt
    reading = whole.prefill_seconds / max(1, whole.prompt_tokens) * each
    written = whole.committed + len(answers)  # whose first rounds no figure counts
    writing = (elapsed_seconds - whole.prefill_seconds) / written
    return reading * sum(left) + writing * (written + limit * each) / (prompts + 1) * len(left)


def merge(many: Iterable[Stats]) -> Stats:
    """The stats of several runs together: counts and seconds added, positions one by one, without
    the seconds of single rounds."""
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
    """The share of the tokens proposed at each position of a draft that was accepted.

    A token also falls with one before it, so this sinks along the draft even where each guess is
    as good as the one before.
    """
    pairs = zip_longest(stats.accepted_by_position, stats.proposed_by_position, fillvalue=0)
    return tuple(accepted / proposed for accepted, proposed in pairs if proposed)


def committed_ids(events: Iterable[Event]) -> list[int]:
    """The token ids that a generation committed, from its events."""
    return [token.id for token in committed(events)]


def without_first_round(events: Iterable[Event]) -> list[Event]:
    """The events, less the first verdict: every figure is then of the rounds after it."""
    rounds = 0
    kept: list[Event] = []
    for event in events:
        rounds += isinstance(event, Verdict)
        if not (isinstance(event, Verdict) and rounds == 1):
            kept.append(event)
    return kept


def rounds_of_events(events: Iterable[Event]) -> tuple[RoundCounts, ...]:
    """The rounds of a generation."""
    return tuple(
        RoundCounts(
            proposed=len(event.judgements),
            accepted=event.accepted,
            own=event.next is not None,
            draft_seconds=event.draft_seconds,
            verify_seconds=event.verify_seconds,
        )
        for event in events
        if isinstance(event, Verdict)
    )


def rounds_of_flags(flags: Sequence[bool], *, length: int) -> tuple[RoundCounts, ...]:
    """The rounds behind mlx-lm's tokens, from its flag for each: was it drafted?

    Every round drafts `length` tokens and ends with one of the target's own, so those count the
    target's passes; only the last round may lack it, where a drafted token ended the text.
    """
    rounds: list[RoundCounts] = []
    standing = 0
    for drafted in flags:
        if drafted:
            standing += 1
        else:
            rounds.append(RoundCounts(length, standing))
            standing = 0
    if standing:
        rounds.append(RoundCounts(length, standing, own=False))
    return tuple(rounds)


def stats_of_rounds(rounds: Sequence[RoundCounts], *, decode_seconds: float) -> Stats:
    """Stats of mlx-lm's rounds, of which only the counts are known."""
    drafting = [each for each in rounds if each.proposed]
    plain = [each for each in rounds if not each.proposed]
    proposed, accepted = (sum(getattr(s, n) for s in rounds) for n in ("proposed", "accepted"))
    corrections = sum(each.own and each.accepted < each.proposed for each in drafting)
    return Stats(
        rounds=len(rounds),
        proposed=proposed,
        accepted=accepted,
        rejected=corrections,
        discarded=proposed - accepted - corrections,
        corrections=corrections,
        bonuses=sum(each.own for each in drafting) - corrections,
        plain=len(plain),
        plain_seconds=0.0 if drafting else decode_seconds,
        decode_seconds=decode_seconds,
        proposed_by_position=_reached([each.proposed for each in rounds]),
        accepted_by_position=_reached([each.accepted for each in rounds]),
    )


def _reached(lengths: Sequence[int]) -> tuple[int, ...]:
    """How many of the lengths are above 0, above 1, ..."""
    return tuple(sum(length > i for length in lengths) for i in range(max(lengths, default=0)))


def first_difference(ids: Sequence[int], reference: Sequence[int], *, limit: int) -> int | None:
    """Where the first `limit` tokens differ, or one text ends and the other does not."""
    pairs = zip_longest(ids[:limit], reference[:limit])
    return next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
