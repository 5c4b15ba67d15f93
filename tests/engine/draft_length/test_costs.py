"""What passes and drafts cost: between what was measured, beyond it, and as rounds correct it."""

import json
import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.draft_length.costs import MOST_ROWS, ROWS, Calibration, Costs, DraftCosts, PassCosts

SHALLOW = PassCosts(64, (1, 2, 4, 8), (0.010, 0.011, 0.016, 0.028))
MEASURED = Calibration(SHALLOW, (DraftCosts("head", 0.001, 0.0005, 0.0001),))

seconds = st.floats(1e-6, 10.0)
rows = st.lists(st.integers(1, 20), min_size=1, max_size=6, unique=True).map(sorted)


@st.composite
def calibrations(draw):
    chosen = draw(rows)
    passes = PassCosts(24, tuple(chosen), tuple(draw(seconds) for _ in chosen))
    names = draw(st.sets(st.sampled_from(["head", "model"])))
    drafts = (DraftCosts(name, draw(seconds), draw(seconds), draw(seconds)) for name in names)
    return Calibration(passes, tuple(drafts))


observed = st.lists(
    st.tuples(
        st.integers(1, ROWS), st.sampled_from([0.0, 1e-6, 0.01, 0.02, 5.0]), st.integers(0, 9000)
    ),
    max_size=30,
)


def falls(seconds):
    """The numbers of rows that cost less than one row less, by more than what rounding makes."""
    pairs = enumerate(pairwise(seconds), start=2)
    return {rows for rows, (less, more) in pairs if more < less * (1.0 - 1e-9)}


# A drafter that was not calibrated, and passes that come to cost a million times as much.
SUDDEN = [(1, 5.0, 0), (1, 0.0, 0), (1, 0.0, 0), (3, 0.0, 0), *[(2, 0.01, 0)] * 2]
SUDDEN += [(1, 0.01, 0), (7, 0.01, 0), (12, 0.0, 0)]


