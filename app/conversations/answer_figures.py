"""The figures of an answer, stored with it so that they can be shown without its trace.

Computed once from its events, when it has ended. Knows events; no SQL.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from engine.conversation.stats import NoRatio, against_plain, update
from engine.events import Done, Event, Failed, Prefill, Stats, Text, Verdict

StopReason = Literal["end", "stop string", "length", "cancelled", "failed", ""]
"""`end`: the model ended the text itself. Empty where the last event is missing."""


@dataclass(frozen=True, slots=True)
class AnswerFigures:
    """`tokens` were committed in `decode_seconds`. `first_token_seconds` is from the beginning of
    the prefill to the first text; None if no round gave any. `left_out` messages, from number
    `left_out_from` on (from 0, with the system prompt), were not in the prompt.

    `rounds` is the number of passes of the target, `times_plain` the speed as a multiple of plain
    decoding, and `accepted` the number of accepted drafted tokens; 0 and None if they are not
    known, as for answers of earlier versions."""

    tokens: int
    decode_seconds: float
    first_token_seconds: float | None
    stop_reason: StopReason
    left_out_from: int = 0
    left_out: int = 0
    rounds: int = 0
    times_plain: float | None = None
    accepted: int = 0

    @property
    def tokens_per_second(self) -> float | None:
        """The speed over the whole answer without the prefill; None if no time was measured."""
        return self.tokens / self.decode_seconds if self.decode_seconds > 0 else None


def figures_of(events: Iterable[Event]) -> AnswerFigures | None:
    """Return the figures of an answer with these events; None without a verdict."""
    stats = Stats()
    tokens, decode_seconds, prefill_seconds = 0, 0.0, 0.0
    first: float | None = None
    reason: StopReason = ""
    gap = (0, 0)
    for event in events:
        stats = update(stats, event)
        match event:
            case Prefill():
                prefill_seconds = event.seconds
                gap = (event.left_out_from, event.left_out)
            case Verdict():
                tokens += event.accepted + (event.next is not None) + len(event.forced)
                decode_seconds += event.seconds
            case Text():
                # Text before all rounds belongs to the answer that this one continues.
                if first is None and tokens and event.delta:
                    first = prefill_seconds + decode_seconds
            case Done():
                reason = _reason(event)
            case Failed():
                reason = "failed"
    if not tokens:
        return None
    ratio = against_plain(stats)
    times = None if isinstance(ratio, NoRatio) else ratio
    ended = tokens, decode_seconds, first, reason
    return AnswerFigures(*ended, *gap, stats.rounds, times, stats.accepted)


def _reason(done: Done) -> StopReason:
    if done.reason == "stop":
        return "stop string" if done.cut else "end"
    return done.reason
