"""Draft-length policies: a fixed length, a tree of fixed size, and the best measured gain.

`Automatic` chooses the drafter and the chain or tree with the most expected tokens a second
(`options.py`). Costs are counted in plain passes here, so tokens over cost is the speed-up over
plain decoding. If several generations share a pass, all are taken to do the same, and each counts
its part of the pass and its own drafting. A plain token costs less then, so drafts and their rows
gain less.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from math import exp

from engine.draft_length import (
    LONGEST,
    LONGEST_COPY,
    DraftCandidate,
    DraftChoice,
    MeasuredRound,
    Reason,
    Why,
)
from engine.draft_length.acceptance import MATCHES, Acceptance
from engine.draft_length.costs import Calibration, Costs
from engine.draft_length.options import DraftOption, chains, tree_steps, trees
from engine.draft_length.trees import MOST, best_trees


class MatchThreshold:
    """Decides how long a match must be before a copy is drafted: longer, while few are accepted."""

    SHORTEST = 2
    _DRAFTED_PER_MATCHED = 2
    _MEMORY = 0.1  # weight of the latest copy in the average of acceptance rates

    def __init__(self) -> None:
        self._rate = 0.5  # moving average over copies

    @property
    def required(self) -> int:
        """Tokens that must match now: 2 while most copies are accepted, up to 8 while few are."""
        if self._rate >= 0.5:
            return self.SHORTEST
        return 4 if self._rate >= 0.2 else 8

    def most(self, candidate: DraftCandidate) -> int:
        """Return the number of tokens of the candidate that may be drafted."""
        if candidate.match == 0:
            return candidate.most  # not a copy
        allowed = candidate.match * self._DRAFTED_PER_MATCHED
        return min(candidate.most, allowed) if candidate.match >= self.required else 0

    def observe(self, measured: MeasuredRound) -> None:
        if measured.match:
            length = measured.tree.height if measured.tree else measured.proposed
            rate = measured.accepted / max(length, 1)
            self._rate += self._MEMORY * (rate - self._rate)


class Fixed:
    """Drafts the same number of tokens in every round, if there is room, with one drafter.

    A copy is drafted only if its match passes the threshold.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._threshold = MatchThreshold()

    def choose(
        self, candidates: Sequence[DraftCandidate], *, most: int, context: int, others: int = 0
    ) -> DraftChoice:
        if self._length == 0:
            return DraftChoice(0, Reason(Why.OFF), rounds=64)
        if most <= 0:
            return DraftChoice(0, Reason(Why.NO_ROOM))
        for candidate in candidates:
            if length := min(self._length, most, self._threshold.most(candidate)):
                return self._draft(candidate, length).within(most)
        return DraftChoice(0, Reason(Why.NO_CANDIDATE), rounds=16, wake=self._threshold.required)

    def _draft(self, candidate: DraftCandidate, length: int) -> DraftChoice:
        return DraftChoice(length, Reason(Why.FIXED, length=self._length), candidate.drafter)

    def observe(self, measured: MeasuredRound) -> None:
        self._threshold.observe(measured)

    def restart(self) -> None:
        self._threshold = MatchThreshold()

    def another(self) -> "Fixed":
        return Fixed(self._length)


class FixedTree(Fixed):
    """Drafts the best tree of a fixed number of tokens, by the acceptance that was observed so far.

    A drafter that proposes chains drafts one as high as the tree would be.
    """

    _USUAL = 4  # alternatives, by which a chain is made as high as a tree

    def __init__(self, tokens: int, acceptance: Acceptance | None = None) -> None:
        super().__init__(tokens)
        self._acceptance = acceptance or Acceptance()

    def _draft(self, candidate: DraftCandidate, length: int) -> DraftChoice:
        drafter, branches = candidate.drafter, candidate.alternatives > 1
        best = best_trees(
            self._acceptance.chances(drafter, length, match=candidate.match),
            self._acceptance.by_rank(drafter, candidate.alternatives if branches else self._USUAL),
            most=self._length,
        ).tree
        tree = best if branches and not best.is_chain else None
        reason = Reason(Why.FIXED, drafter, best.height, tokens=len(best) if tree else 0)
        return DraftChoice(best.height, reason, drafter, tree=tree)

    def observe(self, measured: MeasuredRound) -> None:
        super().observe(measured)
        if measured.proposed:
            self._acceptance.observe(measured)

    def restart(self) -> None:
        super().restart()
        self._acceptance = Acceptance()

    def another(self) -> "FixedTree":
        return FixedTree(self._length, Acceptance.from_json(self._acceptance.to_json()))


