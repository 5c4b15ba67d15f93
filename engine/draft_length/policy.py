"""Two policies of the draft length: always the same, or what pays best by what was measured.

Drafting n tokens is expected to commit 1 + a_1 + a_1 a_2 + ... tokens (a_i: acceptance at
position i, given the ones before), and to take n draft steps and one pass over n + 1 rows.
`Automatic` chooses the drafter and the n with the most tokens a second. Seconds are counted in
plain passes here, so that tokens over cost is the speed-up over plain decoding.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp

from engine.draft_length import LONGEST, DraftCandidate, DraftChoice, MeasuredRound
from engine.draft_length.acceptance import MATCHES, Acceptance, expected_tokens
from engine.draft_length.costs import Calibration, Costs, DraftCosts


class MatchThreshold:
    """Which matches are worth copying from: fewer, while few copies are accepted."""

    SHORTEST = 2
    _DRAFTED_PER_MATCHED = 2
    _MEMORY = 0.1  # weight of the latest proposal in the acceptance average

    def __init__(self) -> None:
        self._acceptance = 0.5  # moving average over proposals

    @property
    def required(self) -> int:
        """How many tokens must match now: 2 while most are accepted, up to 8 while few are."""
        if self._acceptance >= 0.5:
            return self.SHORTEST
        return 4 if self._acceptance >= 0.2 else 8

    def most(self, candidate: DraftCandidate) -> int:
        """How many tokens to take of it."""
        if candidate.match == 0:
            return candidate.most  # not a copy
        allowed = candidate.match * self._DRAFTED_PER_MATCHED
        return min(candidate.most, allowed) if candidate.match >= self.required else 0

    def observe(self, measured: MeasuredRound) -> None:
        if measured.match:
            rate = measured.accepted / max(measured.proposed, 1)
            self._acceptance += self._MEMORY * (rate - self._acceptance)


class Fixed:
    """Always the same length, as far as there is room; copies only what passes the threshold."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._threshold = MatchThreshold()

    def choose(
        self, candidates: Sequence[DraftCandidate], *, most: int, context: int
    ) -> DraftChoice:
        if self._length == 0:
            return DraftChoice(0, "drafting is off", rounds=64)
        for candidate in candidates:
            length = min(self._length, most, self._threshold.most(candidate))
            if length:
                return DraftChoice(length, f"fixed at {self._length}", candidate.drafter)
        if most == 0:
            return DraftChoice(0, "no room for a draft")
        return DraftChoice(0, "nothing to draft from", rounds=16, wake=self._threshold.required)

    def observe(self, measured: MeasuredRound) -> None:
        self._threshold.observe(measured)

    def restart(self) -> None:
        self._threshold = MatchThreshold()


@dataclass(frozen=True, slots=True)
class DraftOption:
    """A draft of `length` tokens by `drafter`: `tokens` are expected, for `cost` plain passes."""

    drafter: str
    length: int
    tokens: float
    cost: float

    @property
    def gain(self) -> float:
        """How many times as fast as plain decoding."""
        return self.tokens / self.cost

    def alike(self, other: "DraftOption | None") -> bool:
        """Whether it is the same draft, whatever it is worth."""
        return other is not None and (self.drafter, self.length) == (other.drafter, other.length)


def options(
    drafter: str, chances: Sequence[float], passes: Sequence[float], draft: DraftCosts
) -> list[DraftOption]:
    """By length, from 1. `passes`: seconds of passes over 1, 2, ... rows, one more than chances."""
    made = []
    for length, tokens in enumerate(expected_tokens(chances)):
        if length:
            seconds = passes[length] + draft.start_seconds + length * draft.step_seconds
            made.append(DraftOption(drafter, length, tokens, seconds / passes[0]))
    return made


def with_stops(
    best: DraftOption, offered: Sequence[DraftOption], *, watch: float
) -> tuple[int, float]:
    """How far to go, and the chance below which to stop, where looking at each drafted token costs
    `watch` plain passes.

    One more token is worth drafting while the chance that it is accepted, that of all before it
    times its own, brings more than its time brings elsewhere. A drafter that stops where it is
    unsure may set out for more than one that cannot: three times as much.
    """
    longest = min(3 * best.length, len(offered))
    cost = (offered[longest - 1].cost - offered[0].cost) / max(longest - 1, 1) + watch
    tokens = [1.0, *(option.tokens for option in offered[:longest])]
    last = (tokens[-1] - tokens[-2]) / (tokens[-2] - tokens[-3]) if longest > 1 else tokens[-1] - 1
    return longest, min(max(best.gain, 1.0) * cost / max(last, 0.05), 1.0)


