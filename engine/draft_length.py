"""How many tokens to draft next, and by whom; 0 is an answer. Pure: told what happened, asked
what to do.

`Automatic` weighs what was measured. Drafting n tokens is expected to commit
1 + a_1 + a_1 a_2 + ... tokens (a_i: acceptance at position i, given the ones before), and to
take n draft steps and one pass over n + 1 rows. It chooses the n with the most tokens a second.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Protocol

from engine.acceptance import MATCHES, Acceptance
from engine.costs import Calibration, Costs
from engine.parking import Ledger, Parking
from engine.worth import Offer, Pace, with_stops
from engine.worth import offers as weigh

LONGEST = 16
_GLIMPSE = 4  # tokens of a copy that tell whether it pays


@dataclass(frozen=True, slots=True)
class Prospect:
    """What a drafter could propose now. Saying so is cheap: it asks nothing of the device.

    `most`: tokens at most. `match`: how many tokens matched, where the drafter copies; 0 where
    it does not. `behind`: committed tokens that it would have to read first, beyond the usual.
    """

    drafter: str
    most: int
    match: int = 0
    behind: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """Draft up to `length` tokens with `drafter`, for a few words of `reason`.

    With length 0, `rounds` is how many tokens to write plainly before asking again; sooner, once
    a prospect matches `wake` tokens or more (0: never). `floor`: a drafter that drafts token by
    token stops where the chance that all it has drafted stands falls below this; 0: it never
    stops, and need not wait for its tokens. `chances`: by confidence, see `chance`.
    """

    length: int
    reason: str
    drafter: str = ""
    floor: float = 0.0
    rounds: int = 1
    wake: int = 0
    chances: tuple[float, ...] = ()

    def within(self, room: int) -> "Choice":
        """The same with at most `room` tokens."""
        return self if self.length <= room else replace(self, length=max(room, 0))

    def chance(self, q: float) -> float:
        """How likely a token that was drafted with probability `q` is to stand.

        `chances` has one entry for each of as many equal parts of [0, 1]; without it, it is q.
        """
        parts = len(self.chances)
        return self.chances[min(int(q * parts), parts - 1)] if parts else q


@dataclass(frozen=True, slots=True)
class Measured:
    """What one round showed. Plain rounds have `proposed` 0 and no drafter.

    `context`: committed tokens before the round. `q`: the drafter's probability of each token.
    `asked`: the length that was chosen; where less was proposed, the drafter stopped or ran out.
    """

    proposed: int
    accepted: int
    draft_seconds: float
    verify_seconds: float
    context: int = 0
    drafter: str = ""
    match: int = 0
    q: tuple[float, ...] = ()
    asked: int = 0


class DraftLength(Protocol):
    """A policy."""

    def choose(self, prospects: Sequence[Prospect], *, most: int, context: int) -> Choice:
        """For the next round, behind `context` tokens: at most `most` tokens, of a prospect's."""

    def observe(self, measured: Measured) -> None:
        """The round is over."""

    def restart(self) -> None:
        """Another drafter from now on: forget what was measured."""


class Gate:
    """Which matches are worth copying from: the longer the less of the copies has stood lately."""

    SHORTEST = 2
    _DRAFTED_PER_MATCHED = 2
    _MEMORY = 0.1  # weight of the latest proposal in the acceptance average

    def __init__(self) -> None:
        self._acceptance = 0.5  # moving average over proposals

    @property
    def required(self) -> int:
        """How many tokens must match now: 2 while most guesses stand, up to 8 while few do."""
        if self._acceptance >= 0.5:
            return self.SHORTEST
        return 4 if self._acceptance >= 0.2 else 8

    def most(self, prospect: Prospect) -> int:
        """How many tokens to take of it."""
        if prospect.match == 0:
            return prospect.most  # not a copy
        allowed = prospect.match * self._DRAFTED_PER_MATCHED
        return min(prospect.most, allowed) if prospect.match >= self.required else 0

    def observe(self, measured: Measured) -> None:
        if measured.match:
            rate = measured.accepted / max(measured.proposed, 1)
            self._acceptance += self._MEMORY * (rate - self._acceptance)