@example(calibration=None, observations=SUDDEN)
@given(calibration=st.none() | calibrations(), observations=observed)
def test_any_history_gives_sound_costs(calibration, observations):
    costs = Costs(calibration)
    for number, seconds, at in observations:
        costs.observe_pass(number, seconds, context=at)
        costs.observe_draft("head", number, seconds, behind=number // 3)
    passes = costs.passes()
    assert len(passes) == ROWS
    assert all(0.0 < each < 1e12 for each in passes)
    assert falls(passes) <= falls(Costs(calibration).passes())
    draft = costs.draft("head", behind=7)
    parts = (draft.start_seconds, draft.step_seconds, draft.read_seconds)
    assert all(0.0 <= each < 1e12 for each in parts)
    assert all(0.0 <= costs.doubt(each) < 100.0 for each in range(1, ROWS + 9))
    assert costs.doubt(1) == 0.0


@given(calibrations())
def test_a_calibration_goes_through_json(calibration):
    assert Calibration.from_json(json.loads(json.dumps(calibration.to_json()))) == calibration


SOUND = {"context": 0, "rows": [1, 2], "seconds": [1, 1]}
NO_CALIBRATIONS = [
    None,
    [],
    {},
    {"passes": []},
    {"passes": [], "drafts": []},
    {"passes": {**SOUND, "seconds": [0.0, 1]}, "drafts": []},
    {"passes": {**SOUND, "seconds": ["nan", 1]}, "drafts": []},
    {"passes": {**SOUND, "rows": [2, 1]}, "drafts": []},
    {"passes": {**SOUND, "rows": [], "seconds": []}, "drafts": []},
    {"passes": {**SOUND, "seconds": [1]}, "drafts": []},
    {"passes": {**SOUND, "context": 1e400}, "drafts": []},
    {"passes": SOUND, "drafts": [{"drafter": "x"}]},
    {"passes": SOUND, "drafts": [3]},
    {
        "passes": SOUND,
        "drafts": [{"drafter": "x", "start_seconds": -1, "step_seconds": 0, "read_seconds": 0}],
    },
]


def test_what_is_no_calibration_is_refused():
    def refused(value):
        try:
            Calibration.from_json(value)
        except ValueError as error:
            return bool(str(error))
        return False

    assert [value for value in NO_CALIBRATIONS if not refused(value)] == []


def test_between_what_was_measured_lie_lines():
    costs = Costs(MEASURED)
    assert costs.passes()[:4] == pytest.approx([0.010, 0.011, 0.0135, 0.016])
    assert costs.passes()[15] == pytest.approx(0.028 + 8 * 0.003)  # the last slope goes on
    assert costs.draft("head", behind=10).start_seconds == pytest.approx(0.002)


def test_more_rows_cost_less_where_they_were_measured_so_and_nowhere_else():
    """As where a GPU has a better kernel for six rows. Passes of five do not become as cheap."""
    measured = PassCosts(0, (1, 5, 6, 16), (1.0, 3.8, 2.9, 3.2))
    costs = Costs(Calibration(measured))
    assert [costs.passes()[rows - 1] for rows in measured.rows] == pytest.approx(measured.seconds)
    assert falls(costs.passes()) == {6}
    follow(costs, lambda n: 2 * [1.0, 1.7, 2.4, 3.1, 3.8, 2.9][n - 1], [5, 6, 1] * 20)
    assert costs.passes()[4] == pytest.approx(7.6, rel=0.1)
    assert costs.passes()[5] == pytest.approx(5.8, rel=0.1)
    assert falls(costs.passes()) == {6}
    assert falls(Costs(Calibration(PassCosts(0, (1, 32, 64), (1.0, 2.0, 1.9)))).passes()) == set()


def follow(costs, true, lengths, *, noise=0.05):
    luck = random.Random(0)
    for number in lengths:
        costs.observe_pass(number, true(number) * luck.lognormvariate(0.0, noise), context=64)


def test_live_rounds_correct_a_calibration():
    costs = Costs(MEASURED)
    follow(costs, lambda n: 0.02 * (1 + 0.1 * (n - 1)), [1, 4, 6] * 20)
    passes = costs.passes()
    assert passes[0] == pytest.approx(0.02, rel=0.1)
    assert passes[3] == pytest.approx(0.026, rel=0.1)
    assert passes[5] == pytest.approx(0.03, rel=0.1)


def test_the_less_steady_a_calibration_was_the_more_rounds_change_it():
    steady, unsteady = Costs(MEASURED), Costs(replace(MEASURED, spread=0.4))
    assert unsteady.doubt(4) > 2 * steady.doubt(4)
    dearer = 1.3 * steady.passes()[3]
    for costs in (steady, unsteady):
        follow(costs, lambda n: SHALLOW.seconds[0] if n == 1 else dearer, [1, 4] * 2)
    assert steady.passes()[3] < unsteady.passes()[3] < 1.1 * dearer


def test_heat_seen_at_one_number_of_rows_is_believed_of_all():
    costs = Costs(MEASURED)
    before = costs.passes()
    follow(costs, lambda n: 2.0 * before[n - 1], [4] * 15)
    assert costs.passes()[0] == pytest.approx(2.0 * before[0], rel=0.2)
    assert costs.passes()[7] == pytest.approx(2.0 * before[7], rel=0.2)


def test_rows_that_alone_are_dear_do_not_make_the_others_dear():
    """Nor do the others make them look cheap again."""
    true = {1: 0.3, 9: 0.5, 17: 9.0}
    costs = Costs(Calibration(PassCosts(0, (1, 4, 9, 17), (0.3, 0.35, 0.5, 0.7))))
    for number in [*[9] * 12, *[17] * 3, *[9] * 3, *[17] * 3, *[9] * 3, 1]:
        costs.observe_pass(number, true[number], context=64)
    passes = costs.passes()
    assert [passes[rows - 1] for rows in true] == pytest.approx([*true.values()], rel=0.2)


def test_passes_that_are_always_far_apart_are_noise_and_not_changes():
    costs, luck, seen = Costs(MEASURED), random.Random(1), []
    for number in [1, 4] * 60:
        true = SHALLOW.seconds[SHALLOW.rows.index(number)]
        costs.observe_pass(number, true * luck.lognormvariate(0.0, 0.5), context=64)
        seen.append(costs.passes()[0])
    assert max(seen[40:]) < 1.5 * min(seen[40:])


def test_a_curve_is_found_without_a_calibration():
    costs = Costs()
    assert costs.doubt(8) > 0.3
    for true in (lambda n: 0.05, lambda n: 0.05 * n):
        costs = Costs()
        follow(costs, true, [1, 1, 4, 8, 4, 8, 1, 4, 8])
        passes = costs.passes()
        for number in (1, 2, 4, 6, 8):
            assert passes[number - 1] == pytest.approx(true(number), rel=0.3)
        assert costs.doubt(8) < 0.2


@pytest.mark.parametrize("accidents", [1, 2])
def test_one_or_two_accidents_are_not_believed(accidents):
    costs = Costs(MEASURED)
    follow(costs, lambda n: SHALLOW.seconds[0], [1] * 20)
    before = costs.passes()
    follow(costs, lambda n: 10 * SHALLOW.seconds[0], [1] * accidents)
    assert costs.passes() == before
    follow(costs, lambda n: 10 * SHALLOW.seconds[0], [1] * 3)
    assert costs.passes()[0] > 5 * before[0]


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
def test_a_calibration_that_has_long_been_wrong_is_outdated(factor, lengths, outdated):
    costs = Costs(MEASURED)
    before = costs.passes()
    follow(costs, lambda n: factor * before[n - 1], lengths)
    assert costs.outdated is outdated
    follow(costs, lambda n: before[n - 1], [1, 4] * 10)
    assert not costs.outdated


def test_of_far_contexts_and_without_a_calibration_nothing_is_outdated():
    far, none = Costs(MEASURED), Costs()
    for _ in range(200):
        far.observe_pass(1, 9.0, context=20_000)
        none.observe_pass(1, 9.0, context=64)
    assert not far.outdated
    assert not none.outdated


def test_a_drafter_is_followed_too():
    costs = Costs(MEASURED)
    for _ in range(20):
        costs.observe_draft("head", 4, 0.009)
    costs.observe_draft("head", 4, 0.9)  # an accident
    draft = costs.draft("head")
    assert draft.start_seconds + 4 * draft.step_seconds == pytest.approx(0.009, rel=0.05)
    costs.observe_draft("head", 1, 0.0045 + 0.1, behind=100)  # most of which was reading
    assert costs.draft("head") == draft


@pytest.mark.parametrize("behind", [0, 100])
def test_a_first_draft_that_had_to_load_kernels_is_not_believed(behind):
    costs = Costs(MEASURED)
    before = costs.draft("head", behind=behind)
    costs.observe_draft("head", 1, 2.0, behind=behind)
    assert costs.draft("head", behind=behind) == before


def test_an_unknown_drafter_costs_a_part_of_a_pass_until_it_is_seen():
    costs = Costs(MEASURED)
    assert 0.0 < costs.draft("model").step_seconds < 0.2 * SHALLOW.seconds[0]
    for _ in range(3):
        costs.observe_draft("model", 4, 0.02)
    assert costs.draft("model").step_seconds == pytest.approx(0.005)


def test_reading_is_free_until_it_is_measured_and_then_costs_the_least_of_late():
    costs = Costs()
    free = costs.draft("model", behind=1_000)
    assert free.start_seconds == free.read_seconds == 0.0
    for read in (0.9, 0.3, 0.5, 0.6, 0.8):
        costs.observe_draft("model", 1, free.step_seconds + 100 * read, behind=100)
    assert costs.draft("model").read_seconds == pytest.approx(0.5)


# Passes that several generations share


def test_a_share_is_of_the_pass_over_all_rows():
    costs = Costs(Calibration(SHALLOW))
    alone = costs.passes()
    assert costs.passes(sharing=2)[:4] == pytest.approx([alone[i] / 2 for i in (1, 3, 5, 7)])
    assert costs.passes(sharing=8)[0] == pytest.approx(alone[7] / 8)


def test_beyond_what_was_measured_rows_cost_what_the_last_ones_did():
    costs = Costs(Calibration(PassCosts(0, (1, ROWS), (1.0, 2.0))))
    step = 1.0 / (ROWS - 1)
    assert costs.passes(sharing=8)[3] == pytest.approx((1.0 + 31 * step) / 8)


def test_rows_that_were_measured_beyond_those_of_a_chain_count():
    wide = PassCosts(0, (1, 8, 16, 32, 64), (1.0, 2.0, 4.0, 4.2, 8.2))
    costs = Costs(Calibration(wide))
    passes = costs.passes(most=MOST_ROWS)
    assert [passes[rows - 1] for rows in (16, 32, 64)] == pytest.approx([4.0, 4.2, 8.2])


def test_trees_are_corrected_by_themselves():
    costs = Costs(MEASURED)
    chain = costs.draft("head")
    for _ in range(20):
        costs.observe_draft("head", 5.0, 3 * 0.0035, tree=True)
    assert costs.draft("head") == chain
    tree = costs.draft("head", tree=True)
    assert tree.step_seconds == pytest.approx(3 * chain.step_seconds, rel=0.05)
    for _ in range(20):
        costs.observe_draft("model", 4, 0.1)
    assert costs.draft("model", tree=True) == costs.draft("model")


@pytest.mark.parametrize(("sharing", "rows"), [(2, 1), (2, 4), (8, 5)])
def test_shared_passes_correct_the_calibration_too(sharing, rows):
    costs = Costs(Calibration(SHALLOW))
    calibrated = costs.passes(sharing=sharing)
    for _ in range(200):
        seconds = 1.5 * sharing * calibrated[rows - 1]
        costs.observe_pass(sharing * rows, seconds, context=64)
    corrected = costs.passes(sharing=sharing)
    assert corrected[rows - 1] == pytest.approx(1.5 * calibrated[rows - 1], rel=0.05)
    assert corrected[0] == pytest.approx(1.5 * calibrated[0], rel=0.1)  # the machine is slower
