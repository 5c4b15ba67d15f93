"""Every command and response survives its line, and nothing else is taken for one."""

import dataclasses
import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import events
from engine.cluster.states import RankState, State
from engine.exactness import Exactness
from engine.process import protocol
from engine.process.protocol import (
    CACHE_BITS,
    COMMANDS,
    LONGEST_LINE_BYTES,
    RESPONSES,
    Cancel,
    Count,
    Generate,
    Hurry,
    InvalidCommand,
    Keep,
    Load,
    Macs,
    Memory,
    ProcessEvent,
    Quit,
    Ready,
    SetDrafter,
    Unload,
    parse_command,
)
from engine.replies.families import FAMILIES, FamilyRow
from engine.request import ChatMessage, Grammar, Picture, Prompt, Request, Sampling, ToolCall, asked
from models.typed_json import WrongJson

# Of fields of one type one is drawn: all are written and read alike.
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
name = text.filter(bool)
sampling = st.builds(
    Sampling,
    temperature=st.just(0.0) | st.floats(0.001, 2),
    top_k=st.integers(0, 100),
    logit_bias=st.dictionaries(st.integers(0, 10**9 - 1), st.floats(-1e6, 1e6), max_size=3),
    seed=st.none() | st.integers(0, 2**64 - 1),
    repeatable=st.booleans(),
)
pictures = st.builds(
    Picture,
    path=text.map("/{}".format),
    digest=st.text("0123456789abcdef", min_size=64, max_size=64),
    width=st.integers(1, 4096),
    height=st.integers(1, 4096),
)
messages = st.builds(
    ChatMessage,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=text,
    tool_calls=st.lists(st.builds(ToolCall, text, text, text), max_size=2).map(tuple),
    pictures=st.lists(pictures, max_size=2).map(tuple),
)
prompts = st.builds(
    Prompt,
    messages=st.lists(messages, max_size=3).map(tuple),
    text=text,
    tokens=st.lists(st.integers(0, 10**6), max_size=3).map(tuple),
)
grammars = st.builds(Grammar, st.sampled_from(["json schema", "regex", "lark"]), text, text)
requests = st.builds(
    Request,
    sampling=st.none() | sampling,
    max_tokens=st.integers(1),
    stops=st.lists(text, max_size=3).map(tuple),
    grammar=st.none() | grammars,
    logprobs=st.none() | st.integers(0, 20),
)
memory = st.builds(
    Memory, context=st.just(0) | st.integers(2, 1 << 20), cache_bits=st.sampled_from(CACHE_BITS)
)
macs = st.builds(Macs, hosts=text, mode=st.sampled_from(["auto", "pipeline", "tensor"]))
ranks = st.builds(
    RankState,
    state=st.sampled_from(get_args(State)),
    layers=st.none() | st.tuples(st.integers(0, 99), st.integers(0, 99)),
)
commands = st.one_of(
    st.builds(Load, id=name, target=text, memory=memory, macs=macs, sampling=st.none() | sampling),
    st.builds(SetDrafter, id=name, drafter=st.none() | text, measure=st.booleans()),
    st.builds(Generate, id=name, conversation=text, prompt=prompts, request=requests),
    st.builds(Count, id=name, prompt=prompts),
    st.sampled_from([Hurry, Cancel, Unload, Keep]).flatmap(lambda kind: st.builds(kind, id=name)),
    st.just(Quit()),
)


@given(command=commands)
def test_a_command_survives_its_line(command):
    line = COMMANDS.to_json(command)
    assert "\n" not in line
    assert line.isascii()
    for end in (b"", b"\n", b"\r\n"):
        assert parse_command(line.encode() + end) == command


@pytest.mark.parametrize("kind", get_args(ProcessEvent))
@given(data=st.data())
def test_an_event_of_the_process_survives_its_line(kind, data):
    values = {
        str: text,
        int: st.integers(),
        float: st.floats(0.0, 1.0),
        bool: st.booleans(),
        Memory: memory,
        Macs: macs,
        Exactness: st.builds(Exactness, st.integers(0), text, text, st.floats(0.0, 9.0), text),
        Sampling: sampling,
        tuple[RankState, ...]: st.lists(ranks, max_size=3).map(tuple),
        tuple[str, ...]: st.lists(text, max_size=3).map(tuple),
        FamilyRow | None: st.none() | st.sampled_from([*FAMILIES.values()]),
    }
    event = kind(*(data.draw(values[field.type]) for field in dataclasses.fields(kind)))
    line = RESPONSES.to_json(event)
    assert "\n" not in line
    assert RESPONSES.read(line.encode()) == event
    fields = json.loads(line)
    for broken in ({**fields, "more": 1}, dict(list(fields.items())[:-1]), {**fields, "id": []}):
        with pytest.raises(WrongJson):
            RESPONSES.read(json.dumps(broken).encode())


