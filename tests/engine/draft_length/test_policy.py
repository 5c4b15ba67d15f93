"""How many tokens to draft: `Automatic` on imagined machines, where the best length is known; and
what is copied, what drafting may lose, and what is drafted where the user says how much.

The machines, and what a choice costs on them, are the laboratory's (`tests.lab.simulate`), which
also plays it against what real pairs were recorded to accept.
"""

from dataclasses import dataclass, replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import engine.draft_length.policy
from engine.draft_length import (
    LONGEST,
    LONGEST_COPY,
    DraftCandidate,
    MeasuredRound,
    Reason,
    Why,
)
from engine.draft_length.costs import Calibration, DraftCosts, PassCosts
from engine.draft_length.policy import Automatic, Fixed, FixedTree, RegretBudget
from engine.draft_length.trees import best_trees
from tests.lab.simulate.conditions import Conditions
from tests.lab.simulate.curves import CostCurve
from tests.lab.simulate.replay import SimulatedRound, replay, seconds, whole
from tests.lab.simulate.tests.recorded import lucky_answer
from tests.support.mostly_slow import mostly_slow

PASS_SECONDS = 0.05
HEAD = DraftCandidate("head", LONGEST)


@dataclass(frozen=True)
class World:
    """A machine, a pair and a text. `curve`: the cost of a pass by rows; `step`: of drafting one
    token, both in passes over one row; `acceptance` of a drafted token, given the ones before;
    `later`: of further alternatives; `noise` of the clock; `others` that share each pass."""

    curve: CostCurve
    step: float
    acceptance: float
    noise: float = 0.05
    others: int = 0
    later: tuple[float, ...] = ()

    def machine(self, seed=0):
        return Conditions(
            curve=self.curve,
            steps={"head": self.step},
            pass_seconds=PASS_SECONDS,
            noise=self.noise,
            reading=0.0,
            others=self.others,
            seed=seed,
        )

    def speed(self, length):
        """Expected tokens of each generation, in the time of a pass over one row."""
        tokens, sharing = sum(self.acceptance**i for i in range(length + 1)), self.others + 1
        return tokens / (self.curve.cost(sharing * (length + 1)) / sharing + length * self.step)

    @property
    def best(self):
        return max(range(LONGEST + 1), key=self.speed)

    @property
    def best_tree_speed(self):
        """The same of the best tree, where each level takes one step."""
        best = best_trees([self.acceptance] * LONGEST, self.later, most=64)
        return max(
            tokens / (self.curve.cost(n + 1) + best.tree.first(n).height * self.step)
            for n, tokens in enumerate(best.tokens)
        )


@dataclass(frozen=True)
class Run:
    """Rounds, and the tokens that they wrote in the time of a pass over one row."""

    rounds: list[SimulatedRound]
    speed: float

    @property
    def decided(self):
        """The tokens that were drafted to be fast, not to see what plain decoding costs by now."""
        return [each.proposed for each in self.rounds if each.reason.why is not Why.PLAIN_CHECK]

    @property
    def trees(self):
        return [each for each in self.rounds if each.tree is not None]


def run(policy, world, *, tokens, seed=0):
    """Write `tokens` tokens."""
    answer = lucky_answer(
        world.acceptance, places=tokens, seed=seed, longest=LONGEST, later=world.later
    )
    machine = world.machine(seed)
    rounds = list(replay(whole([answer]), policy, machine))
    assert all(each.tree is None or not each.tree.is_chain for each in rounds)
    assert all(str(each.reason) for each in rounds)
    return Run(rounds, tokens * PASS_SECONDS / seconds(rounds, machine))


def a_row(cost):
    """Each further row costs as much."""
    return CostCurve("a row", "made up", ((1, 1.0), (2, 1.0 + cost)))


FLAT = a_row(0.0)
STEEP = a_row(1.0)  # as quantized matrices on a CPU: rows are not shared
MAC = CostCurve(
    "mac",
    "made up",
    ((1, 1.0), (2, 1.03), (3, 1.2), (4, 1.5), (6, 2.1), (8, 2.7), (17, 7.0), (18, 7.48)),
)

PAYING = {
    "rows are free, good drafter": World(FLAT, 0.04, 0.9),
    "rows are free, poor drafter": World(FLAT, 0.04, 0.5),
    "rows are free, slow drafter": World(FLAT, 0.3, 0.8),
    "a Mac, good drafter": World(MAC, 0.06, 0.85),
    "a Mac, fair drafter": World(MAC, 0.06, 0.6),
    "a Mac, free drafter": World(MAC, 0.0, 0.7),
    "noisy clock": World(MAC, 0.06, 0.8, noise=0.2),
}
NOT_PAYING = {
    "rows are not shared": World(STEEP, 0.04, 0.9),
    "drafter as slow as the target": World(FLAT, 1.0, 0.8),
    "nothing is accepted": World(FLAT, 0.08, 0.02),
    "a Mac, hopeless drafter": World(MAC, 0.4, 0.2),
}