class RegretBudget:
    """Limits the time that drafting may lose: to a loan, a hundredth of the time, and its gains.

    Counted in plain passes. Gains are saved up to a limit, so that drafting cannot lose in one text
    all gains of another.
    """

    _LOAN, _MOST, _ALLOWED = 1.25, 2.25, 0.01  # the last for each token
    _IN_DEBT = 1.1  # the gain that is required in debt
    _PATIENCE = 0.04  # gain that may be missing for each plain pass that is saved up

    def __init__(self) -> None:
        self._balance = self._LOAN

    def count(self, tokens: int, passes: float) -> None:
        """Count a round that committed `tokens` tokens, in the time of `passes` plain passes."""
        self._balance = min(self._balance + (1.0 + self._ALLOWED) * tokens - passes, self._MOST)

    def wait_for(self, loss: float) -> int:
        """Return how many plain tokens to wait until `loss` is allowed; 0 if it is allowed now."""
        return max(int((loss - self._balance) / self._ALLOWED), 0)

    def required_gain(self, *, parked: bool) -> float:
        """Return the least gain that is worth drafting for.

        In debt it is more than 1. While something is saved it is less than 1 for a drafter that is
        not parked: an apparent loss is often bad luck with a few tokens, and only drafting shows
        which.
        """
        if self._balance < 0.0:
            return self._IN_DEBT
        return 1.0 if parked else 1.0 - self._PATIENCE * self._balance


