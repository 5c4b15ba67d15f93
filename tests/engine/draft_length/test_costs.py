"""What passes and drafts cost: between what was measured, beyond it, and as rounds correct it."""

import random
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


LINES = {
    "between": (SHALLOW, 1, {1: 0.010, 2: 0.011, 3: 0.0135, 4: 0.016}),
    "beyond, with the last slope": (SHALLOW, 1, {16: 0.028 + 8 * 0.003}),
    "beyond the rows of a chain": (
        PassCosts(0, (1, 8, 16, 32, 64), (1.0, 2.0, 4.0, 4.2, 8.2)),
        *(1, {16: 4.0, 32: 4.2, 64: 8.2}),
    ),
    "half of a pass for two": (SHALLOW, 2, {1: 0.0055, 2: 0.008, 3: 0.011, 4: 0.014}),
    "an eighth of one for eight": (SHALLOW, 8, {1: 0.0035}),
    "an eighth, beyond": (
        PassCosts(0, (1, ROWS), (1.0, 2.0)),
        *(8, {4: (1.0 + 31 / (ROWS - 1)) / 8}),
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_passes_are_on_lines_through_what_was_measured(name):
    measured, sharing, expected = LINES[name]
    passes = Costs(Calibration(measured)).passes(sharing=sharing, most=MOST_ROWS)
    assert {rows: passes[rows - 1] for rows in expected} == pytest.approx(expected)


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


def follow(costs, true, lengths, *, context=64):
    luck = random.Random(0)
    for number in lengths:
        costs.observe_pass(number, true(number) * luck.lognormvariate(0.0, 0.05), context=context)


AT_FIRST = [1, 1, 4, 8, 4, 8, 1, 4, 8]
LEARNED = {
    "another curve": (MEASURED, {1: 0.02, 4: 0.026, 6: 0.03}, [1, 4, 6] * 20, {}, 0.1),
    "heat, seen at one number of rows": (MEASURED, {4: 0.032}, [4] * 15, {1: 0.02, 8: 0.056}, 0.2),
    "rows that alone are dear": (  # nor do the others make them look cheap again
        Calibration(PassCosts(0, (1, 4, 9, 17), (0.3, 0.35, 0.5, 0.7))),
        {1: 0.3, 9: 0.5, 17: 9.0},
        [*[9] * 12, *[17] * 3, *[9] * 3, *[17] * 3, *[9] * 3, 1],
        *({}, 0.2),
    ),
    "free rows, without a calibration": (
        None,
        dict.fromkeys((1, 2, 4, 6, 8), 0.05),
        AT_FIRST,
        {},
        0.3,
    ),
    "dear rows, without one": (
        None,
        {rows: 0.05 * rows for rows in (1, 2, 4, 6, 8)},
        AT_FIRST,
        {},
        0.3,
    ),
}


@pytest.mark.parametrize("name", LEARNED)
def test_rounds_show_what_passes_cost(name):
    calibration, true, rows, others, off = LEARNED[name]
    costs, expected = Costs(calibration), true | others
    follow(costs, true.__getitem__, rows)
    passes = costs.passes()
    assert {rows: passes[rows - 1] for rows in expected} == pytest.approx(expected, rel=off)


def test_passes_that_are_always_far_apart_are_noise_and_not_changes():
    costs, luck, seen = Costs(MEASURED), random.Random(1), []
    for number in [1, 4] * 60:
        true = SHALLOW.seconds[SHALLOW.rows.index(number)]
        costs.observe_pass(number, true * luck.lognormvariate(0.0, 0.5), context=64)
        seen.append(costs.passes()[0])
    assert max(seen[40:]) < 1.5 * min(seen[40:])


@pytest.mark.parametrize("accidents", [1, 2])
def test_one_or_two_accidents_are_not_believed(accidents):
    costs = Costs(MEASURED)
    follow(costs, lambda n: SHALLOW.seconds[0], [1] * 20)
    before = costs.passes()
    follow(costs, lambda n: 10 * SHALLOW.seconds[0], [1] * accidents)
    assert costs.passes() == before
    follow(costs, lambda n: 10 * SHALLOW.seconds[0], [1] * 3)
    assert costs.passes()[0] > 5 * before[0]


OFTEN = [1, 4, 4, 4] * 40
OUTDATED = {
    "as it was": (MEASURED, 1.0, OFTEN, 64, False),
    "less than a third": (MEASURED, 1.25, OFTEN, 64, False),
    "dearer": (MEASURED, 1.6, OFTEN, 64, True),
    "cheaper": (MEASURED, 0.6, OFTEN, 64, True),
    "plain passes alone": (MEASURED, 1.6, [1] * 60, 64, True),
    "not for long": (MEASURED, 1.6, OFTEN[:32], 64, False),
    "no plain pass has shown it": (MEASURED, 1.6, [4] * 200, 64, False),
    "a far context": (MEASURED, 900.0, [1] * 200, 20_000, False),
    "no calibration": (None, 900.0, [1] * 200, 64, False),
}


@pytest.mark.parametrize("name", OUTDATED)
def test_a_calibration_that_has_long_been_wrong_is_outdated(name):
    calibration, factor, lengths, context, outdated = OUTDATED[name]
    costs, before = Costs(calibration), Costs(MEASURED).passes()
    follow(costs, lambda n: factor * before[n - 1], lengths, context=context)
    assert costs.outdated is outdated
    follow(costs, lambda n: before[n - 1], [1, 4] * 10)
    assert not costs.outdated


def test_a_drafter_is_followed_too():
    costs = Costs(MEASURED)
    assert costs.draft("head", behind=10).start_seconds == pytest.approx(0.002)
    before = costs.draft("head")
    for behind in (0, 100):  # the first one had to load kernels
        costs.observe_draft("head", 1, 2.0, behind=behind)
        assert costs.draft("head") == before
    for _ in range(20):
        costs.observe_draft("head", 4, 0.009)
    costs.observe_draft("head", 4, 0.9)  # an accident
    draft = costs.draft("head")
    assert draft.start_seconds + 4 * draft.step_seconds == pytest.approx(0.009, rel=0.05)
    costs.observe_draft("head", 1, 0.0045 + 0.1, behind=100)  # most of which was reading
    assert costs.draft("head") == draft


def test_an_unknown_drafter_costs_a_part_of_a_pass_and_reads_for_free_until_it_is_seen():
    costs = Costs(MEASURED)
    free = costs.draft("model", behind=1_000)
    assert 0.0 < free.step_seconds < 0.2 * SHALLOW.seconds[0]
    assert free.start_seconds == free.read_seconds == 0.0
    for read in (0.9, 0.3, 0.5, 0.6, 0.8):
        costs.observe_draft("model", 1, free.step_seconds + 100 * read, behind=100)
    for _ in range(3):
        costs.observe_draft("model", 4, 0.02)
    draft = costs.draft("model")
    assert draft.step_seconds == pytest.approx(0.005)
    assert draft.read_seconds == pytest.approx(0.5)  # the least of late


def test_trees_are_corrected_by_themselves():
    costs = Costs(MEASURED)
    chain = costs.draft("head")
    for _ in range(20):
        costs.observe_draft("head", 5.0, 3 * 0.0035, tree=True)
        costs.observe_draft("model", 4, 0.1)
    assert costs.draft("head") == chain
    tree = costs.draft("head", tree=True)
    assert tree.step_seconds == pytest.approx(3 * chain.step_seconds, rel=0.05)
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
