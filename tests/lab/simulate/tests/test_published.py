"""Published drafters, simulated: made-up drafts have the published acceptance, and the controller
does about as well as the best fixed length known in hindsight."""

from statistics import mean

import pytest

from tests.lab.simulate.published import (
    PUBLISHED_DRAFTERS,
    PublishedDrafter,
    even_chances,
    given_those_before,
)
from tests.lab.simulate.run import SimulateOptions, run_simulation


def tokens_a_round(drafter: PublishedDrafter) -> float:
    drafts = drafter.answers(tokens=20_000, seed=1).drafts[drafter.name]
    return 1 + mean(draft.accepted for draft in drafts if draft is not None)


def test_made_up_drafts_are_accepted_as_published() -> None:
    for drafter, published in zip(PUBLISHED_DRAFTERS, (4.83, 3.37, 2.9, 3.13, 2.3), strict=True):
        assert tokens_a_round(drafter) == pytest.approx(published, rel=0.02)
        assert drafter.source


def test_chances_by_what_is_known() -> None:
    assert sum(even_chances(3, 2.5)[0] ** i for i in range(4)) == pytest.approx(2.5, abs=0.001)
    assert given_those_before((0.5, 0.25, 0.2)) == pytest.approx((0.5, 0.5, 0.8))


@pytest.mark.parametrize("curve", ["m4-pro", "2-bit"])
def test_the_controller_does_nearly_as_well_as_the_best_length(curve: str) -> None:
    report = run_simulation(SimulateOptions(published=True, curves=(curve,)))
    assert "published" in report.acceptance
    assert {row.category for row in report.rows} == {each.name for each in PUBLISHED_DRAFTERS}
    for row in report.rows:
        assert row.to_plain > 0.98
        # Where rows are dear, a drafter that nobody knows yet is parked first, and tried rarely.
        assert row.fixed_regret < (0.08 if curve == "2-bit" else 0.03)
        assert row.oracle_regret > -0.03