class Automatic:
    """Picks the drafter and length with the best expected tokens per second, or parks all drafters.

    Its estimates survive from answer to answer. Without a `calibration` it learns the costs
    from live rounds, first of drafts of one length; `acceptance` is what earlier sessions with this
    pair observed.
    """

    _AT_FIRST, _UNSURE = 3, 0.15  # tokens of a draft while its costs are more in doubt than this
    _STEADY = 0.01  # share of speed that another length or drafter must add
    _CHECK_EVERY = 4  # rounds between two plain ones that measure what plain decoding costs
    _CHECK_AT_LAST = 64  # rounds without one, however sure it is that drafting pays
    _CHECK_DOUBT = 1.5  # standard deviations
    _TREES_EVERY = 4  # rounds, while chains are drafted
    _HOPE = 1.25  # larger trees are not looked at where not even such a gain made them the best
    _RETRY_AFTER, _LONGEST_WAIT = 32, 512  # tokens until a parked drafter is tried
    _PLAIN_ROUNDS = 64
    _PROMPT_COST = 4.0  # plain passes that reading a prompt may cost a parked drafter

    def __init__(
        self, calibration: Calibration | None = None, acceptance: Acceptance | None = None
    ) -> None:
        self.calibration = calibration
        self._remembered = (acceptance or Acceptance()).to_json()
        self.restart()

    def another(self) -> "Automatic":
        other = Automatic(self.calibration, self.acceptance)
        if not (self.calibration and self.calibration.steady):
            other.costs, other._unchecked = deepcopy(self.costs), self._unchecked
            other._measured = set(self._measured)
        return other

    def restart(self) -> None:
        self.costs = Costs(self.calibration)
        self.acceptance = Acceptance.from_json(self._remembered)
        self._budget = RegretBudget()
        self._accepted: dict[str, int] = {}  # tokens of each drafter's last draft
        self._parked: dict[str, int] = {}  # tokens until each parked drafter is tried again
        self._last: DraftOption | None = None
        self._trying = ""  # the parked drafter that this round tries
        self._behind = 0  # tokens that the drafter of this round has to read first
        self._sharing = 1  # generations, the passes
        # How many share a pass, where rounds have shown what drafts cost.
        self._measured = set[int]()
        self._unmeasured = self.calibration is None
        self._unchecked = 0  # drafting rounds since the last plain one
        self._check_rounds = 1  # plain tokens that show what plain decoding costs now
        self._rounds = -1  # so that the first looks at trees
        self._end = -1  # of the text, where the policy has followed it

    def choose(
        self, candidates: Sequence[DraftCandidate], *, most: int, context: int, others: int = 0
    ) -> DraftChoice:
        self._trying, self._behind, self._sharing = "", 0, others + 1
        self._unmeasured = self.calibration is None and self._sharing not in self._measured
        self._rounds += 1
        self._follow(context)
        if most <= 0:
            return DraftChoice(0, Reason(Why.NO_ROOM))
        # 1) What each drafter could draft, with its gain.
        drafting = {each.drafter: each for each in candidates if each.most > 0}
        options = {name: self._options(each, most) for name, each in drafting.items()}
        # 2) The option with the most gain, if any gains enough.
        option = self._best(options)
        if option is not None:
            self._parked.pop(option.drafter, None)
            # 3) Unless the cost of plain decoding is in doubt: the less sure the gain is, the
            #    sooner it is measured.
            doubt = self.costs.doubt(option.drafted + 1, sharing=self._sharing)
            close = self._unmeasured or option.gain < exp(self._CHECK_DOUBT * doubt)
            if self._unchecked >= (self._CHECK_EVERY if close else self._CHECK_AT_LAST):
                return DraftChoice(0, Reason(Why.PLAIN_CHECK), rounds=self._check_rounds)
            self._last, self._behind = option, drafting[option.drafter].behind
            return _choice(option, Why.BEST_GAIN)
        # 4) Where nothing gains, a parked drafter that is due, if the budget allows it.
        due = [name for name in options if self._parked.get(name) == 0]
        if due:
            trial = min((options[name][0] for name in due), key=lambda each: each.cost)
            wait = self._budget.wait_for(trial.cost - trial.tokens)
            self._parked[trial.drafter] = min(wait, self._LONGEST_WAIT)
            if wait == 0:
                self._trying, self._behind = trial.drafter, drafting[trial.drafter].behind
                return _choice(trial, Why.PARKED_TRIAL)
        # 5) Else plain tokens, until the next one is due or a copy matches.
        for name in options:
            self._parked.setdefault(name, self._RETRY_AFTER)
        rounds = min((left for left in self._parked.values() if left), default=self._PLAIN_ROUNDS)
        reason = Reason(Why.NO_CANDIDATE)
        if options:
            gain = max(option.gain for own in options.values() for option in own)
            reason = Reason(Why.PARKED, gain=gain, rounds=rounds)
        return DraftChoice(0, reason, rounds=rounds, wake=MATCHES[0])

    def observe(self, measured: MeasuredRound) -> None:
        drafted, drafter, sharing = measured.proposed, measured.drafter, measured.others + 1
        self._end = measured.context + measured.accepted + 1
        passes = self.costs.passes(sharing=sharing, most=drafted + 1)
        if measured.edge:
            self._check_rounds = 3  # as the second shows it
        else:
            rows = measured.rows or drafted + 1
            self.costs.observe_pass(rows, measured.verify_seconds, context=measured.context)
            if self.costs.doubt(self._AT_FIRST + 1, sharing=sharing) <= self._UNSURE:
                self._measured.add(sharing)
        if not drafted:
            self._budget.count(1, 1.0)
            self._unchecked = 0
            self._parked = {name: max(left - 1, 0) for name, left in self._parked.items()}
            return
        self._unchecked += 1
        steps = tree_steps(measured.tree, passes) if measured.tree else drafted
        tree = measured.tree is not None
        draft = self.costs.draft(drafter, tree=tree)
        seconds = passes[drafted] + draft.start_seconds + steps * draft.step_seconds
        self._budget.count(measured.accepted + 1, seconds / passes[0])
        self.costs.observe_draft(
            drafter, steps, measured.draft_seconds, behind=self._behind, tree=tree
        )
        self._accepted[drafter] = measured.accepted
        self.acceptance.observe(measured)
        if drafter == self._trying:
            self._parked[drafter] = self._RETRY_AFTER

    def worth_reading(self, candidates: Sequence[DraftCandidate], *, context: int) -> bool:
        """Whether drafters should read the prompt at once, before they are asked for a draft.

        They should if one of them was not parked in the last text, or usually pays. Others read a
        long prompt only once they pay: until then reading it is part of the cost of their first
        draft.
        """
        self._follow(context)
        allowed = self._PROMPT_COST * self.costs.passes()[0]
        for each in candidates:
            if each.match or not each.most:
                continue
            read = each.behind * self.costs.draft(each.drafter).read_seconds
            if each.drafter not in self._parked or (each.behind and read <= allowed):
                return True
            once_read = self._options(replace(each, behind=0), each.most)
            if max(option.gain for option in once_read) >= self._budget.required_gain(parked=True):
                return True
        return False

    def _follow(self, context: int) -> None:
        """Begin another text if `context` is not where the last round ended."""
        if context != self._end:
            self._end = context
            self.acceptance.begin_text()

    def _options(self, candidate: DraftCandidate, most: int) -> list[DraftOption]:
        """Return a drafter's chains from one token on, and its best trees if it proposes trees."""
        drafter = candidate.drafter
        # A copy may be twice as long as the accepted part of the last one, as far as its rows pay.
        accepted = self._accepted.get(drafter, 0) if candidate.match else 0
        longest = min(max(2 * accepted, LONGEST), LONGEST_COPY)
        chances = self.acceptance.chances(
            drafter, min(most, candidate.most, longest), match=candidate.match
        )
        passes = self.costs.passes(sharing=self._sharing, most=MOST + 1)
        draft = self.costs.draft(drafter, behind=candidate.behind)
        options = chains(drafter, chances, passes, draft)
        if self._unmeasured and not candidate.match:
            required = self._budget.required_gain(parked=drafter in self._parked)
            first = options[: self._AT_FIRST]
            return first[-1:] if first[-1].gain >= required else first
        drafts_trees = self._last and self._last.trees and self._last.drafter == drafter
        look = drafts_trees or self._rounds % self._TREES_EVERY == 0
        if candidate.alternatives == 1 or not look:
            return options
        largest = min(most, MOST)
        gain = max(option.gain for option in options)
        a_second = gain / (self._HOPE * passes[0])  # the tokens that it must bring

        def enough(tokens: int, worth: float) -> bool:
            """Whether no larger tree can be better: neither a little larger nor the largest."""
            few = min(tokens + 4, largest)
            return (
                tokens >= candidate.least
                and (few - tokens) * worth <= a_second * (passes[few] - passes[tokens])
                and (largest - tokens) * worth <= a_second * (passes[largest] - passes[tokens])
            )

        later = self.acceptance.by_rank(drafter, candidate.alternatives)
        best = best_trees(chances[:LONGEST], later, most=largest, enough=enough)
        draft = self.costs.draft(drafter, behind=candidate.behind, tree=True)
        return options + trees(drafter, best, passes, draft, least=candidate.least)

    def _best(self, options: Mapping[str, Sequence[DraftOption]]) -> DraftOption | None:
        """Return the option with the most gain, or the previous round's if its gain is hardly less;
        None if nothing pays."""
        best = same = None
        for name, own in options.items():
            required = self._budget.required_gain(parked=name in self._parked)
            option = max(own, key=lambda option: option.gain)
            if option.gain >= max(required, best.gain if best else 0.0):
                best = option
            if self._last and self._last.drafter == name:
                same = next(filter(self._last.alike, own), None)
                same = same if same and same.gain >= required else None
        if best and same and best.gain * same.cost - same.tokens <= self._STEADY * best.tokens:
            return same
        return best


def _choice(option: DraftOption, why: Why) -> DraftChoice:
    tree = option.tree
    length, tokens = (tree.height, len(tree)) if tree else (option.drafted, 0)
    reason = Reason(why, option.drafter, length, option.gain, tokens=tokens)
    return DraftChoice(length, reason, option.drafter, tree=tree)
