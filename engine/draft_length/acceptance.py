"""How likely drafted tokens are to be accepted: by drafter and position, or by length of the match.

Only tokens up to the first rejected one are counted: those behind it were discarded, and after a
draft that was accepted whole nobody knows what would have come next. Recent rounds count more.
Neighbouring positions share evidence: the prior of each follows the one before it, so that a single
round changes little. Pure: knows drafters by name only, and no clock.

Of a tree, the tokens on its accepted path count by their depths. Where the first alternative for a
place is rejected, the later ones count by their ranks, whatever their depth.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Any, NamedTuple

from engine.tree import COMMITTED, Tree
from models.typed_json import decode

PLACES = 8  # with an estimate of their own; what is deeper is like the last
CONFIDENCES = 10  # equal parts of [0, 1] into which the drafter's probabilities are sorted

# Once three tokens of a copy are accepted, three more have matched: the longer, the safer.
MATCHES = (2, 3, 4, 5, 6, 8, 12, 16, 24)  # where each bucket begins
_COPIED = (0.35, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8)  # prior acceptance rates there
_DRAFTED = 0.5  # prior acceptance rate of a token from a model
_LATER = (0.22, 0.16, 0.12, 0.09, 0.06, 0.05, 0.04, 0.03)  # of later alternatives, by rank from 1

_LEAST, _MOST = 0.005, 0.995  # so that odds stay finite and estimates can recover
_FIRST = (_DRAFTED,) * PLACES
_MIDDLES = tuple((i + 0.5) / CONFIDENCES for i in range(CONFIDENCES))
_PRIOR = 4.0  # weight of the prior, in tokens
_USUAL = 30.0  # weight of what is usual for the pair against one text, in tokens
_FORGOTTEN = 0.025  # share of what is usual that each text takes back to the prior
_MEMORY = 0.97  # share of the earlier counts that each round keeps
_LATER_MEMORY = 0.99  # which depends more on the drafter, and less on the text
_TREE_PRIOR = 30.0  # weight of what the chances say of trees, in tokens
_TREE_MEMORY = 0.995  # share of the earlier trees that each one keeps
_REMEMBERED = PLACES / (1.0 - _MEMORY)  # the most tokens that faded counts can hold


class AcceptanceCurve:
    """Chances of being accepted, by bucket, each given that all tokens before were accepted.

    `expected` is the prior, of `_PRIOR` tokens. Where a bucket turns out better than
    its prior, the prior of the next bucket is raised too.
    """

    def __init__(self, expected: Sequence[float]) -> None:
        self._first = [_inside(each) for each in expected]
        self.usual = list(self._first)
        self.expected = list(self.usual)
        self.judged = [0.0] * len(self.expected)
        self.accepted = [0.0] * len(self.expected)
        self._chances: list[float] = []  # as estimated since the last change

    def fade(self, share: float) -> None:
        """Weigh all earlier counts by `share`."""
        self._chances = []
        self.judged = [share * each for each in self.judged]
        self.accepted = [share * each for each in self.accepted]

    def count(self, judged: Sequence[tuple[int, bool]], *, memory: float) -> None:
        """A round's tokens, by bucket: whether they were accepted. `memory`: what earlier ones
        weigh."""
        self.fade(memory)
        for bucket, accepted in judged:
            self.judged[bucket] += 1.0
            self.accepted[bucket] += accepted

    def chances(self) -> list[float]:
        """The estimates, by bucket."""
        if self._chances:
            return self._chances
        chances, better = self._chances, 1.0  # by what factor the odds of the bucket before are
        for expected, judged, accepted in zip(
            self.expected, self.judged, self.accepted, strict=True
        ):
            odds = expected / (1.0 - expected)
            prior = better * odds / (1.0 + better * odds)
            chance = (accepted + _PRIOR * prior) / (judged + _PRIOR)
            if not _LEAST <= chance <= _MOST:
                chance = _LEAST if chance < _LEAST else _MOST
            better = chance / (1.0 - chance) / odds
            chances.append(chance)
        return chances

    def begin_text(self, share: float) -> None:
        """Another text: the prior is what is usual, and the last text's counts weigh `share`."""
        chances = self.chances()
        for i, judged in enumerate(self.judged):
            weight = judged / (judged + _USUAL)
            self.usual[i] += weight * (chances[i] - self.usual[i])
            self.usual[i] += _FORGOTTEN * (self._first[i] - self.usual[i])
        self.expected = list(self.usual)
        self.fade(share)

    def to_json(self) -> dict[str, list[float]]:
        """As plain JSON values."""
        shares = [min(1.0, _REMEMBERED / judged) if judged else 1.0 for judged in self.judged]
        return {
            "usual": self.usual,
            "expected": self.expected,
            "judged": [judged * share for judged, share in zip(self.judged, shares, strict=True)],
            "accepted": [
                accepted * share for accepted, share in zip(self.accepted, shares, strict=True)
            ],
        }

    def remember(self, value: Any) -> None:
        """Take over what `to_json` of another curve gave. Raises ValueError on anything else."""
        lists = decode(dict[str, tuple[float, ...]], value, place="acceptance")
        names = ("usual", "expected", "judged", "accepted")
        usual, expected, judged, accepted = (list(lists.get(name, ())) for name in names)
        if not len(usual) == len(expected) == len(judged) == len(accepted) == len(self.usual):
            raise ValueError("another number of buckets")
        if not all(0.0 < each < 1.0 for each in (*usual, *expected)):
            raise ValueError("a chance is not between 0 and 1")
        if not all(
            0.0 <= a <= b <= 1.01 * _REMEMBERED for a, b in zip(accepted, judged, strict=True)
        ):
            raise ValueError("a count is out of range")
        self.usual, self.expected, self.judged, self.accepted = usual, expected, judged, accepted
        self._chances = []


