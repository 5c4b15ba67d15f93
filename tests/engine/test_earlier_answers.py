"""What is kept of earlier answers: by whom, for whom, how much, and that nothing is left of it."""

import json
import os
import stat
from unittest import mock

import pytest
from filelock import FileLock
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import earlier_answers
from engine.earlier_answers import EarlierAnswers
from engine.places import GAP
from tests.support.mostly_slow import examples

VOCABULARY = {f"token {i}": i for i in range(40)}
ANSWER = [*range(1, 21)]
OTHER = [*range(30, 18, -1)]


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "kept" / "answers"
    earlier_answers.begin(folder)
    return folder


def opened(folder, vocabulary=VOCABULARY):
    return EarlierAnswers(folder, vocabulary, size=len(VOCABULARY))


def texts(answers):
    """What is indexed, answer by answer."""
    found = []
    for token in answers.places.text:
        if token == GAP:
            found.append([])
        else:
            found[-1].append(token)
    return found


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_nobody_else_can_read_them(folder):
    seen = []
    folder.chmod(0o755)
    earlier_answers.begin(folder)

    def write(partial, *args, **options):
        seen.append(stat.S_IMODE(os.fstat(partial).st_mode))
        return open_file(partial, *args, **options)

    open_file = os.fdopen
    umask = os.umask(0)
    try:
        with mock.patch.object(os, "fdopen", write):
            opened(folder).learn(ANSWER)
            (path,) = files(folder)
            path.chmod(0o644)
            opened(folder).learn(OTHER)
    finally:
        os.umask(umask)

    (path,) = files(folder)
    assert seen == [0o600, 0o600]  # before anything is in them
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_without_the_folder_nothing_is_written(tmp_path):
    before = sorted(tmp_path.rglob("*"))
    answers = opened(tmp_path / "answers")
    answers.learn(ANSWER)
    answers.refresh()
    assert texts(answers) == []
    for delete in (earlier_answers.forget, earlier_answers.end):
        delete(tmp_path / "answers")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("delete", [earlier_answers.forget, earlier_answers.end])
def test_what_is_deleted_is_forgotten_by_all(folder, delete):
    running, other = opened(folder), opened(folder)
    running.learn(ANSWER)
    delete(folder)

    for answers in (running, other):
        answers.refresh()
        assert texts(answers) == []
    running.learn(OTHER)  # kept again only where the folder stays
    ended = delete is earlier_answers.end
    assert texts(running) == texts(opened(folder)) == ([] if ended else [OTHER])
    assert folder.exists() != ended


def test_several_processes_keep_what_each_learned(folder):
    one, other = opened(folder), opened(folder)
    one.learn(ANSWER)
    other.learn(OTHER)
    one.refresh()
    for process in (one, other, opened(folder)):
        assert texts(process) == [ANSWER, OTHER]
        assert process.places.find(ANSWER[:10])[0][1] == 10
        assert process.places.find(OTHER[:10])[0][1] == 10


def test_another_vocabulary_reads_nothing(folder):
    opened(folder).learn(ANSWER)
    swapped = {**VOCABULARY, "token 1": 2, "token 2": 1}
    other = opened(folder, swapped)
    assert texts(other) == []
    (mine,) = files(folder)
    other.learn(OTHER)
    assert texts(opened(folder)) == [ANSWER]

    (theirs,) = set(files(folder)) - {mine}
    theirs.write_bytes(mine.read_bytes())  # under the other's name
    assert texts(opened(folder, swapped)) == []


def damaged(value, **changes):
    return json.dumps(value | changes).encode()


DAMAGES = (
    lambda data, value: b"",
    lambda data, value: data[: len(data) // 2],
    lambda data, value: b"\xff\xfe" + data,
    lambda data, value: b"[" * 100_000,
    lambda data, value: b"[1]",
    lambda data, value: data + b" " * (4 << 20),
    lambda data, value: damaged(value, version=2),
    lambda data, value: damaged(value, answers=[{"used": 1, "tokens": [1, "2"]}]),
    lambda data, value: damaged(value, answers=[{"used": 1, "tokens": [1, 40] * 9}]),
    lambda data, value: damaged(value, answers=[{"used": 1, "tokens": [1, -1] * 9}]),
    lambda data, value: damaged(value, answers=[{"used": True, "tokens": [1]}]),
)


def test_a_damaged_file_is_an_empty_one(folder):
    opened(folder).learn(ANSWER)
    (path,) = files(folder)
    whole = path.read_bytes()
    for number, damage in enumerate(DAMAGES):
        path.write_bytes(damage(whole, json.loads(whole)))
        answers = opened(folder)
        assert texts(answers) == [], number
        answers.learn(OTHER)
        assert texts(opened(folder)) == [OTHER], number


def test_short_answers_and_repeated_ones_are_kept_once_or_not(folder):
    answers = opened(folder)
    for answer in (ANSWER, OTHER, ANSWER, [1, 2, 3]):
        answers.learn(answer)
    assert texts(answers) == texts(opened(folder)) == [OTHER, ANSWER]


@settings(max_examples=examples(25), deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.integers(1, 39), st.integers(1, 39), st.integers(0, 300)), max_size=40
    )
)
def test_the_bound_holds(steps, tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers")
    with mock.patch.object(earlier_answers, "MOST_TOKENS", 128):
        answers = opened(folder)
        for length, token, place in steps:
            answers.learn([token] * 5 + [length] * length)
            answers.use(place)
            held = texts(answers)
            assert sum(map(len, held)) <= 128
            assert texts(opened(folder)) == held
            if length + 5 >= 8:
                assert held[-1] == [token] * 5 + [length] * length, "the new one is always there"


def test_what_was_drafted_from_lately_stays(folder):
    with mock.patch.object(earlier_answers, "MOST_TOKENS", 100):
        answers = opened(folder)
        for token in range(9):
            answers.learn([token] * 11)
            answers.use(answers.places.find([0, 0, 0])[-1][0])
        answers.learn([9] * 11)  # one too many
    kept = [each[0] for each in texts(answers)]
    assert kept[0] == 0
    assert kept == [0, *range(10 - len(kept) + 1, 10)]


def test_what_a_full_disk_or_a_killed_process_left_is_in_nobodys_way(folder):
    answers = opened(folder)
    answers.learn(ANSWER)
    (path,) = files(folder)
    with mock.patch.object(os, "open", side_effect=OSError(28, "No space left on device")):
        answers.learn(OTHER)
    answers.refresh()
    assert texts(answers) == texts(opened(folder)) == [ANSWER]
    assert files(folder) == [path]
    left = path.with_name(f".{path.stem}.partial.json")
    left.write_text("half")
    left.chmod(0o644)
    answers.learn(OTHER)
    assert files(folder) == [path]
    assert texts(opened(folder)) == [ANSWER, OTHER]


def test_nobody_waits_for_ever_for_a_process_that_hangs(folder, monkeypatch):
    monkeypatch.setattr(earlier_answers, "LOCK_SECONDS", 0.01)
    kept = opened(folder)
    kept.learn(ANSWER)
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        kept.learn(OTHER)
        for delete in (earlier_answers.forget, earlier_answers.end):
            with pytest.raises(TimeoutError):
                delete(folder)
    assert texts(opened(folder)) == texts(kept) == [ANSWER]
    kept.learn(OTHER)
    assert texts(opened(folder)) == [ANSWER, OTHER]
