"""A policy plays against recorded drafts: it chooses a draft, and the record has the verdict.

Follows `engine.core.loop` without models and without a clock: rounds, plain ones in a row, waking.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from engine.draft_length import (
    DraftCandidate,
    DraftChoice,
    DraftLengthPolicy,
    MeasuredRound,
    Reason,
)
from engine.tree import COMMITTED, Tree
from tests.lab.simulate.conditions import Conditions, Noise
from tests.lab.simulate.traces import AnswerTrace, RecordedDraft

ALTERNATIVES = 8  # as many as engine's heads propose for a place


@dataclass(frozen=True, slots=True)
class Phase:
    """Answers to be written one after another, after `start` of an episode's `total` tokens."""

    answers: tuple[AnswerTrace, ...]
    start: int
    total: int

    @property
    def tokens(self) -> int:
        """How many tokens the answers have."""
        return sum(answer.places for answer in self.answers)

    def progress(self, written: int) -> float:
        """The share of the episode that is written, once `written` tokens of this phase are."""
        return (self.start + written) / self.total


def whole(answers: Iterable[AnswerTrace]) -> Phase:
    """All of an episode."""
    answers = tuple(answers)
    return Phase(answers, 0, sum(answer.places for answer in answers))


@dataclass(frozen=True, slots=True)
class SimulatedRound:
    """One pass of the target, and what was drafted for it: nothing where `proposed` is 0.

    `answer`: its number in the phase. `context`: tokens before it. `progress`: the share of the
    episode that was written before it. `behind`: committed tokens that the drafter had to read
    first. `before`: the rows of the pass before; 0 at first. `tree`: the shape of what was drafted,
    of which `path` is accepted; None for a chain.
    """

    answer: int
    place: int
    context: int
    progress: float
    drafter: str
    proposed: int
    accepted: int
    behind: int
    reason: Reason
    before: int
    tree: Tree | None = None
    path: tuple[int, ...] = ()

    @property
    def committed(self) -> int:
        """How many tokens it wrote."""
        return self.accepted + 1


def cost(round: SimulatedRound, conditions: Conditions) -> tuple[float, float]:
    """True seconds of drafting, and of the pass that verifies: all of it, where others share it."""
    context, progress = round.context, round.progress
    verify = conditions.verify_seconds(
        (conditions.others + 1) * (round.proposed + 1),
        context=context,
        progress=progress,
        before=round.before,
    )
    if not round.proposed:
        return 0.0, verify
    draft = conditions.draft_seconds(
        round.drafter,
        conditions.steps_of(round.tree) if round.tree else round.proposed,
        context=context,
        progress=progress,
        behind=round.behind,
    )
    return draft, verify


def seconds(rounds: Sequence[SimulatedRound], conditions: Conditions) -> float:
    """True seconds of all `rounds`, with this generation's part of each pass."""
    costs = (cost(round, conditions) for round in rounds)
    return sum(draft + verify / (conditions.others + 1) for draft, verify in costs)


def replay(
    phase: Phase,
    policy: DraftLengthPolicy,
    conditions: Conditions,
    *,
    drafters: Sequence[str] | None = None,
) -> Iterator[SimulatedRound]:
    """Write the answers with the `drafters` alone, or with all that are recorded.

    The policy keeps what it learned from answer to answer.
    """
    noise, before = Noise(conditions, start=phase.start), 0
    for number, answer in enumerate(phase.answers):
        names = [name for name in answer.drafts if drafters is None or name in drafters]
        writing = _Writing(phase, number, before, names)
        while writing.place < answer.places:
            candidates = writing.candidates()
            most = answer.places - writing.place - 1
            context = answer.prompt + writing.place
            others = conditions.others
            choice = policy.choose(candidates, most=most, context=context, others=others)
            choice = choice.within(most)
            chain = writing.chain(choice)
            if chain is None:
                yield from _plainly(writing, policy, conditions, noise, choice)
                continue
            drafter, drafted = chain
            round = writing.drafted(drafter, drafted, choice)
            draft_seconds, verify_seconds = cost(round, conditions)
            measured = MeasuredRound(
                proposed=round.proposed,
                accepted=round.accepted,
                draft_seconds=noise.reading(draft_seconds),
                verify_seconds=noise.reading_of_pass(verify_seconds, round.proposed + 1),
                context=context,
                drafter=drafter,
                match=drafted.match,
                asked=choice.length,
                rows=_shared_rows(round, conditions),
                others=others,
                tree=round.tree,
                path=round.path,
            )
            writing.commit(round)
            policy.observe(measured)
            yield round
        before += answer.places


