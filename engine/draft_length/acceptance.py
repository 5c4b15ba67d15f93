"""How likely drafted tokens are to be accepted: by drafter and position, or by length of the match.

Only tokens up to the first rejected one are counted: later ones were discarded, and after a draft
that was accepted whole the next token was never tried. Recent rounds count more.
Neighbouring positions share evidence: the prior of each follows the one before it, so that a single
round changes little. Pure: knows drafters by name only, and no clock.

Of a tree, the tokens on its accepted path count by their depths. Where the first alternative for a
place is rejected, the later ones count by their ranks, at any depth.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from engine.draft_length import MeasuredRound
from engine.tree import COMMITTED, Tree
from models.limits import LONGEST_COPY
from models.typed_json import decode

PLACES = 8  # with an estimate of their own; deeper ones share the last

# Once three tokens of a copy are accepted, three more have matched: the longer, the safer.
MATCHES = (2, 3, 4, 5, 6, 8, 12, 16, 24)  # where each bucket begins

_FIRST = {  # acceptance rates at first, by kind of curve and bucket
    "copied": (0.35, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8),  # by match
    "drafted": (0.5,) * PLACES,  # by position
    "later": (0.22, 0.16, 0.12, 0.09, 0.06, 0.05, 0.04, 0.03),  # alternatives, by rank from 1
}
_LEAST, _MOST = 0.005, 0.995  # so that odds stay finite and estimates can recover
_PRIOR = 4.0  # weight of the prior, in tokens
_USUAL = 30.0  # weight of the pair's usual rates against one text, in tokens
_FORGOTTEN = 0.025  # share of the usual rates that each text takes back to the first rates
_TEXT = 0.1  # share of the counts of a text that the next one keeps
_MEMORY = 0.97  # share of the earlier counts that each round keeps
_MOST_COUNTED = LONGEST_COPY / (1.0 - _MEMORY)  # tokens that faded counts can hold


class AcceptanceCurve:
    """Chances of being accepted, by bucket, each given that all tokens before were accepted.

    The prior of each bucket is the pair's `usual` rate. If a bucket turns out better than its
    prior, the prior of the next bucket is raised too.
    """

    def __init__(self, kind: str) -> None:
        self._first = _FIRST[kind]
        self.usual = list(self._first)
        self.judged = [0.0] * len(self.usual)
        self.accepted = [0.0] * len(self.usual)
        self._chances: list[float] = []  # as estimated since the last change

    def count(self, judged: Sequence[tuple[int, bool]]) -> None:
        """Count a round's tokens: for each its bucket, and whether it was accepted."""
        self._fade(_MEMORY)
        for bucket, accepted in judged:
            self.judged[bucket] += 1.0
            self.accepted[bucket] += accepted

    def _fade(self, share: float) -> None:
        self._chances = []
        self.judged = [share * each for each in self.judged]
        self.accepted = [share * each for each in self.accepted]

    def chances(self) -> list[float]:
        """The estimates, by bucket."""
        if self._chances:
            return self._chances
        chances, better = self._chances, 1.0  # by what factor the odds of the bucket before are
        for usual, judged, accepted in zip(self.usual, self.judged, self.accepted, strict=True):
            odds = usual / (1.0 - usual)
            prior = better * odds / (1.0 + better * odds)
            chance = (accepted + _PRIOR * prior) / (judged + _PRIOR)
            if not _LEAST <= chance <= _MOST:
                chance = _LEAST if chance < _LEAST else _MOST
            better = chance / (1.0 - chance) / odds
            chances.append(chance)
        return chances

    def begin_text(self) -> None:
        """Begin another text: move the usual rates towards the last text's, and keep only
        a small share of its counts."""
        chances = self.chances()
        for i, judged in enumerate(self.judged):
            self.usual[i] += judged / (judged + _USUAL) * (chances[i] - self.usual[i])
            self.usual[i] += _FORGOTTEN * (self._first[i] - self.usual[i])
        self._fade(_TEXT)

    def to_json(self) -> dict[str, list[float]]:
        """Return plain JSON values."""
        return {"usual": self.usual, "judged": self.judged, "accepted": self.accepted}

    @classmethod
    def from_json(cls, kind: str, value: Any) -> "AcceptanceCurve":
        """Return the curve that `to_json` turned into `value`. Raises ValueError otherwise."""
        curve, lists = cls(kind), decode(dict[str, tuple[float, ...]], value, place=kind)
        usual, judged, accepted = (list(lists.get(n, ())) for n in ("usual", "judged", "accepted"))
        if not len(usual) == len(judged) == len(accepted) == len(curve.usual):
            raise ValueError("another number of buckets")
        if not all(0.0 < each < 1.0 for each in usual):
            raise ValueError("a chance is not between 0 and 1")
        if not all(0.0 <= a <= j <= _MOST_COUNTED for a, j in zip(accepted, judged, strict=True)):
            raise ValueError("a count is out of range")
        curve.usual, curve.judged, curve.accepted = usual, judged, accepted
        return curve


