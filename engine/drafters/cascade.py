"""Several drafters as one: each names its candidates, and the choice names one, or two of them.

A joint draft is one tree of what one drafter copies and what another proposes, behind the same
committed tokens, which the target reads in one pass; the copy is tried first. Where both are
certain, greedy ones too, what begins alike is there once, so that the path that is accepted may
belong to both. What is drawn stays by itself, as its shape must not depend on what was drawn; it is
drawn without the token that the copy begins with, which is rejected by the time the other is tried.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import mlx.core as mx

from engine.decoder import Decoder
from engine.device import fetch
from engine.draft_length import DraftCandidate, DraftChoice, DraftPart
from engine.drafters import DraftArrays, Drafter
from engine.request import Sampling
from engine.sampling import certain
from engine.tree import joined, side_by_side


@dataclass(frozen=True, slots=True)
class _Proposer:
    """Who has a part in the last draft, which had so many tokens `of` all drafters."""

    drafter: Drafter
    part: DraftPart
    of: int


class Cascade(Drafter):
    """Drafts with the drafters that the choice names, else with the first that proposes anything.

    A cascade in it stands for its drafters.
    """

    def __init__(self, *drafters: Drafter) -> None:
        self._drafters: list[Drafter] = []
        for drafter in drafters:
            self._drafters += drafter._drafters if isinstance(drafter, Cascade) else [drafter]
        self.name = "+".join(drafter.name for drafter in self._drafters)
        self.learns = max(drafter.learns for drafter in self._drafters)
        self._alone = self._drafters[0]  # who proposed, where there are no parts
        self._together: list[_Proposer] = []

    def beside(self, target: Decoder) -> Drafter:
        return Cascade(*(drafter.beside(target) for drafter in self._drafters))

    def leave_out(self, skippable: Callable[[], Sequence[range]]) -> None:
        for drafter in self._drafters:
            drafter.leave_out(skippable)

    def prepare(self, tokens: list[int]) -> Iterator[int]:
        for drafter in self._drafters:
            yield from drafter.prepare(tokens)

    def candidates(self, tokens: list[int]) -> Sequence[DraftCandidate]:
        found = [each for drafter in self._drafters for each in drafter.candidates(tokens)]
        copy = next((each for each in found if each.match), None)
        other = next((each for each in found if not each.match), None)
        return [*found, DraftCandidate.joint(copy, other)] if copy and other else found

    def propose(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        self._together = []
        if choice.parts:
            return self._propose_together(tokens, choice, sampling, key)
        named = [drafter for drafter in self._drafters if drafter.name == choice.drafter]
        for drafter in named or self._drafters:
            draft = drafter.propose(tokens, choice, sampling, key)
            if draft is not None:
                self._alone = drafter
                return draft
        return None

    def _propose_together(
        self, tokens: list[int], choice: DraftChoice, sampling: Sampling, key: mx.array
    ) -> DraftArrays | None:
        drafts: list[tuple[Drafter, DraftArrays]] = []
        tried: tuple[int, ...] = ()
        by_name = {drafter.name: drafter for drafter in self._drafters}
        keys = mx.random.split(key, len(choice.parts))
        for part, part_key in zip(choice.parts, keys, strict=True):
            drafter = by_name[part.drafter]
            draft = drafter.propose(tokens, replace(part, tried=tried), sampling, part_key)
            if draft is not None:
                drafts.append((drafter, draft))
                tried += draft.copied[:1]
        if not drafts:
            return None
        if len(drafts) == 1:
            self._alone, alone = drafts[0]
            return alone
        together = _together([draft for _, draft in drafts], choice.drafter, sampling)
        count = together.tokens.size
        self._together = [
            _Proposer(drafter, part, count)
            for (drafter, _), part in zip(drafts, together.parts, strict=True)
        ]
        return together

    def learn(self, tokens: list[int], likeliest: list[list[int]]) -> None:
        for drafter in self._drafters:
            if drafter.learns:
                own = next((each for each in self._together if each.drafter is drafter), None)
                order = _own_last(len(tokens), own) if own else range(len(tokens))
                drafter.learn(
                    [tokens[i] for i in order], [likeliest[i][: drafter.learns] for i in order]
                )

    def accept(self, path: Sequence[int]) -> None:
        if not self._together:
            self._alone.accept(path)
        for each in self._together:
            each.drafter.accept(each.part.path(path))
        self._together = []

    def rewind(self, length: int) -> None:
        self._together = []
        for drafter in self._drafters:
            drafter.rewind(length)


def _together(drafts: Sequence[DraftArrays], drafter: str, sampling: Sampling) -> DraftArrays:
    """One draft of several, which are tried in their order."""
    shapes = [draft.shape for draft in drafts]
    if sampling.greedy or all(draft.copied for draft in drafts):
        all_ids = fetch(*(draft.tokens for draft in drafts))
        tree, numbers = joined(list(zip(all_ids, shapes, strict=True)))
    else:
        tree = side_by_side(shapes)
        ends = [sum(map(len, shapes[: i + 1])) for i in range(len(shapes))]
        numbers = [
            tuple(range(end - len(shape), end)) for end, shape in zip(ends, shapes, strict=True)
        ]
    everywhere = [number for each in numbers for number in each]
    first = mx.array([everywhere.index(number) for number in range(len(tree))])
    distributions = confidence = None
    if not sampling.greedy and any(draft.distributions is not None for draft in drafts):
        distributions = mx.concatenate(_distributions(drafts))[first]
    if any(draft.confidence is not None for draft in drafts):
        sure = [draft.q if draft.confidence is None else draft.confidence for draft in drafts]
        confidence = mx.concatenate(sure)[first]
    return DraftArrays(
        tokens=mx.concatenate([draft.tokens for draft in drafts])[first],
        q=mx.concatenate([draft.q for draft in drafts])[first],
        distributions=distributions,
        drafter=drafter,
        match=drafts[0].match,
        confidence=confidence,
        tree=None if tree.is_chain else tree,
        source=drafts[0].source,
        parts=tuple(
            DraftPart(draft.drafter, each) for draft, each in zip(drafts, numbers, strict=True)
        ),
    )


def _distributions(drafts: Sequence[DraftArrays]) -> list[mx.array]:
    """What the tokens of each were drawn from, where at least one has drawn any."""
    vocabulary = next(
        draft.distributions.shape[-1] for draft in drafts if draft.distributions is not None
    )
    return [
        certain(draft.tokens, vocabulary) if draft.distributions is None else draft.distributions
        for draft in drafts
    ]


def _own_last(rows: int, own: _Proposer) -> list[int]:
    """The rows of a pass over committed tokens and a draft: those of a part last, in its order, as
    if its drafter had drafted alone."""
    first = rows - own.of
    ours = [first + number for number in own.part.numbers]
    return [*(i for i in range(rows) if i not in ours), *ours]
