"""Expected speeds: the table of chips, the arithmetic of drafts, and what has no figures."""

from itertools import permutations

import pytest

from engine.draft_length.costs import DraftCosts
from engine.draft_length.options import chains
from models.memory.machine import mac
from models.speed import Drafts, RowCurve, Weights, expect, load_chips, longest_that_gains

ANY_GB = (8, 18, 36, 64, 128, 256)
DRAFTS = Drafts("dspark", 1e9, drafted=7, committed=4.83, source="somebody")


def test_a_newer_chip_with_as_fast_a_memory_is_never_told_slower():
    pairs = [
        (Weights(size, 0.05 * size, bits=bits, layers=layers, experts=experts), drafts)
        for bits in (2, 4, 8, 16)
        for experts in (False, True)
        for size, layers in ((2e9, 28), (28e9, 64))
        for drafts in (None, DRAFTS, Drafts("mtp", 0.3e9, 2, 2.33, "somebody"))
    ]
    speeds = {chip: _speeds(chip, pairs) for chip in load_chips().chips}
    for older, newer in permutations(speeds, 2):
        as_fast = newer.bandwidth_gb_s >= older.bandwidth_gb_s
        sizes = [set(each.memory_gb or ANY_GB) for each in (older, newer)]
        alike = not sizes[0].isdisjoint(sizes[1])
        if alike and as_fast and newer.generation >= older.generation:
            assert all(a <= b for a, b in zip(speeds[older], speeds[newer], strict=True)), (
                older,
                newer,
            )


def _speeds(chip, pairs):
    found = [expect(target, drafts, chip=chip) for target, drafts in pairs]
    return [each.tokens_per_second for each in found if each]


def test_memory_tells_chips_of_one_name_apart_and_what_drafts_gain_on_them():
    chips = load_chips()

    def bandwidth(name, memory_gb):
        machine = mac(name, {"hw.memsize": str(memory_gb << 30)})
        return chips.find(machine.name, machine.memory_bytes).bandwidth_gb_s

    assert bandwidth("Apple M4 Max", 36) == 410
    assert bandwidth("Apple M4 Max", 128) == 546
    assert bandwidth("Apple M4 Max", 99) == 410, "the slower one where it is not known"
    assert bandwidth("Apple M4 Pro", 48) == 273
    assert chips.find("x86_64", 32 << 30) is None
    by_name = {chip.name: chip for chip in chips.chips}
    assert longest_that_gains(by_name["M1 Max"], 4) == 0
    four, eight = (longest_that_gains(by_name["M4 Pro"], bits) for bits in (4, 8))
    assert 2 <= four <= eight


def test_the_arithmetic_is_that_of_the_controller():
    chance = DRAFTS.acceptance
    assert sum(chance**i for i in range(8)) == pytest.approx(DRAFTS.committed)
    assert Drafts("mtp", 1.0, 2, 3.0, "").acceptance == pytest.approx(1.0)
    curve = RowCurve(((1, 1.0), (2, 1.03), (4, 1.47), (8, 2.69)))
    draft = DraftCosts("any", start_seconds=0.1, step_seconds=0.05)
    costs = {"start": draft.start_seconds, "step": draft.step_seconds}
    for acceptance in (0.3, 0.7, 0.95):
        rows = [curve.cost(count) for count in range(1, 9)]
        options = chains("any", [acceptance] * 7, rows, draft)
        for option in options:
            gain = curve.gain(option.drafted, acceptance=acceptance, **costs)
            assert gain == pytest.approx(option.gain)
        best = max(options, key=lambda option: option.gain)
        length, gain = curve.best(acceptance=acceptance, longest=7, **costs)
        assert (length, gain) == ((best.drafted, pytest.approx(best.gain)) if gain > 1 else (0, 1))
