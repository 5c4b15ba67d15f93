"""What a leader tells, and what a follower makes of it: both in one process, each with the whole
model, in a group of one. Work orders as numbers: nothing else is taken for an order."""

import gc
from contextlib import contextmanager, suppress
from functools import cache
from itertools import product
from typing import get_args
from unittest import mock

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cluster import group as collectives
from engine.cluster import orders
from engine.cluster.follower import Follower, OutOfStep
from engine.cluster.leader import PASSES_BETWEEN_COMPARISONS, Leader, LeadingDecoder
from engine.cluster.share import ModelPart, RankShare
from engine.core.cache import QuantizedCaches
from models.errors import Problem
from models.limits import PREFILL_ROWS
from tests.support.engine.helpers import BLOCK, CORE, build_wide, contents
from tests.support.engine.tiny import build
from tests.support.mostly_slow import examples, mostly_slow


@cache
def part(architecture):
    """All of a model, as one of `CORE`."""
    share = RankShare("tensor", 0, 1)
    model = build(architecture) if architecture == "mamba" else build_wide(architecture)
    return ModelPart(model, share, mx.distributed.init())


def led(architecture, *, works=bool, **options):
    leader = Leader(part(architecture), works=works)
    return leader, LeadingDecoder(leader.part.model, leader=leader, **options)


@contextmanager
def sent():
    """The messages that a leader sends meanwhile, which followers then hear in their order."""
    messages = []
    heard = iter(messages)

    def broadcast(group, numbers, *, length):
        if not numbers:
            return next(heard)
        messages.append(list(numbers))
        return messages[-1]

    with mock.patch.object(collectives, "broadcast", broadcast):
        yield messages


def told(messages):
    return [order for n, each in enumerate(messages, 1) for order in orders.decode(n, each)]


def text(rows, seed=0):
    return mx.array([(7 * n * n + 3 * n + seed) % 64 for n in range(rows)], dtype=mx.int32)


STEPS = ("read", "round", "rewind", "bookmark", "copy", "another", "close")