class RegretBudget:
    """What drafting may lose: a small loan, a hundredth of the time, and its own gains.

    Counted in plain passes. Gains are kept up to a limit, so that a text where drafting loses is
    not paid for with one where it won.
    """

    _LOAN, _MOST, _ALLOWED = 1.25, 2.25, 0.01  # the last for each token

    def __init__(self) -> None:
        self._balance = self._LOAN

    def count(self, tokens: int, passes: float) -> None:
        """A round brought `tokens`, for as much time as so many plain passes."""
        self._balance = min(self._balance + (1.0 + self._ALLOWED) * tokens - passes, self._MOST)

    def wait_for(self, loss: float) -> int:
        """Plain tokens until as much may be lost; 0 where it may be now."""
        return max(int((loss - self._balance) / self._ALLOWED), 0)

    @property
    def in_debt(self) -> bool:
        return self._balance < 0.0


class Automatic:
    """Drafts with whom, and as far as, pays best by what is known; parks drafters where none pays.

    What it knows survives from answer to answer. Without a `calibration` it finds out about costs
    as it goes; `acceptance` is what was seen of the pair before.
    """

    _TO_PAY, _IN_DEBT = 1.0, 1.1  # times plain decoding
    _STEADY = 0.01  # so much must be won by another length or drafter
    _CHECK_EVERY = 4  # rounds between two plain ones that are to show what plain costs
    _CHECK_AT_LAST = 64  # rounds without one, even where drafting surely pays: if it is believed to
    _CHECK_DOUBT = 1.5  # standard deviations
    _DEEPER_AFTER = 12  # rounds at a length; what is not drafted is never seen to be accepted
    _ASK_AGAIN, _LONGEST_WAIT = 32, 512  # tokens until a parked drafter is tried
    _PLAIN_ROUNDS = 64
    _LOOK = 0.003  # plain passes that a look at a drafted token may cost
    _DOUBTFUL = 0.2
    _READ_IN_VAIN = 4.0  # plain passes that reading a prompt may cost a parked drafter

    def __init__(
        self, calibration: Calibration | None = None, acceptance: Acceptance | None = None
    ) -> None:
        self.calibration = calibration
        self._remembered = acceptance.to_json() if acceptance else None
        self.restart()

    def restart(self) -> None:
        self.costs = Costs(self.calibration)
        self.acceptance = Acceptance()
        if self._remembered is not None:
            self.acceptance = Acceptance.from_json(self._remembered)
        self._parked: dict[str, int] = {}  # tokens until each one is tried again
        self._last: DraftOption | None = None
        self._trying = ""
        self._behind, self._watching = 0, False
        self._unchecked = 0  # drafting rounds since the last plain one
        self._settled, self._gap = 0, self._DEEPER_AFTER  # drafting rounds at the same length
        self._budget = RegretBudget()
        self._end = -1  # of the text, as far as it is known

    def choose(
        self, candidates: Sequence[DraftCandidate], *, most: int, context: int
    ) -> DraftChoice:
        self._trying, self._behind, self._watching = "", 0, False
        if context != self._end:
            self._end = context
            self.acceptance.begin_text()
        if most <= 0:
            return DraftChoice(0, "no room for a draft")
        passes = self.costs.passes(context)
        drafting = {each.drafter: each for each in candidates if each.most > 0}
        offers = {
            name: self._options(each, min(most, each.most, LONGEST), passes, context)
            for name, each in drafting.items()
        }
        best = self._best(offers)
        if best is not None:
            return self._draft(best, offers[best.drafter], drafting[best.drafter], context)
        return self._try(offers, drafting) or self._plain(offers, drafting)

    def observe(self, measured: MeasuredRound) -> None:
        drafted, context = measured.proposed, measured.context
        self._end = context + measured.accepted + 1
        passes = self.costs.passes(context)
        self.costs.observe_pass(drafted + 1, measured.verify_seconds, context=context)
        if not drafted:
            self._budget.count(1, 1.0)
            self._unchecked = 0
            self._parked = {name: max(left - 1, 0) for name, left in self._parked.items()}
            return
        self._unchecked += 1
        draft = self.costs.draft(measured.drafter, context=context)
        seconds = passes[min(drafted, LONGEST)] + draft.start_seconds + drafted * draft.step_seconds
        self._budget.count(measured.accepted + 1, seconds / passes[0])
        self.costs.observe_draft(
            measured.drafter,
            drafted,
            measured.draft_seconds,
            context=context,
            behind=self._behind,
            watched=self._watching,
        )
        self.acceptance.observe(
            measured.drafter,
            proposed=drafted,
            accepted=measured.accepted,
            match=measured.match,
            q=measured.q,
        )
        if self._trying and measured.drafter == self._trying:
            self._parked[self._trying] = self._ASK_AGAIN

    def worth_reading(self, candidates: Sequence[DraftCandidate], *, context: int) -> bool:
        """Whether drafters shall read what they lack of a prompt before they are asked.

        Those that do not pay wait with a long one until they do. That they would have to read it
        first is then a part of what a draft costs.
        """
        allowed = self._READ_IN_VAIN * self.costs.passes(context)[0]
        for each in candidates:
            drafts = not each.match and each.drafter not in self._parked
            read = each.behind * self.costs.draft(each.drafter, context=context).read_seconds
            if drafts or 0.0 < read <= allowed:
                return True
        return False

    def _options(
        self, candidate: DraftCandidate, most: int, passes: list[float], context: int
    ) -> list[DraftOption]:
        chances = self.acceptance.chances(candidate.drafter, most, match=candidate.match)
        draft = self.costs.draft(candidate.drafter, context=context, behind=candidate.behind)
        return options(candidate.drafter, chances, passes, draft)

    def _best(self, offers: Mapping[str, list[DraftOption]]) -> DraftOption | None:
        """What to draft: the most gain, or the same as the last time where that is hardly less.
        None where nothing pays."""
        required = self._IN_DEBT if self._budget.in_debt else self._TO_PAY
        paying = [option for each in offers.values() for option in each if option.gain >= required]
        best = max(paying, key=lambda option: option.gain, default=None)
        for option in paying:
            if best and option.alike(self._last):
                lost = best.gain * option.cost - option.tokens
                return option if lost <= self._STEADY * best.tokens else best
        return best

    def _draft(
        self,
        option: DraftOption,
        offered: list[DraftOption],
        candidate: DraftCandidate,
        context: int,
    ) -> DraftChoice:
        self._parked.pop(option.drafter, None)
        close = option.gain < exp(self._CHECK_DOUBT * self.costs.doubt(option.length + 1))
        if self._unchecked >= (self._CHECK_EVERY if close else self._CHECK_AT_LAST):
            return DraftChoice(0, "measuring what plain decoding costs by now")
        if not option.alike(self._last):
            self._settled, self._gap = 0, self._DEEPER_AFTER
        self._last, self._behind = option, candidate.behind
        self._settled += 1
        if self._settled == self._gap and option.length < len(offered):
            self._gap *= 2
            deeper = offered[option.length]
            if deeper.gain * exp(self.costs.doubt(deeper.length + 1)) >= option.gain:
                reason = f"{option.drafter}, {deeper.length} deep: does one more pay by now?"
                return DraftChoice(deeper.length, reason, option.drafter)
        choice = DraftChoice(
            option.length,
            f"{option.drafter}, {option.length} deep: {option.gain:.2f}x plain expected",
            option.drafter,
        )
        if candidate.match or not self.costs.knows(option.drafter):
            return choice
        return self._with_stops(choice, option, offered, context)

    def _with_stops(
        self, choice: DraftChoice, option: DraftOption, offered: list[DraftOption], context: int
    ) -> DraftChoice:
        """The same, but as far as the drafter is sure, where looking costs next to nothing."""
        plain = self.costs.passes(context)[0]
        watch = self.costs.draft(option.drafter, context=context).watch_seconds / plain
        longest, floor = with_stops(option, offered, watch=watch)
        if watch > self._LOOK or longest == 1:
            return choice
        self._watching = True
        deep = f"up to {longest} deep while sure"
        return replace(
            choice,
            length=longest,
            reason=f"{option.drafter}, {deep}: {option.gain:.2f}x plain expected",
            floor=floor,
            chances=self.acceptance.by_confidence(option.drafter),
        )

    def _try(
        self, offers: Mapping[str, list[DraftOption]], drafting: Mapping[str, DraftCandidate]
    ) -> DraftChoice | None:
        """One token of the cheapest parked drafter that is due, where the budget allows it."""
        due = [name for name in offers if self._parked.get(name) == 0]
        if not due:
            return None
        name = min(due, key=lambda name: offers[name][0].cost)
        option = offers[name][0]
        # Nothing is lost where it has to show what passes cost, too.
        doubtful = self.costs.doubt(option.length + 1) > self._DOUBTFUL
        wait = 0 if doubtful else self._budget.wait_for(option.cost - option.tokens)
        if wait > 0:
            self._parked[name] = min(wait, self._LONGEST_WAIT)
            return None
        self._trying, self._behind = name, drafting[name].behind
        return DraftChoice(1, f"trying whether {name} pays by now", name)

    def _plain(
        self, offers: Mapping[str, list[DraftOption]], drafting: Mapping[str, DraftCandidate]
    ) -> DraftChoice:
        for name in offers:
            if name not in self._parked:
                if not drafting[name].match:
                    self.acceptance.park(name)
                self._parked[name] = self._ASK_AGAIN
        rounds = min((left for left in self._parked.values() if left), default=self._PLAIN_ROUNDS)
        reason = "nothing to draft from"
        if offers:
            best = max(option.gain for each in offers.values() for option in each)
            reason = f"parked: drafting would cost {100 / best - 100:.0f} %"
            reason += f"; asks again in {rounds} tokens"
        return DraftChoice(0, reason, rounds=rounds, wake=MATCHES[0])
