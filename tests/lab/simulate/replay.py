"""A policy plays against a record: it chooses before every round, and the record knows what stands.

Goes by `engine.speculate`, without models and without a clock: rounds, plain ones in a row, waking.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.draft_length import DraftCandidate, DraftChoice, DraftLengthPolicy, MeasuredRound
from tests.lab.simulate.conditions import Conditions, Noise
from tests.lab.simulate.traces import Answer, Drafted


@dataclass(frozen=True, slots=True)
class Part:
    """Answers to be written one after another, behind `start` of a course's `total` tokens."""

    answers: tuple[Answer, ...]
    start: int
    total: int

    @property
    def tokens(self) -> int:
        """How many they have."""
        return sum(answer.places for answer in self.answers)

    def progress(self, written: int) -> float:
        """The share of the course that is written, once `written` tokens of this part are."""
        return (self.start + written) / self.total


def whole(answers: Sequence[Answer]) -> Part:
    """All of a course."""
    return Part(tuple(answers), 0, sum(answer.places for answer in answers))


@dataclass(frozen=True, slots=True)
class Round:
    """One pass of the target, and what was drafted for it: nothing where `proposed` is 0.

    `answer`: its number in the part. `context`: tokens before it. `progress`: the share of the
    course that was written before it. `behind`: committed tokens that the drafter had to read
    first. `watched`: whether drafting looked at every token, to stop where it is unsure.
    """

    answer: int
    place: int
    context: int
    progress: float
    drafter: str
    proposed: int
    accepted: int
    behind: int
    watched: bool
    reason: str

    @property
    def committed(self) -> int:
        """Tokens that it wrote."""
        return self.accepted + 1


def cost(one: Round, conditions: Conditions) -> tuple[float, float]:
    """True seconds of drafting, and of verifying."""
    context, progress = one.context, one.progress
    verify = conditions.verify_seconds(one.proposed + 1, context=context, progress=progress)
    if not one.proposed:
        return 0.0, verify
    draft = conditions.draft_seconds(
        one.drafter,
        one.proposed,
        context=context,
        progress=progress,
        behind=one.behind,
        watched=one.watched,
    )
    return draft, verify


def seconds(rounds: Sequence[Round], conditions: Conditions) -> float:
    """True seconds of all `rounds`."""
    return sum(sum(cost(one, conditions)) for one in rounds)


def replay(
    part: Part,
    policy: DraftLengthPolicy,
    conditions: Conditions,
    *,
    drafters: Sequence[str] | None = None,
) -> Iterator[Round]:
    """Write the answers with the `drafters` alone, or with all that are recorded.

    The policy keeps what it learned from answer to answer.
    """
    noise, before = Noise(conditions, start=part.start), 0
    for number, answer in enumerate(part.answers):
        names = [name for name in answer.drafts if drafters is None or name in drafters]
        writing = _Writing(part, number, before, names)
        while writing.place < answer.places:
            candidates = writing.candidates()
            most = answer.places - writing.place - 1
            context = answer.prompt + writing.place
            choice = policy.choose(candidates, most=most, context=context).within(most)
            chain = writing.chain(choice)
            if chain is None:
                yield from _plainly(writing, policy, conditions, noise, choice)
                continue
            drafter, drafted = chain
            one = writing.drafted(drafter, drafted, choice)
            draft_seconds, verify_seconds = cost(one, conditions)
            measured = MeasuredRound(
                proposed=one.proposed,
                accepted=one.accepted,
                draft_seconds=noise.reading(draft_seconds),
                verify_seconds=noise.reading(verify_seconds),
                context=context,
                drafter=drafter,
                match=drafted.match,
                q=drafted.q[: one.proposed],
                asked=choice.length,
            )
            writing.commit(one)
            policy.observe(measured)
            yield one
        before += answer.places


def _plainly(
    writing: "_Writing",
    policy: DraftLengthPolicy,
    conditions: Conditions,
    noise: Noise,
    choice: DraftChoice,
) -> Iterator[Round]:
    """As the loop does: woken by a match, it still writes the token that is under way."""
    left = min(choice.rounds, writing.answer.places - writing.place)
    while left:
        left -= 1
        one = writing.plain(choice.reason)
        _, verify_seconds = cost(one, conditions)
        writing.commit(one)
        policy.observe(MeasuredRound(0, 0, 0.0, noise.reading(verify_seconds), context=one.context))
        yield one
        if left and choice.wake and writing.matches(choice.wake):
            left = 1


class _Writing:
    """How far an answer is written, and how far each drafter has read it."""

    def __init__(self, part: Part, number: int, before: int, drafters: Sequence[str]) -> None:
        self.answer = part.answers[number]
        self.place = 0
        self._part, self._number, self._before = part, number, before
        self._drafts = {name: self.answer.drafts[name] for name in drafters}
        self._read = dict.fromkeys(drafters, 0)

    def candidates(self) -> list[DraftCandidate]:
        found = []
        for name, places in self._drafts.items():
            drafted = places[self.place]
            if drafted is not None:
                behind = self._behind(name, drafted)
                found.append(DraftCandidate(name, len(drafted.q), drafted.match, behind))
        return found

    def matches(self, wake: int) -> bool:
        here = (places[self.place] for places in self._drafts.values())
        return any(drafted is not None and drafted.match >= wake for drafted in here)

    def chain(self, choice: DraftChoice) -> tuple[str, Drafted] | None:
        """Whose chain it is, and the chain; None where there is none."""
        if not choice.length:
            return None
        for name, places in self._drafts.items():
            drafted = places[self.place]
            if drafted is not None and choice.drafter in ("", name):
                return name, drafted
        return None

    def drafted(self, drafter: str, drafted: Drafted, choice: DraftChoice) -> Round:
        proposed = _stopped(drafted, choice)
        accepted = min(drafted.stood, proposed)
        behind = self._behind(drafter, drafted)
        watched = choice.floor > 0.0
        return self._round(drafter, proposed, accepted, behind, watched, choice.reason)

    def plain(self, reason: str) -> Round:
        return self._round("", 0, 0, 0, False, reason)

    def commit(self, one: Round) -> None:
        self.place += one.committed
        if one.drafter:
            self._read[one.drafter] = self.place

    def _round(
        self, drafter: str, proposed: int, accepted: int, behind: int, watched: bool, reason: str
    ) -> Round:
        return Round(
            self._number,
            self.place,
            self.answer.prompt + self.place,
            self._part.progress(self._before + self.place),
            drafter,
            proposed,
            accepted,
            behind,
            watched,
            reason,
        )

    def _behind(self, drafter: str, drafted: Drafted) -> int:
        """A lookup has nothing to read."""
        return 0 if drafted.match else self.place - self._read[drafter]


def _stopped(drafted: Drafted, choice: DraftChoice) -> int:
    """How many tokens are drafted until it stops. The one that it stops after is proposed too."""
    length = min(choice.length, len(drafted.q))
    if choice.floor <= 0.0 or drafted.match:
        return length
    standing = 1.0
    for i in range(length):
        standing *= choice.chance(drafted.q[i])
        if standing < choice.floor:
            return i + 1
    return length
