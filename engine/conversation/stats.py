"""The figures of a run, derived from its events alone, without a clock or a counter.

`against_plain` alone computes speed-ups, for terminal, window, race and benchmark.
"""

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from statistics import fmean, median, quantiles

from engine.events import Done, Event, Prefill, Stats, Verdict

ENOUGH_PLAIN_ROUNDS = 8
_SLACK = 1.1  # by how much clocks may be wrong
_HICCUP = 2.0  # times the median: a longer pass was interrupted
_UNSTEADY = 2.0  # third quartile / first: above this the load of the machine changed
_MOST_KEPT = 64  # plain rounds whose seconds are kept


class NoRatio(Enum):
    """The reason why an answer is not compared with plain decoding, as a text for people."""

    NOTHING_DRAFTED = "nothing was drafted"
    NOT_MEASURED = "not enough plain passes measured"
    NOT_COMPARABLE = "the load of the machine changed"
    ACCOMPANIED = "other answers were written meanwhile"


def tally(events: Iterable[Event]) -> Stats:
    """The figures of one generation, from any prefix of its events."""
    stats = Stats()
    for event in events:
        stats = update(stats, event)
    return stats


def update(stats: Stats, event: Event) -> Stats:
    """Return `stats` with one more event counted."""
    match event:
        case Prefill():
            return replace(
                stats,
                prompt_tokens=event.total,
                reused_tokens=event.reused,
                prefill_seconds=event.seconds,
            )
        case Verdict():
            return _with_verdict(stats, event)
        case Done():  # an answer that was continued has several
            measured = stats.reference_seconds + event.stats.reference_seconds
            return replace(stats, reference_seconds=measured)
        case _:
            return stats


def pass_seconds(stats: Stats) -> float | None:
    """The seconds of a plain pass near this answer; None if too few were measured.

    The mean of the answer's plain rounds, without interrupted ones. If they are too few, the
    plain passes measured right after the answer count too.
    """
    passes = _passes_near(stats)
    if len(passes) < ENOUGH_PLAIN_ROUNDS:
        return None
    longest = _HICCUP * median(passes)
    return fmean(seconds for seconds in passes if seconds <= longest)


def _passes_near(stats: Stats) -> tuple[float, ...]:
    own = stats.plain_round_seconds
    return own if len(own) >= ENOUGH_PLAIN_ROUNDS else own + stats.reference_seconds


def against_plain(answer: Stats, plain_pass: float | None = None) -> float | NoRatio:
    """The speed of `answer` as a multiple of plain decoding, or the reason why it is not known.

    `plain_pass`: the seconds of a plain pass that a race or a benchmark measured meanwhile. None:
    the answer's own plain passes count, without interruptions, so that an interruption neither
    adds to a speed-up nor hides one. Example: 100 tokens in 2.0 s, a plain pass of 0.03 s: 1.5.

    A pass over a draft reads more rows than a plain pass and is never cheaper. So the ratio is at
    most the tokens per pass, times the share of the time outside drafting. A higher ratio means
    that the machine was busier, or hotter, during the plain passes than during the answer, and is
    not shown. Nor is one shown if the plain passes took very different times, or if other answers
    had turns.
    """
    if not answer.proposed:
        return NoRatio.NOTHING_DRAFTED
    if answer.accompanied and plain_pass is None:
        return NoRatio.ACCOMPANIED
    spent = whole = answer.decode_seconds
    if plain_pass is None and (plain_pass := pass_seconds(answer)) is not None:
        low, _, high = quantiles(_passes_near(answer))
        if high > _UNSTEADY * low:
            return NoRatio.NOT_COMPARABLE
        spent += answer.plain * plain_pass - answer.plain_seconds
    length = answer.acceptance_length
    if not plain_pass or not length or spent <= 0.0:
        return NoRatio.NOT_MEASURED
    ratio = answer.committed * plain_pass / spent
    highest = length * max(0.0, whole - answer.draft_seconds) / whole
    return min(ratio, highest) if ratio <= _SLACK * highest else NoRatio.NOT_COMPARABLE


def _with_verdict(stats: Stats, verdict: Verdict) -> Stats:
    stats = replace(stats, accompanied=stats.accompanied + verdict.accompanied)
    if verdict.forced:
        return replace(
            stats,
            forced=stats.forced + len(verdict.forced),
            decode_seconds=stats.decode_seconds + verdict.seconds,
        )
    proposed, accepted = len(verdict.judgements), verdict.accepted
    origin = verdict.next.origin if verdict.next else None
    rejected, plain = len(verdict.rejected), int(origin == "plain")
    return replace(
        stats,
        rounds=stats.rounds + 1,
        proposed=stats.proposed + proposed,
        accepted=stats.accepted + accepted,
        rejected=stats.rejected + rejected,
        discarded=stats.discarded + proposed - accepted - rejected,
        corrections=stats.corrections + int(origin == "correction"),
        bonuses=stats.bonuses + int(origin == "bonus"),
        plain=stats.plain + plain,
        plain_seconds=stats.plain_seconds + plain * verdict.seconds,
        plain_round_seconds=_kept(stats, verdict.seconds)
        if plain and not verdict.edge
        else stats.plain_round_seconds,
        draft_seconds=stats.draft_seconds + verdict.draft_seconds,
        verify_seconds=stats.verify_seconds + verdict.verify_seconds,
        decode_seconds=stats.decode_seconds + verdict.seconds,
        proposed_by_position=_add(stats.proposed_by_position, verdict.tree.height),
        accepted_by_position=_add(stats.accepted_by_position, accepted),
    )


def _add(counts: tuple[int, ...], positions: int) -> tuple[int, ...]:
    """Add 1 to each of the first `positions` counts."""
    longer = counts + (0,) * (positions - len(counts))
    return tuple(n + (i < positions) for i, n in enumerate(longer))


def _kept(stats: Stats, seconds: float) -> tuple[float, ...]:
    """Add `seconds` to the kept times of plain rounds.

    Keeps every round at first, then every second, every fourth, ..., so that the kept rounds are
    spread evenly over the answer.
    """
    kept = stats.plain_round_seconds
    if stats.plain % (1 << (stats.plain // _MOST_KEPT).bit_length()):
        return kept
    return (*(kept[::2] if len(kept) == _MOST_KEPT else kept), seconds)
