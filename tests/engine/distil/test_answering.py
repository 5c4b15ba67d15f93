"""All prompts are asked once, in batches that fit time, memory and disk; many answers at once are
what each alone would have been."""

import shutil
from collections import namedtuple
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.conversation.session import Session
from engine.distil import answering as module
from engine.distil.answering import (
    LIKELIEST,
    Answerer,
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
from engine.request import Request
from models.errors import Problem
from models.memory.machine import Machine
from tests.support.engine.chi_square import excess
from tests.support.engine.sessions import tokens_of
from tests.support.engine.story_samples import asked_of, openings


def answering_of(target, asked):
    shape = shape_for(target.model, rows=64)
    return Answering(target, shape, asked, vocabulary=512, longest=5, seed=0)


def answers_to(asked, longest):
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


def made_up(count):
    """Of different lengths, each with a token of its own in front."""
    return [TokenizedPrompt([n, *[7] * (n % 13), 1], float(n % 2)) for n in range(count)]


def fill(stories, folder, *, count=300, tokens=1 << 20, silent=1 << 30):
    """The first tokens of what a stand-in for the target is asked, by batch. It has no answers to
    every `silent`th one."""
    store = folder if isinstance(folder, AnswerStore) else AnswerStore(folder)
    answering, batches = answering_of(stories, made_up(count)), []

    def answer(asked, *, longest, seed):
        batches.append([one.tokens[0] for one in asked])
        return answers_to(asked, longest) if len(batches) % silent else []

    answering._answerer = SimpleNamespace(answer=answer)
    answering.fill(store, budget=WorkBudget(None, tokens), report=lambda _: None)
    return batches


@given(lengths=st.lists(st.integers(1, 40), max_size=900))
def test_the_order_has_everything_once_and_is_the_same_every_time(lengths):
    asked = [TokenizedPrompt([number] * length, 0.0) for number, length in enumerate(lengths)]
    queue = in_order(asked)
    assert sorted(one.tokens[0] for one in queue) == list(range(len(asked)))
    assert queue == in_order(asked)


def test_every_prompt_is_asked_once(tmp_path, stories):
    batches = fill(stories, tmp_path, count=90, silent=3)
    assert sorted(chain(*batches)) == list(range(90))
    assert all(len(batch) <= 90 // 4 for batch in batches)


def test_it_goes_on_where_it_stopped(tmp_path, stories):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    beside = AnswerStore(whole)
    straight = [*chain(*fill(stories, whole, tokens=1200))]
    assert fill(stories, beside, tokens=1200) == []  # but in another process
    asked = [*chain(*fill(stories, parts, tokens=300), *fill(stories, parts, tokens=1200))]
    shorter = min(len(asked), len(straight))
    assert asked[:shorter] == straight[:shorter]
    assert len({*asked}) == len(asked), "asked twice"
    assert fill(stories, parts, tokens=1200) == []


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
        fill(stories, store)
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
        store.write(first, answers_to(asked, 3), asked=size, seconds=1.0)
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


# As one answer alone

LAYERS = (1, 2)


def alone(target, prompt, *, longest):
    """What a session without a drafter writes after `prompt`."""
    return tokens_of(list(Session(target).complete(prompt, Request(max_tokens=longest))))


def endless(target):
    return replace(target, ends=frozenset())


def test_answers_at_once_are_answers_alone(target, monkeypatch):
    """Of prompts of many lengths, in no order. As ends, tokens that a few of the answers come to,
    at different places: some end, and the others go on."""
    monkeypatch.setattr(module, "_PREFILL_POSITIONS", 70)
    texts = ["On", *openings(4), " ".join(openings(3)), "The cat sat on the mat."]
    asked = asked_of(target, texts)
    plain = [alone(endless(target), one.tokens, longest=15) for one in asked[:3]]
    ends = frozenset({plain[0][0], plain[1][5], plain[2][13]})
    ending = replace(target, ends=ends)
    found = {
        tuple(one.tokens[: one.prompt]): one.tokens[one.prompt :]
        for one in Answerer(ending, LAYERS).answer(asked, longest=15, seed=0)
    }
    expected = {tuple(one.tokens): alone(ending, one.tokens, longest=15) for one in asked}
    assert found == {prompt: tokens for prompt, tokens in expected.items() if len(tokens) > 1}
    assert 1 < len(found) < len(asked), "some should have ended at once, and not all"
    assert len({len(tokens) for tokens in found.values()}) > 2


def plain_pass(target, tokens):
    """The state after every layer of a Llama, and the logits, by hand and without caches."""
    inner = target.model.model
    state = inner.embed_tokens(mx.array([tokens]))
    states = []
    for layer in inner.layers:
        state = layer(state, "causal", None)
        states.append(state[0])
    return states, target.model(mx.array([tokens]))[0]


def test_states_and_chances_are_a_plain_pass(target):
    answers = Answerer(target, LAYERS).answer(
        asked_of(target, openings(4), temperatures=(0.0, 0.9)), longest=12, seed=3
    )
    assert [one.greedy for one in answers] == [True, False] * 2
    for one in answers:
        read = one.tokens[:-1]
        if one.greedy:  # beside sampled ones
            prompt = read[: one.prompt]
            assert one.tokens == [*prompt, *alone(target, prompt, longest=12)]
        states, logits = plain_pass(target, read)
        assert one.states.dtype == mx.bfloat16
        expected = mx.stack([states[number - 1] for number in LAYERS], axis=1)
        assert one.states.shape == expected.shape
        assert mx.allclose(one.states.astype(mx.float32), expected, rtol=1e-2, atol=1e-2)

        thought = np.array(logits[one.prompt - 1 :])
        log_probs = thought - np.logaddexp.reduce(thought, axis=-1, keepdims=True)
        top = np.array(one.top_tokens)
        assert top.shape == one.top_log_probs.shape == (len(one.tokens) - one.prompt, LIKELIEST)
        kept = np.take_along_axis(log_probs, top, axis=-1)
        assert np.allclose(kept, np.array(one.top_log_probs), rtol=2e-3, atol=2e-3)
        for row, tokens in zip(log_probs, top, strict=True):
            assert len(set(tokens)) == LIKELIEST
            assert row[tokens].min() >= np.sort(row)[-LIKELIEST] - 1e-4, "not the likeliest"


def test_samples_follow_temperature_and_seed(target):
    temperature, count = 0.5, 600
    (one,) = asked_of(target, ["Then"], temperatures=(temperature,))
    answerer = Answerer(endless(target), LAYERS[:1])
    answers = answerer.answer([one] * count, longest=2, seed=11)
    assert len(answers) == count
    few = [answerer.answer([one] * 20, longest=2, seed=seed) for seed in (1, 2)]
    assert len({str([each.tokens for each in drawn]) for drawn in few}) == 2
    _, logits = plain_pass(target, one.tokens)
    counts = np.bincount([a.tokens[a.prompt] for a in answers], minlength=logits.shape[-1])

    def chances(temperature):
        scaled = np.array(logits[-1], dtype=np.float64) / temperature
        scaled[np.argsort(scaled)[:-LIKELIEST]] = -np.inf  # only the likeliest are drawn from
        return np.exp(scaled - np.logaddexp.reduce(scaled))

    assert excess(counts, chances(temperature)) < 1
    assert excess(counts, chances(1.5 * temperature)) > 1, "another would have been noticed"
