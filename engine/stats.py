"""The figures of a run, derived from its events alone: no clock, no counter of its own."""

from collections.abc import Iterable
from dataclasses import replace

from engine.events import Event, Prefill, Stats, Verdict

ENOUGH_PLAIN_ROUNDS = 8
_SLACK = 1.1  # by how much clocks may be wrong


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
        case _:
            return stats


def ratio_to_plain(answer: Stats, reference: Stats) -> float | None:
    """How much faster `answer` was than plain rounds are here, as `reference` measured them.

    None where the answer drafted nothing, or too few plain rounds were measured. None, too, where
    it comes out above the tokens per pass: a pass over drafts is no cheaper than a plain one, so
    the machine was busier, or hotter, when the one was measured than when the other was.
    """
    speed, length = answer.tokens_per_second, answer.acceptance_length
    if not speed or not length or not answer.proposed or reference.plain < ENOUGH_PLAIN_ROUNDS:
        return None
    ratio = speed * reference.plain_seconds / reference.plain
    return min(ratio, length) if ratio < _SLACK * length else None


def _with_verdict(stats: Stats, verdict: Verdict) -> Stats:
    proposed, accepted = len(verdict.judgements), verdict.accepted
    origin = verdict.next.origin if verdict.next else None
    rejected = int(origin == "correction")
    return replace(
        stats,
        rounds=stats.rounds + 1,
        proposed=stats.proposed + proposed,
        accepted=stats.accepted + accepted,
        rejected=stats.rejected + rejected,
        discarded=stats.discarded + proposed - accepted - rejected,
        corrections=stats.corrections + rejected,
        bonuses=stats.bonuses + int(origin == "bonus"),
        plain=stats.plain + int(origin == "plain"),
        plain_seconds=stats.plain_seconds + (verdict.seconds if origin == "plain" else 0.0),
        draft_seconds=stats.draft_seconds + verdict.draft_seconds,
        verify_seconds=stats.verify_seconds + verdict.verify_seconds,
        decode_seconds=stats.decode_seconds + verdict.seconds,
        proposed_by_position=_add(stats.proposed_by_position, proposed),
        accepted_by_position=_add(stats.accepted_by_position, accepted),
    )


def _add(counts: tuple[int, ...], positions: int) -> tuple[int, ...]:
    """One more at each of the first `positions` positions."""
    longer = counts + (0,) * (positions - len(counts))
    return tuple(n + (i < positions) for i, n in enumerate(longer))