@pytest.mark.parametrize("name", mostly_slow(PAYING, quick=["noisy clock"]))
def test_finds_a_length_that_is_nearly_the_best(name):
    world, policy = PAYING[name], Automatic()
    run(policy, world, tokens=500)  # gets to know it
    settled = run(policy, world, tokens=3_600, seed=1)
    assert world.best > 0
    assert settled.speed > 0.9 * world.speed(world.best)
    assert settled.speed > 1.05 * world.speed(0)
    assert not settled.trees  # a drafter of chains is never asked for one


@pytest.mark.parametrize(
    "name", mostly_slow(NOT_PAYING, quick=["nothing is accepted", "rows are not shared"])
)
def test_parks_where_drafting_does_not_pay(name):
    world, policy = NOT_PAYING[name], Automatic()
    assert world.best == 0
    first = run(policy, world, tokens=500)
    settled = run(policy, world, tokens=1_200, seed=1)
    assert first.speed > 0.85 * world.speed(0)
    assert settled.speed > 0.98 * world.speed(0)
    assert any(each.reason.why is Why.PARKED for each in first.rounds)


@pytest.mark.slow
def test_a_parked_drafter_is_tried_as_often_as_the_budget_allows():
    dear = World(STEEP, 0.2, 0.02, noise=0.0)  # a try costs a plain pass and more
    policy = Automatic()
    run(policy, dear, tokens=1_000)
    again = run(policy, dear, tokens=3_000, seed=2)
    tries = [each for each in again.rounds if each.reason.why is Why.PARKED_TRIAL]
    assert all(each.proposed == 1 for each in tries)
    assert 5 < len(tries) < 30
    assert again.speed > 0.985 * dear.speed(0)

    cheap = Automatic()
    run(cheap, NOT_PAYING["nothing is accepted"], tokens=1_000)
    rounds = run(cheap, NOT_PAYING["nothing is accepted"], tokens=3_000, seed=2).rounds
    assert max(each.reason.rounds for each in rounds) == 32  # a try costs next to nothing
    assert len([each for each in rounds if each.proposed]) > 50


def test_plain_passes_that_become_cheaper_are_noticed():
    """Another program lets go of the machine: while it drafts, only a plain pass can tell."""
    policy, world = Automatic(), World(FLAT, 0.1, 0.5)
    answer = whole([lucky_answer(0.5, places=1_000)])
    busy = replace(world.machine(), pass_seconds=10 * PASS_SECONDS, steps={"head": 0.1})
    list(replay(answer, policy, busy))
    free = replace(world, step=1.0)  # a draft takes as long as before
    assert run(policy, free, tokens=1_200, seed=1).speed > 0.95 * free.speed(0)


@pytest.mark.parametrize("name", ["nothing is accepted", "rows are free, good drafter"])
def test_a_first_pass_that_loads_kernels_is_not_taken_at_its_word(name):
    """Else any drafting would look like a gain."""
    world, policy = (PAYING | NOT_PAYING)[name], Automatic()
    policy.observe(MeasuredRound(0, 0, 0.0, 5 * PASS_SECONDS, 1))
    later = run(policy, world, tokens=1_200, seed=1)
    assert later.speed > (0.85 if world.best else 0.95) * world.speed(world.best)


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", PAYING)
def test_without_a_calibration_drafts_of_three_come_first(name):
    lengths = run(Automatic(), PAYING[name], tokens=500).decided
    assert lengths[:2] == [3, 3]
    assert max(lengths) > 3 or PAYING[name].best <= 3


def test_what_was_learned_survives():
    # One policy serves all answers of a conversation.
    policy, world = Automatic(), PAYING["a Mac, good drafter"]
    first = run(policy, world, tokens=600)
    second = run(policy, world, tokens=600, seed=1)
    assert all(length > 0 for length in second.decided[:-2])  # at the end there is no room
    checks = [len(each.rounds) - len(each.decided) for each in (first, second)]
    assert 1 <= checks[0] <= 5
    assert checks[1] <= len(second.rounds) / 16 + 1


# Trees


LATER = (0.45, 0.35, 0.3, 0.2)


