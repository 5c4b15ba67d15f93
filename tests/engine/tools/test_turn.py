"""The rules of an answer that calls tools."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events import CallPiece
from engine.replies.tools import tools_of
from engine.tools.protocol import Offered, Result
from engine.tools.steps import MOST_CALLS, MOST_SECONDS, Step, StepCall
from engine.tools.turn import (
    CALL_SECONDS,
    MOST_RESULT_TOKENS,
    GivenTool,
    Permissions,
    asked_calls,
    decided,
    finished,
    given_tools,
    judged,
    seconds_left,
    shortened,
    tools_json,
    unfit,
)

PATH = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
}
READ = Offered("files", "read_file", description="Reads.", schema=json.dumps(PATH), read_only=True)
SEND = Offered("mail", "send", schema=json.dumps(PATH))
TOOLS = given_tools([READ, SEND])
ASKING = Permissions()
FITTING = '{"path": "notes.md"}'

names = st.text(max_size=80) | st.sampled_from(["read", "a b", "a_b", "s_read", "x" * 64, "x" * 65])
offers = st.lists(st.builds(Offered, names, names), max_size=8)


def called(name="read_file", arguments=FITTING, **more):
    return StepCall("g_0", name, arguments, **more)


def count(text):
    return len(text) // 4


# What the model is offered


@given(offers)
def test_each_tool_has_a_name_of_its_own_that_models_accept(offered):
    tools = given_tools(offered)
    assert [tool.offered for tool in tools] == list(dict.fromkeys(offered))
    assert len({tool.name for tool in tools}) == len(tools)
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", tool.name) for tool in tools)


@given(st.lists(st.builds(Offered, names, st.sampled_from(["read", "write", "find"])), max_size=6))
def test_the_server_is_named_only_where_two_tools_share_a_name(offered):
    tools = given_tools(offered)
    for tool in tools:
        shared = sum(other.offered.name == tool.offered.name for other in tools) > 1
        assert shared == (tool.name != tool.offered.name)


def test_tools_are_offered_as_the_engine_reads_them():
    (tool, _) = tools_of(tools_json(TOOLS))
    assert (tool.name, tool.parameters, tool.strict) == ("read_file", PATH, True)
    assert tools_json(()) == ""


@pytest.mark.parametrize(
    "schema",
    ["", "no", "[]", "3", '{"type": "string"}', "[" * 100_000, '{"a": "' + "x" * 2**20 + '"}'],
)
def test_a_schema_that_is_none_takes_any_arguments(schema):
    (tool,) = given_tools([replace(READ, schema=schema, description="bomb " * 2**18)])
    assert len(tools_json([tool])) < 3000
    assert unfit('{"any": 1}', tool) == ""


# What becomes of a call


def test_calls_are_those_that_were_written_to_their_ends():
    pieces = [
        CallPiece(0, name="broken", arguments="{"),
        CallPiece(0, name="read_file"),
        CallPiece(0, arguments='{"path": '),
        CallPiece(0, arguments='"a"}', ended=True),
        CallPiece(1, name="send", arguments="{", ended=False),
    ]
    assert asked_calls(pieces, id="g") == (StepCall("g_0", "read_file", '{"path": "a"}'),)


def test_a_person_is_asked_unless_they_allowed_or_trusted():
    def state(name, permissions):
        return judged([called(name)], TOOLS, permissions)[0].state

    trusting = Permissions(trusted=frozenset({"files", "mail"}))
    assert (state("read_file", ASKING), state("send", ASKING)) == ("asked", "asked")
    assert (state("read_file", trusting), state("send", trusting)) == ("running", "asked")
    (call,) = judged([called("send")], TOOLS, ASKING)
    assert (call.server, call.tool) == ("mail", "send")
    for decision, expected in (
        ("once", "asked"),
        ("always", "running"),
        ("refuse", "asked"),
        ("never", "refused"),
    ):
        later = ASKING.after(call, decision)
        assert state("send", later) == expected
        assert state("read_file", later) == "asked"
    assert (
        state("read_file", trusting.after(replace(call, server="files", tool="read_file"), "never"))
        == "refused"
    )


def test_a_decision_runs_a_call_or_refuses_it():
    (call,) = judged([called()], TOOLS, ASKING)
    assert decided(call, "once").state == decided(call, "always").state == "running"
    assert decided(call, "once", arguments='{ "path":"notes.md" }').ran == ""
    edited = decided(call, "once", arguments='{"path": "b"}')
    assert (edited.arguments, edited.ran) == (FITTING, '{"path": "b"}')
    for decision in ("refuse", "never"):
        refused = decided(call, decision)
        assert refused.state == "refused"
        assert refused.result


def test_a_tool_that_nobody_knows_is_named_with_those_there_are():
    (call,) = judged([called("rm\x1b[2J")], TOOLS, ASKING)
    assert (call.state, call.server, call.tool) == ("refused", "", "")
    assert "read_file, send" in call.result
    assert "\x1b" not in call.result


@pytest.mark.parametrize("arguments", ["", "no", "[]", "{}", '{"path": 1}', "[" * 100_000])
def test_arguments_that_do_not_fit_are_given_back_once(arguments):
    """And that says more than the refusal of the next."""
    allowed = Permissions(always=frozenset({("files", "read_file")}))
    (first,) = judged([called(arguments=arguments)], TOOLS, allowed)
    assert first.state == "refused"
    assert "Call it again" in first.result
    (second,) = judged([called(arguments=arguments)], TOOLS, allowed, before=[Step(1, (first,))])
    assert second.state == "refused"
    assert "Go on without" in second.result
    (mended,) = judged([called()], TOOLS, allowed, before=[Step(1, (first,))])
    assert mended.state == "running"


BOMBS = {
    "references": {
        "$defs": {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(60)}
        | {"d60": {}},
        "$ref": "#/$defs/d0",
    },
    "pattern": {"properties": {"a": {"pattern": "^(a+)+$"}}},
    "patterns": {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
    "itself": {"$ref": "#"},
    "elsewhere": {"$ref": "http://127.0.0.1:9/schema"},
    "no schema": {"properties": 3},
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_schema_cannot_hold_up_the_check(name):
    tool = GivenTool("t", replace(READ, schema=json.dumps(BOMBS[name])))
    assert unfit(json.dumps({"a": "a" * 40 + "!", "a" * 40 + "!": 1}), tool) == ""


def test_limits_of_calls_and_of_time():
    done = called(server="files", tool="read_file", state="done", seconds=70.0)
    steps = [Step(1, (done,) * (MOST_CALLS - 1))]
    found = judged([called(), called()], TOOLS, ASKING, before=steps)
    assert [call.state for call in found] == ["asked", "refused"]
    left = [seconds_left([Step(1, (done,) * count)]) for count in (0, 4, 5)]
    assert left == [CALL_SECONDS, MOST_SECONDS - 4 * 70, 0]


def test_a_result_says_how_the_call_ended():
    (call,) = judged([called()], TOOLS, ASKING)

    def given_back(call, ending, text):
        result = Result(call.id, ending, text, 0.5, 7)
        done = finished(call, result, question="?", count=count)
        assert (done.state, done.seconds, done.bytes) == (ending, 0.5, 7)
        return done.result

    assert given_back(call, "done", "a\ud800b") == "a?b"
    assert given_back(call, "done", "")
    assert given_back(call, "cancelled", "")
    assert given_back(call, "failed", "No such file.").endswith("No such file.")
    edited = decided(call, "once", arguments='{"path": "b"}')
    first, _, rest = given_back(edited, "done", "text").partition("\n")
    assert '{"path": "b"}' in first
    assert rest == "text"


def test_a_long_result_is_given_in_passages_for_the_question():
    lines = [f"Room {n} is painted in colour {n % 7}." for n in range(3000)]
    lines[2345] = "The treasure is under the stairs."
    text = "\n".join(lines)
    found = shortened(text, question="Where is the treasure?", name="read_file", count=count)
    first, _, rest = found.partition("\n")
    assert "passages" in first
    assert lines[2345] in rest
    assert count(found) < MOST_RESULT_TOKENS + 50
    short = "\n".join(lines[:200])
    assert shortened(short, question="Where?", name="read_file", count=count) == short


@pytest.mark.slow
def test_a_flood_is_shortened():
    found = shortened("spam and eggs\n" * 500_000, question="Eggs?", name="t", count=count)
    assert count(found) < MOST_RESULT_TOKENS + 50