class Fixed:
    """Always the same length, as far as there is room; copies only what passes the gate."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._gate = Gate()

    def choose(self, prospects: Sequence[Prospect], *, most: int, context: int) -> Choice:
        if self._length == 0:
            return Choice(0, "drafting is off", rounds=64)
        for prospect in prospects:
            length = min(self._length, most, self._gate.most(prospect))
            if length:
                return Choice(length, f"fixed at {self._length}", prospect.drafter)
        if most == 0:
            return Choice(0, "no room for a draft")
        return Choice(0, "nothing to draft from", rounds=16, wake=self._gate.required)

    def observe(self, measured: Measured) -> None:
        self._gate.observe(measured)

    def restart(self) -> None:
        self._gate = Gate()


class Automatic:
    """Drafts with whom, and as far as, pays best by what is known; parks where nobody pays.

    What it knows survives from answer to answer. Without a `calibration` it finds out about costs
    as it goes; `acceptance` is what was seen of the pair before.
    """

    _TO_PAY, _IN_DEBT = 1.0, 1.1  # times plain decoding
    _STEADY = 0.01  # so much of a round must be won by changing the length
    _CHECK_EVERY = 4  # rounds between two plain ones that are to show what plain costs
    _CHECK_AT_LAST = 64  # rounds without one, even where drafting surely pays: if it is believed to
    _CHECK_DOUBT = 1.5  # standard deviations
    _DEEPER_AFTER = 12  # rounds at a length; what is not drafted is never seen to stand
    _LOOK = 0.003  # plain passes that a look at a drafted token may cost
    _DOUBTFUL = 0.2
    _PLAIN_ROUNDS = 64
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
        self._pace = Pace()
        self._parking: dict[str, Parking] = {}
        self._last: Offer | None = None
        self._probing = ""
        self._behind, self._watching = 0, False
        self._unchecked = 0  # drafting rounds since the last plain one
        self._settled, self._gap = 0, self._DEEPER_AFTER  # drafting rounds at the same length
        self._copiers: set[str] = set()
        self._ledger = Ledger()
        self._end = -1  # of the text, as far as it is known

    def choose(self, prospects: Sequence[Prospect], *, most: int, context: int) -> Choice:
        self._probing, self._behind, self._watching = "", 0, False
        if context != self._end:
            self._end = context
            self.acceptance.begin()
        if most <= 0:
            return Choice(0, "no room for a draft")
        passes = self.costs.passes(context)
        drafting = {each.drafter: each for each in prospects if each.most > 0}
        offers = {
            name: self._offers(each, min(most, each.most, LONGEST), passes, context)
            for name, each in drafting.items()
        }
        self._copiers |= {each.drafter for each in prospects if each.match}
        best = self._best(offers)
        if best is not None:
            return self._draft(best, offers[best.drafter], drafting[best.drafter], context)
        probe = self._probe(offers, drafting)
        if probe is not None:
            return probe
        return self._plain(offers, drafting, passes, context)

    def observe(self, measured: Measured) -> None:
        drafted, context = measured.proposed, measured.context
        self._end = context + measured.accepted + 1
        passes = self.costs.passes(context)
        self.costs.observe_pass(drafted + 1, measured.verify_seconds, context=context)
        for name, parking in self._parking.items():
            parking.count(drafted=drafted > 0 and name == measured.drafter)
        if not drafted:
            self._pace.count(1, 1.0)
            self._ledger.count(1, 1.0)
            self._unchecked = 0
            return
        self._unchecked += 1
        draft = self.costs.draft(measured.drafter, context=context)
        seconds = passes[min(drafted, LONGEST)] + draft.start_seconds + drafted * draft.step_seconds
        self._pace.count(measured.accepted + 1, seconds / passes[0])
        self._ledger.count(measured.accepted + 1, seconds / passes[0])
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
        if self._probing and measured.drafter == self._probing:
            stood = measured.accepted == drafted
            (chance,) = self.acceptance.chances(measured.drafter, 1, match=measured.match)
            offer = Offer(measured.drafter, drafted, 1.0 + chance, seconds / passes[0])
            self._parking[measured.drafter].probed(stood=stood, loss=self._loss(offer))

    def worth_reading(self, prospects: Sequence[Prospect], *, context: int) -> bool:
        """Whether drafters shall read what they lack of a prompt before they are asked.

        Those that do not pay wait with a long one until they do. That they would have to read it
        first is then a part of what a draft costs.
        """
        allowed = self._READ_IN_VAIN * self.costs.passes(context)[0]
        for each in prospects:
            parking = self._parking.get(each.drafter)
            drafts = not each.match and (parking is None or parking.left is None)
            read = each.behind * self.costs.draft(each.drafter, context=context).read_seconds
            if drafts or 0.0 < read <= allowed:
                return True
        return False

    def _offers(
        self, prospect: Prospect, most: int, passes: list[float], context: int
    ) -> list[Offer]:
        chances = self.acceptance.chances(prospect.drafter, most, match=prospect.match)
        draft = self.costs.draft(prospect.drafter, context=context, behind=prospect.behind)
        return weigh(prospect.drafter, chances, passes, draft)

    def _loss(self, offer: Offer) -> float:
        """Plain passes that a probe would lose; none where it has to show what passes cost, too."""
        doubtful = self.costs.doubt(offer.length + 1) > self._DOUBTFUL
        return 0.0 if doubtful else offer.cost - offer.tokens

    def _best(self, offers: Mapping[str, list[Offer]]) -> Offer | None:
        """What to draft; None where nothing pays."""
        required = self._IN_DEBT if self._ledger.in_debt else self._TO_PAY
        candidates = [offer for each in offers.values() for offer in each if offer.gain >= required]
        if not candidates:
            return None
        speed = self._pace.speed(max(offer.gain for offer in candidates))
        best = max(candidates, key=lambda offer: offer.value(speed))
        for offer in candidates:
            same = self._last is not None and offer.alike(self._last)
            if same and offer.value(speed) >= best.value(speed) - self._STEADY * best.tokens:
                return offer
        return best

    def _draft(
        self, offer: Offer, offered: list[Offer], prospect: Prospect, context: int
    ) -> Choice:
        if offer.drafter in self._parking:
            self._parking[offer.drafter].resume()
        doubt = self.costs.doubt(offer.length + 1)
        close = offer.gain < exp(self._CHECK_DOUBT * doubt)
        again = self._unchecked == 0 and self.costs.puzzled
        if again or self._unchecked >= (self._CHECK_EVERY if close else self._CHECK_AT_LAST):
            return Choice(0, "measuring what plain decoding costs by now")
        if self._last is None or not offer.alike(self._last):
            self._settled, self._gap = 0, self._DEEPER_AFTER
        self._last, self._behind = offer, prospect.behind
        self._settled += 1
        if self._settled == self._gap and offer.length < len(offered):
            self._gap *= 2
            deeper = offered[offer.length]
            hoped = deeper.gain * exp(self.costs.doubt(deeper.length + 1))
            if hoped >= offer.gain:
                reason = f"{offer.drafter}, {deeper.length} deep: does one more pay by now?"
                return Choice(deeper.length, reason, offer.drafter)
        choice = Choice(
            offer.length,
            f"{offer.drafter}, {offer.length} deep: {offer.gain:.2f}x plain expected",
            offer.drafter,
        )
        if prospect.match or not self.costs.knows(offer.drafter):
            return choice
        return self._with_stops(choice, offer, offered, context)

    def _with_stops(
        self, choice: Choice, offer: Offer, offered: list[Offer], context: int
    ) -> Choice:
        """The same, but as far as the drafter is sure, where looking costs next to nothing."""
        plain = self.costs.passes(context)[0]
        watch = self.costs.draft(offer.drafter, context=context).watch_seconds / plain
        if watch > self._LOOK:
            return choice
        speed = self._pace.speed(offer.gain)
        longest, floor = with_stops(offer, offered, speed=speed, watch=watch)
        if longest == 1:
            return choice
        self._watching = True
        deep = f"up to {longest} deep while sure"
        return replace(
            choice,
            length=longest,
            reason=f"{offer.drafter}, {deep}: {offer.gain:.2f}x plain expected",
            floor=floor,
            chances=self.acceptance.by_confidence(offer.drafter),
        )

    def _probe(
        self, offers: Mapping[str, list[Offer]], drafting: Mapping[str, Prospect]
    ) -> Choice | None:
        """A short draft of the cheapest that is due."""
        due = [name for name in offers if name in self._parking and not self._parking[name].left]
        if not due:
            return None
        name = min(due, key=lambda name: offers[name][0].cost)
        wait = self._ledger.wait_for(self._loss(offers[name][0]))
        if wait > 0:
            self._parking[name].postpone(wait)
            return None
        self._probing, self._behind = name, drafting[name].behind
        return Choice(1, f"probing whether {name} pays by now", name)

    def _plain(
        self,
        offers: Mapping[str, list[Offer]],
        drafting: Mapping[str, Prospect],
        passes: list[float],
        context: int,
    ) -> Choice:
        for name, each in offers.items():
            parking = self._parking.setdefault(name, Parking())
            if parking.left is None:
                if not drafting[name].match:
                    self.acceptance.settle(name)
                parking.park(self._loss(each[0]))
        rounds = min(
            (parking.left for parking in self._parking.values() if parking.left),
            default=self._PLAIN_ROUNDS,
        )
        reason = "nothing to draft from"
        if offers:
            best = max((offer for each in offers.values() for offer in each), key=lambda o: o.gain)
            reason = f"parked: drafting would cost {100 / best.gain - 100:.0f} %"
            reason += f"; asks again in {rounds} tokens"
        return Choice(0, reason, rounds=rounds, wake=self._wake(passes, context))

    def _wake(self, passes: list[float], context: int) -> int:
        """How long a match must be to be worth copying."""
        least = MATCHES[-1] if self._copiers else MATCHES[0]
        for name in self._copiers:
            parking = self._parking.get(name)
            if parking is None or not parking.left:
                return MATCHES[0]
            for match in MATCHES:
                prospect = Prospect(name, _GLIMPSE, match)
                each = self._offers(prospect, _GLIMPSE, passes, context)
                if max(offer.gain for offer in each) >= self._TO_PAY:
                    least = min(least, match)
                    break
        return least