class Acceptance:
    """The acceptance that a pair's drafters have shown."""

    def __init__(self) -> None:
        self._curves: dict[str, dict[str, AcceptanceCurve]] = {kind: {} for kind in _FIRST}

    def chances(self, drafter: str, length: int, *, match: int = 0) -> list[float]:
        """The chance of each of `length` drafted tokens, given that all before are accepted."""
        if match:
            curve = self._curve("copied", drafter).chances()
            return [curve[_bucket(match + i)] for i in range(length)]
        curve = self._curve("drafted", drafter).chances()
        return [curve[min(i, PLACES - 1)] for i in range(length)]

    def by_rank(self, drafter: str, alternatives: int) -> list[float]:
        """The chance of every alternative but the first, given that those before are rejected."""
        curve = self._curve("later", drafter).chances()
        return [curve[min(rank, len(curve)) - 1] for rank in range(1, alternatives)]

    def observe(self, measured: MeasuredRound) -> None:
        """Count what a round showed."""
        drafter, match = measured.drafter, measured.match
        if measured.tree is None:
            last = min(measured.accepted + 1, measured.proposed)
            judged = [_Judged(i, 0, i < measured.accepted) for i in range(last)]
        else:
            judged = list(_judged(measured.tree, measured.path))
            buckets = len(_FIRST["later"])
            later = [(min(each.rank, buckets) - 1, each.accepted) for each in judged if each.rank]
            if later:
                self._curve("later", drafter).count(later)
            judged = [each for each in judged if not each.rank]
        if match:
            copied = [(_bucket(match + each.depth), each.accepted) for each in judged]
            self._curve("copied", drafter).count(copied)
        else:
            drafted = [(min(each.depth, PLACES - 1), each.accepted) for each in judged]
            self._curve("drafted", drafter).count(drafted)

    def begin_text(self) -> None:
        """Begin another text. How good later alternatives are depends on the drafter alone, and
        stays."""
        for kind in ("copied", "drafted"):
            for curve in self._curves[kind].values():
                curve.begin_text()

    def to_json(self) -> dict[str, dict[str, Any]]:
        """Return plain JSON values, from which the pair's next session starts."""
        return {
            kind: {drafter: curve.to_json() for drafter, curve in sorted(curves.items())}
            for kind, curves in self._curves.items()
        }

    @classmethod
    def from_json(cls, value: Any) -> "Acceptance":
        """Return the acceptance that `to_json` turned into `value`. Raises ValueError on anything
        else."""
        made, kinds = cls(), decode(dict[str, dict[str, Any]], value, place="acceptance")
        if set(kinds) != set(_FIRST):
            raise ValueError("a kind of curve is not there, or another one is")
        for kind, curves in kinds.items():
            for drafter, each in curves.items():
                made._curves[kind][drafter] = AcceptanceCurve.from_json(kind, each)
        return made

    def _curve(self, kind: str, drafter: str) -> AcceptanceCurve:
        curves = self._curves[kind]
        if drafter not in curves:
            curves[drafter] = AcceptanceCurve(kind)
        return curves[drafter]


def expected_tokens(chances: Iterable[float]) -> list[float]:
    """Return the expected committed tokens of rounds that draft 0, 1, 2, ... tokens, the target's
    own token included."""
    committed, standing = [1.0], 1.0
    for chance in chances:
        standing *= chance
        committed.append(committed[-1] + standing)
    return committed


class _Judged(NamedTuple):
    """A drafted token that was tried: its parent was accepted, and no alternative before it was."""

    depth: int
    rank: int
    accepted: bool


def _judged(tree: Tree, path: Sequence[int]) -> Iterator[_Judged]:
    accepted = set(path)
    for depth, parent in enumerate((COMMITTED, *path)):
        for rank, token in enumerate(tree.children(parent)):
            yield _Judged(depth, rank, token in accepted)
            if token in accepted:
                break


def _bucket(matched: int) -> int:
    """The bucket for `matched` tokens."""
    return max(bisect_right(MATCHES, matched) - 1, 0)
