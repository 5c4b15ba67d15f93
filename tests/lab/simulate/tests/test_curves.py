"""Published curves go through the published points, in straight lines, and straight on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import Problem
from tests.lab.simulate.curves import PUBLISHED, CostCurve, find_curves


@pytest.mark.parametrize(
    ("name", "rows", "cost"),
    [
        ("m4-pro", 1, 1.0),
        ("m4-pro", 2, 1.03),
        ("m4-pro", 5, 1.77),  # between 1.47 and 2.07
        ("m4-pro", 10, 3.31),  # 0.31 a row from 6 to 8, and so on
        ("m4-pro-mlx-0.31", 8, 3.44),
        ("4-bit", 10, 4.5),
        ("4-bit", 12, 6.16),
        ("2-bit", 2, 1.41),
        ("m3-ultra", 4, 3.26),
        ("m5-70b", 3, 85 / 76),
        ("m5-70b", 8, 171 / 76),
        ("m5-70b", 30, (241 + 18 * 17.5) / 76),
    ],
)
def test_cost(name: str, rows: int, cost: float) -> None:
    (curve,) = find_curves([name])
    assert curve.cost(rows) == pytest.approx(cost)


def test_six_are_published_and_say_by_whom() -> None:
    assert len({curve.name for curve in PUBLISHED}) == 6
    assert all("ml-explore/mlx" in curve.source for curve in PUBLISHED)
    assert find_curves([]) == PUBLISHED
    assert [curve.name for curve in find_curves(["2-bit", "m4-pro", "2-bit"])] == [
        "2-bit",
        "m4-pro",
    ]


def test_an_unknown_curve_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(Problem, match=r"'m9'.*Choose from m4-pro, .*m5-70b"):
        find_curves(["2-bit", "m9"])


@given(
    st.lists(st.tuples(st.integers(1, 9), st.floats(0.0, 5.0)), min_size=1, max_size=5),
    st.integers(1, 60),
)
def test_a_curve_that_rises_costs_more_for_more_rows(
    steps: list[tuple[int, float]], rows: int
) -> None:
    points = [(1, 1.0)]
    for further, dearer in steps:
        points.append((points[-1][0] + further, points[-1][1] + dearer))
    curve = CostCurve("drawn", "", tuple(points))
    assert curve.cost(rows + 1) >= curve.cost(rows) - 1e-9
    for row, cost in points:
        assert curve.cost(row) == pytest.approx(cost)


@pytest.mark.parametrize(
    "points", [((1, 1.0),), ((2, 1.0), (3, 2.0)), ((1, 1.0), (3, 2.0), (2, 2.0))]
)
def test_what_is_no_curve_is_refused(points: tuple[tuple[int, float], ...]) -> None:
    with pytest.raises(ValueError, match="does not rise"):
        CostCurve("bad", "", points)
