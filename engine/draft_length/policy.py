"""Draft-length policies: a fixed length, a tree of fixed size, and what has the best measured gain.

`Automatic` chooses the drafter and the chain or tree with the most expected tokens a second
(`options.py`). Costs are counted in plain passes here, so that tokens over cost is the speed-up
over plain decoding. Where several generations share their passes, each counts its part of one in
which all do the same, and its own drafting: a plain token costs less there, so that drafts and
their rows are dearer beside it.
"""

from collections.abc import Mapping, Sequence
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
from engine.draft_length.options import (
    DraftOption,
    DraftOptions,
    draft_options,
    tree_options,
    tree_steps,
    with_stops,
)
from engine.draft_length.trees import MOST, BestTrees, best_trees

_HOPE = 1.25  # larger trees are not thought of where not even such a gain would make them the best


class MatchThreshold:
    """How many tokens must match before a copy is drafted: more, while few copies are accepted."""

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
        """How many tokens of the candidate may be drafted."""
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
    """The same length in every round, as far as there is room for it, by one drafter.

    Copies only where the match passes the threshold.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._threshold = MatchThreshold()

    def choose(
        self, candidates: Sequence[DraftCandidate], *, most: int, context: int, beside: int = 0
    ) -> DraftChoice:
        if self._length == 0:
            return DraftChoice(0, Reason(Why.OFF), rounds=64)
        for candidate in candidates:
            length = min(self._length, most, self._threshold.most(candidate))
            if length:
                return DraftChoice(
                    length, Reason(Why.FIXED, length=self._length), candidate.drafter
                )
        if most == 0:
            return DraftChoice(0, Reason(Why.NO_ROOM))
        return DraftChoice(0, Reason(Why.NO_CANDIDATE), rounds=16, wake=self._threshold.required)

    def observe(self, measured: MeasuredRound) -> None:
        self._threshold.observe(measured)

    def restart(self) -> None:
        self._threshold = MatchThreshold()

    def another(self) -> "Fixed":
        return Fixed(self._length)


class FixedTree:
    """The best tree of as many tokens in every round, by the acceptance that was observed so far.

    A drafter that proposes chains drafts one as high as the tree would be. Copies only where the
    match passes the threshold.
    """

    _USUAL = 4  # alternatives, by which a chain is made as high as a tree

    def __init__(self, tokens: int, acceptance: Acceptance | None = None) -> None:
        self._tokens = tokens
        self._acceptance = acceptance or Acceptance()
        self._threshold = MatchThreshold()

    def choose(
        self, candidates: Sequence[DraftCandidate], *, most: int, context: int, beside: int = 0
    ) -> DraftChoice:
        room = min(most, self._tokens)
        for candidate in candidates:
            if min(room, self._threshold.most(candidate)):
                return self._draft(candidate, room).within(most)
        if most <= 0:
            return DraftChoice(0, Reason(Why.NO_ROOM))
        return DraftChoice(0, Reason(Why.NO_CANDIDATE), rounds=16, wake=self._threshold.required)

    def _draft(self, candidate: DraftCandidate, room: int) -> DraftChoice:
        drafter, branches = candidate.drafter, candidate.alternatives > 1
        best = self._best(candidate, room).tree
        tree = best if branches and not best.is_chain else None
        reason = Reason(Why.FIXED, drafter, best.height, tokens=len(tree.parents) if tree else 0)
        return DraftChoice(best.height, reason, drafter, tree=tree)

    def _best(self, candidate: DraftCandidate, room: int) -> BestTrees:
        """The best trees by one drafter, no higher than there is room for and it can propose."""
        drafter, highest = candidate.drafter, min(room, self._threshold.most(candidate))
        alternatives = candidate.alternatives if candidate.alternatives > 1 else self._USUAL
        return best_trees(
            self._acceptance.chances(drafter, highest, match=candidate.match),
            self._acceptance.by_rank(drafter, alternatives),
            most=self._tokens,
        )

    def observe(self, measured: MeasuredRound) -> None:
        self._threshold.observe(measured)
        if measured.proposed:
            self._acceptance.observe(
                measured.drafter,
                proposed=measured.proposed,
                accepted=measured.accepted,
                match=measured.match,
                tree=measured.tree,
                path=measured.path,
            )

    def restart(self) -> None:
        self._acceptance, self._threshold = Acceptance(), MatchThreshold()

    def another(self) -> "FixedTree":
        return FixedTree(self._tokens, Acceptance.from_json(self._acceptance.to_json()))


class RegretBudget:
    """How much time drafting may lose: a small loan, a hundredth of the time, and its own gains.

    Counted in plain passes. Gains are saved up to a limit, so that drafting cannot lose in one text
    what it gained in another.
    """

    _LOAN, _MOST, _ALLOWED = 1.25, 2.25, 0.01  # the last for each token
    _IN_DEBT = 1.1  # the gain that is required in debt
    _PATIENCE = 0.04  # gain that may be missing for each plain pass that is saved up

    def __init__(self) -> None:
        self._balance = self._LOAN

    def count(self, tokens: int, passes: float) -> None:
        """A round committed `tokens` and took as long as `passes` plain passes."""
        self._balance = min(self._balance + (1.0 + self._ALLOWED) * tokens - passes, self._MOST)

    def wait_for(self, loss: float) -> int:
        """How many plain tokens to wait before `loss` is allowed; 0 where it is allowed now."""
        return max(int((loss - self._balance) / self._ALLOWED), 0)

    def required_gain(self, *, parked: bool) -> float:
        """The least gain that is worth drafting for.

        In debt, more than 1. Less for a drafter that is not parked, while something is saved: what
        looks like a loss is often bad luck with a few tokens, and only drafting shows which.
        """
        if self._balance < 0.0:
            return self._IN_DEBT
        return 1.0 if parked else 1.0 - self._PATIENCE * self._balance


class Automatic:
    """Picks the drafter and length with the best expected tokens per second, or parks all drafters.

    What it has learned survives from answer to answer. Without a `calibration` it learns the costs
    from live rounds; `acceptance` is what earlier sessions with this pair observed.
    """

    _STEADY = 0.01  # share of speed that another length or drafter must add
    _CHECK_EVERY = 4  # rounds between two plain ones that measure what plain decoding costs
    _CHECK_AT_LAST = 64  # rounds without one, however sure it is that drafting pays
    _CHECK_DOUBT = 1.5  # standard deviations
    _LONGER_AFTER = 12  # rounds at a length; what is never drafted is never accepted
    _TREES_EVERY = 4  # rounds, while chains are drafted
    _RANK_DOUBT = 0.1  # how far the gain of a tree is in doubt for its alternatives
    _RETRY_AFTER, _LONGEST_WAIT = 32, 512  # tokens until a parked drafter is tried
    _PLAIN_ROUNDS = 64
    _WATCH_COST = 0.003  # plain passes that a look at a drafted token may cost
    _PROMPT_COST = 4.0  # plain passes that reading a prompt may cost a parked drafter

    def __init__(
        self, calibration: Calibration | None = None, acceptance: Acceptance | None = None
    ) -> None:
        self.calibration = calibration
        self._remembered = acceptance.to_json() if acceptance else None
        self.restart()

    def another(self) -> "Automatic":
        return Automatic(self.calibration, self.acceptance)

    def restart(self) -> None:
        self.costs = Costs(self.calibration)
        self.acceptance = Acceptance()
        if self._remembered is not None:
            self.acceptance = Acceptance.from_json(self._remembered)
        self._stood: dict[str, int] = {}  # tokens of each copier's last draft that were accepted
        self._parked: dict[str, int] = {}  # tokens until each parked drafter is tried again
        self._last: DraftOption | None = None
        self._asked: DraftOption | None = None
        self._trying = ""
        self._behind, self._watching = 0, False
        self._sharing = 1  # generations, the passes
        self._unchecked = 0  # drafting rounds since the last plain one
        self._check_rounds = 1  # plain tokens that show what plain decoding costs now
        self._same, self._gap = 0, self._LONGER_AFTER  # drafting rounds at the same length
        self._trials = 0  # of what shows more
        self._rounds = -1  # so that the first looks at trees
        self._budget = RegretBudget()
        self._end = -1  # of the text, where the policy has followed it

    def choose(
        self, candidates: Sequence[DraftCandidate], *, most: int, context: int, beside: int = 0
    ) -> DraftChoice:
        self._trying, self._behind, self._watching = "", 0, False
        self._asked, self._sharing = None, beside + 1
        self._rounds += 1
        self._follow(context)
        if most <= 0:
            return DraftChoice(0, Reason(Why.NO_ROOM))
        drafting = {each.drafter: each for each in candidates if each.most > 0}
        options = {name: self._options(each, most, context) for name, each in drafting.items()}
        best = self._best(options)
        if best is not None:
            return self._draft(best, options, drafting[best.drafter], context)
        return self._try(options, drafting) or self._plain(options)

    def observe(self, measured: MeasuredRound) -> None:
        drafted, context, sharing = measured.proposed, measured.context, measured.beside + 1
        self._end = context + measured.accepted + 1
        tree, passes = measured.tree is not None, list[float]()
        if drafted:
            passes = self.costs.passes(context, sharing=sharing, most=drafted + 1, trees=tree)
        rows, seconds = measured.rows or drafted + 1, measured.verify_seconds
        if measured.edge:
            self._check_rounds = 3  # of which the second shows it
        else:
            self.costs.observe_pass(rows, seconds, context=context, sharing=sharing, tree=tree)
        if not drafted:
            self._budget.count(1, 1.0)
            self._unchecked = 0
            self._parked = {name: max(left - 1, 0) for name, left in self._parked.items()}
            return
        self._unchecked += 1
        steps = tree_steps(measured.tree, passes) if measured.tree else drafted
        draft = self.costs.draft(measured.drafter, context=context, tree=tree)
        seconds = passes[drafted] + draft.start_seconds + steps * draft.step_seconds
        self._budget.count(measured.accepted + 1, seconds / passes[0])
        self.costs.observe_draft(
            measured.drafter,
            steps,
            measured.draft_seconds,
            context=context,
            behind=self._behind,
            watched=self._watching,
            tree=tree,
        )
        self._stood[measured.drafter] = measured.accepted
        self.acceptance.observe(
            measured.drafter,
            proposed=drafted,
            accepted=measured.accepted,
            match=measured.match,
            q=measured.q,
            tree=measured.tree,
            path=measured.path,
        )
        asked = self._asked
        if (
            asked
            and asked.branches
            and (asked.drafter, asked.drafted) == (measured.drafter, drafted)
        ):
            expected = asked.tokens - 1.0
            self.acceptance.observe_tree(
                measured.drafter, expected=expected, accepted=measured.accepted
            )
        if self._trying and measured.drafter == self._trying:
            self._parked[self._trying] = self._RETRY_AFTER

    def worth_reading(self, candidates: Sequence[DraftCandidate], *, context: int) -> bool:
        """Whether drafters should read the prompt at once, before they are asked for a draft.

        Those do that were not parked in the last text, and those that usually pay. Others read a
        long prompt only once they pay: until then it is a part of what their first draft costs.
        """
        self._follow(context)
        allowed = self._PROMPT_COST * self.costs.passes(context)[0]
        required = self._budget.required_gain(parked=True)
        for each in candidates:
            if each.match or not each.most:
                continue
            read = each.behind * self.costs.draft(each.drafter, context=context).read_seconds
            if each.drafter not in self._parked or 0.0 < read <= allowed:
                return True
            once_read = self._options(replace(each, behind=0), each.most, context)
            if max(gain for options in once_read for gain in options.gains) >= required:
                return True
        return False

    def _follow(self, context: int) -> None:
        """Notice where another text begins."""
        if context != self._end:
            self._end = context
            self.acceptance.begin_text()

    def _options(
        self, candidate: DraftCandidate, most: int, context: int
    ) -> tuple[DraftOptions, ...]:
        """A drafter's chains, and its trees where it proposes any."""
        drafter, behind = candidate.drafter, candidate.behind
        # A copy may be twice as long as what stood of the last one, as far as its rows pay.
        stood = self._stood.get(drafter, 0) if candidate.match else 0
        longest = min(max(2 * stood, LONGEST), LONGEST_COPY)
        highest = min(most, candidate.most, longest)
        chances = self.acceptance.chances(drafter, highest, match=candidate.match)
        passes = self.costs.passes(context, sharing=self._sharing, most=MOST + 1)
        draft = self.costs.draft(drafter, context=context, behind=behind)
        chains = draft_options(drafter, chances, passes, draft)
        last, largest, least = self._last, min(most, MOST), candidate.least
        if last and last.branches and last.drafter == drafter:
            least = max(least, 2 * last.drafted)  # which may be tried
        elif self._rounds % self._TREES_EVERY and self._same + 1 != self._gap:
            return (chains,)
        if candidate.alternatives == 1:
            return (chains,)
        share = self.acceptance.share_of_trees(drafter)
        passes = self.costs.passes(context, sharing=self._sharing, most=MOST + 1, trees=True)
        each = max(chains.gains) / (_HOPE * share * passes[0])  # what a second must bring

        def enough(tokens: int, worth: float) -> bool:
            """No larger tree can be better: neither a little larger nor the largest."""
            more, rest = min(4, largest - tokens), largest - tokens
            return tokens >= least and (
                more * worth <= each * (passes[tokens + more] - passes[tokens])
                and rest * worth <= each * (passes[largest] - passes[tokens])
            )

        later = self.acceptance.by_rank(drafter, candidate.alternatives)
        best = best_trees(chances[:LONGEST], later, most=largest, enough=enough).times(share)
        draft = self.costs.draft(drafter, context=context, behind=behind, tree=True)
        return chains, tree_options(drafter, best, passes, draft, least=candidate.least)

    def _doubt(self, option: DraftOption) -> float:
        """How far what its pass costs, in plain ones, is in doubt."""
        return self.costs.doubt(option.drafted + 1, sharing=self._sharing)

    def _best(self, options: Mapping[str, Sequence[DraftOptions]]) -> DraftOption | None:
        """The option with the most gain, or the last one where its gain is hardly less; None where
        nothing pays."""
        last, best, same = self._last, None, None
        for name, kinds in options.items():
            required = self._budget.required_gain(parked=name in self._parked)
            for each in kinds:
                option = each.best
                if option and option.gain >= max(required, best.gain if best else 0.0):
                    best = option
                option = each.of(last.drafted) if last else None
                if option and option.alike(last) and option.gain >= required:
                    same = option
        if best and same and best.gain * same.cost - same.tokens <= self._STEADY * best.tokens:
            return same
        return best

    def _draft(
        self,
        option: DraftOption,
        options: Mapping[str, Sequence[DraftOptions]],
        candidate: DraftCandidate,
        context: int,
    ) -> DraftChoice:
        self._parked.pop(option.drafter, None)
        close = option.gain < exp(self._CHECK_DOUBT * self._doubt(option))
        if self._unchecked >= (self._CHECK_EVERY if close else self._CHECK_AT_LAST):
            return DraftChoice(0, Reason(Why.PLAIN_CHECK), rounds=self._check_rounds)
        if not option.alike(self._last):
            self._same, self._gap = 0, self._LONGER_AFTER
        self._last, self._behind = option, candidate.behind
        self._same += 1
        if self._same == self._gap and (more := _more(option, options[option.drafter])):
            self._gap *= 2
            if trial := self._trial(option, more):
                return trial
        choice = self._choice(option, Why.BEST_GAIN)
        if option.branches or candidate.match or not self.costs.knows(option.drafter):
            return choice
        return self._with_stops(choice, option, options[option.drafter][0], context)

    def _trial(self, option: DraftOption, more: Sequence[DraftOption]) -> DraftChoice | None:
        """In turns one of those that may be better than this one, and show more."""
        hopeful = [each for each in more if self._hope(each) >= option.gain]
        if not hopeful:
            return None
        self._trials += 1
        best = hopeful[self._trials % len(hopeful)]
        return self._choice(best, Why.TREE_TRIAL if best.branches else Why.LONGER_TRIAL)

    def _hope(self, option: DraftOption) -> float:
        """The gain that it may have for all that is known."""
        gain = option.gain * exp(self._doubt(option))
        return gain * exp(self._RANK_DOUBT) if option.branches else gain

    def _choice(self, option: DraftOption, why: Why) -> DraftChoice:
        self._asked = option
        tree = option.tree
        length, tokens = (tree.height, len(tree)) if tree else (option.drafted, 0)
        reason = Reason(why, option.drafter, length, option.gain, tokens=tokens)
        return DraftChoice(length, reason, option.drafter, tree=tree)

    def _with_stops(
        self, choice: DraftChoice, option: DraftOption, chains: DraftOptions, context: int
    ) -> DraftChoice:
        """The same, but while the drafter is confident, where looking costs next to nothing."""
        plain = self.costs.passes(context, sharing=self._sharing)[0]
        watch = self.costs.draft(option.drafter, context=context).watch_seconds / plain
        longest, floor = with_stops(option, chains, watch=watch)
        if watch > self._WATCH_COST or longest == 1:
            return choice
        self._watching = True
        reason = Reason(Why.WHILE_CONFIDENT, option.drafter, longest, option.gain)
        chances = self.acceptance.by_confidence(option.drafter)
        return DraftChoice(longest, reason, option.drafter, floor, chances=chances)

    def _try(
        self, options: Mapping[str, Sequence[DraftOptions]], drafting: Mapping[str, DraftCandidate]
    ) -> DraftChoice | None:
        """One token from the cheapest parked drafter that is due, if the budget allows it."""
        due = [name for name in options if self._parked.get(name) == 0]
        if not due:
            return None
        name = min(due, key=lambda name: options[name][0].costs[0])
        option = options[name][0][0]
        wait = self._budget.wait_for(option.cost - option.tokens)
        if wait > 0:
            self._parked[name] = min(wait, self._LONGEST_WAIT)
            return None
        self._trying, self._behind = name, drafting[name].behind
        return self._choice(option, Why.PARKED_TRIAL)

    def _plain(self, options: Mapping[str, Sequence[DraftOptions]]) -> DraftChoice:
        for name in options:
            if name not in self._parked:
                self._parked[name] = self._RETRY_AFTER
        rounds = min((left for left in self._parked.values() if left), default=self._PLAIN_ROUNDS)
        reason = Reason(Why.NO_CANDIDATE)
        if options:
            best = max(gain for kinds in options.values() for each in kinds for gain in each.gains)
            reason = Reason(Why.PARKED, gain=best, rounds=rounds)
        return DraftChoice(0, reason, rounds=rounds, wake=MATCHES[0])


def _more(option: DraftOption, own: Sequence[DraftOptions]) -> list[DraftOption]:
    """What shows more than this option: one token more, alternatives, or a tree twice as large."""
    chains, *trees = own
    if option.branches:
        more = [each.of(2 * option.drafted) for each in trees]
    else:
        more = [chains.of(option.drafted + 1), *(each.best for each in trees)]
    return [each for each in more if each]
