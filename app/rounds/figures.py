"""Formats an answer's figures, from its statistics alone. Knows no Qt."""

from dataclasses import dataclass

from app.conversations.answer_figures import AnswerFigures
from engine.conversation.rounds import Round
from engine.conversation.stats import ENOUGH_PLAIN_ROUNDS, NoRatio
from engine.conversation.stats import against_plain as ratio_to_plain
from engine.draft_length import LONGEST
from engine.events import Stats

NOT_YET = "–"
_ROUNDED = 10.0  # tokens/s from which decimals say nothing
FEW_DRAFTS = 20  # with a token at a position; a share of fewer means little


@dataclass(frozen=True, slots=True)
class Figure:
    """A value, and a remark of one or two lines about it."""

    value: str
    remark: str = ""


@dataclass(frozen=True, slots=True)
class TimeShare:
    """The decoding time of one kind of work. `share` is its fraction, from 0 to 1."""

    name: str
    seconds: float
    share: float


@dataclass(frozen=True, slots=True)
class PositionAcceptance:
    """The number of drafts with a token at one position, from 1, and of accepted ones among them. A
    tree has alternatives at a position, and one of them can be accepted."""

    position: int
    proposed: int
    accepted: int

    @property
    def few(self) -> bool:
        """Whether there are too few drafts for the share to mean much."""
        return self.proposed < FEW_DRAFTS

    @property
    def rate(self) -> float:
        return self.accepted / self.proposed


def speed(stats: Stats) -> Figure:
    """Format the speed over the whole answer.

    The rate of a moment would jump to tens of thousands whenever a draft is accepted.
    """
    rate = stats.tokens_per_second
    if rate is None:
        return Figure(NOT_YET, "tokens/s")
    shown = f"{rate:.1f}" if rate < 1000 else f"{rate:,.0f}"
    return Figure(
        shown, f"tokens/s\n{count(stats.committed, 'token')} in {seconds(stats.decode_seconds)}"
    )


def against_plain(stats: Stats, *, ended: bool = True) -> Figure:
    """Format the speed-up over plain decoding. Before the answer has `ended`, it may still be
    measured."""
    ratio = ratio_to_plain(stats)
    if ratio is NoRatio.NOT_MEASURED and not ended:
        return Figure(NOT_YET, "speed against plain:\nmeasured when the answer ends")
    if isinstance(ratio, NoRatio):
        return Figure(NOT_YET, f"speed against plain:\n{ratio.value}")
    own = stats.plain >= ENOUGH_PLAIN_ROUNDS
    by = f"by {count(stats.plain, 'step')} of its own" if own else "measured right after it"
    return Figure(f"{ratio:.2f} times", f"as fast as plain decoding,\n{by}")


def guessed(stats: Stats) -> Figure:
    """Format how many tokens of the answer were accepted guesses, and of how many guesses."""
    if not stats.proposed:
        return Figure(NOT_YET, "nothing was drafted")
    of = f"tokens came free:\n{stats.accepted:,} of {count(stats.proposed, 'guess')} right"
    return Figure(f"{stats.accepted:,} of {stats.committed:,}", of)


def acceptance_length(stats: Stats) -> Figure:
    if stats.acceptance_length is None:
        return Figure(NOT_YET, "tokens a step")
    steps = f"{count(stats.committed, 'token')} in {count(stats.rounds, 'step')}"
    remark = f"tokens a step, instead of one:\n{steps}"
    if stats.forced:
        remark += f", {stats.forced:,} forced"
    return Figure(f"{stats.acceptance_length:.2f}", remark)


def draft_length(last: Round | None) -> Figure:
    """Format the last draft length, with the engine's reason for it."""
    if last is None or last.verdict is None:
        return Figure(NOT_YET, "no round yet")
    if last.verdict.forced:
        return Figure(NOT_YET, f"{count(len(last.verdict.forced), 'token')}\nforced")
    reason, drafter = last.verdict.reason, last.drafter or ""
    how = [] if drafter in reason else [f"by {drafter}"]
    how += [] if last.tree.is_chain else [f"{last.tree.height} deep"]
    return Figure(str(len(last.drafted)), f"{reason}\n{', '.join(how)}".rstrip())