@st.composite
def steps(draw):
    """Something that is done to one of the decoders, which may come and go."""
    kind = draw(st.sampled_from(STEPS))
    which, number = draw(st.integers(0, 9)), draw(st.integers(0, 24))

    def step(decoders):
        decoder = decoders[which % len(decoders)]
        rows = min(number + 1, decoder.timeline.room())
        if kind in ("read", "round"):
            if kind == "round":
                decoder.begin_round([0] * (decoder.length + 1))
                rows = min(rows, decoder.timeline.room())
            mx.eval(decoder.read(text(rows, seed=number)))
            if kind == "round":
                decoder.rewind(decoder.length - min(number // 2, rows))
        elif kind == "rewind":
            decoder.rewind(max(0, decoder.length - number))
        elif kind == "bookmark":
            decoder.bookmark()
        elif kind == "copy":
            decoders.append(decoder.copy()[0])
        elif kind == "another":
            decoders.append(decoder.another())
        elif len(decoders) > 1:
            decoders.remove(decoder)

    return step


EARLY = QuantizedCaches(bits=8, group_size=32, start=21)


@pytest.mark.parametrize(
    ("architecture", "quantized"),
    mostly_slow(product(CORE, (None, EARLY)), quick=[("qwen3_5", None)]),
)
@settings(max_examples=examples(12))
@given(st.lists(steps(), min_size=3, max_size=15))
def test_follower_holds_what_the_leader_does(architecture, quantized, done):
    with sent():
        leader, first = led(architecture, quantized=quantized, block=BLOCK)
        decoders = [first]
        del first
        for step in done:
            step(decoders)
        gc.collect()  # those that are closed
        leader.quit()
        follower = Follower(leader.part)
        follower.run(lambda: True)
    assert follower.texts == leader.texts
    assert [*follower.decoders] == [each.number for each in decoders]
    for leading in decoders:
        following = follower.decoders[leading.number]
        assert following.length == leading.length == len(leader.texts[leading.number])
        assert following.block == leading.block
        if leading.length == 0:
            continue
        for one, other in zip(leading.timeline.layers, following.timeline.layers, strict=True):
            assert type(one) is type(other)
            for a, b in zip(contents(one), contents(other), strict=True):
                assert mx.array_equal(a, b)


def test_one_message_before_a_pass():
    with sent() as messages:
        leader, decoder = led("qwen3_5", quantized=EARLY)
        decoder.begin_round([0])
        decoder.read(text(5))
        assert len(messages) == 1
        decoder.rewind(2)
        decoder.bookmark()
        assert len(messages) == 1
        for _ in range(2):
            decoder.begin_round([0] * (decoder.length + 1))
            decoder.read(text(1))
        decoder.rewind(2)  # to the bookmark
        others = [decoder.another(), decoder.copy()[0]]
        leader.quit()
        follower = Follower(leader.part)
        follower.run(lambda: True)
    assert follower.texts == leader.texts
    assert all(each.timeline.quantized == EARLY for each in follower.decoders.values())
    assert len(follower.decoders) == 1 + len(others)
    assert told(messages) == [
        orders.Open(1, 128, 8, 32, 21),
        orders.Mark(1),
        orders.Read(1, tuple(text(5).tolist())),
        orders.Rewind(1, 2),
        orders.Bookmark(1),
        *(orders.Mark(1), orders.Read(1, (0,))) * 2,
        orders.Rewind(1, 2),
        *(orders.Open(2, 128, 8, 32, 21), orders.Open(3, 128, 8, 32, 21), orders.Copy(3, 1)),
        orders.Quit(),
    ]


def test_rest_is_compared_before_and_woken_after_and_told_once():
    woken = []
    with sent() as messages:
        leader, decoder = led("llama", works=lambda on: woken.append((on, len(messages))))
        leader.rest()
        assert not messages
        decoder.read(text(3))
        leader.rest()
        leader.rest()
        decoder.read(text(3))
        leader.quit()
    assert woken == [(True, 0), (False, 3), (True, 3)]
    kinds = [type(order) for order in told(messages)][1:]
    assert kinds == [orders.Read, orders.Compare, orders.Rest, orders.Read, orders.Quit]
    with sent() as messages:  # and compared now and then
        _, decoder = led("llama")
        for _ in range(2 * PASSES_BETWEEN_COMPARISONS):
            decoder.read(text(1))
    assert sum(isinstance(order, orders.Compare) for order in told(messages)) == 2


@pytest.mark.parametrize(
    ("broken", "name", "becomes", "error"),
    [
        (collectives, "agrees", lambda *_: False, Problem),
        (collectives, "broadcast", lambda *_, length: [1] * length, Problem),
        # the others have begun the pass
        (ModelPart, "begin", mock.Mock(side_effect=MemoryError), MemoryError),
    ],
)
def test_nothing_is_read_once_the_ranks_have_lost_each_other(broken, name, becomes, error):
    with sent() as messages:
        leader, decoder = led("llama")
        decoder.read(text(3))
        with mock.patch.object(broken, name, becomes), pytest.raises(error), decoder.busy():
            decoder.read(text(3))
        assert leader.over
        count = len(messages)
        with pytest.raises(Problem, match="lost each other"):
            decoder.read(text(3))
        leader.rest()
        leader.quit()
        assert len(messages) == count


OPEN = orders.Open(1, 128, 0, 0, 0)


@pytest.mark.parametrize(
    "heard",
    [
        [[orders.Rewind(9, 1), orders.Quit()]],
        [[OPEN, orders.Close(1), orders.Read(1, (3,))]],
        [[OPEN, orders.Read(1, (3, 1, 4))], [orders.Rewind(1, 2), orders.Quit()]],  # without a mark
    ],
)
def test_a_follower_that_cannot_obey_is_out_of_step(heard):
    follower = Follower(part("qwen3_5"))
    with sent() as messages:
        messages += [orders.encode(number, each) for number, each in enumerate(heard, 1)]
        with pytest.raises(OutOfStep):
            follower.run(lambda: True)


def test_group_is_told_by_all_that_a_pass_depends_on():
    whole = part("llama")
    parts = [mock.Mock(share=RankShare("pipeline", 0, 2, split)) for split in ((2, 2), (3, 1))]
    groups = [Leader(each).group for each in (*parts, whole)]
    groups += [Leader(whole, links="jaccl").group]
    assert len(set(groups)) == len(groups)
    assert all(groups)


# Orders as numbers

MOST = (1 << 31) - 1
NUMBERS = st.integers(0, MOST)
LAST = st.sampled_from([orders.Compare(), orders.Rest(), orders.Quit()]) | st.builds(
    orders.Read, NUMBERS, st.lists(NUMBERS, min_size=1, max_size=PREFILL_ROWS).map(tuple)
)
PREPARING = st.one_of(
    st.builds(kind, *[NUMBERS] * len(kind.__slots__))
    for kind in get_args(orders.Order)
    if kind not in get_args(orders.Last)
)
FEW = st.lists(PREPARING, max_size=20)


@given(st.lists(PREPARING, max_size=300), LAST, NUMBERS)
def test_any_number_of_orders_comes_back_in_order(told, last, number):
    messages = [orders.encode(number, part) for part in orders.in_messages([*told, last])]
    assert {len(message) for message in messages} == {orders.LENGTH}
    assert all(0 <= part <= MOST for message in messages for part in message)
    decoded = [order for message in messages for order in orders.decode(number, message)]
    assert decoded == [*told, last]
    assert len(messages) <= 1 + len(decoded) * 6 // (orders.LENGTH - 3 - PREFILL_ROWS - 3)


@given(FEW, LAST, st.integers(0, orders.LENGTH - 1), st.integers(-(1 << 31), MOST))
def test_a_changed_message_is_refused_or_is_another_one(told, last, place, value):
    """Never half of one: what is decoded is a message that could have been sent."""
    message = orders.encode(9, [*told, last])
    message[place] = value
    with suppress(orders.NotAnOrder):
        found = orders.decode(9, message)
        assert orders.encode(9, found) == message


@pytest.mark.parametrize(
    "given_",
    [
        *([orders.Read(1, ())], [orders.Read(1, (0,) * (PREFILL_ROWS + 1))]),
        *([orders.Read(1, (-1,))], [orders.Rewind(1, -1)], [orders.Rewind(1, MOST + 1)]),
        *([orders.Rest(), orders.Mark(1)], [orders.Read(1, (5,)), orders.Read(1, (6,))]),
        [orders.Mark(1)] * orders.LENGTH,
    ],
)
def test_what_could_not_be_decoded_is_not_sent(given_):
    with pytest.raises(ValueError, match=r"\w"):
        orders.encode(1, given_)


@pytest.mark.parametrize(("place", "value"), [(0, 0), (1, 6), (2, 8), (2, 6), (3, 99), (4, -1)])
def test_a_damaged_message_is_refused(place, value):
    message = orders.encode(5, [orders.Mark(1), orders.Read(2, (3, 4))])
    for damaged in ([*message[:place], value, *message[place + 1 :]], message[:-1], [0] * 9):
        with pytest.raises(orders.NotAnOrder):
            orders.decode(5, damaged)
