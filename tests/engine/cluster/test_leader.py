"""What a leader tells, and what a follower makes of it: both in one process, each with the whole
model, in a group of one."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from itertools import product
from typing import Any
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
from tests.engine.cluster import test_cluster_mutants as mutants
from tests.support.engine.helpers import BLOCK, CORE, build_wide, contents
from tests.support.engine.tiny import build
from tests.support.mostly_slow import examples, mostly_slow


@cache
def part(architecture: str) -> ModelPart:
    """All of a model, as one of `CORE`."""
    share = RankShare("tensor", 0, 1)
    model = build(architecture) if architecture == "mamba" else build_wide(architecture)
    return ModelPart(model, share, mx.distributed.init())


@contextmanager
def sent() -> Iterator[list[list[int]]]:
    """The messages that a leader sends meanwhile, which followers then hear in their order."""
    messages: list[list[int]] = []
    heard = iter(messages)

    def broadcast(group: Any, numbers: Sequence[int], *, length: int) -> list[int]:
        if not numbers:
            return next(heard)
        messages.append(list(numbers))
        return messages[-1]

    with mock.patch.object(collectives, "broadcast", broadcast):
        yield messages


def told(messages: Sequence[list[int]]) -> list[orders.Order]:
    return [order for n, each in enumerate(messages, 1) for order in orders.decode(n, each)]


def text(rows: int, seed: int = 0) -> mx.array:
    return mx.array([(7 * n * n + 3 * n + seed) % 64 for n in range(rows)], dtype=mx.int32)


Step = Callable[[list[LeadingDecoder]], None]


STEPS = ("read", "round", "rewind", "bookmark", "copy", "another", "close")


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """Something that is done to one of the decoders, which may come and go."""
    kind = draw(st.sampled_from(STEPS))
    which, number = draw(st.integers(0, 9)), draw(st.integers(0, 40))

    def step(decoders: list[LeadingDecoder]) -> None:
        decoder = decoders[which % len(decoders)]
        rows = min(number + 1, decoder.timeline.room())
        if kind == "read":
            mx.eval(decoder.read(text(rows, seed=number)))
        elif kind == "round":
            decoder.begin_round([0] * (decoder.length + 1))
            rows = min(rows, decoder.timeline.room())
            mx.eval(decoder.read(text(rows, seed=number)))
            decoder.rewind(decoder.length - min(number // 2, rows))
        elif kind == "rewind":
            decoder.rewind(max(0, decoder.length - number))
        elif kind == "bookmark":
            decoder.bookmark()
        elif kind == "copy":
            other, _ = decoder.copy()
            assert isinstance(other, LeadingDecoder)
            decoders.append(other)
        elif kind == "another":
            decoders.append(decoder.another())
        elif len(decoders) > 1:
            decoders.remove(decoder)

    return step


EARLY = QuantizedCaches(bits=8, group_size=32, start=21)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("architecture", "quantized"),
    mostly_slow(product(CORE, (None, EARLY)), quick=[("qwen3_5", None)]),
)
@settings(max_examples=examples(12))
@given(st.lists(steps(), min_size=3, max_size=15))
def test_follower_holds_what_the_leader_does(
    architecture: str, quantized: QuantizedCaches | None, done: list[Step]
) -> None:
    with sent():
        ours = part(architecture)
        leader = Leader(ours)
        model = ours.model
        decoders = [LeadingDecoder(model, leader=leader, quantized=quantized, block=BLOCK)]
        for step in done:
            step(decoders)
        gc.collect()  # those that are closed
        leader.quit()
        follower = Follower(ours)
        follower.run(lambda: True)
    require_the_same(follower, leader, decoders)


def require_the_same(follower: Follower, leader: Leader, decoders: list[LeadingDecoder]) -> None:
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


FORGETTING = (
    *(mutants.forget_a_rewind, mutants.forget_to_mark, mutants.forget_a_pass),
    *(mutants.lose_a_message, mutants.mishear_a_token),
)


@pytest.mark.parametrize("mutant", FORGETTING, ids=lambda mutant: mutant.__name__)
def test_a_follower_that_forgets_holds_something_else(
    mutant: Callable[[], AbstractContextManager[Any]],
) -> None:
    for broken in (nullcontext, mutant):
        with sent():
            leader = Leader(part("qwen3_5"))
            decoder = LeadingDecoder(leader.part.model, leader=leader)
            for number in range(10):
                decoder.begin_round([0] * (decoder.length + 1))
                mx.eval(decoder.read(text(4, seed=number)))
                decoder.rewind(decoder.length - 2)
            leader.quit()
            follower = Follower(leader.part)
            noticed = pytest.raises((AssertionError, OutOfStep, orders.NotAnOrder))
            with nullcontext() if broken is nullcontext else noticed, broken():
                follower.run(lambda: True)
                require_the_same(follower, leader, [decoder])


def test_one_message_before_a_pass() -> None:
    with sent() as messages:
        leader = Leader(part("llama"))
        decoder = LeadingDecoder(leader.part.model, leader=leader)
        decoder.begin_round([0])
        decoder.read(text(5))
        assert len(messages) == 1
        decoder.rewind(2)
        decoder.bookmark()
        assert len(messages) == 1
        decoder.read(text(1))
    assert told(messages) == [
        orders.Open(1, 128, 0, 0, 0),
        orders.Mark(1),
        orders.Read(1, tuple(text(5).tolist())),  # type: ignore[arg-type]
        orders.Rewind(1, 2),
        orders.Bookmark(1),
        orders.Read(1, (0,)),
    ]


def test_more_than_a_message_holds_is_told_before_a_pass() -> None:
    with sent() as messages:
        leader = Leader(part("llama"))
        decoders = [LeadingDecoder(leader.part.model, leader=leader) for _ in range(200)]
        decoders[0].read(text(500))
        opened = [order.decoder for order in told(messages) if isinstance(order, orders.Open)]
        assert opened == [each.number for each in decoders]
        assert len(messages) == 3  # 200 orders of six numbers, and the pass


def test_rest_is_compared_before_and_woken_after_and_told_once() -> None:
    woken = list[int]()
    with sent() as messages:
        leader = Leader(part("llama"), wake=lambda: woken.append(len(messages)))
        decoder = LeadingDecoder(leader.part.model, leader=leader)
        leader.rest()
        assert not messages
        decoder.read(text(3))
        leader.rest()
        leader.rest()
        decoder.read(text(3))
        leader.quit()
    assert woken == [0, 3]
    kinds = [type(order) for order in told(messages)][1:]
    assert kinds == [orders.Read, orders.Compare, orders.Rest, orders.Read, orders.Quit]


def test_compared_now_and_then() -> None:
    with sent() as messages:
        leader = Leader(part("llama"))
        decoder = LeadingDecoder(leader.part.model, leader=leader)
        for _ in range(2 * PASSES_BETWEEN_COMPARISONS):
            decoder.read(text(1))
    assert sum(isinstance(order, orders.Compare) for order in told(messages)) == 2


def test_nothing_is_read_once_the_ranks_have_lost_each_other() -> None:
    for of_all_ranks in (False, True):
        with sent() as messages:
            leader = Leader(part("llama"))
            decoder = LeadingDecoder(leader.part.model, leader=leader)
            decoder.read(text(3))
            if of_all_ranks:
                with (
                    mock.patch.object(collectives, "agrees", return_value=False),
                    pytest.raises(Problem, match="lost each other"),
                ):
                    leader.rest()
            else:  # the others have begun the pass
                with (
                    mock.patch.object(type(leader.part), "begin", side_effect=MemoryError),
                    pytest.raises(MemoryError),
                ):
                    decoder.read(text(3))
            assert leader.over
            count = len(messages)
            with pytest.raises(Problem, match="lost each other"):
                decoder.read(text(3))
            leader.rest()
            leader.quit()
            assert len(messages) == count


def test_what_comes_back_changed_is_not_what_was_sent() -> None:
    leader = Leader(part("llama"))
    decoder = LeadingDecoder(leader.part.model, leader=leader)
    with (
        mock.patch.object(collectives, "broadcast", lambda *_, length: [1] * length),
        pytest.raises(Problem, match="lost each other"),
    ):
        decoder.read(text(3))
    assert leader.over


@pytest.mark.parametrize(
    "given_",
    [
        [orders.Rewind(9, 1), orders.Quit()],
        [orders.Open(1, 128, 0, 0, 0), orders.Close(1), orders.Read(1, (3,))],
    ],
)
def test_follower_knows_its_decoders(given_: list[orders.Order]) -> None:
    follower = Follower(part("llama"))
    with sent() as messages:
        messages.append(orders.encode(1, given_))
        with pytest.raises(OutOfStep):
            follower.run(lambda: True)


def test_group_is_told_by_all_that_a_pass_depends_on() -> None:
    whole = part("llama")
    parts = [mock.Mock(share=RankShare("pipeline", 0, 2, split)) for split in ((2, 2), (3, 1))]
    groups = [Leader(each).group for each in (*parts, whole)]
    groups += [Leader(whole, links="jaccl").group]
    assert len(set(groups)) == len(groups)
    assert all(groups)
