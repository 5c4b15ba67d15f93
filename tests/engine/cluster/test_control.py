"""Lines between rank 0's process and the followers': all that is no message is refused."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cluster import control
from engine.cluster.control import from_line, to_line
from engine.cluster.links import this_mac
from models.typed_json import WrongJson

ONE, TWO = ("10.0.0.1:1", "10.0.1.1:1"), ("10.0.0.2:2", "10.0.1.2:2")
MESSAGES = [
    control.Meet(("10.0.0.1",)),
    control.Join(1, (ONE, TWO), "ring", ((), ()), 3, 9),
    control.Join(0, (ONE, TWO), "jaccl", (((), ("a", "b")), (("c",), ())), 3, 9),
    control.Find("0123", "4567", "A model", "/a/model", "Copy it."),
    control.Load("tensor", (), expand=True),
    control.Load("pipeline", (2, 3), expand=False),
    control.Work(),
    control.Ping(),
    control.Quit(),
    this_mac(["127.0.0.1"]),
    control.Joined(),
    control.Found("/a/model", this_mac([]).machine),
    control.Loaded(7),
    control.Pong(3, waits=True),
    control.Broken("[ring] é\n"),
    control.Refused("It has other weights.", "Copy them."),
]
KINDS = [*get_args(control.LeaderMessage), *get_args(control.FollowerMessage)]


def test_a_message_is_the_same_on_the_other_side() -> None:
    for message in MESSAGES:
        line = to_line(message)
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        assert from_line(line) == message
    assert {type(message) for message in MESSAGES} == {*KINDS}, "not all kinds were tried"


def test_what_is_no_message_is_not_understood() -> None:
    for line in (
        b"",
        b"Welcome to mac2!",
        b"[]",
        b"{}",
        b"null",
        b'{"kind": "launch"}',
        b'{"kind": ["ping"]}',
        b'{"kind": "ping", "more": 1}',
        b'{"kind": "load", "mode": "both", "split": [], "expand": true}',
        b'{"kind": "loaded", "size_bytes": "1"}',
        b'{"kind": "loaded"}',
        b"\xff\xfe",
        b"[" * 100_000,
    ):
        with pytest.raises(WrongJson):
            from_line(line)


@given(st.binary(max_size=80))
def test_any_line_is_a_message_or_not_understood(line: bytes) -> None:
    try:
        from_line(line)
    except WrongJson:
        return
