"""The figures of a run, derived from its events alone: no clock, no counter of its own.

`against_plain` is the one judge of speed-ups: terminal, window, race and benchmark ask it.
"""

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from statistics import fmean, median, quantiles

from engine.events import Done, Event, Prefill, Stats, Verdict

ENOUGH_PLAIN_ROUNDS = 8
_SLACK = 1.1  # by how much clocks may be wrong
_HICCUP = 2.0  # a pass that took more than so many times the median was interrupted
_UNSTEADY = 2.0  # a third quartile of so many times the first is a load that changes
_MOST_KEPT = 64  # plain rounds whose seconds are kept


class NoRatio(Enum):
    """Why an answer is not compared with plain decoding; the value says it in words."""

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
    """`stats` with one more event counted."""
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
    """What a plain pass took near this answer: in it, where it has enough plain rounds, else also
    right behind it; None where even so there were too few.

    This is the mean without the passes that something else interrupted.
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
    """How many times as fast as plain decoding `answer` was, or why that cannot be said.

    `plain_pass` is what a plain pass took meanwhile, in seconds, in a race or a benchmark. Without
    it the answer's own plain passes count: its plain rounds, as what they take without
    interruption, so that an interruption neither adds to a speed-up nor hides one.

    A pass over a draft reads more rows than a plain one and is never cheaper. So the ratio is at
    most the tokens per pass, times the share of the time that did not go into drafting; what is
    above that was measured while the machine was busier, or hotter, than during the answer. Nor is
    there a ratio where the plain passes themselves took very different times, or other answers had
    their turns.
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
    """One more at each of the first `positions` positions."""
    longer = counts + (0,) * (positions - len(counts))
    return tuple(n + (i < positions) for i, n in enumerate(longer))


def _kept(stats: Stats, seconds: float) -> tuple[float, ...]:
    """The seconds of the plain rounds with one more: every round at first, then every second one,
    every fourth, ..., so that those which are kept are spread evenly over the answer."""
    kept = stats.plain_round_seconds
    if stats.plain % (1 << (stats.plain // _MOST_KEPT).bit_length()):
        return kept
    return (*(kept[::2] if len(kept) == _MOST_KEPT else kept), seconds)