def cache_reuse(stats: Stats) -> Figure:
    """Format how much of the prompt was in the cache already."""
    if not stats.prompt_tokens:
        return Figure(NOT_YET, "no prompt yet")
    read = stats.prompt_tokens - stats.reused_tokens
    remark = f"{stats.reused_tokens:,} of {count(stats.prompt_tokens, 'prompt token')} reused"
    # Before the first round it is not known how much was read.
    remark += (
        f"\n{read:,} read in {seconds(stats.prefill_seconds)}"
        if stats.rounds
        else f"\n{read:,} to read"
    )
    return Figure(percent(stats.reused_tokens / stats.prompt_tokens), remark)


def positions(stats: Stats) -> tuple[PositionAcceptance, ...]:
    """Return the acceptance at each position that drafts reached. Long copies are cut: more bars
    would have no room for their figures."""
    accepted = (*stats.accepted_by_position, *(0,) * len(stats.proposed_by_position))
    return tuple(
        PositionAcceptance(place, proposed, taken)
        for place, (proposed, taken) in enumerate(
            zip(stats.proposed_by_position[:LONGEST], accepted, strict=False), start=1
        )
        if proposed
    )


def time_split(stats: Stats) -> tuple[TimeShare, ...]:
    """Return the shares of the decoding time; empty before there is any."""
    whole = stats.decode_seconds
    if whole <= 0.0:
        return ()
    # The parts and the whole have separate clocks, so the rest could be below zero.
    parts = (
        ("drafting", stats.draft_seconds),
        ("verifying", stats.verify_seconds),
        ("other", stats.own_seconds),
    )
    total = sum(spent for _, spent in parts)
    return tuple(TimeShare(name, spent, spent / total) for name, spent in parts)


def gain(figures: AnswerFigures) -> str:
    """Format what drafting gained; empty where it gained nothing."""
    times, found = figures.times_plain, list[str]()
    if times is not None:
        if round(times, 1) <= 1.0:
            return ""
        found.append(f"{times:.1f} times as fast as plain")
    if figures.accepted:
        found.append(f"{figures.accepted:,} of {count(figures.tokens, 'token')} came free")
    return " \u00b7 ".join(found)


def answer_line(figures: AnswerFigures, *, complete: bool) -> str:
    """Format the line under an answer: the gain or loss by drafting if there is any, the figures,
    and how it ended if it is `complete`."""
    gained, times = gain(figures), figures.times_plain
    found = [gained] if gained else []
    if times is not None and round(times, 1) < 1.0:
        found.append(f"{times:.1f} times as fast as plain")
    if (speed := figures.tokens_per_second) is not None:
        found.append(f"{speed:.0f} tokens/s" if speed >= _ROUNDED else f"{speed:.1f} tokens/s")
    if not (gained and figures.accepted):
        found.append(count(figures.tokens, "token"))
    if figures.first_token_seconds is not None:
        found.append(f"first after {seconds(figures.first_token_seconds)}")
    if complete and figures.stop_reason == "stop string":
        found.append("ended at a stop sequence")
    return " \u00b7 ".join(found)


def percent(share: float) -> str:
    return f"{share:.0%}"


def seconds(spent: float) -> str:
    """Format a time with at most three digits."""
    milliseconds = spent * 1000
    if milliseconds < 99.5:
        return f"{milliseconds:.1f} ms" if 0.05 <= milliseconds < 9.95 else f"{milliseconds:.0f} ms"
    if spent < 99.95:
        return f"{spent:.2f} s" if spent < 9.995 else f"{spent:.1f} s"
    minutes, rest = divmod(round(spent), 60)
    return f"{minutes:,} min {rest:02d} s"


def count(number: int, noun: str) -> str:
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number:,} {noun if number == 1 else plural}"
