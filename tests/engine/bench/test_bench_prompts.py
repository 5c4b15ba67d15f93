"""Where a benchmark's prompts come from, and what a missing file's message tells to do."""

import gzip
import json
from collections import Counter
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


WIZARDLM = (
    ("Math", "How many legs have six ants?"),
    ("Roleplay", "You are a lighthouse. Complain."),
    ("Math", "Halve ninety."),
    ("Code Debug", "Why does this loop?"),
    ("Math", "Is one a prime?"),
    ("Roleplay", "You are a gull. Reply."),
    ("Math", "Add two and two."),
)


def write_wizardlm(path: Path) -> None:
    """A small file of our own in the format of WizardLM's test set."""
    rows = (
        {"idx": idx, "Skill": skill, "Difficulty": 1, "Instruction": text}
        for idx, (skill, text) in enumerate(WIZARDLM, start=1)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_wizardlm_gives_the_first_prompts_of_each_skill(tmp_path: Path) -> None:
    write_wizardlm(tmp_path / "wizardlm_testset.jsonl")

    prompts = load_prompts(tmp_path, sets=("wizardlm",), per_category=3)

    assert [(prompt.id, prompt.category, prompt.text) for prompt in prompts] == [
        (f"wizardlm/{number}", *WIZARDLM[number - 1]) for number in (1, 3, 5, 2, 6, 4)
    ]
    (tmp_path / "wizardlm_testset.jsonl").rename(tmp_path / "WizardLM_testset.jsonl")
    assert load_prompts(tmp_path, sets=("wizardlm",), per_category=3) == prompts
    assert load_prompts(tmp_path, sets=(), per_category=3) == prompts


def test_a_set_can_be_one_file_and_needs_a_place(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    write_wizardlm(file)

    prompts = load_prompts(file, sets=("wizardlm",), per_category=1)

    assert [prompt.category for prompt in prompts] == ["Math", "Roleplay", "Code Debug"]
    with pytest.raises(Problem, match="one prompt set"):
        load_prompts(file, sets=("wizardlm", "gsm8k"), per_category=1)
    with pytest.raises(Problem, match="no prompt set"):
        load_prompts(file, sets=("wizzardlm",), per_category=1)
    with pytest.raises(Problem, match="nlpxucan/WizardLM"):
        load_prompts(None, sets=("wizardlm",), per_category=1)


def test_own_and_built_in_prompts(tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text("One?\n\nTwo?\nThree?\n")
    assert [p.text for p in load_prompts(own, sets=(), per_category=2)] == ["One?", "Two?"]
    assert len(load_prompts(None, sets=(), per_category=9)) == 12
    assert spread(range(10), 3) == [0, 3, 6]
    assert spread([1, 2], 5) == [1, 2]


def test_tasks_about_documents(tmp_path: Path) -> None:
    prompts = load_prompts(None, sets=(), per_category=9, attach=True)
    assert len({prompt.id for prompt in prompts}) == 16
    assert Counter(prompt.category == "own words" for prompt in prompts) == {False: 12, True: 4}
    for prompt in prompts:
        document, _, question = prompt.text.rpartition("[End of document 1]")
        assert document.startswith("[Document 1: ")
        assert 1000 < len(document) < 8000
        assert question.strip()
    assert len(load_prompts(None, sets=(), per_category=2, attach=True)) == 10
    for place, sets in ((tmp_path, ()), (None, ("gsm8k",))):
        with pytest.raises(Problem, match="tasks of its own"):
            load_prompts(place, sets=sets, per_category=1, attach=True)