class _TreeShare:
    """How many tokens of a drafter's trees are accepted, as a share of those that its chances let
    expect. They say too much, or too little, where what is accepted behind one alternative is not
    what is accepted behind another, or where the drafter itself chooses where alternatives are.
    """

    def __init__(self, expected: float = _TREE_PRIOR, accepted: float = _TREE_PRIOR) -> None:
        if not 0.0 < expected < inf or not 0.0 <= accepted < inf:
            raise ValueError("a count is out of range")
        self._expected, self._accepted = expected, accepted

    @property
    def value(self) -> float:
        return min(max(self._accepted / self._expected, 0.2), 5.0)

    def count(self, expected: float, accepted: int) -> None:
        prior = (1.0 - _TREE_MEMORY) * _TREE_PRIOR
        self._expected = _TREE_MEMORY * self._expected + prior + expected
        self._accepted = _TREE_MEMORY * self._accepted + prior + accepted

    def to_json(self) -> list[float]:
        return [self._expected, self._accepted]


class Acceptance:
    """The acceptance that a pair's drafters have shown."""

    def __init__(self) -> None:
        self._copied: dict[str, AcceptanceCurve] = {}
        self._drafted: dict[str, AcceptanceCurve] = {}
        self._confident: dict[str, AcceptanceCurve] = {}
        self._later: dict[str, AcceptanceCurve] = {}
        self._trees: dict[str, _TreeShare] = {}

    def chances(self, drafter: str, length: int, *, match: int = 0) -> list[float]:
        """The chance of each of `length` drafted tokens, given that all before are accepted."""
        if match:
            curve = self._copied_by(drafter).chances()
            return [curve[_bucket(match + i)] for i in range(length)]
        curve = self._drafted_by(drafter).chances()
        return [curve[min(i, PLACES - 1)] for i in range(length)]

    def by_confidence(self, drafter: str) -> tuple[float, ...]:
        """The chance of a token, by the drafter's own probability in equal parts of [0, 1]."""
        return tuple(self._confident_by(drafter).chances())

    def by_rank(self, drafter: str, alternatives: int) -> list[float]:
        """The chance of every alternative but the first, given that those before are rejected."""
        curve = self._later_by(drafter).chances()
        return [curve[_rank(rank)] for rank in range(1, alternatives)]

    def share_of_trees(self, drafter: str) -> float:
        """How many times as many tokens of its trees are accepted as the chances let expect."""
        return self._trees_of(drafter).value

    def observe_tree(self, drafter: str, *, expected: float, accepted: int) -> None:
        """Of a tree so many tokens were accepted. `expected`: with the present share."""
        share = self._trees_of(drafter)
        share.count(expected / share.value, accepted)

    def observe(
        self,
        drafter: str,
        *,
        proposed: int,
        accepted: int,
        match: int = 0,
        q: Sequence[float] = (),
        tree: Tree | None = None,
        path: Sequence[int] = (),
    ) -> None:
        """The first `accepted` of `proposed` tokens were accepted, or the `path` in a `tree`."""
        if tree is None:
            judged = [_Judged(i, i, 0, i < accepted) for i in range(min(accepted + 1, proposed))]
        else:
            judged = list(_judged(tree, path))
            later = [(_rank(each.rank), each.accepted) for each in judged if each.rank]
            if later:
                self._later_by(drafter).count(later, memory=_LATER_MEMORY)
            judged = [each for each in judged if not each.rank]
        if match:
            copied = [(_bucket(match + each.depth), each.accepted) for each in judged]
            self._copied_by(drafter).count(copied, memory=_MEMORY)
            return
        drafted = [(min(each.depth, PLACES - 1), each.accepted) for each in judged]
        self._drafted_by(drafter).count(drafted, memory=_MEMORY)
        # Not faded: how far its confidence can be trusted depends on the drafter, not on the text.
        known = [(_part(q[e.token]), e.accepted) for e in judged if e.token < len(q)]
        self._confident_by(drafter).count(known, memory=1.0)

    def begin_text(self, *, share: float = 0.1) -> None:
        """Another text begins: what is usual predicts it better than the text before."""
        for each in (*self._copied.values(), *self._drafted.values()):
            each.begin_text(share)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values, to start from in the pair's next session."""
        kinds = {
            "copied": self._copied,
            "drafted": self._drafted,
            "confident": self._confident,
            "later": self._later,
        }
        curves = {
            kind: {drafter: curve.to_json() for drafter, curve in sorted(each.items())}
            for kind, each in kinds.items()
        }
        trees = {drafter: share.to_json() for drafter, share in sorted(self._trees.items())}
        return {**curves, "trees": trees}

    @classmethod
    def from_json(cls, value: Any) -> "Acceptance":
        """What `to_json` gave. Raises ValueError on anything else."""
        made = cls()
        kinds = [
            ("copied", made._copied_by),
            ("drafted", made._drafted_by),
            ("confident", made._confident_by),
            ("later", made._later_by),
        ]
        curves = decode(dict[str, dict[str, Any]], value, place="acceptance")
        curves.setdefault("later", {})  # which older files do not have
        for drafter, share in curves.pop("trees", {}).items():
            made._trees[drafter] = _TreeShare(*decode(tuple[float, float], share, place="trees"))
        for kind, curve_of in kinds:
            if kind not in curves:
                raise ValueError(f"{kind} is not there")
            for drafter, each in curves[kind].items():
                curve_of(drafter).remember(each)
        return made

    def _copied_by(self, drafter: str) -> AcceptanceCurve:
        return _curve(self._copied, drafter, _COPIED)

    def _drafted_by(self, drafter: str) -> AcceptanceCurve:
        return _curve(self._drafted, drafter, _FIRST)

    def _confident_by(self, drafter: str) -> AcceptanceCurve:
        return _curve(self._confident, drafter, _MIDDLES)

    def _trees_of(self, drafter: str) -> _TreeShare:
        return self._trees.setdefault(drafter, _TreeShare())

    def _later_by(self, drafter: str) -> AcceptanceCurve:
        return _curve(self._later, drafter, _LATER)