@pytest.mark.slow
@pytest.mark.parametrize("known", mostly_slow([True, False], quick=[True]))
def test_trees_where_rows_are_cheap(known):
    world = World(a_row(0.004), 0.04, 0.55, later=LATER)
    policy = calibrated(world) if known else Automatic()
    run(policy, world, tokens=1_000)
    settled = run(policy, world, tokens=1_200, seed=1)
    assert world.best_tree_speed > 1.2 * world.speed(world.best)
    assert settled.speed > (0.93 if known else 0.85) * world.best_tree_speed
    assert len(settled.trees) > 0.8 * len(settled.rounds)
    last = next(each for each in reversed(settled.trees) if each.reason.why is Why.BEST_GAIN)
    assert (last.reason.tokens, last.reason.length) == (len(last.tree), last.tree.height)


@pytest.mark.parametrize(("row", "trees"), [(0.004, True), (0.4, False)])
def test_a_tree_has_at_least_as_many_tokens_as_it_needs(row, trees):
    """It is drafted where so many rows pay, and where they do not there are chains."""
    world = World(a_row(row), 0.0, 0.5, later=LATER)
    policy, needing = calibrated(world), replace(HEAD, alternatives=5, least=24)
    run(policy, world, tokens=1_000)
    drafted = [policy.choose([needing], most=64, context=1).tree for _ in range(8)]
    assert all(tree is None or len(tree) >= 24 for tree in drafted)
    assert any(drafted) == trees


NO_TREES = {
    "a Mac": World(MAC, 0.06, 0.75, later=LATER),
    "a Mac, no good": World(MAC, 0.06, 0.9, later=(0.01,) * 4),
    "rows are free, no good": World(FLAT, 0.04, 0.8, later=(0.01,) * 4),
    "not shared": World(STEEP, 0.04, 0.9, later=LATER),
    "nothing is accepted": World(FLAT, 0.08, 0.02, later=(0.02,) * 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_slow(NO_TREES, quick=["a Mac, no good"]))
def test_where_trees_do_not_pay_little_is_lost(name):
    world = NO_TREES[name]
    policy = calibrated(world)
    run(policy, world, tokens=500)
    settled = run(policy, world, tokens=1_500, seed=1)
    assert settled.speed > 0.9 * max(world.speed(world.best), world.best_tree_speed)
    assert settled.speed > 0.97 * world.speed(0)


# With others


MANY = [("a Mac, fair drafter", 4), ("rows are free, poor drafter", 8), ("a Mac, free drafter", 2)]


@pytest.mark.parametrize(
    ("name", "sharing"),
    mostly_slow(product([*PAYING, *NOT_PAYING], (2, 4, 8)), quick=MANY),
)
def test_with_others_it_is_nearly_as_good_as_the_best(name, sharing):
    world = replace((PAYING | NOT_PAYING)[name], others=sharing - 1)
    policy = Automatic()
    run(policy, world, tokens=500)
    settled = run(policy, world, tokens=1_200, seed=1)
    assert settled.speed > 0.9 * world.speed(world.best)
    assert settled.speed > 0.96 * world.speed(0)


def calibrated(world, *, read_seconds=0.0):
    """As after a first use of the pair, alone."""
    rows = (1, 2, 3, 4, 6, 8, 12, 16)
    passes = PassCosts(24, rows, tuple(PASS_SECONDS * world.curve.cost(n) for n in rows))
    head = DraftCosts("head", 0.0, PASS_SECONDS * world.step, read_seconds)
    return Automatic(Calibration(passes, (head,)))


def usual_length(policy, world):
    """The length that is chosen, once the acceptance is known."""
    run(policy, replace(world, others=0), tokens=1_000)
    return float(np.median(run(policy, world, tokens=300).decided))


def test_of_what_was_parked_another_prompt_is_read_by_what_usually_pays():
    good, bad = World(MAC, 0.5, 0.9), World(MAC, 0.5, 0.0)
    policy, far = calibrated(good, read_seconds=0.001), replace(HEAD, behind=1_000)
    for seed in range(4):
        run(policy, good, tokens=200, seed=seed)
    for context in range(100, 140):
        choice = policy.choose([HEAD], most=64, context=context)
        drafted, drafter = (choice.length, "head") if choice.length else (0, "")
        taken = drafted * PASS_SECONDS * bad.step, PASS_SECONDS * MAC.cost(drafted + 1)
        policy.observe(MeasuredRound(drafted, 0, *taken, context, drafter=drafter))
    assert choice.reason.why is Why.PARKED
    assert not policy.worth_reading([far], context=140), "still the same text"
    assert policy.worth_reading([far], context=50), "another"
    for seed in range(8):
        run(policy, bad, tokens=500, seed=seed)
    assert not policy.worth_reading([far], context=50), "hardly any text pays"


def test_drafts_shrink_as_others_come_where_rows_are_dear_and_are_long_again_without_them():
    world = World(MAC, 0.06, 0.75, noise=0.0)
    policies = {others: calibrated(world) for others in (0, 1, 3, 7)}
    lengths = [usual_length(policies[n], replace(world, others=n)) for n in policies]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] >= 2
    assert lengths[0] > lengths[1] > 0
    assert lengths[-1] == 0
    run(policies[7], replace(world, others=7), tokens=1_000)
    assert np.median(run(policies[7], world, tokens=600).decided[-50:-2]) == lengths[0]


