"""What the device is asked for: values that are ready, and memory that is needed no more."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import mlx.core as mx
import pytest

from engine.conversation.session import Session
from engine.device import CPU, GPU, Wired, fetch
from engine.draft_length.policy import Fixed
from engine.request import Request, chat
from tests.support.engine.backends import computing_as
from tests.support.engine.sessions import QUESTION, loaded
from tests.support.engine.tiny import build


def test_empty_arrays_are_empty_lists_of_their_shape() -> None:
    assert fetch(mx.zeros((0,)), mx.ones((1,)), mx.zeros((2, 0))) == [[], [1.0], [[], []]]


@pytest.mark.parametrize(("held", "limits"), [(70, [100, 0]), (50, [])])
def test_a_large_pair_is_wired_while_it_answers(
    held: int, limits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()
    recommended = {"max_recommended_working_set_size": 100}
    monkeypatch.setattr(mx, "device_info", lambda: recommended)
    monkeypatch.setattr(mx, "set_wired_limit", asked.append)
    monkeypatch.setattr(mx, "get_active_memory", lambda: held)
    with computing_as(GPU):
        wired = Wired()
    for busy in (False, True, True):
        wired.keep(busy)
    monkeypatch.setattr(mx, "get_active_memory", lambda: 0)  # it was unloaded meanwhile
    wired.keep(False)
    assert asked == limits


def test_on_a_cpu_nothing_is_wired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx, "set_wired_limit", None)
    with computing_as(CPU):
        Wired().keep(True)


@pytest.mark.parametrize(("drafter", "length"), [("none", 0), ("suffix", 3)])
def test_the_pool_is_freed_in_a_long_answer_and_behind_it(
    drafter: str, length: int, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU what caches outgrow stays in MLX's pool; on a CPU nothing of it is seen."""
    target = loaded(build("llama", vocabulary=260, layers=1), tokenizer)
    session = Session(replace(target, ends=frozenset()), drafter=drafter, policy=Fixed(length))
    held, clear = list[int](), mx.clear_cache

    def spy() -> None:
        held.append(session.decoder.length)
        clear()

    monkeypatch.setattr(mx, "clear_cache", spy)
    first = len(session.encode(chat(QUESTION))) + 1
    for _ in session.answer(QUESTION, Request(max_tokens=600)):
        pass

    in_the_answer = [length for length in held if length >= first]
    assert in_the_answer == sorted(in_the_answer)
    assert len(in_the_answer) >= 3
    gaps = [b - a for a, b in pairwise([first, *in_the_answer])]
    assert max(gaps) < 300