def _curve(
    curves: dict[str, AcceptanceCurve], drafter: str, expected: Sequence[float]
) -> AcceptanceCurve:
    if drafter not in curves:
        curves[drafter] = AcceptanceCurve(expected)
    return curves[drafter]


def expected_tokens(chances: Iterable[float]) -> list[float]:
    """The expected committed tokens of a round that drafts 0, 1, 2, ... tokens; the target's own is
    among them."""
    committed, standing = [1.0], 1.0
    for chance in chances:
        standing *= chance
        committed.append(committed[-1] + standing)
    return committed


class _Judged(NamedTuple):
    """A drafted token whose parent was accepted, and of whose alternatives none before it was."""

    token: int
    depth: int
    rank: int
    accepted: bool


def _judged(tree: Tree, path: Sequence[int]) -> Iterator[_Judged]:
    accepted = set(path)
    for depth, parent in enumerate((COMMITTED, *path)):
        for rank, token in enumerate(tree.children(parent)):
            yield _Judged(token, depth, rank, token in accepted)
            if token in accepted:
                break


def _bucket(matched: int) -> int:
    """The bucket for `matched` tokens."""
    return max(bisect_right(MATCHES, matched) - 1, 0)


def _rank(rank: int) -> int:
    """The bucket for an alternative that is not the first."""
    return min(rank, len(_LATER)) - 1


def _part(q: float) -> int:
    return min(max(int(q * CONFIDENCES), 0), CONFIDENCES - 1)


def _inside(chance: float) -> float:
    return min(max(chance, _LEAST), _MOST)