HELLO = {"role": "user", "content": "hi"}
CHAT = {"messages": [HELLO]}
PICTURE = {"path": "/here.png", "digest": "0" * 64, "width": 1, "height": 1}
MESSAGE, SAMPLING = "prompt.messages[0]", "request.sampling"
HEAT, BIAS = SAMPLING + ".temperature", SAMPLING + ".logit_bias"
GENERATE = {"command": "generate", "id": "g", "conversation": "c", "prompt": CHAT}


FAULTY = (  # what is wrong with any line of a language is tried with `models.json_lines`
    (b'{"command": "quit"', "", "not json", ""),
    (b" " * LONGEST_LINE_BYTES + b"{}", "", "too long", ""),
    (b'{"command": "fly", "id": "7"}', "7", "unknown name", ""),
    (b'{"command": "quit", "now": 1}', "", "unknown field", "quit"),
    (b'{"command": "load", "id": "7"}', "7", "missing field", "load.target"),
    (b'{"command": "unload", "id": 7}', "", "wrong type", "unload.id"),
    (b'{"command": "unload", "id": ""}', "", "wrong value", "unload.id"),
    (b'{"command": "unload", "id": "\\ud800"}', "\ud800", "wrong value", "unload"),
    (b'{"command": "cancel", "id": "g", "x": 1}', "", "unknown field", "cancel"),
)


def refusal(line):
    """Of a line that is no command."""
    with pytest.raises(InvalidCommand) as refused:
        pytest.fail(f"{line[:40]!r} is {parse_command(line)}")
    return refused.value


def test_what_is_wrong_with_a_line():
    found = [(line, refusal(line)) for line, *_ in FAULTY]
    assert [(line, each.id, each.fault, each.place) for line, each in found] == [*FAULTY]
    for _, each in found:
        assert each.place in each.message or each.place.partition(".")[2] in each.message
    for path, value, fault, place, wanted in WRONG_FIELDS:
        each = refusal(json.dumps(changed(path, value)).encode())
        whole = ".".join(filter(None, ("generate", place)))
        assert (each.id, each.fault, each.place) == ("g", fault, whole), (path, value)
        assert wanted in each.remedy, (path, value)
    # What is left out is what the engine would take.
    command = parse_command(json.dumps(changed("request.sampling", {"temperature": 1})).encode())
    assert command == Generate("g", "c", asked("hi"), Request(sampling=Sampling(temperature=1.0)))


WRONG_FIELDS = (
    # a field of GENERATE, what it should not be, the place that is told, and what is wanted there
    ("prompt.messages", [HELLO, "hi"], "wrong type", "prompt.messages[1]", "object"),
    ("prompt.messages", [{"role": "user"}], "missing field", MESSAGE + ".content", "content"),
    ("prompt.messages", [HELLO | {"role": "root"}], "wrong value", MESSAGE + ".role", "user"),
    *(
        ("prompt.messages", [HELLO | {"pictures": [PICTURE | wrong]}], "wrong value", "", "")
        for wrong in ({"path": "a.png"}, {"digest": "0" * 63}, {"digest": "G" * 64}, {"width": 0})
    ),
    ("request.sampling", {"heat": 1}, "unknown field", SAMPLING, "temperature"),
    ("request.sampling", {"temperature": float("nan")}, "wrong value", "", ""),
    ("request.sampling", {"temperature": 10**400}, "wrong value", HEAT, ""),
    ("request.sampling", {"top_k": 1.0}, "wrong type", SAMPLING + ".top_k", "whole number"),
    ("request.sampling", {"seed": -1}, "wrong value", "", "2^64"),
    ("request.sampling", {"seed": 2**64}, "wrong value", "", "2^64"),
    ("request.sampling", {"logit_bias": {"-1": 1}}, "wrong value", BIAS, "keys"),
    ("request.max_tokens", 0, "wrong value", "", "1"),
    ("request.stops", [None], "wrong type", "request.stops[0]", "text"),
)


def changed(path, value):
    """GENERATE with one field, given by its path, as it should not be."""
    part, _, name = path.partition(".")
    return GENERATE | {part: (CHAT if part == "prompt" else {}) | {name: value}}


def test_the_greeting_can_be_read_by_every_version():
    """It is how two versions tell that they are not of one: its form stays."""
    first = (
        '{"event": "ready", "protocol": 1, "python": "3.12.11", "mlx": "0.31.2", '
        '"mlx_lm": "0.31.3", "device": "Device(gpu, 0)"}'
    )
    greeting = RESPONSES.read(first.encode())
    assert greeting == Ready(1, "3.12.11", "0.31.2", "0.31.3", "Device(gpu, 0)")
    assert RESPONSES.to_json(greeting) == first
    assert protocol.PROTOCOL == 18
    # No event of the process is called like one of a generation.
    names = [kind.__name__.lower() for kind in get_args(protocol.Response)]
    assert len(set(names)) == len(names)
    assert set(get_args(events.Event)) < set(get_args(protocol.Response))
