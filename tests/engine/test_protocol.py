"""Every command and answer survives its line, and nothing else is taken for one."""

import dataclasses
import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import protocol
from engine.events import Done, Failed, Stats, to_json
from engine.protocol import (
    LONGEST_LINE_BYTES,
    Answer,
    BadLine,
    Cancel,
    Command,
    Drafting,
    Generate,
    Load,
    Notice,
    Quit,
    Ready,
    Unload,
    answer_from_json,
    answer_to_json,
    command_to_json,
    parse_command,
)
from engine.request import Message, Sampling
from models.errors import Problem

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
name = text.filter(bool)
figure = st.floats(-1e6, 1e6)
sampling = st.builds(
    Sampling,
    temperature=st.just(0.0) | st.floats(0.001, 2),
    top_k=st.integers(0, 100),
    top_p=st.floats(0, 1),
    penalty_window=st.integers(1, 100),
    logit_bias=st.dictionaries(st.integers(0, 10**9 - 1), figure, max_size=3),
    seed=st.none() | st.integers(0, 2**64 - 1),
)
messages = st.builds(Message, role=st.sampled_from(["system", "user", "assistant"]), content=text)
commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(Load, id=name, target=text, drafter=text, draft_length=text),
    st.builds(Drafting, id=name, drafter=st.none() | text, draft_length=st.none() | text),
    st.builds(
        Generate,
        id=name,
        conversation=text,
        messages=st.lists(messages, max_size=3).map(tuple),
        sampling=sampling,
        max_tokens=st.integers(1),
        stops=st.lists(text, max_size=3).map(tuple),
    ),
    st.builds(Cancel, id=name),
    st.builds(Unload, id=name),
    st.just(Quit()),
)


@given(command=commands)
def test_a_command_survives_its_line(command: Command) -> None:
    line = command_to_json(command)
    assert "\n" not in line
    assert line.isascii()
    for end in (b"", b"\n", b"\r\n"):
        assert parse_command(line.encode() + end) == command


@pytest.mark.parametrize("kind", get_args(Notice))
@given(data=st.data())
def test_a_notice_survives_its_line(kind: type[Any], data: st.DataObject) -> None:
    values = {str: text, int: st.integers(), float: st.floats(0.0, 1.0)}
    notice = kind(*(data.draw(values[field.type]) for field in dataclasses.fields(kind)))
    line = answer_to_json(notice)
    assert "\n" not in line
    assert answer_from_json(line) == notice
    fields = json.loads(line)
    for broken in ({**fields, "more": 1}, dict(list(fields.items())[:-1]), {**fields, "id": []}):
        with pytest.raises(ValueError, match="not an answer"):
            answer_from_json(json.dumps(broken))


@pytest.mark.parametrize("event", [Done("g", "stop", Stats(), "cut"), Failed("g", "m", "r")])
def test_events_are_answers(event: Answer) -> None:
    assert answer_to_json(event) == to_json(event)
    assert answer_from_json(answer_to_json(event)) == event


junk: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(line=st.binary() | st.text().map(lambda line: line.encode(errors="surrogatepass")))
def test_any_bytes_are_refused_with_a_remedy(line: bytes) -> None:
    with pytest.raises(BadLine) as refused:
        parse_command(line)
    assert refused.value.message
    assert refused.value.remedy


@given(command=commands, data=st.data())
def test_a_spoilt_command_is_a_command_or_refused(command: Command, data: st.DataObject) -> None:
    line = command_to_json(command).encode()
    fields = json.loads(line)
    spoilt = data.draw(
        st.builds(lambda place: line[:place], st.integers(0, len(line)))
        | st.builds(
            lambda place, byte: line[:place] + byte + line[place + 1 :],
            st.integers(0, len(line) - 1),
            st.binary(max_size=2),
        )
        | st.builds(
            lambda key, value: json.dumps({**fields, key: value}).encode(),
            st.sampled_from(sorted(fields)) | st.text(max_size=5),
            junk,
        )
    )
    message = ""
    try:
        parse_command(spoilt)
    except BadLine as bad:
        message = bad.message
    assert "\n" not in message
    assert len(message) < 300


HELLO = {"role": "user", "content": "hi"}
GENERATE = {"command": "generate", "id": "g", "conversation": "c", "messages": [HELLO]}


