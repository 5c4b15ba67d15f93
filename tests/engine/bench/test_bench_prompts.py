"""Where a benchmark's prompts come from, and what a missing file's message tells to do."""

import gzip
import json
from pathlib import Path

import pytest

from engine.bench.prompts import load_prompts, spread
from models.errors import Problem


def test_prompts_of_a_folder_are_grouped_and_spread(tmp_path: Path) -> None:
    questions = [("writing", "w"), ("coding", "c"), ("rag", "r1"), ("rag", "r2"), ("rag", "r3")]
    (tmp_path / "spec_bench_question.jsonl").write_text(
        "".join(json.dumps({"category": c, "turns": [t, "more"]}) + "\n" for c, t in questions)
    )
    (tmp_path / "mt_bench_question.jsonl").write_text(
        json.dumps({"category": "writing", "turns": ["w"]}) + "\n"
    )
    with gzip.open(tmp_path / "HumanEval.jsonl.gz", "wt") as file:
        file.write(json.dumps({"prompt": "def f():"}) + "\n")

    prompts = load_prompts(tmp_path, sets=(), per_category=2)

    assert [(prompt.category, prompt.text) for prompt in prompts] == [
        *(("mt-bench", "w"), ("mt-bench", "c"), ("rag", "r1"), ("rag", "r2")),
        ("humaneval", "Complete this function:\ndef f():"),
    ]
    assert load_prompts(tmp_path, sets=("humaneval",), per_category=9) == prompts[-1:]
    with pytest.raises(Problem, match="openai/grade-school-math"):
        load_prompts(tmp_path, sets=("gsm8k",), per_category=1)
    with pytest.raises(Problem, match="no prompt set"):
        load_prompts(tmp_path, sets=("gsm9k",), per_category=1)


def test_prompts_of_an_empty_or_broken_place_are_a_problem(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="hemingkx/Spec-Bench"):
        load_prompts(tmp_path, sets=(), per_category=1)
    with pytest.raises(Problem, match="cannot be read"):
        load_prompts(tmp_path / "none.txt", sets=(), per_category=1)
    (tmp_path / "gsm8k_test.jsonl").write_text("<html>")
    with pytest.raises(Problem, match="Fetch it again"):
        load_prompts(tmp_path, sets=(), per_category=1)


def test_own_and_built_in_prompts(tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text("One?\n\nTwo?\nThree?\n")
    assert [p.text for p in load_prompts(own, sets=(), per_category=2)] == ["One?", "Two?"]
    assert len(load_prompts(None, sets=(), per_category=9)) == 12
    assert spread(range(10), 3) == [0, 3, 6]
    assert spread([1, 2], 5) == [1, 2]
