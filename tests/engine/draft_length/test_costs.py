"""What passes and drafts cost: between what was measured, beyond it, and as rounds correct it."""

import json
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.draft_length.costs import (
    MOST_ROWS,
    ROWS,
    Calibration,
    Costs,
    DraftCosts,
    PassCosts,
    line,
)

SHALLOW = PassCosts(64, (1, 2, 4, 8), (0.010, 0.011, 0.016, 0.028))
DEEP = PassCosts(1024, (1, 2, 4, 8), (0.012, 0.013, 0.020, 0.036))
HEAD = DraftCosts("head", 64, 0.001, 0.0005, 0.0002, 0.0001)
MEASURED = Calibration((SHALLOW, DEEP), (HEAD, DraftCosts("head", 1024, 0.001, 0.0009)))

seconds = st.floats(1e-6, 10.0)
rows = st.lists(st.integers(1, 20), min_size=1, max_size=6, unique=True).map(sorted)


@st.composite
def pass_costs(draw: st.DrawFn, context: int) -> PassCosts:
    chosen = draw(rows)
    return PassCosts(context, tuple(chosen), tuple(draw(seconds) for _ in chosen))


@st.composite
def calibrations(draw: st.DrawFn) -> Calibration:
    depths = sorted(draw(st.sets(st.integers(0, 4000), min_size=1, max_size=3)))
    drafts = draw(
        st.lists(
            st.builds(
                DraftCosts,
                st.sampled_from(["head", "model"]),
                st.integers(0, 4000),
                seconds,
                seconds,
                seconds,
                seconds,
            ),
            max_size=3,
            unique_by=lambda draft: (draft.drafter, draft.context),
        )
    )
    return Calibration(tuple(draw(pass_costs(depth)) for depth in depths), tuple(drafts))


observed = st.lists(
    st.tuples(
        st.integers(1, ROWS), st.sampled_from([0.0, 1e-6, 0.01, 0.02, 5.0]), st.integers(0, 9000)
    ),
    max_size=30,
)


