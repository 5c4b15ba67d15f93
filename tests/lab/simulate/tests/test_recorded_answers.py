"""Traces: what is written is what is read, and what is not a trace is refused in one line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import Problem
from tests.lab.simulate.tests.recorded import TRACES, answers, head_answer
from tests.lab.simulate.traces import (
    AnswerTrace,
    RecordedDraft,
    TraceFile,
    joined,
    load_trace,
    save_trace,
    with_all_accepted,
    without_acceptance,
    without_trees,
)

ANSWER = AnswerTrace(
    "spec-bench/1",
    "math",
    0.8,
    17,
    {
        "lookup": (None, RecordedDraft((1.0, 1.0), 1, 4), RecordedDraft((1.0,), 0, 2)),
        "head": (RecordedDraft((0.25, 0.125), 2), None, RecordedDraft((0.0,), 0)),
    },
)


@given(st.lists(answers(), min_size=1, max_size=3), st.sampled_from(["a.jsonl", "a.jsonl.gz"]))
def test_what_is_saved_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[AnswerTrace], name: str
) -> None:
    same = [answer for answer in drawn if list(answer.drafts) == list(drawn[0].drafts)]
    path = tmp_path_factory.mktemp("trace") / name
    trace = TraceFile("target", tuple(same))
    save_trace(path, trace)
    assert load_trace(path) == trace
    assert [each.name for each in path.parent.iterdir()] == [name]


def test_the_paths_through_trees_are_kept(tmp_path: Path) -> None:
    places = (RecordedDraft((0.5, 0.5), 1, ranks=(0, 3, 0)), None, RecordedDraft((0.5,), 0, 0, ()))
    trace = TraceFile("target", (AnswerTrace("a", "chat", 0.0, 3, {"head": places}),))
    save_trace(tmp_path / "a.jsonl", trace)
    assert load_trace(tmp_path / "a.jsonl") == trace
    (answer,) = trace.answers
    assert [each and each.ranks for each in without_trees(answer).drafts["head"]] == [None] * 3
    assert without_acceptance(answer).drafts["head"][0] == RecordedDraft((0.5, 0.5), 0, ranks=())
    all_of_it = with_all_accepted(answer).drafts["head"][0]
    assert all_of_it == RecordedDraft((0.5, 0.5), 2, ranks=(0, 0))
    with pytest.raises(ValueError, match="below 0"):
        RecordedDraft((0.5,), 0, ranks=(-1,))


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    trace = TraceFile("target", (ANSWER,))
    for name in ("a.gz", "b.gz"):
        save_trace(tmp_path / name, trace)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_a_trace_keeps_no_text(tmp_path: Path) -> None:
    save_trace(tmp_path / "a.jsonl", TraceFile("target", (ANSWER,)))
    header, record = map(json.loads, (tmp_path / "a.jsonl").read_text().splitlines())
    assert header == {"format": "slipstream-trace", "version": 1, "target": "target"}
    assert record["drafts"] == {
        "lookup": {"drafted": [0, 2, 1], "stood": [0, 1, 0], "match": [0, 4, 2]},
        "head": {"drafted": [2, 0, 1], "stood": [2, 0, 0], "q": [250, 125, 0]},
    }


DAMAGES: dict[str, Callable[[list[str]], list[str]]] = {
    "nothing": lambda lines: [],
    "no header": lambda lines: lines[1:],
    "a later version": lambda lines: [lines[0].replace("1", "2"), lines[1]],
    "no answer": lambda lines: lines[:1],
    "half a line": lambda lines: [lines[0], lines[1][:50]],
    "more tokens accepted than drafted": lambda lines: [
        lines[0], lines[1].replace('"stood":[2', '"stood":[3')
    ],
    "answers of different drafters": lambda lines: [*lines, lines[1].replace('"head"', '"model"')],
}  # fmt: skip


def test_a_file_that_is_no_whole_trace_is_refused_in_one_line(tmp_path: Path) -> None:
    save_trace(tmp_path / "whole.jsonl", TraceFile("target", (ANSWER,)))
    lines = (tmp_path / "whole.jsonl").read_text().splitlines()
    files = {name: "\n".join(damage(lines)).encode() for name, damage in DAMAGES.items()}
    files |= {"text.gz": b"no gzip", "cut.gz": b"\x1f\x8b\x08\x00cut short"}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    for name in (*files, "missing"):
        with pytest.raises(Problem, match="make record") as refused:
            load_trace(tmp_path / name)
        assert len(str(refused.value).splitlines()) == 1, name


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="cannot be written"):
        save_trace(tmp_path / "no folder" / "a.gz", TraceFile("target", (ANSWER,)))


@given(answers())
def test_forced_acceptance_changes_nothing_else(answer: AnswerTrace) -> None:
    for changed, all_stand in (
        (without_acceptance(answer), False),
        (with_all_accepted(answer), True),
    ):
        for name, places in answer.drafts.items():
            for before, after in zip(places, changed.drafts[name], strict=True):
                if before is None:
                    assert after is None
                    continue
                assert after is not None
                assert (after.q, after.match) == (before.q, before.match)
                assert after.accepted == (len(before.q) if all_stand else 0)


def test_answers_are_joined_end_to_end() -> None:
    long = joined([head_answer([1, 2]), head_answer([0], category="code")], category="both")
    assert long.places == 3
    assert [drafted.accepted for drafted in long.drafts["head"] if drafted] == [1, 2, 0]
    assert long.category == "both"


def test_the_committed_traces_are_small_and_of_six_categories() -> None:
    paths = sorted(TRACES.iterdir())
    assert sum(path.stat().st_size for path in paths) < 400_000
    answers = [answer for path in paths for answer in load_trace(path).answers]
    wanted = {"mt-bench", "translation", "summarization", "qa", "math_reasoning", "rag"}
    for temperature in (0.0, 0.8):
        assert wanted <= {a.category for a in answers if a.temperature == temperature}
    assert all(set(answer.drafts) == {"lookup", "head"} for answer in answers)
