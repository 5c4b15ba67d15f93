"""Where trees pay, by hand and where it is plain."""

import io

import pytest
from rich.console import Console

from tests.lab.simulate.curves import PUBLISHED, WIDE, CostCurve, find_curves
from tests.lab.simulate.published import PublishedDrafter
from tests.lab.simulate.run import tree_traces
from tests.lab.simulate.traces import AnswerTrace, RecordedDraft, load_trace
from tests.lab.simulate.tree_gains import RankChances, best_options, rank_chances, render_gains

LATER = (0.3, 0.2)


def test_chances_by_hand() -> None:
    head = tuple(RecordedDraft((0.5,), 0, ranks=ranks) for ranks in [(0, 1), (1,), (), (0,), (2,)])
    head += (RecordedDraft((0.5,), 0, ranks=(0,)),)  # the answer ends there
    found = rank_chances([AnswerTrace("a", "chat", 0.0, 1, {"head": head})])
    assert found.first[:3] == pytest.approx((3 / 6, 0 / 4, 0 / 1))
    # Of eleven, three are first ones; two of the other eight are second ones, one of six a third.
    assert found.later[:3] == pytest.approx((2 / 8, 1 / 6, 0.0))


@pytest.mark.parametrize(
    ("curve", "pays"),
    [
        (CostCurve("flat", "made up", ((1, 1.0), (2, 1.0), (65, 1.1))), True),
        (CostCurve("steep", "made up", ((1, 1.0), (65, 33.0))), False),
    ],
)
def test_trees_pay_where_rows_are_cheap(curve: CostCurve, pays: bool) -> None:
    drafter = PublishedDrafter("head", "made up", (0.5,) * 8, 0.0, 0.05)
    chain, tree = best_options(curve, drafter, LATER)
    assert chain.tree is None
    assert tree is not None
    assert tree.tree is not None
    assert (tree.gain > chain.gain) == pays


def test_no_tree_is_larger_than_what_was_published() -> None:
    (curve,) = find_curves(["m4-pro"])
    drafter = PublishedDrafter("head", "made up", (0.5,) * 8, 0.0, 0.05)
    _, tree = best_options(curve, drafter, LATER)
    assert tree is not None
    assert tree.drafted < curve.points[-1][0]
    sure = PublishedDrafter("head", "made up", (0.99,) * 8, 0.0, 0.05)
    assert best_options(curve, sure, LATER)[1] is None


def test_the_committed_paths_make_a_table_of_every_curve() -> None:
    answers = [each for path in tree_traces() for each in load_trace(path).answers]
    chances = rank_chances(answers)
    assert isinstance(chances, RankChances)
    assert 0.4 < chances.first[0] < 0.7
    assert chances.later[0] > chances.later[2] > chances.later[5]
    console = Console(file=io.StringIO(), width=200)
    render_gains(chances, console)
    written = console.file.getvalue()  # type: ignore[attr-defined]
    assert "not measured" in written
    assert all(curve.name in written for curve in (*PUBLISHED, *WIDE))