@given(
    calibration=st.none() | calibrations(), observations=observed, context=st.integers(0, 100_000)
)
def test_any_history_gives_sound_costs(
    calibration: Calibration | None, observations: list[tuple[int, float, int]], context: int
) -> None:
    costs = Costs(calibration)
    for number, seconds, at in observations:
        costs.observe_pass(number, seconds, context=at)
        costs.observe_draft("head", number, seconds, context=at, behind=number // 3)
    passes = costs.passes(context)
    assert len(passes) == ROWS
    assert all(0.0 < each < 1e12 for each in passes)
    assert passes == sorted(passes)  # never cheaper for more rows
    draft = costs.draft("head", context=context, behind=7)
    parts = (draft.start_seconds, draft.step_seconds, draft.watch_seconds, draft.read_seconds)
    assert all(0.0 <= each < 1e12 for each in parts)
    assert all(0.0 <= costs.doubt(each) < 100.0 for each in range(1, ROWS + 9))
    assert costs.doubt(1) == 0.0


@given(calibrations())
def test_a_calibration_goes_through_json(calibration: Calibration) -> None:
    assert Calibration.from_json(json.loads(json.dumps(calibration.to_json()))) == calibration


NO_CALIBRATIONS: list[object] = [
    None,
    [],
    {},
    {"passes": []},
    {"passes": [], "drafts": []},
    {"passes": [{"context": 0, "rows": [1], "seconds": [0.0]}], "drafts": []},
    {"passes": [{"context": 0, "rows": [1], "seconds": ["nan"]}], "drafts": []},
    {"passes": [{"context": 0, "rows": [2, 1], "seconds": [1, 1]}], "drafts": []},
    {"passes": [{"context": 0, "rows": [1, 2], "seconds": [1]}], "drafts": []},
    {"passes": [{"context": 0, "rows": [1], "seconds": [1]}], "drafts": [{"drafter": "x"}]},
    {"passes": [{"context": 0, "rows": [1], "seconds": [1]}], "drafts": [3]},
    {"passes": [{"context": 1e400, "rows": [1], "seconds": [1]}], "drafts": []},
]


def test_what_is_no_calibration_is_refused() -> None:
    def refused(value: object) -> bool:
        try:
            Calibration.from_json(value)
        except ValueError as error:
            return bool(str(error))
        return False

    assert [value for value in NO_CALIBRATIONS if not refused(value)] == []


def test_between_what_was_measured_lie_lines() -> None:
    costs = Costs(MEASURED)
    assert costs.passes(64)[:4] == pytest.approx([0.010, 0.011, 0.0135, 0.016])
    assert costs.passes(544)[0] == pytest.approx(0.011)
    assert costs.passes(64)[15] == pytest.approx(0.028 + 8 * 0.003)  # the last slope goes on
    assert costs.passes(1984)[0] == pytest.approx(0.014)
    assert costs.draft("head", context=544).step_seconds == pytest.approx(0.0007)
    assert costs.draft("head", context=64, behind=10).start_seconds == pytest.approx(0.002)


def test_a_line_does_not_fall_beyond_its_ends() -> None:
    assert line([(1, 5.0), (2, 4.0)], 9) == 4.0
    assert line([(1, 5.0), (2, 4.0)], 0) == 5.0
    assert line([(1, 5.0), (2, 4.0)], 1.5) == 4.5
    assert line([(3, 7.0)], 100) == 7.0


def follow(
    costs: Costs, true: Callable[[int], float], lengths: list[int], *, noise: float = 0.05
) -> None:
    luck = random.Random(0)
    for number in lengths:
        costs.observe_pass(number, true(number) * luck.lognormvariate(0.0, noise), context=64)


def test_live_rounds_correct_a_calibration() -> None:
    costs = Costs(MEASURED)
    follow(costs, lambda n: 0.02 * (1 + 0.1 * (n - 1)), [1, 4, 6] * 20)
    passes = costs.passes(64)
    assert passes[0] == pytest.approx(0.02, rel=0.1)
    assert passes[3] == pytest.approx(0.026, rel=0.1)
    assert passes[5] == pytest.approx(0.03, rel=0.1)


def test_heat_seen_at_one_number_of_rows_is_believed_of_all() -> None:
    costs = Costs(MEASURED)
    before = costs.passes(64)
    follow(costs, lambda n: 2.0 * before[n - 1], [4] * 15)
    assert costs.passes(64)[0] == pytest.approx(2.0 * before[0], rel=0.2)
    assert costs.passes(64)[7] == pytest.approx(2.0 * before[7], rel=0.2)


def test_a_curve_is_found_without_a_calibration() -> None:
    costs = Costs()
    assert costs.doubt(8) > 0.3
    for true in (lambda n: 0.05, lambda n: 0.05 * n):
        costs = Costs()
        follow(costs, true, [1, 1, 4, 8, 4, 8, 1, 4, 8])
        passes = costs.passes(0)
        for number in (1, 2, 4, 6, 8):
            assert passes[number - 1] == pytest.approx(true(number), rel=0.3)
        assert costs.doubt(8) < 0.2


@pytest.mark.parametrize("accidents", [1, 2])
def test_one_or_two_accidents_are_not_believed(accidents: int) -> None:
    costs = Costs(MEASURED)
    follow(costs, lambda n: SHALLOW.seconds[0], [1] * 20)
    before = costs.passes(64)
    follow(costs, lambda n: 10 * SHALLOW.seconds[0], [1] * accidents)
    assert costs.passes(64) == before
    follow(costs, lambda n: 10 * SHALLOW.seconds[0], [1] * 3)
    assert costs.passes(64)[0] > 5 * before[0]


@pytest.mark.parametrize(
    ("factor", "lengths", "outdated"),
    [
        (1.0, [1, 4, 4, 4] * 40, False),
        (1.25, [1, 4, 4, 4] * 40, False),  # less than a third
        (1.6, [1, 4, 4, 4] * 40, True),
        (0.6, [1, 4, 4, 4] * 40, True),
        (1.6, [1] * 60, True),
        (1.6, [1, 4, 4, 4] * 8, False),  # not for long
        (1.6, [4] * 200, False),  # no plain pass has shown it
    ],
)
def test_a_calibration_that_has_long_been_wrong_is_outdated(
    factor: float, lengths: list[int], outdated: bool
) -> None:
    costs = Costs(MEASURED)
    before = costs.passes(64)
    follow(costs, lambda n: factor * before[n - 1], lengths)
    assert costs.outdated is outdated
    follow(costs, lambda n: before[n - 1], [1, 4] * 10)
    assert not costs.outdated


def test_of_far_contexts_and_without_a_calibration_nothing_is_outdated() -> None:
    far, none = Costs(MEASURED), Costs()
    for _ in range(200):
        far.observe_pass(1, 9.0, context=20_000)
        none.observe_pass(1, 9.0, context=64)
    assert not far.outdated
    assert not none.outdated


def test_a_drafter_is_followed_too() -> None:
    costs = Costs(MEASURED)
    for _ in range(20):
        costs.observe_draft("head", 4, 0.009, context=64)
    costs.observe_draft("head", 4, 0.9, context=64)  # an accident
    draft = costs.draft("head", context=64)
    assert draft.start_seconds + 4 * draft.step_seconds == pytest.approx(0.009, rel=0.05)
    for _ in range(2):
        costs.observe_draft("head", 1, 0.0045 + 0.1, context=64, behind=100)
    assert costs.draft("head", context=64).step_seconds == draft.step_seconds
    assert costs.draft("head", context=64).read_seconds == pytest.approx(0.001, rel=0.1)


@pytest.mark.parametrize("behind", [0, 100])
def test_a_first_draft_that_had_to_load_kernels_is_not_believed(behind: int) -> None:
    costs = Costs(MEASURED)
    before = costs.draft("head", context=64, behind=behind)
    costs.observe_draft("head", 1, 2.0, context=64, behind=behind)
    assert costs.draft("head", context=64, behind=behind) == before


def test_a_pass_over_rows_costs_little_more_than_one_for_each_at_most() -> None:
    costs = Costs(MEASURED)
    for _ in range(9):
        costs.observe_pass(2, 15 * SHALLOW.seconds[0], context=64)
        costs.observe_pass(1, SHALLOW.seconds[0], context=64)
    passes = costs.passes(64)
    assert all(seconds <= 1.2501 * rows * passes[0] for rows, seconds in enumerate(passes, 1))


def test_an_unknown_drafter_costs_a_part_of_a_pass_until_it_is_seen() -> None:
    costs = Costs(MEASURED)
    assert 0.0 < costs.draft("model", context=64).step_seconds < 0.2 * SHALLOW.seconds[0]
    for _ in range(3):
        costs.observe_draft("model", 4, 0.02, context=64)
    assert costs.draft("model", context=64).step_seconds == pytest.approx(0.005)


# Passes that several generations share


@given(
    calibration=st.none() | calibrations(),
    observations=observed,
    context=st.integers(0, 100_000),
    sharing=st.integers(1, 64),
)
def test_a_share_of_any_pass_is_sound(
    calibration: Calibration | None,
    observations: list[tuple[int, float, int]],
    context: int,
    sharing: int,
) -> None:
    costs = Costs(calibration)
    for more, passed, depth in observations:
        costs.observe_pass(sharing * more, passed, context=depth, sharing=sharing)
    shares = costs.passes(context, sharing=sharing)
    assert len(shares) == ROWS
    assert all(0.0 < share < float("inf") for share in shares)
    assert shares == sorted(shares)
    assert costs.doubt(2, sharing=sharing) >= 0.0


def test_a_share_is_of_the_pass_over_all_rows() -> None:
    costs = Costs(Calibration((SHALLOW,)))
    alone = costs.passes(0)
    assert costs.passes(0, sharing=2)[:4] == pytest.approx([alone[i] / 2 for i in (1, 3, 5, 7)])
    assert costs.passes(0, sharing=8)[0] == pytest.approx(alone[7] / 8)


def test_beyond_what_was_measured_rows_cost_what_the_last_ones_did() -> None:
    costs = Costs(Calibration((PassCosts(0, (1, ROWS), (1.0, 2.0)),)))
    step = 1.0 / (ROWS - 1)
    assert costs.passes(0, sharing=8)[3] == pytest.approx((1.0 + 31 * step) / 8)


def test_far_more_rows_are_in_doubt_until_they_are_seen() -> None:
    costs = Costs(Calibration((SHALLOW,)))
    calibrated = costs.passes(64, most=MOST_ROWS)
    assert len(calibrated) == MOST_ROWS
    assert calibrated == sorted(calibrated)
    assert calibrated[:ROWS] == costs.passes(64)
    doubts = [costs.doubt(rows) for rows in (2, ROWS, 32, MOST_ROWS)]
    assert doubts == sorted(doubts)
    assert doubts[2] > 2.0 * doubts[1]

    for _ in range(10):  # matrices have kernels of their own for so many
        costs.observe_pass(40, 0.4 * calibrated[39], context=64, tree=True)
        costs.observe_pass(1, calibrated[0], context=64)
    seen = costs.passes(64, most=MOST_ROWS)
    assert seen[39] == pytest.approx(0.4 * calibrated[39], rel=0.1)
    assert costs.doubt(40) < doubts[2]
    assert seen[0] == pytest.approx(calibrated[0], rel=0.05)
    assert seen[4] == pytest.approx(calibrated[4], rel=0.15)


def test_rows_of_trees_are_never_cheaper_than_those_of_chains() -> None:
    """Passes over trees that came while the machine was faster say nothing of trees."""
    costs = Costs(Calibration((SHALLOW,)))
    chains = costs.passes(64)
    for _ in range(5):
        costs.observe_pass(8, 0.5 * chains[7], context=64, tree=True)
    assert costs.passes(64, trees=True) == pytest.approx(chains)


def test_rows_of_trees_may_be_dearer_than_those_of_chains() -> None:
    costs = Costs(Calibration((SHALLOW,)))
    chains = costs.passes(64, most=MOST_ROWS)
    for _ in range(10):
        costs.observe_pass(8, 1.4 * chains[7], context=64, tree=True)
    trees = costs.passes(64, most=MOST_ROWS, trees=True)
    assert costs.passes(64, most=MOST_ROWS) == chains
    assert trees[0] == chains[0]
    assert [trees[i] / chains[i] for i in (3, 7, 39)] == pytest.approx([1.4] * 3, rel=0.02)
    for _ in range(10):  # which is no more than was expected
        costs.observe_pass(40, trees[39], context=64, tree=True)
    assert costs.passes(64, most=MOST_ROWS) == pytest.approx(chains, rel=0.02)


def test_rows_that_were_measured_beyond_those_of_a_chain_count() -> None:
    wide = PassCosts(0, (1, 8, 16, 32, 64), (1.0, 2.0, 4.0, 4.2, 8.2))
    costs = Costs(Calibration((wide,)))
    passes = costs.passes(0, most=MOST_ROWS)
    assert [passes[rows - 1] for rows in (16, 32, 64)] == pytest.approx([4.0, 4.2, 8.2])
    assert costs.doubt(32) < Costs(Calibration((SHALLOW,))).doubt(32)


def test_deep_in_a_context_far_more_rows_cost_more_by_what_they_attend_to() -> None:
    shallow = PassCosts(0, (1, 16, 32, 64), (1.0, 4.0, 4.2, 8.2))
    deep = PassCosts(1024, (1, 16), (1.5, 6.0))  # a row more costs a tenth more there
    passes = Costs(Calibration((shallow, deep))).passes(1024, most=MOST_ROWS)
    assert [passes[rows - 1] for rows in (1, 16)] == pytest.approx([1.5, 6.0])
    assert passes[31] == pytest.approx(4.2 + 0.5 + 0.1 * 31, rel=0.1)


def test_trees_are_corrected_by_themselves() -> None:
    costs = Costs(MEASURED)
    chain = costs.draft("head", context=64)
    for _ in range(20):
        costs.observe_draft("head", 5.0, 3 * 0.0035, context=64, tree=True)
    assert costs.draft("head", context=64) == chain
    tree = costs.draft("head", context=64, tree=True)
    assert tree.step_seconds == pytest.approx(3 * chain.step_seconds, rel=0.05)
    for _ in range(20):
        costs.observe_draft("model", 4, 0.1, context=64)
    assert costs.draft("model", context=64, tree=True) == costs.draft("model", context=64)


def test_every_one_that_shares_a_pass_attends_to_its_own_context() -> None:
    costs = Costs(MEASURED)
    shallow, deep = costs.passes(64, sharing=4), costs.passes(1024, sharing=4)
    for i, more in enumerate((0.002, 0.002, 0.003)):  # one of them alone, with i + 1 rows
        assert deep[i] - shallow[i] == pytest.approx(more)


@pytest.mark.parametrize(("sharing", "rows"), [(2, 1), (2, 4), (8, 5)])
def test_shared_passes_correct_the_calibration_too(sharing: int, rows: int) -> None:
    costs = Costs(Calibration((SHALLOW,)))
    calibrated = costs.passes(64, sharing=sharing)
    for _ in range(200):
        seconds = 1.5 * sharing * calibrated[rows - 1]
        costs.observe_pass(sharing * rows, seconds, context=64, sharing=sharing)
    corrected = costs.passes(64, sharing=sharing)
    assert corrected[rows - 1] == pytest.approx(1.5 * calibrated[rows - 1], rel=0.05)
    assert corrected[0] == pytest.approx(1.5 * calibrated[0], rel=0.1)  # the machine is slower
