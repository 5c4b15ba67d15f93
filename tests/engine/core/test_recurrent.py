"""Recurrent states after any row of a round are what reading the rows one by one makes them.

Journeys of rounds on every architecture whose states can be computed again, by comparing with a
reader that reads token by token; what the loop reads with and without it; mutants.
"""

import copy
import functools
from itertools import product
from unittest import mock

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.models import qwen3_5

from engine.core.recurrent import Tape
from models.limits import LONGEST_COPY
from tests.engine.core.test_cache import journeys
from tests.engine.core.test_decoder import TOKENS, fail_once, prefill
from tests.support.engine import recurrent
from tests.support.engine.helpers import (
    contents,
    decoder,
    next_logits,
)
from tests.support.engine.recurrent import TAPED
from tests.support.engine.tiny import build
from tests.support.mostly_slow import mostly_slow

OURS = ("qwen3_5", "lfm2", "mamba")
SOME = (*OURS, "nemotron_h")
# Their latent attention computes one row in another way than many: a sum in another order.
ROUNDED = ("kimi_linear", "bailing_moe_v3", "bailing_hybrid")
SLACK = 5e-5  # logits have a standard deviation of 3, and single precision has seven digits
EXACT = (*OURS, *(architecture for architecture in TAPED if architecture not in ROUNDED))


@functools.cache
def model_of(architecture, dtype=mx.float32):
    if architecture in OURS:
        return build(architecture, dtype=dtype, layers=3 if architecture != "mamba" else 2)
    return recurrent.build(architecture, dtype=dtype)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("round"), st.integers(1, 12)),
        st.tuples(st.just("pass"), st.integers(1, 5)),
        st.tuples(st.just("rewind"), st.integers(0, 9)),
        st.tuples(st.just("bookmark"), st.just(0)),
    ),
    min_size=4,
    max_size=12,
)


class Rounds:
    """A decoder that reads in rounds, and the same tokens read one by one.

    `slack`: by how much logits may differ. Nothing else may, unless there is some.
    """

    def __init__(self, model, *, slack=0.0):
        self.decoder, self.slack = decoder(model), slack
        self.begun = 0
        self._one_by_one = [decoder(model)]  # after 0, 1, ... tokens
        self._key = mx.random.key(0)

    def step(self, what, amount):
        match what:
            case "round":
                self._read(amount, first=True)
            case "pass":
                self._read(amount, first=self.decoder.timeline.tape is None)
            case "rewind":
                self._rewind(max(0, self.decoder.length - amount))
            case "bookmark":
                self.decoder.timeline.bookmark()
        self.check()

    def check(self):
        ours, our_caches = next_logits(self.decoder, 7)
        theirs, their_caches = next_logits(self._one_by_one[self.decoder.length], 7)
        assert mx.max(mx.abs(ours - theirs)).item() <= self.slack
        for our, their in zip(our_caches, their_caches, strict=True):
            for a, b in zip(held_by(our), held_by(their), strict=True):
                assert self.slack or mx.array_equal(a, b)

    def _read(self, amount, *, first):
        if first:
            self.decoder.timeline.mark()
            self.begun = self.decoder.length
        self._key, key = mx.random.split(self._key)
        amount = min(amount, self.decoder.timeline.room())
        tokens = mx.random.randint(0, 64, (amount,), key=key)
        self.decoder.read(tokens)
        for token in tokens:
            follower = copy.copy(self._one_by_one[-1])
            follower.timeline = copy.deepcopy(follower.timeline)
            mx.eval(follower.read(token[None]))
            self._one_by_one.append(follower)

    def _rewind(self, length):
        self.decoder.rewind(length)
        assert self.decoder.length == length or self.decoder.length < length < self.begun
        self.begun = min(self.begun, self.decoder.length)
        del self._one_by_one[self.decoder.length + 1 :]


def held_by(layer):
    return [array for part in getattr(layer, "caches", [layer]) for array in contents(part)]


def walk(model, steps, *, slack=0.0):
    journey = Rounds(model, slack=slack)
    journey.step("round", 3)
    for step in steps:
        journey.step(*step)


@pytest.mark.parametrize("architecture", mostly_slow([*EXACT, *ROUNDED], quick=["qwen3_5"]))
@journeys
@given(STEPS)
def test_any_journey_of_rounds_is_its_rows_one_by_one(architecture, steps):
    walk(model_of(architecture), steps, slack=SLACK if architecture in ROUNDED else 0.0)


@pytest.mark.parametrize(
    ("architecture", "dtype"),
    mostly_slow(product(SOME, [mx.bfloat16, mx.float16]), quick=[("lfm2", mx.bfloat16)]),
)
def test_half_precision_is_its_rows_one_by_one_too(architecture, dtype):
    steps = [("round", 8), ("rewind", 5), ("round", 6), ("pass", 3), ("rewind", 1), ("rewind", 4)]
    walk(model_of(architecture, dtype), steps)


def test_pass_that_cannot_be_explained_is_taken_back_whole():
    """A state that something else than a recurrence made."""
    journey = Rounds(model_of("qwen3_5"))
    journey.step("round", 5)
    whole = qwen3_5.GatedDeltaNet.__call__

    def call(self, inputs, mask, cache):
        output = whole(self, inputs, mask, cache)
        cache[1] = cache[1] + 0
        return output

    journey.decoder.timeline.mark()
    with mock.patch.object(qwen3_5.GatedDeltaNet, "__call__", call):
        journey.decoder.read(mx.array([1, 2, 3]))
    journey.decoder.rewind(7)
    assert journey.decoder.length == 5
    journey.check()


@pytest.mark.parametrize(
    ("architecture", "afterwards"),
    mostly_slow(product(SOME, [False, True]), quick=[("nemotron_h", True)]),
)
def test_error_in_the_second_pass_of_a_round_leaves_the_first(architecture, afterwards):
    for layer in range(len(model_of(architecture).layers)):
        journey = Rounds(model_of(architecture))
        journey.step("round", 5)
        journey.step("round", 3)
        fail_once(journey.decoder, [1, 2, 3], layer, afterwards=afterwards)
        assert journey.decoder.length == 8
        journey.check()
        journey.step("rewind", 1)


def test_tape_is_of_one_round_and_reaches_over_the_longest_draft():
    reader = decoder(model_of("qwen3_5"), block=256)

    def held():
        return reader.timeline._round.tape.rows

    prefill(reader, 20)
    reader.timeline.mark()
    reader.read(mx.array(TOKENS[20:26]))
    assert held() == 6
    reader.rewind(23)
    assert held() == 3
    for position in range(23, 150):  # plain decoding
        reader.read(mx.array(TOKENS[position : position + 1]))
    assert held() == Tape.MOST_ROWS
    reader.timeline.mark()
    assert held() == 0
    reader.read(mx.array(TOKENS[: Tape.MOST_ROWS + 1]))
    assert held() == 0
    reader.rewind(0)
    prefill(reader, 20)
    reader.timeline.mark()
    reader.read(mx.array(TOKENS[20 : 20 + 1 + LONGEST_COPY]))
    reader.rewind(23)
    assert (reader.length, held()) == (23, 3)