def _plainly(
    writing: "_Writing",
    policy: DraftLengthPolicy,
    conditions: Conditions,
    noise: Noise,
    choice: DraftChoice,
) -> Iterator[SimulatedRound]:
    """As in the loop on a GPU: woken by a match, it still writes the token that is under way."""
    left = min(choice.rounds, writing.answer.places - writing.place)
    while left:
        left -= 1
        round = writing.plain(choice.reason)
        _, verify_seconds = cost(round, conditions)
        writing.commit(round)
        policy.observe(
            MeasuredRound(
                *(0, 0, 0.0, noise.reading_of_pass(verify_seconds, 1), round.context),
                rows=_shared_rows(round, conditions),
                others=conditions.others,
            )
        )
        yield round
        if left and choice.wake and writing.matches(choice.wake):
            left = 1


def _shared_rows(round: SimulatedRound, conditions: Conditions) -> int:
    return (conditions.others + 1) * (round.proposed + 1) if conditions.others else 0


class _Writing:
    """How far an answer is written, and how far each drafter has read it."""

    def __init__(self, phase: Phase, number: int, before: int, drafters: Sequence[str]) -> None:
        self.answer = phase.answers[number]
        self.place = 0
        self._phase, self._number, self._before = phase, number, before
        self._drafts = {name: self.answer.drafts[name] for name in drafters}
        self._read = dict.fromkeys(drafters, 0)
        self._rows = 0  # of the latest pass

    def candidates(self) -> list[DraftCandidate]:
        found = []
        for name, places in self._drafts.items():
            drafted = places[self.place]
            if drafted is not None:
                behind = self._behind(name, drafted)
                alternatives = 1 if drafted.ranks is None else ALTERNATIVES
                found.append(
                    DraftCandidate(name, len(drafted.q), drafted.match, behind, alternatives)
                )
        return found

    def matches(self, wake: int) -> bool:
        here = (places[self.place] for places in self._drafts.values())
        return any(drafted is not None and drafted.match >= wake for drafted in here)

    def chain(self, choice: DraftChoice) -> tuple[str, RecordedDraft] | None:
        """The drafter that the choice leads to, and its chain; None where there is none."""
        if not choice.length:
            return None
        for name, places in self._drafts.items():
            drafted = places[self.place]
            if drafted is not None and choice.drafter in ("", name):
                return name, drafted
        return None

    def drafted(self, drafter: str, drafted: RecordedDraft, choice: DraftChoice) -> SimulatedRound:
        behind = self._behind(drafter, drafted)
        if choice.tree is not None and drafted.ranks is not None:
            path = _accepted(choice.tree, drafted.ranks)
            round = self._round(drafter, len(choice.tree), len(path), behind, choice.reason)
            return replace(round, tree=choice.tree, path=path)
        proposed = min(choice.length, len(drafted.q))
        accepted = min(drafted.accepted, proposed)
        return self._round(drafter, proposed, accepted, behind, choice.reason)

    def plain(self, reason: Reason) -> SimulatedRound:
        return self._round("", 0, 0, 0, reason)

    def commit(self, round: SimulatedRound) -> None:
        self.place += round.committed
        self._rows = round.proposed + 1
        if round.drafter:
            self._read[round.drafter] = self.place

    def _round(
        self, drafter: str, proposed: int, accepted: int, behind: int, reason: Reason
    ) -> SimulatedRound:
        return SimulatedRound(
            self._number,
            self.place,
            self.answer.prompt + self.place,
            self._phase.progress(self._before + self.place),
            drafter,
            proposed,
            accepted,
            behind,
            reason,
            self._rows,
        )

    def _behind(self, drafter: str, drafted: RecordedDraft) -> int:
        """How many tokens the drafter has not read; a lookup reads none."""
        return 0 if drafted.match else self.place - self._read[drafter]


def _accepted(tree: Tree, ranks: Sequence[int]) -> tuple[int, ...]:
    """How far the answer goes along a tree of this shape."""
    path, last = list[int](), COMMITTED
    for rank in ranks:
        children = tree.children(last)
        if rank >= len(children):
            break
        last = children[rank]
        path.append(last)
    return tuple(path)
