"""Work orders as numbers: what is encoded comes back, and nothing else is taken for an order."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cluster.orders import (
    LENGTH,
    Bookmark,
    Close,
    Compare,
    Copy,
    Mark,
    NotAnOrder,
    Open,
    Order,
    Quit,
    Read,
    Rest,
    Rewind,
    Send,
    decode,
    encode,
    in_messages,
)
from models.limits import PREFILL_ROWS

MOST = (1 << 31) - 1
numbers = st.integers(0, MOST)
any_int32 = st.integers(-(1 << 31), MOST)


def orders_of(kind: type[Any], count: int) -> st.SearchStrategy[Any]:
    return st.tuples(*[numbers] * count).map(lambda values: kind(*values))


KINDS = {Open: 5, Copy: 2, Close: 1, Rewind: 2, Mark: 1, Bookmark: 1, Send: 1}
PREPARING = st.one_of(*(orders_of(kind, count) for kind, count in KINDS.items()))
READS = st.builds(Read, numbers, st.lists(numbers, min_size=1, max_size=PREFILL_ROWS).map(tuple))
LAST = READS | st.sampled_from([Compare(), Rest(), Quit()])


@given(numbers, st.lists(PREPARING, max_size=20), LAST)
def test_message_comes_back(number: int, told: list[Order], last: Order) -> None:
    message = encode(number, [*told, last])
    assert len(message) == LENGTH
    assert all(0 <= part <= MOST for part in message)
    assert decode(number, message) == [*told, last]


@given(st.lists(PREPARING, max_size=300), LAST)
def test_any_number_of_orders_is_told_in_order(told: list[Order], last: Order) -> None:
    given_ = [*told, last]
    messages = list(in_messages(given_))
    assert [order for each in messages for order in decode(7, encode(7, each))] == given_
    assert len(messages) <= 1 + len(given_) * 6 // (LENGTH - 3 - PREFILL_ROWS - 3)


@given(
    st.lists(PREPARING, max_size=20), LAST, st.integers(0, LENGTH - 1), any_int32, st.integers(0, 9)
)
def test_changed_message_is_refused_or_is_another_one(
    told: list[Order], last: Order, place: int, value: int, number: int
) -> None:
    """Never half of one: what is decoded is a message that could have been sent."""
    message = encode(number, [*told, last])
    message[place] = value
    try:
        found = decode(number, message)
    except NotAnOrder:
        return
    assert encode(number, found) == message


def test_what_could_not_be_decoded_is_not_sent() -> None:
    cases: list[list[Order]] = [
        [Read(1, ())],
        [Read(1, (0,) * (PREFILL_ROWS + 1))],
        [Read(1, (-1,))],
        [Rewind(1, -1)],
        [Rewind(1, MOST + 1)],
        [Rest(), Mark(1)],
        [Read(1, (5,)), Read(1, (6,))],
        [Mark(1)] * LENGTH,
    ]
    for orders in cases:
        with pytest.raises(ValueError, match=r"\w"):
            encode(1, orders)


def test_damaged_message_is_refused() -> None:
    changes: list[Callable[[list[int]], list[int]]] = [
        lambda message: message[:-1],
        lambda message: [0] * LENGTH,
        lambda message: [0, *message[1:]],
        lambda message: [*message[:2], message[2] + 1, *message[3:]],
        lambda message: [*message[:2], message[2] - 1, *message[3:]],
        lambda message: [*message[:3], 99, *message[4:]],
    ]
    message = encode(5, [Mark(1), Read(2, (3, 4))])
    for change in changes:
        with pytest.raises(NotAnOrder):
            decode(5, change(message))
    with pytest.raises(NotAnOrder):
        decode(6, message)
