"""What the device is asked for: values that are ready, and memory that is needed no more."""

from dataclasses import replace
from io import BytesIO
from itertools import pairwise
from unittest import mock

import mlx.core as mx
import pytest

import engine.core.decoder
from engine.conversation.session import Session
from engine.device import GPU, Wired, fetch
from engine.draft_length.policy import Fixed
from engine.process.host import CommandQueue, Host
from engine.request import Request, chat
from tests.support.engine.backends import computing_as
from tests.support.engine.sessions import QUESTION, loaded
from tests.support.engine.tiny import build


def test_empty_arrays_are_empty_lists_of_their_shape():
    assert fetch(mx.zeros((0,)), mx.ones((1,)), mx.zeros((2, 0))) == [[], [1.0], [[], []]]


@pytest.fixture
def metal(monkeypatch):
    """Metal, which recommends 100 bytes at most: `held` of them are, and `limits` it was given."""
    metal = {"held": 0, "limits": []}
    monkeypatch.setattr(mx, "device_info", lambda: {"max_recommended_working_set_size": 100})
    monkeypatch.setattr(mx, "set_wired_limit", metal["limits"].append)
    monkeypatch.setattr(mx, "get_active_memory", lambda: metal["held"])
    with computing_as(GPU):
        yield metal


@pytest.mark.parametrize(
    ("said", "limits"),
    [
        pytest.param([(70, True), (70, True), (0, False)], [77, 0], id="a large pair"),
        pytest.param([(95, True), (95, True), (0, False)], [100, 0], id="one that fills memory"),
        pytest.param([(50, True), (50, True), (0, False)], [], id="a smaller one"),
        pytest.param([(70, False)], [], id="one that does nothing"),
        pytest.param(
            [(held, True) for held in (70, 77, 78, 85, 99, 120)], [77, 85, 100], id="growing caches"
        ),
    ],
)
def test_a_large_pair_is_wired_while_it_answers(said, limits, metal, tmp_path):
    wired = Wired(tmp_path / "lock")
    for metal["held"], busy in said:
        wired.keep(busy)
    assert metal["limits"] == limits


def test_one_process_at_a_time_has_memory_wired(metal, tmp_path):
    one, other = Wired(tmp_path / "lock"), Wired(tmp_path / "lock")
    metal["held"] = 70
    for wired, busy in [(one, True), (other, True), (one, False), (other, True)]:
        wired.keep(busy)
    assert metal["limits"] == [77, 0], "the other goes on as it began"
    other.keep(False)
    other.keep(True)
    assert metal["limits"] == [77, 0, 77]
    other.release()


@pytest.mark.parametrize("at_once", [False, True], ids=["later", "while memory is wired"])
def test_memory_is_let_go_at_the_first_word_of_an_end(at_once, metal):
    """While the thread that owns MLX waits for a long pass."""
    queue = CommandQueue(lambda response: None)
    wired, limits = Host(queue, lambda response: None)._wired, metal["limits"]
    metal["held"] = 70

    def set_limit(limit):
        if limit and at_once:
            queue.read(BytesIO(b""))  # another thread, at the worst moment
        limits.append(limit)

    with mock.patch.object(mx, "set_wired_limit", set_limit):
        wired.keep(True)
        queue.read(BytesIO(b""))
        wired.keep(True)
    assert limits[-1] == 0
    assert limits.count(77) == 1, "it is not wired again"


@pytest.mark.quick(1)
@pytest.mark.parametrize(("drafter", "length"), [("suffix", 3), ("none", 0)])
def test_the_pool_is_freed_in_a_long_answer_and_after_it(drafter, length, tokenizer, monkeypatch):
    """On a GPU what caches outgrow stays in MLX's pool; on a CPU nothing of it is seen."""
    target = loaded(build("llama", vocabulary=260, layers=1), tokenizer)
    session = Session(replace(target, ends=frozenset()), drafter=drafter, policy=Fixed(length))
    held, clear = list[int](), mx.clear_cache

    def spy():
        held.append(session.decoder.length)
        clear()

    monkeypatch.setattr(mx, "clear_cache", spy)
    monkeypatch.setattr(engine.core.decoder, "_POOL_TOKENS", 64)
    first = len(session.encode(chat(QUESTION))) + 1
    for _ in session.answer(QUESTION, Request(max_tokens=150)):
        pass

    in_the_answer = [length for length in held if length >= first]
    assert in_the_answer == sorted(in_the_answer)
    assert len(in_the_answer) >= 3
    gaps = [b - a for a, b in pairwise([first, *in_the_answer])]
    assert max(gaps) < 75
