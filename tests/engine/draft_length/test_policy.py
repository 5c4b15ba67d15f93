"""How many tokens to draft: `Automatic` in simulated worlds, where the best length is known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.draft_length import (
    LONGEST,
    DraftCandidate,
    DraftChoice,
    DraftLengthPolicy,
    MeasuredRound,
    Why,
)
from engine.draft_length.costs import Calibration, DraftCosts, PassCosts
from engine.draft_length.policy import Automatic
from engine.draft_length.trees import best_trees
from engine.tree import COMMITTED, Tree
from tests.support.engine.policies import HEAD, MEASURED
from tests.support.mostly_slow import mostly_slow


@dataclass(frozen=True)
class World:
    """What a machine, a pair and a text are like.

    `pass_seconds`: of a pass over so many rows. `step_seconds`: of drafting one token.
    `acceptance`: of a drafted token, given that the ones before stand. `warm_up`: how many times
    longer the first pass over each number of rows takes, which loads its kernels. `sharing`: how
    many generations share the passes; each of them drafts. `later`: the acceptance of the second,
    third, ... alternative for a place, where those before are rejected.
    """

    pass_seconds: Callable[[int], float]
    step_seconds: float
    acceptance: float
    jitter: float = 0.05
    warm_up: float = 1.0
    sharing: int = 1
    later: tuple[float, ...] = ()

    @property
    def candidate(self) -> DraftCandidate:
        return replace(HEAD, alternatives=len(self.later) + 1)

    def path(self, tree: Tree, chance: np.random.Generator) -> tuple[int, ...]:
        """What is accepted of a tree."""
        path, parent, ended = list[int](), COMMITTED, False
        while not ended:
            ended = True
            for token in tree.children(parent):
                rank = tree.ranks[token]
                if chance.random() < (self.later[rank - 1] if rank else self.acceptance):
                    path.append(token)
                    parent, ended = token, False
                    break
        return tuple(path)

    @property
    def best_tree_speed(self) -> float:
        """Expected tokens a second of the best tree, where each level takes one step."""
        best = best_trees([self.acceptance] * LONGEST, self.later, most=64)
        return max(
            tokens / (self.pass_seconds(n + 1) + best.tree.first(n).height * self.step_seconds)
            for n, tokens in enumerate(best.tokens)
        )

    def speed(self, length: int) -> float:
        """Expected tokens a second of all together, at a fixed length."""
        tokens = sum(self.acceptance**i for i in range(length + 1))
        drafting = self.sharing * length * self.step_seconds
        return self.sharing * tokens / (self.pass_seconds(self.sharing * (length + 1)) + drafting)

    @property
    def best(self) -> int:
        return max(range(LONGEST + 1), key=self.speed)


@dataclass
class Run:
    """Choices and what came of them."""

    choices: list[DraftChoice] = field(default_factory=list)
    tokens: int = 0
    seconds: float = 0.0

    @property
    def speed(self) -> float:
        return self.tokens / self.seconds

    @property
    def lengths(self) -> list[int]:
        return [choice.length for choice in self.choices]


def run(
    policy: DraftLengthPolicy, world: World, *, tokens: int, most: int = 64, seed: int = 0
) -> Run:
    """Write `tokens` tokens or a few more, as the loop does. Those beside it do the same."""
    chance = np.random.default_rng(seed)
    result = Run()
    warm: set[int] = set()

    def took(seconds: float) -> float:
        return float(seconds * chance.lognormal(0.0, world.jitter))

    def pass_over(rows: int) -> float:
        cold = world.warm_up if rows not in warm else 1.0
        warm.add(rows)
        seconds = took(world.pass_seconds(rows) * cold)
        result.seconds += seconds / world.sharing
        return seconds

    others = world.sharing - 1
    while result.tokens < tokens:
        choice = policy.choose([world.candidate], most=most, context=result.tokens, others=others)
        assert 0 <= choice.length <= min(most, LONGEST)
        assert choice.tree is None or (world.later and not choice.tree.is_chain)
        assert choice.rounds >= 1
        assert str(choice.reason)
        result.choices.append(choice)
        if choice.length == 0:
            for _ in range(choice.rounds):
                rows, context = world.sharing, result.tokens
                policy.observe(
                    MeasuredRound(0, 0, 0.0, pass_over(rows), context, rows=rows, others=others)
                )
                result.tokens += 1
            continue
        if choice.tree is None:
            stands = chance.random(choice.length) < world.acceptance
            accepted, path, drafted = int(np.cumprod(stands).sum()), (), choice.length
        else:
            path, drafted = world.path(choice.tree, chance), len(choice.tree)
            accepted = len(path)
        draft_seconds = took(choice.length * world.step_seconds)
        result.seconds += draft_seconds
        rows = world.sharing * (drafted + 1)
        verify_seconds = pass_over(rows)
        assert choice.drafter == "head"
        policy.observe(
            MeasuredRound(
                drafted,
                accepted,
                draft_seconds,
                verify_seconds,
                context=result.tokens,
                drafter="head",
                rows=rows,
                others=others,
                tree=choice.tree,
                path=path,
            )
        )
        result.tokens += accepted + 1
    return result


def flat(rows: int) -> float:
    return 0.05


def steep(rows: int) -> float:
    return 0.05 * rows  # as quantized matrices on a CPU: rows are not shared


def mac(rows: int) -> float:
    measured = [1, 2, 3, 4, 6, 8, 17], [1, 1.03, 1.2, 1.5, 2.1, 2.7, 7]
    return 0.05 * float(np.interp(rows, *measured) + 0.48 * max(rows - 17, 0))


PAYING = {
    "rows are free, good drafter": World(flat, 0.002, 0.9),
    "rows are free, poor drafter": World(flat, 0.002, 0.5),
    "rows are free, slow drafter": World(flat, 0.015, 0.8),
    "a Mac, good drafter": World(mac, 0.003, 0.85),
    "a Mac, fair drafter": World(mac, 0.003, 0.6),
    "a Mac, free drafter": World(mac, 0.0, 0.7),
    "noisy clock": World(mac, 0.003, 0.8, jitter=0.2),
}
NOT_PAYING = {
    "rows are not shared": World(steep, 0.002, 0.9),
    "drafter as slow as the target": World(flat, 0.05, 0.8),
    "nothing stands": World(flat, 0.004, 0.02),
    "a Mac, hopeless drafter": World(mac, 0.02, 0.2),
}


@pytest.mark.parametrize(
    "name",
    mostly_slow(PAYING, quick=["noisy clock"]),
)
def test_finds_a_length_that_is_nearly_the_best(name: str) -> None:
    world, policy = PAYING[name], Automatic()
    run(policy, world, tokens=500)  # gets to know it

    settled = run(policy, world, tokens=1_200, seed=1)

    assert world.best > 0
    assert settled.speed > 0.9 * world.speed(world.best)
    assert settled.speed > 1.05 * world.speed(0)


@pytest.mark.parametrize("name", mostly_slow(NOT_PAYING, quick=["nothing stands"]))
def test_parks_where_drafting_does_not_pay(name: str) -> None:
    world, policy = NOT_PAYING[name], Automatic()
    assert world.best == 0

    first = run(policy, world, tokens=500)
    settled = run(policy, world, tokens=1_200, seed=1)

    assert first.speed > 0.85 * world.speed(0)
    assert settled.speed > 0.98 * world.speed(0)
    assert any(choice.reason.why is Why.PARKED for choice in first.choices)


@pytest.mark.slow
def test_a_parked_drafter_is_tried_as_often_as_the_budget_allows() -> None:
    dear = World(steep, 0.01, 0.02, jitter=0.0)  # a try costs a plain pass and more
    policy = Automatic()
    run(policy, dear, tokens=1_000)
    again = run(policy, dear, tokens=3_000, seed=2)
    tries = [choice for choice in again.choices if choice.reason.why is Why.PARKED_TRIAL]
    assert all(each.length == 1 for each in tries)
    assert 5 < len(tries) < 30
    assert again.speed > 0.985 * dear.speed(0)

    cheap = Automatic()
    run(cheap, NOT_PAYING["nothing stands"], tokens=1_000)
    choices = run(cheap, NOT_PAYING["nothing stands"], tokens=3_000, seed=2).choices
    assert max(choice.rounds for choice in choices) == 32  # what costs next to nothing
    assert len([choice for choice in choices if choice.length]) > 50


def test_drafts_again_once_it_pays() -> None:
    policy = Automatic()
    run(policy, World(flat, 0.004, 0.0), tokens=300)

    later = run(policy, World(flat, 0.004, 0.95), tokens=4_000)

    assert all(length > 0 for length in decided(later.choices[-50:]))


def slow_at_first(world: World) -> World:
    return replace(world, warm_up=5.0)


CHANGES = {
    "drafts no longer stand": (World(mac, 0.004, 0.95), World(mac, 0.004, 0.05)),
    # As the context grows, or another program takes the machine.
    "longer passes become dearer": (World(flat, 0.002, 0.8), World(steep, 0.002, 0.8)),
    # Another program lets go of the machine: while it drafts, only a plain pass can tell.
    "plain passes become cheaper": (
        World(lambda _: 0.2, 0.02, 0.5),
        World(lambda _: 0.02, 0.02, 0.5),
    ),
    # Were the first plain pass taken at its word, any drafting would look like a gain.
    "slow at first, nothing stands": (
        slow_at_first(NOT_PAYING["nothing stands"]),
        NOT_PAYING["nothing stands"],
    ),
    "slow at first, drafts pay": (
        slow_at_first(PAYING["rows are free, good drafter"]),
        PAYING["rows are free, good drafter"],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_it_follows_what_has_changed(name: str) -> None:
    before, after = CHANGES[name]
    policy = Automatic()
    run(policy, before, tokens=1_000)

    later = run(policy, after, tokens=1_200, seed=1)

    assert later.speed > (0.85 if after.best else 0.95) * after.speed(after.best)


@pytest.mark.parametrize("name", [*PAYING])
def test_without_a_calibration_drafts_of_three_come_first(name: str) -> None:
    lengths = decided(run(Automatic(), PAYING[name], tokens=200).choices)
    assert lengths[:2] == [3, 3]
    assert max(lengths) > 3 or PAYING[name].best <= 3


def decided(choices: Sequence[DraftChoice]) -> list[int]:
    """The lengths that were chosen to be fast, not to see what plain decoding costs by now."""
    return [choice.length for choice in choices if choice.reason.why is not Why.PLAIN_CHECK]


def test_never_more_than_there_is_room_for() -> None:
    policy, world = Automatic(), PAYING["rows are free, good drafter"]
    run(policy, world, tokens=500)

    for most in (0, 1, 2, 5):
        ran = run(policy, world, tokens=100, most=most)
        assert set(decided(ran.choices)) == {most}
        assert max(ran.lengths) == most
        run(Automatic(), world, tokens=200, most=most)


def test_what_was_learned_survives() -> None:
    # One policy serves all answers of a conversation.
    policy, world = Automatic(), PAYING["a Mac, good drafter"]
    first = run(policy, world, tokens=600)
    second = run(policy, world, tokens=600, seed=1)

    assert all(length > 0 for length in decided(second.choices))
    checks = [len(each.choices) - len(decided(each.choices)) for each in (first, second)]
    assert 1 <= checks[0] <= 5
    assert checks[1] <= len(second.choices) / 16 + 1

    parked = Automatic()
    run(parked, NOT_PAYING["nothing stands"], tokens=1_000)
    again = run(parked, NOT_PAYING["nothing stands"], tokens=1_000, seed=1)
    assert again.speed > 0.98 * NOT_PAYING["nothing stands"].speed(0)


# Trees


LATER = (0.45, 0.35, 0.3, 0.2)


def drafted_trees(ran: Run) -> list[DraftChoice]:
    return [choice for choice in ran.choices if choice.tree is not None]


@pytest.mark.slow
@pytest.mark.parametrize("calibrated_", mostly_slow([True, False], quick=[True]))
def test_trees_where_rows_are_cheap(calibrated_: bool) -> None:
    world = World(lambda rows: 0.05 + 0.0002 * rows, 0.002, 0.55, later=LATER)
    policy = calibrated(world) if calibrated_ else Automatic()
    run(policy, world, tokens=1_000)
    settled = run(policy, world, tokens=1_200, seed=1)
    assert world.best_tree_speed > 1.2 * world.speed(world.best)
    assert settled.speed > (0.93 if calibrated_ else 0.85) * world.best_tree_speed
    chosen = drafted_trees(settled)
    assert len(chosen) > 0.8 * len(settled.choices)
    last = next(each for each in reversed(chosen) if each.reason.why is Why.BEST_GAIN)
    assert (last.reason.tokens, last.reason.length) == (len(last.tree or ()), last.length)


@pytest.mark.parametrize(("a_row", "trees"), [(0.0002, True), (0.02, False)])
def test_a_tree_has_at_least_as_many_tokens_as_it_needs(a_row: float, trees: bool) -> None:
    """It is drafted where so many rows pay, and where they do not there are chains."""

    @dataclass(frozen=True)
    class Window(World):
        @property
        def candidate(self) -> DraftCandidate:
            return replace(HEAD, alternatives=len(self.later) + 1, least=24)

    world = Window(lambda rows: 0.05 + a_row * rows, 0.0, 0.5, later=LATER)
    policy = calibrated(world)
    run(policy, world, tokens=500)
    drafted = drafted_trees(run(policy, world, tokens=1_000, seed=1))
    assert all(choice.tree is None or len(choice.tree) >= 24 for choice in drafted)
    assert bool(drafted) == trees


NO_TREES = {
    "a Mac": World(mac, 0.003, 0.75, later=LATER),
    "a Mac, no good": World(mac, 0.003, 0.9, later=(0.01,) * 4),
    "rows are free, no good": World(flat, 0.002, 0.8, later=(0.01,) * 4),
    "not shared": World(steep, 0.002, 0.9, later=LATER),
    "nothing stands": World(flat, 0.004, 0.02, later=(0.02,) * 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_slow(NO_TREES, quick=["a Mac, no good"]))
def test_where_trees_do_not_pay_little_is_lost(name: str) -> None:
    world = NO_TREES[name]
    policy = calibrated(world)
    run(policy, world, tokens=500)
    settled = run(policy, world, tokens=1_500, seed=1)
    assert settled.speed > 0.9 * max(world.speed(world.best), world.best_tree_speed)
    assert settled.speed > 0.97 * world.speed(0)


@pytest.mark.slow
def test_trees_that_keep_less_than_the_chances_promise_are_given_up() -> None:
    """What is accepted behind one alternative need not be accepted behind another."""

    @dataclass(frozen=True)
    class Correlated(World):
        def path(self, tree: Tree, chance: np.random.Generator) -> tuple[int, ...]:
            path = World.path(self, tree, chance)
            first = next((i for i, token in enumerate(path) if tree.ranks[token]), len(path))
            return path[: first + 1]

    world = Correlated(lambda rows: 0.05 + 0.002 * rows, 0.002, 0.7, later=LATER)
    policy = calibrated(world)
    run(policy, world, tokens=1_000)
    settled = run(policy, world, tokens=1_500, seed=1)
    assert settled.speed > 0.95 * world.speed(world.best)


def test_a_drafter_of_chains_is_never_asked_for_a_tree() -> None:
    world = World(flat, 0.0, 0.5)
    assert not drafted_trees(run(Automatic(), world, tokens=800))


# In company


COMPANY = (2, 4, 8)


def in_company(world: World, sharing: int) -> World:
    return replace(world, sharing=sharing)


@pytest.mark.parametrize(
    ("name", "sharing"),
    mostly_slow(
        product([*PAYING, *NOT_PAYING], COMPANY),
        quick=[("a Mac, fair drafter", 4)],
    ),
)
def test_in_company_it_is_nearly_as_good_as_the_best(name: str, sharing: int) -> None:
    world = in_company((PAYING | NOT_PAYING)[name], sharing)
    policy = Automatic()
    run(policy, world, tokens=500)

    settled = run(policy, world, tokens=1_200, seed=1)

    assert settled.speed > 0.9 * world.speed(world.best)
    assert settled.speed > 0.96 * world.speed(0)


def calibrated(world: World, *, read_seconds: float = 0.0) -> Automatic:
    """As after a first use of the pair, alone."""
    rows = (1, 2, 3, 4, 6, 8, 12, 16)
    passes = PassCosts(24, rows, tuple(map(world.pass_seconds, rows)))
    head = DraftCosts("head", 0.0, world.step_seconds, read_seconds)
    return Automatic(Calibration(passes, (head,)))


def usual_length(policy: Automatic, world: World) -> float:
    """The length that is chosen, once the acceptance is known."""
    run(policy, replace(world, sharing=1), tokens=1_000)
    return float(np.median(decided(run(policy, world, tokens=300).choices)))


def test_of_what_was_parked_another_prompt_is_read_by_what_usually_pays() -> None:
    good, bad = World(mac, 0.015, 0.8), World(mac, 0.015, 0.05)
    policy, far = calibrated(good, read_seconds=0.001), replace(HEAD, behind=1_000)
    for seed in range(4):
        run(policy, good, tokens=200, seed=seed)
    text = run(policy, bad, tokens=100, seed=9)
    assert text.choices[-1].reason.why is Why.PARKED
    assert not policy.worth_reading([far], context=text.tokens), "still the same text"
    assert policy.worth_reading([far], context=50), "another"
    for seed in range(8):
        run(policy, bad, tokens=500, seed=seed)
    assert not policy.worth_reading([far], context=50), "hardly any text pays"


def test_drafts_shrink_as_the_company_grows_where_rows_are_dear() -> None:
    world = World(mac, 0.003, 0.75, jitter=0.0)
    lengths = [
        usual_length(calibrated(world), in_company(world, sharing)) for sharing in (1, 2, 4, 8)
    ]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] >= 2
    assert lengths[0] > lengths[1] > 0
    assert lengths[-1] == 0


@pytest.mark.parametrize(("step_seconds", "stay"), [(0.0, True), (0.01, False)])
def test_where_rows_are_free_drafts_shrink_only_if_they_are_waited_for(
    step_seconds: float, stay: bool
) -> None:
    world = World(flat, step_seconds, 0.75, jitter=0.0)
    alone, many = (
        usual_length(calibrated(world), in_company(world, sharing)) for sharing in (1, 8)
    )
    assert alone == many > 8 if stay else alone > many == 0


def test_drafts_are_long_again_once_it_is_alone() -> None:
    world = World(mac, 0.003, 0.75, jitter=0.0)
    policy = calibrated(world)
    before = usual_length(policy, world)
    run(policy, in_company(world, 8), tokens=1_000)
    again = decided(run(policy, world, tokens=600).choices)
    assert np.median(again[-50:]) == before


def test_a_plain_pass_in_company_is_not_taken_for_one_of_its_own() -> None:
    policy = calibrated(World(mac, 0.003, 0.75))
    alone, shared = policy.costs.passes(), policy.costs.passes(sharing=4)
    for context in range(200):
        policy.observe(MeasuredRound(0, 0, 0.0, mac(4), context, rows=4, others=3))
    assert policy.costs.passes() == pytest.approx(alone)
    assert policy.costs.passes(sharing=4) == pytest.approx(shared)
    assert shared[0] == pytest.approx(mac(4) / 4)


def test_says_what_it_promises() -> None:
    world = World(flat, 0.001, 0.6, jitter=0.0)
    policy = Automatic()
    run(policy, world, tokens=5_000)

    choice = policy.choose([HEAD], most=16, context=5_000)

    assert (choice.reason.drafter, choice.reason.length) == ("head", choice.length)
    assert choice.reason.gain == pytest.approx(
        world.speed(choice.length) / world.speed(0), rel=0.25
    )


@given(history=st.lists(st.tuples(st.integers(0, 40), MEASURED), max_size=60))
def test_any_history_gives_a_sound_choice_and_always_the_same(
    history: list[tuple[int, MeasuredRound]],
) -> None:
    # What is proposed may be less than was chosen, or nothing, and clocks may stand still.
    one, other = Automatic(), Automatic()
    for most, measured in history:
        choice = one.choose([HEAD], most=most, context=0)
        assert 0 <= choice.length <= min(most, LONGEST)
        assert 1 <= choice.rounds <= 512
        assert choice == other.choose([HEAD], most=most, context=0)
        one.observe(measured)
        other.observe(measured)


def test_a_drafter_without_ideas_is_asked_again() -> None:
    # Lookup often has no guess: the loop then writes one token plainly, whatever was chosen.
    policy = Automatic()
    for _ in range(100):
        policy.choose([HEAD], most=16, context=0)
        policy.observe(MeasuredRound(0, 0, 0.0, 0.05))

    assert policy.choose([HEAD], most=16, context=0).length > 0


def test_a_choice_within_a_room() -> None:
    choice = DraftChoice(5, drafter="head")
    assert choice.within(5) is choice
    assert choice.within(3) == DraftChoice(3, drafter="head")
    assert choice.within(-1).length == 0


def test_a_plain_pass_that_nothing_ran_beside_is_no_measure() -> None:
    """As on a GPU, where plain decoding has the next one under way; a run shows it from then on."""
    policy = Automatic(Calibration(PassCosts(50, (1, 5), (0.02, 0.03))))
    before = policy.costs.passes()[0]
    for _ in range(40):
        policy.observe(MeasuredRound(0, 0, 0.0, 3 * before, 50, edge=True))
    assert policy.costs.passes()[0] == before
    for _ in range(40):
        policy.observe(MeasuredRound(0, 0, 0.0, 3 * before, 50))
    assert policy.costs.passes()[0] > 2 * before