def test_a_plain_pass_with_others_is_not_taken_for_one_of_its_own():
    policy = calibrated(World(MAC, 0.06, 0.75))
    alone, shared = policy.costs.passes(), policy.costs.passes(sharing=4)
    for context in range(200):
        seconds_of_four = PASS_SECONDS * MAC.cost(4)
        policy.observe(MeasuredRound(0, 0, 0.0, seconds_of_four, context, rows=4, others=3))
    assert policy.costs.passes() == pytest.approx(alone)
    assert policy.costs.passes(sharing=4) == pytest.approx(shared)
    assert shared[0] == pytest.approx(seconds_of_four / 4)


def test_says_what_it_promises():
    world, policy = World(FLAT, 0.02, 0.6, noise=0.0), Automatic()
    run(policy, world, tokens=5_000)
    choice = policy.choose([HEAD], most=16, context=5_010)
    assert (choice.reason.drafter, choice.reason.length) == ("head", choice.length)
    promised = world.speed(choice.length) / world.speed(0)
    assert choice.reason.gain == pytest.approx(promised, rel=0.25)


MEASURED = st.tuples(
    st.integers(0, 20),
    st.integers(0, 20),
    st.sampled_from([0.0, 1e-9, 1e-3, 0.05, 10.0]),
    st.sampled_from([0.0, 1e-9, 1e-3, 0.05, 10.0]),
).map(lambda m: MeasuredRound(m[0], min(m[1], m[0]), m[2] if m[0] else 0.0, m[3], drafter="head"))


@given(history=st.lists(st.tuples(st.integers(0, 40), MEASURED), max_size=60))
def test_any_history_gives_a_sound_choice_and_always_the_same(history):
    # What is proposed may be less than was chosen, or nothing, and clocks may stand still.
    one, other = Automatic(), Automatic()
    for most, measured in history:
        choice = one.choose([HEAD], most=most, context=0)
        assert 0 <= choice.length <= min(most, LONGEST)
        assert 1 <= choice.rounds <= 512
        assert choice == other.choose([HEAD], most=most, context=0)
        one.observe(measured)
        other.observe(measured)


def test_a_drafter_without_ideas_is_asked_again():
    # Lookup often has no guess: the loop then writes one token plainly, whatever was chosen.
    policy = Automatic()
    for _ in range(100):
        policy.choose([HEAD], most=16, context=0)
        policy.observe(MeasuredRound(0, 0, 0.0, 0.05))

    assert policy.choose([HEAD], most=16, context=0).length > 0


def test_a_plain_pass_that_nothing_ran_beside_is_no_measure():
    """As on a GPU, where plain decoding has the next one under way; a run shows it from then on."""
    policy = Automatic(Calibration(PassCosts(50, (1, 5), (0.02, 0.03))))
    before = policy.costs.passes()[0]
    for _ in range(40):
        policy.observe(MeasuredRound(0, 0, 0.0, 3 * before, 50, edge=True))
    assert policy.costs.passes()[0] == before
    for _ in range(40):
        policy.observe(MeasuredRound(0, 0, 0.0, 3 * before, 50))
    assert policy.costs.passes()[0] > 2 * before


# Copies


COPY = DraftCandidate("lookup", 1000, match=32)
ROWS = (1, 2, 4, 8, 16, 32, 64)


def copied(slope, *, share=1.0, stand=1000, candidate=COPY, room=1000):
    """The lengths of drafts of which that share is accepted, `stand` tokens at most, where each row
    after the first costs `slope` of a plain pass; 0 for a plain round."""
    costs = [PASS_SECONDS * (1.0 + slope * row) for row in range(LONGEST_COPY + 1)]
    passes = PassCosts(24, ROWS, tuple(costs[rows - 1] for rows in ROWS))
    policy = Automatic(Calibration(passes, (DraftCosts(candidate.drafter, 0.0, 0.0),)))
    lengths, context = [], 100
    for _ in range(60):
        length = policy.choose([candidate], most=room, context=context).length
        stood = min(int(share * length), stand)
        drafted = {"drafter": candidate.drafter, "match": candidate.match} if length else {}
        policy.observe(
            MeasuredRound(length, stood, 0.0, costs[length], context, asked=length, **drafted)
        )
        context += stood + 1
        lengths.append(length)
    return lengths


