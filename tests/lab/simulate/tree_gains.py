"""Where trees pay: what the best chain and the best tree are expected to gain, by cost curve.

By the policy's own reckoning, from chances by depth and by rank: a head's as they were recorded,
and those by depth that others published of their drafters, with the recorded ones by rank. So this
is reckoned, and neither measured nor simulated round by round.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from engine.draft_length.costs import DraftCosts
from engine.draft_length.options import DraftOption, chains, trees
from engine.draft_length.trees import MOST, best_trees
from tests.lab.simulate.conditions import STEPS
from tests.lab.simulate.curves import PUBLISHED, WIDE, CostCurve
from tests.lab.simulate.published import PUBLISHED_DRAFTERS, PublishedDrafter
from tests.lab.simulate.replay import ALTERNATIVES
from tests.lab.simulate.traces import AnswerTrace, RecordedDraft

_DEEPEST = 8  # tokens of a path that are counted


@dataclass(frozen=True, slots=True)
class RankChances:
    """`first`: by depth, the share of places reached where the drafter's first alternative is the
    answer's next token; `later`: by rank from 1, the same where those before it are not."""

    first: tuple[float, ...]
    later: tuple[float, ...]


def rank_chances(answers: Iterable[AnswerTrace]) -> RankChances:
    """As recorded in `answers`, of the drafters that propose trees."""
    drafts = [
        (drafted, answer.places - place)
        for answer in answers
        for places in answer.drafts.values()
        for place, drafted in enumerate(places)
        if drafted is not None and drafted.ranks is not None
    ]
    ranks = [_ranks(drafted, left) for drafted, left in drafts]
    first = []
    for depth in range(_DEEPEST):
        found = [each[depth] for each in ranks if len(each) > depth]
        first.append(_share(0, found))
    every = [rank for each in ranks for rank in each]
    later = [_share(rank, [one for one in every if one >= rank]) for rank in range(1, ALTERNATIVES)]
    return RankChances(tuple(first), tuple(later))


def _ranks(drafted: RecordedDraft, left: int) -> list[int]:
    """By depth, with ALTERNATIVES or more for a token that was none of them."""
    ranks = list(drafted.ranks or ())
    ended = len(ranks) >= left  # the answer did, not the path
    return ranks[:_DEEPEST] if ended else [*ranks, 1 << 20][:_DEEPEST]


def _share(rank: int, found: Sequence[int]) -> float:
    return sum(one == rank for one in found) / max(len(found), 1)


def best_options(
    curve: CostCurve, drafter: PublishedDrafter, later: Sequence[float]
) -> tuple[DraftOption, DraftOption | None]:
    """The best chain and the best tree, of as many rows as the curve has published points for."""
    rows = min(curve.points[-1][0], MOST + 1)
    passes = [curve.cost(n) for n in range(1, rows + 1)]
    costs = DraftCosts(drafter.name, drafter.start, drafter.step)
    of_chains = chains(drafter.name, drafter.chances[: rows - 1], passes, costs)
    best = best_trees(drafter.chances, later, most=rows - 1)
    of_trees = trees(drafter.name, best, passes, costs)
    best_chain = max(of_chains, key=lambda option: option.gain)
    return best_chain, max(of_trees, key=lambda option: option.gain, default=None)


def render_gains(chances: RankChances, console: Console) -> None:
    """Print the table."""
    recorded = PublishedDrafter("head", "recorded", chances.first, 0.0, STEPS["head"])
    shares = ", ".join(f"{share:.2f}" for share in (*chances.first[:1], *chances.later))
    console.print(f"Reckoned, not measured. Recorded chances by rank: {shares}.", style="bold")
    table = Table(box=None, padding=(0, 1, 0, 0))
    drafters = (recorded, *PUBLISHED_DRAFTERS)
    for heading in ("", *(drafter.name for drafter in drafters)):
        table.add_column(heading, overflow="fold")
    for curve in (*PUBLISHED, *WIDE):
        cells = []
        for drafter in drafters:
            chain, tree = best_options(curve, drafter, chances.later)
            branching = f"{tree.gain:.2f} ({tree.drafted})" if tree else "-"
            cells.append(f"{chain.gain:.2f} ({chain.drafted}) / {branching}")
        table.add_row(curve.name, *cells)
    console.print(table)
    console.print(
        "× plain, expected: of the best chain / of the best tree (and their tokens), of as many "
        "rows as were published; -: the best ones of so few tokens are chains.",
        highlight=False,
    )