@pytest.mark.parametrize(
    ("line", "id", "words"),
    [
        (b"", "", "empty"),
        (b"  \n", "", "empty"),
        (b"nonsense\n", "", "not JSON"),
        (b'{"command": "quit"', "", "not JSON"),
        (b'{"command": "quit"} {}', "", "not JSON"),
        (b"\xff\xfe\x00", "", "Byte 0 of the line is not UTF-8"),
        (b"[" * 100_000, "", "nested too deeply"),
        (b'{"a":' * 100_000, "", "nested too deeply"),
        (b"9" * 5_000, "", "not JSON"),
        (b" " * LONGEST_LINE_BYTES + b"{}", "", r"over 8,388,608 bytes.*shorter"),
        (b"null", "", "The line is null, not an object"),
        (b'["quit"]', "", "The line is a list, not an object"),
        (b"{}", "", "There is no command null. Use load, drafting, generate, unload, cancel, quit"),
        (b'{"command": "fly", "id": "7"}', "7", "no command 'fly'"),
        (b'{"command": ["load"]}', "", "no command a list"),
        (b'{"command": "quit", "now": 1}', "", "quit has no field 'now'. It has no fields"),
        (b'{"command": "load", "id": "7"}', "7", "load lacks 'target'. Its fields are id, target"),
        (b'{"command": "unload", "id": 7}', "", "unload.id is a number. Give a text"),
        (b'{"command": "unload", "id": ""}', "", "unload.id is empty"),
        (b'{"command": "unload", "id": null}', "", "unload.id is null. Give a text"),
        (b'{"command": "unload", "id": "\\ud800"}', "\ud800", "half a character"),
        (b'{"command": "cancel", "id": "g", "x": 1}', "", "cancel has no field 'x'"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_the_answer_names_what_is_wrong(line: bytes, id: str, words: str) -> None:
    with pytest.raises(BadLine, match=words) as refused:
        parse_command(line)
    assert refused.value.id == id


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"messages": HELLO}, "generate.messages is an object. Give a list"),
        ({"messages": [HELLO, "hi"]}, r"generate.messages\[1\] is a text. Give an object"),
        ({"messages": [{"role": "user"}]}, r"messages\[0\] lacks 'content'. .*role, content"),
        ({"messages": [HELLO | {"role": "root"}]}, r"role is 'root'. Give system or user"),
        ({"messages": [HELLO | {"role": []}]}, r"role is a list. Give system or user"),
        ({"messages": [HELLO | {"name": "x"}]}, r"messages\[0\] has no field 'name'"),
        ({"sampling": None}, "generate.sampling is null. Give an object"),
        ({"sampling": {"heat": 1}}, "generate.sampling has no field 'heat'. .*temperature"),
        ({"sampling": {"temperature": "1"}}, "sampling.temperature is a text. Give a number"),
        ({"sampling": {"temperature": True}}, "temperature is a truth value. Give a number"),
        ({"sampling": {"temperature": float("nan")}}, "temperature is nan"),
        ({"sampling": {"temperature": 10**400}}, "temperature is out of range"),
        ({"sampling": {"top_k": 1.0}}, "top_k is a number. Give a whole number"),
        ({"sampling": {"seed": -1}}, "The seed is -1"),
        ({"sampling": {"seed": 2**64}}, "Choose one from 0 to 2.64 - 1"),
        ({"sampling": {"logit_bias": {"-1": 1}}}, "logit_bias has the key '-1'"),
        ({"sampling": {"logit_bias": {"9" * 999: 1}}}, "logit_bias has the key '9{40}'"),
        ({"sampling": {"logit_bias": {"1": "a"}}}, "logit_bias is a text. Give a number"),
        ({"max_tokens": 0}, "max_tokens is 0. Give 1 or more"),
        ({"max_tokens": True}, "max_tokens is a truth value. Give a whole number"),
        ({"stops": "END"}, "generate.stops is a text. Give a list"),
        ({"stops": [None]}, r"generate.stops\[0\] is null. Give a text"),
    ],
)
def test_the_answer_names_the_field(change: dict[str, Any], words: str) -> None:
    with pytest.raises(BadLine, match=words) as refused:
        parse_command(json.dumps(GENERATE | change).encode())
    assert refused.value.id == "g"


def test_what_is_left_out_is_what_the_engine_would_take() -> None:
    command = parse_command(json.dumps(GENERATE | {"sampling": {"temperature": 1}}).encode())
    assert command == Generate(
        "g", "c", (Message("user", "hi"),), sampling=Sampling(temperature=1.0)
    )


def test_a_command_that_would_be_refused_cannot_be_made() -> None:
    with pytest.raises(Problem, match="max_tokens"):
        Generate("g", "c", (), max_tokens=0)


def test_the_greeting_can_be_read_by_every_version() -> None:
    """It is how two versions tell that they are not of one: its form stays."""
    first = (
        '{"event": "ready", "protocol": 1, "python": "3.12.11", "mlx": "0.31.2", '
        '"mlx_lm": "0.31.3", "device": "Device(gpu, 0)"}'
    )
    greeting = answer_from_json(first)
    assert greeting == Ready(1, "3.12.11", "0.31.2", "0.31.3", "Device(gpu, 0)")
    assert answer_to_json(greeting) == first
    assert protocol.PROTOCOL == 2


def test_no_notice_is_called_like_an_event() -> None:
    from engine import events

    names = [kind.__name__.lower() for kind in get_args(protocol.Answer)]
    assert len(set(names)) == len(names)
    assert set(get_args(events.Event)) < set(get_args(protocol.Answer))
