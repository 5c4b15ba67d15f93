"""Every command and response survives its line, and nothing else is taken for one."""

import json
from typing import get_args

import pytest

from engine import events
from engine.process import protocol
from engine.process.protocol import (
    COMMANDS,
    LONGEST_LINE_BYTES,
    RESPONSES,
    Generate,
    InvalidCommand,
    Ready,
    parse_command,
)
from engine.request import ChatMessage, Grammar, Picture, Prompt, Request, Sampling, ToolCall, asked


def test_a_command_survives_its_line():
    picture, call = Picture("/a.png", "0" * 64, 3, 2), ToolCall("c", "look", "{}")
    message = ChatMessage("assistant", "é\u2028\n", tool_calls=(call,), pictures=(picture,))
    sampling = Sampling(temperature=0.5, top_k=3, logit_bias={7: -1.0}, seed=2**64 - 1)
    request = Request(
        sampling=sampling, stops=("a",), grammar=Grammar("regex", "a+", ""), logprobs=20
    )
    command = Generate("g", "c", Prompt(messages=(message,), text="t", tokens=(5,)), request)
    line = COMMANDS.to_json(command)
    assert "\n" not in line
    assert line.isascii()
    for end in (b"", b"\n", b"\r\n"):
        assert parse_command(line.encode() + end) == command


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
