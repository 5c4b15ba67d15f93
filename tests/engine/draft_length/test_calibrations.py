"""What was measured is found again, for the same pair only, and never trusted when damaged."""

import json
from copy import copy
from dataclasses import astuple, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.draft_length import MeasuredRound
from engine.draft_length.acceptance import PLACES, Acceptance
from engine.draft_length.calibrations import CalibrationKey, CalibrationStore
from engine.draft_length.costs import Calibration, Costs, DraftCosts, PassCosts

PAIR = CalibrationKey(
    target="t",
    drafter="lookup",
    precision="4-bit",
    caches="as they are",
    chip="M4",
    backend="GPU",
    mlx="0.32.4",
    matrices="OpenBLAS 0.3, Sandybridge kernels",
    threads=2,
    power="lowpowermode 0",
)
COSTS = Calibration(PassCosts(24, (1, 2), (0.01, 0.02)), (DraftCosts("head", 0.001, 0.002),))


def seen():
    acceptance = Acceptance()
    acceptance.observe(MeasuredRound(3, 2, 0.0, 0.0, drafter="head"))
    return acceptance


def only_file(folder):
    (path,) = folder.iterdir()
    return path


def test_found_again_for_the_same_pair_only(tmp_path):
    kept = CalibrationStore(tmp_path / "new")
    assert kept.read(PAIR) == (None, None)
    for costs in (COSTS, None, COSTS):  # without costs the chances are kept
        kept.write(PAIR, costs, seen())
        found, acceptance = kept.read(PAIR)
        assert found == costs
        chances = acceptance.chances("head", 3)
        assert chances == pytest.approx(seen().chances("head", 3), abs=0.01)
    file = only_file(tmp_path / "new")
    assert file.suffix == ".json"
    for field in fields(CalibrationKey):
        assert kept.read(replace(PAIR, **{field.name: "another"})) == (None, None), field.name
    other = replace(PAIR, chip="M1")  # a file that was renamed is not believed
    kept.write(other, COSTS, seen())
    (theirs,) = {*file.parent.iterdir()} - {file}
    file.replace(theirs)
    assert kept.read(other) == (None, None)


@given(cut=st.integers(0, 400), byte=st.integers(0, 255))
def test_any_damage_is_survived(cut, byte, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    kept = CalibrationStore(folder)
    kept.write(PAIR, COSTS, seen())
    data = bytearray(only_file(folder).read_bytes())
    data[cut % len(data)] = byte
    only_file(folder).write_bytes(data)
    costs, _ = kept.read(PAIR)
    assert costs is None or isinstance(costs, Calibration)
    only_file(folder).write_bytes(data[:cut])
    assert kept.read(PAIR) == (None, None)


def spoilt(value):
    """All that JSON becomes with one part of it replaced."""
    yield from (None, -1, 0, 1e9, 1e400, "nan", [], [0.5], {}, {"head": 3})
    if isinstance(value, dict | list):
        for place in value if isinstance(value, dict) else range(len(value)):
            for part in spoilt(value[place]):
                whole = copy(value)
                whole[place] = part
                yield whole


def test_whatever_part_is_spoilt_what_is_read_is_sound(tmp_path):
    kept = CalibrationStore(tmp_path)
    kept.write(PAIR, COSTS, seen())
    file = only_file(tmp_path)
    sound, refused = json.loads(file.read_text()), 0
    for name in ("costs", "acceptance"):
        for part in spoilt(sound[name]):
            file.write_text(json.dumps(sound | {name: part}))
            found, acceptance = kept.read(PAIR)
            costs, chances = Costs(found), (acceptance or Acceptance()).chances("head", PLACES)
            assert all(0.0 < each < 1e12 for each in costs.passes()), part
            assert all(0.0 <= each < 1e12 for each in astuple(costs.draft("head"))[1:]), part
            assert all(0.0 < each < 1.0 for each in chances), part
            refused += (found if name == "costs" else acceptance) is None
    assert refused > 250


def test_costs_are_kept_where_only_the_chances_are_damaged(tmp_path):
    kept = CalibrationStore(tmp_path)
    kept.write(PAIR, COSTS, seen())
    value = json.loads(only_file(tmp_path).read_text())
    only_file(tmp_path).write_text(json.dumps(value | {"acceptance": 3}))
    assert kept.read(PAIR) == (COSTS, None)
    (tmp_path / ".being-replaced.json").symlink_to("gone")  # by another process
    assert kept.passes_of(PAIR.target) == COSTS.passes
    assert kept.passes_of("other") is None


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path):
    (tmp_path / "file").write_text("")
    kept = CalibrationStore(tmp_path / "file" / "below")
    kept.write(PAIR, COSTS, seen())
    assert kept.read(PAIR) == (None, None)
