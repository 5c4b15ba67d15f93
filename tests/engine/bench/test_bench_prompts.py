"""Where a benchmark's prompts come from."""

import pytest

from engine.bench.prompts import load_prompts, spread
from models.errors import Problem


def test_own_and_built_in_prompts(tmp_path):
    own = tmp_path / "own.txt"
    own.write_text("One?\n\nTwo?\nThree?\n", encoding="utf-8-sig")  # as a Windows editor does
    assert [p.text for p in load_prompts(own, per_category=2)] == ["One?", "Two?"]
    assert [p.id for p in load_prompts(own, per_category=9)] == ["own/1", "own/3", "own/4"]
    assert len(load_prompts(None, per_category=9)) == 12
    assert len(load_prompts(None, per_category=1)) == 9
    assert spread(range(10), 3) == [0, 3, 6]
    assert spread([1, 2], 5) == [1, 2]


def test_an_empty_or_broken_place_is_a_problem(tmp_path):
    for place in (tmp_path, tmp_path / "none.txt"):
        with pytest.raises(Problem, match="cannot be read"):
            load_prompts(place, per_category=1)
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(Problem, match="contains no prompts"):
        load_prompts(tmp_path / "empty.txt", per_category=1)