@pytest.mark.parametrize(
    ("candidate", "room", "stand", "least", "most"),
    [
        pytest.param(COPY, 1000, 1000, LONGEST_COPY, LONGEST_COPY, id="all tokens stand"),
        pytest.param(COPY, 1000, 20, LONGEST + 1, 40, id="twenty tokens stand"),
        pytest.param(COPY, 1000, 6, 1, LONGEST, id="six tokens stand"),
        pytest.param(COPY, 24, 1000, 24, 24, id="no more room"),
        pytest.param(replace(COPY, most=20), 1000, 1000, 20, 20, id="no more to copy"),
        pytest.param(HEAD, 1000, 1000, LONGEST, LONGEST, id="no copy"),
    ],
)
def test_a_copy_is_at_most_twice_as_long_as_what_stood_of_the_last(
    candidate, room, stand, least, most
):
    lengths = [each for each in copied(0.005, stand=stand, candidate=candidate, room=room) if each]
    assert least <= max(lengths) <= most
    assert all(b <= max(LONGEST, 2 * min(a, stand)) for a, b in pairwise(lengths))


@pytest.mark.parametrize("share", [0.9, 1.0])
def test_copies_do_not_grow_where_rows_are_dear(share, monkeypatch):
    lengths = copied(0.5, share=share)
    monkeypatch.setattr(engine.draft_length.policy, "LONGEST_COPY", LONGEST)
    assert lengths == copied(0.5, share=share)


# What is copied, what may be lost, and what the user says

WIDE = DraftCandidate("head", LONGEST, alternatives=4)


def lookup(match):
    return DraftCandidate("lookup", 100, match, alternatives=3)


def a_copy(accepted):
    return MeasuredRound(2, accepted, 0.0, 0.05, drafter="lookup", match=4)


@pytest.mark.parametrize("make", [Fixed, FixedTree])
def test_what_passes_is_copied_else_the_next_is_asked_or_a_match_waited_for(make):
    policy = make(6)

    def chosen(*candidates):
        return policy.choose(candidates, most=16, context=0)

    first = chosen(lookup(2), HEAD)
    assert (first.drafter, 0 < first.length <= 4) == ("lookup", True)
    for _ in range(10):
        policy.observe(a_copy(0))
    second, waiting = chosen(lookup(2), HEAD), chosen(lookup(2))
    assert second.drafter == "head"
    assert (waiting.length, waiting.rounds > 1, waiting.wake) == (0, True, 8)
    for _ in range(10):
        policy.observe(MeasuredRound(3, 0, 0.01, 0.05, drafter="head"))  # not a copy
        policy.observe(a_copy(2))
    assert chosen(lookup(2)).drafter == "lookup"
    policy.restart()
    assert chosen(lookup(2)) == first


def test_a_fixed_tree_has_as_many_tokens_as_there_is_room_for():
    policy = FixedTree(8)
    choice = policy.choose([WIDE], most=16, context=0)
    assert not choice.tree.is_chain
    assert (len(choice.tree), choice.tree.height) == (8, choice.length)
    assert max(choice.tree.ranks) < WIDE.alternatives
    assert (choice.reason.tokens, choice.reason.length) == (8, choice.length)
    assert len(policy.choose([WIDE], most=5, context=0).tree) == 5
    assert policy.choose([WIDE], most=0, context=0).reason == Reason(Why.NO_ROOM)
    flat = policy.choose([replace(WIDE, most=1)], most=16, context=0).tree
    assert (len(flat), flat.height) == (4, 1)
    # Where there are no alternatives, a chain as high.
    tree, chain = (FixedTree(16).choose([each], most=64, context=0) for each in (WIDE, HEAD))
    assert chain.tree is None
    assert chain.length == tree.length < 16


def test_a_budget():
    budget = RegretBudget()
    assert budget.wait_for(1.0) == 0
    lost = 0
    while budget.required_gain(parked=True) <= 1.0:
        budget.count(1, 1.5)
        lost += 1
    assert lost * 0.5 < 3.0
    assert budget.wait_for(1.0) > 100
    for _ in range(10_000):
        budget.count(1, 1.0)
    for _ in range(1_000):
        budget.count(4, 1.0)  # great gains
    lost = 0
    while budget.required_gain(parked=True) <= 1.0:
        budget.count(1, 1.5)
        lost += 1
    assert lost * 0.5 < 5.0  # are not to be gambled away
