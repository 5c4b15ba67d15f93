"""All prompts are asked once, in batches that fit the time, the memory and the disk."""

import shutil
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.distil import answering as module
from engine.distil.answering import (
    Answering,
    TokenizedPrompt,
    how_many,
    in_order,
    require_memory,
    split,
)
from engine.distil.budget import WorkBudget
from engine.distil.store import AnswerStore, RecordedAnswer, Shard
from engine.drafters.head_network import shape_for
from models.errors import Problem
from models.memory.machine import Machine

LONGEST = 5


def answering_of(target, asked):
    shape = shape_for(target.model, rows=64)
    return Answering(target, shape, asked, vocabulary=512, longest=LONGEST, seed=0)


class Batches:
    """Stands in for the target; remembers what it was asked. Every `silent`th batch is silent."""

    def __init__(self, *, silent=1 << 30):
        self.asked = []
        self._silent = silent

    def answer(self, asked, *, longest, seed):
        self.asked.append(list(asked))
        if len(self.asked) % self._silent == 0:
            return []
        return [
            RecordedAnswer(
                [*one.tokens, *range(longest)],
                len(one.tokens),
                one.temperature == 0,
                mx.zeros((len(one.tokens) + longest - 1, 3, 8), dtype=mx.bfloat16),
                mx.zeros((longest, 4), dtype=mx.int32),
                mx.zeros((longest, 4), dtype=mx.float16),
            )
            for one in asked
        ]


def fill(stories, store, asked, batches, tokens):
    """Let the stand-in answer; returns what was reported."""
    answering, lines = answering_of(stories, asked), list[str]()
    answering._answerer = batches
    answering.fill(store, budget=WorkBudget(None, tokens), report=lines.append)
    return lines


def made_up(count):
    """Of different lengths, each with a token of its own in front."""
    return [TokenizedPrompt([n, *[7] * (n % 13), 1], float(n % 2)) for n in range(count)]


@given(lengths=st.lists(st.integers(1, 40), max_size=900))
def test_the_order_has_everything_once_and_is_the_same_every_time(lengths):
    asked = [TokenizedPrompt([number] * length, 0.0) for number, length in enumerate(lengths)]
    queue = in_order(asked)
    assert sorted(one.tokens[0] for one in queue) == list(range(len(asked)))
    assert queue == in_order(asked)


def test_every_prompt_is_asked_once(tmp_path, stories):
    asked, batches = made_up(90), Batches(silent=3)
    lines = fill(stories, AnswerStore(tmp_path), asked, batches, 1 << 20)
    flat = [one.tokens[0] for batch in batches.asked for one in batch]
    assert sorted(flat) == list(range(90))
    assert all(len(batch) <= 90 // 4 for batch in batches.asked)
    assert "all 90 prompts are answered" in lines[-1]


def test_it_goes_on_where_it_stopped(tmp_path, stories):
    straight, stopped, resumed = Batches(), Batches(), Batches()
    whole, beside = AnswerStore(tmp_path / "whole"), AnswerStore(tmp_path / "whole")
    fill(stories, whole, made_up(300), straight, 1200)
    fill(stories, beside, made_up(300), again := Batches(), 1200)
    assert again.asked == []  # but in another process
    fill(stories, AnswerStore(tmp_path / "parts"), made_up(300), stopped, 300)
    fill(stories, AnswerStore(tmp_path / "parts"), made_up(300), resumed, 1200)
    asked = [one for batch in (*stopped.asked, *resumed.asked) for one in batch]
    expected = [one for batch in straight.asked for one in batch]
    shorter = min(len(asked), len(expected))
    assert asked[:shorter] == expected[:shorter]
    assert len({one.tokens[0] for one in asked}) == len(asked), "asked twice"
    fill(stories, AnswerStore(tmp_path / "parts"), made_up(300), again := Batches(), 1200)
    assert again.asked == []


@pytest.mark.parametrize(
    ("before", "share", "most", "count"),
    [
        pytest.param((), 0.0, 96, 16, id="the first"),
        pytest.param((), 0.0, 5, 5, id="the first, in little memory"),
        pytest.param((16, 1), 0.01, 96, 96, id="quick ones"),
        pytest.param((16, 1), 0.2, 96, 64, id="the rest needs no more"),
        pytest.param((16, 1), 0.999, 96, 8, id="nearly enough"),
        pytest.param((16, 64), 0.01, 96, 15, id="a minute's worth"),
        pytest.param((2, 600), 0.01, 96, 1, id="very slow ones"),
    ],
)
def test_how_many_at_once(before, share, most, count, tmp_path):
    store = AnswerStore(tmp_path)
    if before:
        asked, seconds = before
        store.shards = [Shard(Path("0"), [], [4] * asked, [2] * asked, [], asked, seconds)]
    assert how_many(store, share, most=most) == count


def test_too_little_memory(stories, monkeypatch):
    asked = made_up(400)
    require_memory(1 << 20)
    assert answering_of(stories, asked)._most == 96
    left = Machine("", 1000, 1000, unified=False)
    monkeypatch.setattr(module, "this_machine", lambda: left)
    with pytest.raises(Problem):
        answering_of(stories, asked)
    with pytest.raises(Problem):
        require_memory(1001)
    left = replace(left, available_bytes=4_000_000)
    assert 1 <= answering_of(stories, asked)._most < 96


def test_a_disk_that_is_nearly_full(tmp_path, stories, monkeypatch):
    usage, free = namedtuple("usage", "total used free"), [300 << 20, 1 << 20]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, free.pop(0)))
    store = AnswerStore(tmp_path)
    with pytest.raises(Problem) as caught:
        fill(stories, store, made_up(300), Batches(), 1 << 20)
    assert "--resume" in caught.value.remedy
    assert len(store.shards) == 1, "what fitted is kept"


# What is held out


def stored(folder, sizes, *, greedy=True):
    store, first = AnswerStore(folder), 0
    for size in sizes:
        asked = [
            TokenizedPrompt([first + n, 5], 0.0 if greedy and n % 2 == 0 else 1.0)
            for n in range(size)
        ]
        answers = Batches().answer(asked, longest=3, seed=0)
        store.write(first, answers, asked=size, seconds=1.0)
        first += size
    return store


@pytest.mark.parametrize(
    ("sizes", "shards", "greedy"),
    [
        ([16, 16], 1, 8),  # half of all, as there are only two
        ([16, 16, 16], 1, 8),
        ([16, 96, 96, 96], 1, 8),  # a sixth at most
        ([16, *[96] * 9], 2, 48),  # 8 + 48 are enough
        ([16, 16, 16, *[96] * 8], 3, 24),
    ],
    ids=str,
)
def test_the_first_are_held_out(tmp_path, sizes, shards, greedy):
    store = stored(tmp_path, sizes)
    held, rest = split(store.shards)
    assert rest == store.shards[shards:]
    assert len(held) == greedy
    assert all(one.greedy for one in held)
    held_tokens = {one.tokens[0] for one in held}
    assert not held_tokens & set(range(sum(sizes[:shards]), sum(sizes)))


@pytest.mark.parametrize(("sizes", "greedy"), [([], True), ([16], True), ([16, 16], False)])
def test_too_few_to_learn_from(tmp_path, sizes, greedy):
    with pytest.raises(Problem):
        split(stored(tmp_path, sizes, greedy=greedy).shards)
