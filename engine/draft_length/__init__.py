"""How many tokens to draft next, and with which drafter: candidates, choices and observations.

`policy.py` decides, from the costs of passes and drafts (`costs.py`), the chances that drafted
tokens are accepted (`acceptance.py`), and a calibration of the pair at its first use
(`calibrate.py`, stored by `calibrations.py`). A draft length of 0 means that the target decodes
plainly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Protocol

from engine.tree import Tree
from models.limits import LONGEST_COPY as LONGEST_COPY
from models.limits import LONGEST_DRAFT

LONGEST = LONGEST_DRAFT


class Why(Enum):
    """The kinds of reasons for a draft length."""

    IMPOSED = auto()  # by who runs the loop: a calibration, a recording
    OFF = auto()
    FIXED = auto()
    NO_ROOM = auto()
    NO_CANDIDATE = auto()
    NO_PROPOSAL = auto()  # the drafter was asked, and proposed nothing
    BEST_GAIN = auto()
    PARKED_TRIAL = auto()
    PARKED = auto()
    PLAIN_CHECK = auto()


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a draft has its length, as fields. The words for people are `str` of it, and only there.

    `length`: of the draft, or the longest that is possible; `tokens`: of a tree; `gain`: the
    expected speed as a multiple of plain decoding's; `rounds` until the policy is asked again.
    Fields that play no part in the reason keep their defaults.
    """

    why: Why
    drafter: str = ""
    length: int = 0
    gain: float = 1.0
    rounds: int = 0
    tokens: int = 0

    def __str__(self) -> str:
        expected = f"{self.gain:.2f}× plain expected"
        draft = f"tree of {self.tokens} tokens" if self.tokens else f"draft length {self.length}"
        match self.why:
            case Why.IMPOSED:
                return f"set to {self.length}"
            case Why.OFF:
                return "drafting is off"
            case Why.FIXED:
                return f"fixed at {'a ' + draft if self.tokens else self.length}"
            case Why.NO_ROOM:
                return "no room for a draft"
            case Why.NO_CANDIDATE:
                return "nothing to draft from"
            case Why.NO_PROPOSAL:
                return f"{self.drafter} had nothing to propose"
            case Why.BEST_GAIN:
                return f"{self.drafter}, {draft}: {expected}"
            case Why.PARKED_TRIAL:
                return f"trying whether {self.drafter} pays now"
            case Why.PARKED:
                return f"parked: {expected}; next trial in {self.rounds} tokens"
            case Why.PLAIN_CHECK:
                return "measuring plain decoding"


IMPOSED = Reason(Why.IMPOSED)


@dataclass(frozen=True, slots=True)
class DraftCandidate:
    """A draft that a drafter could propose now. It is found on the host, without the device.

    `most`: the longest draft; of a tree, the longest path. `match`: the number of tokens that
    matched, if the drafter copies; otherwise 0. `behind`: committed tokens that it would have to
    read first, beyond the usual. `alternatives`: the most that it can propose for one place; 1 for
    chains only. `least`: the fewest tokens of a tree that are worth their rows.
    """

    drafter: str
    most: int
    match: int = 0
    behind: int = 0
    alternatives: int = 1
    least: int = 1


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """Draft up to `length` tokens with `drafter`; `reason` says why.

    With length 0, `rounds` is how many tokens to write plainly before asking again; sooner, once
    a candidate matches `wake` tokens or more (0: never).

    `tree`: the shape of the draft, `length` tokens high; None for a chain. Its tokens come in the
    order of their worth, and a drafter that knows better may propose another tree of as many.
    """

    length: int
    reason: Reason = IMPOSED
    drafter: str = ""
    rounds: int = 1
    wake: int = 0
    tree: Tree | None = None

    @property
    def shape(self) -> Tree:
        """The tree of such a draft: for a chain, the tree with one path."""
        return self.tree or Tree.chain(self.length)

    def within(self, room: int) -> "DraftChoice":
        """Return the choice, cut to at most `room` tokens."""
        if self.tree is not None and len(self.tree) > room:
            tree = self.tree.first(max(room, 0))
            return replace(self, tree=tree, length=tree.height)
        return self if self.length <= room else replace(self, length=max(room, 0))


@dataclass(frozen=True, slots=True)
class MeasuredRound:
    """The observations of one round. Plain rounds have `proposed` 0 and no drafter.

    `context`: committed tokens before the round. `asked`: the chosen length; the drafter ran out if
    fewer were proposed. `others`: the number of other generations that shared the pass. `rows`: of
    the whole pass, if others shared it or if a grammar may have forced some; otherwise 0. `tree`:
    the draft's shape, and `path` its accepted tokens; None for a chain.

    `edge`: a plain pass at an end of a run, on a device that works while the host does. The first
    such pass had the device to itself, and after the last none was built meanwhile, so neither
    shows the cost of plain decoding.
    """

    proposed: int
    accepted: int
    draft_seconds: float
    verify_seconds: float
    context: int = 0
    drafter: str = ""
    match: int = 0
    asked: int = 0
    rows: int = 0
    others: int = 0
    tree: Tree | None = None
    path: tuple[int, ...] = ()
    edge: bool = False


class DraftLengthPolicy(Protocol):
    """Chooses the draft length before every round, and observes the round. Reads no clock."""

    def choose(
        self, candidates: Sequence[DraftCandidate], *, most: int, context: int, others: int = 0
    ) -> DraftChoice:
        """Return the choice for the next round, after `context` tokens: at most `most` tokens of
        one candidate.

        `others`: the number of other generations that share the pass; they are expected to do
        the same.
        """

    def observe(self, measured: MeasuredRound) -> None:
        """Learn from a round that is over."""

    def restart(self) -> None:
        """Forget all measurements: from now on another drafter is used."""

    def another(self) -> "DraftLengthPolicy":
        """Return a policy for another text, which begins with everything learned so far."""
