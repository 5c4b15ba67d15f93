"""The rules of an answer that calls tools, and its steps, as they are given back to the model."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events import CallPiece, Text
from engine.replies.tools import tools_of
from engine.request import ChatMessage, ToolCall
from engine.stretches import Stretch
from engine.tools.calling import Calling
from engine.tools.protocol import Offered, Result
from engine.tools.steps import (
    CALL_STATES,
    MOST_CALLS,
    MOST_SECONDS,
    Step,
    StepCall,
    line_of,
    messages_of,
    must_answer,
)
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
NAMES = ("read_file", "send")
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


def test_tools_are_offered_as_the_engine_reads_them():
    (tool, _) = tools_of(tools_json(TOOLS))
    assert (tool.name, tool.parameters, tool.strict) == ("read_file", PATH, True)
    assert tools_json(()) == ""
    named = [tool.name for tool in given_tools([READ, replace(READ, server="mail"), SEND])]
    assert named == ["files_read_file", "mail_read_file", "send"]
    long = '{"a": "' + "x" * 2**20 + '"}'  # what is not a schema takes any arguments
    for schema in ("", "no", "[]", "3", '{"type": "string"}', "[" * 100_000, long):
        (tool,) = given_tools([replace(READ, schema=schema, description="bomb " * 2**18)])
        assert len(tools_json([tool])) < 3000, schema[:100]
        assert unfit('{"any": 1}', tool) == "", schema[:100]


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


def test_the_user_is_asked_unless_they_allowed_or_trusted():
    def states(permissions):
        return [judged([called(name)], TOOLS, permissions)[0].state for name in NAMES]

    trusting = Permissions(trusted=frozenset({"files", "mail"}))
    assert states(ASKING) == ["asked", "asked"]
    assert states(trusting) == ["running", "asked"]
    (call,) = judged([called("send")], TOOLS, ASKING)
    assert (call.server, call.tool) == ("mail", "send")
    for decision, state in (
        ("once", "asked"),
        ("always", "running"),
        ("refuse", "asked"),
        ("never", "refused"),
    ):
        assert states(ASKING.after(call, decision)) == ["asked", state]
    never = trusting.after(replace(call, server="files", tool="read_file"), "never")
    assert states(never) == ["refused", "asked"]


def test_a_decision_runs_a_call_or_refuses_it():
    (call,) = judged([called()], TOOLS, ASKING)
    assert decided(call, "once").state == decided(call, "always").state == "running"
    assert decided(call, "once", arguments='{ "path":"notes.md" }').ran == ""
    for mine, theirs in ((FITTING, '{"path": "b"}'), ('{"all": 1}', '{"all": true}')):
        edited = decided(called(arguments=mine), "once", arguments=theirs)
        assert (edited.arguments, edited.ran) == (mine, theirs)
    for decision in ("refuse", "never"):
        refused = decided(call, decision)
        assert (refused.state, bool(refused.result)) == ("refused", True)
    (call,) = judged([called("rm\x1b[2J")], TOOLS, ASKING)
    assert (call.state, call.server, call.tool) == ("refused", "", "")
    assert "read_file, send" in call.result
    assert "\x1b" not in call.result


def test_arguments_that_do_not_fit_are_given_back_once():
    """And that says more than the refusal of the next."""
    allowed = Permissions(always=frozenset({("files", "read_file")}))
    for arguments in ("", "no", "[]", "{}", '{"path": 1}', "[" * 100_000):
        (first,) = judged([called(arguments=arguments)], TOOLS, allowed)
        before = [Step(1, (first,))]
        (second,) = judged([called(arguments=arguments)], TOOLS, allowed, before=before)
        assert (first.state, second.state) == ("refused", "refused")
        assert "Call it again" in first.result
        assert "Go on without" in second.result
        (mended,) = judged([called()], TOOLS, allowed, before=before)
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


@pytest.mark.parametrize("schema", BOMBS.values(), ids=BOMBS)
def test_a_schema_cannot_hold_up_the_check(schema):
    tool = GivenTool("t", replace(READ, schema=json.dumps(schema)))
    assert unfit(json.dumps({"a": "a" * 40 + "!", "a" * 40 + "!": 1}), tool) == ""


def test_a_result_says_how_the_call_ended_and_there_are_limits():
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
    assert ('{"path": "b"}' in first, rest) == (True, "text")
    done = called(server="files", tool="read_file", state="done", seconds=70.0)
    steps = [Step(1, (done,) * (MOST_CALLS - 1))]
    found = judged([called(), called()], TOOLS, ASKING, before=steps)
    assert [call.state for call in found] == ["asked", "refused"]
    left = [seconds_left([Step(1, (done,) * count)]) for count in (0, 4, 5)]
    assert left[:2] == [CALL_SECONDS, MOST_SECONDS - 4 * 70]
    assert left[2] > 0  # the user allowed it


def test_a_long_result_is_given_in_passages_for_the_question():
    lines = [f"Room {n} is painted in colour {n % 7}." for n in range(600)]
    lines[423] = "The treasure is under the stairs."
    text = "\n".join(lines)
    found = shortened(text, question="Where is the treasure?", name="read_file", count=count)
    first, _, rest = found.partition("\n")
    assert "passages" in first
    assert lines[423] in rest
    assert count(found) < MOST_RESULT_TOKENS + 50
    short = "\n".join(lines[:200])
    assert shortened(short, question="Where?", name="read_file", count=count) == short

    def in_bytes(text):
        return len(text.encode())

    wide = "\n".join(["宝物は階段の下にある。"] * 240)
    assert len(wide) < MOST_RESULT_TOKENS
    found = shortened(wide, question="宝物", name="read_file", count=in_bytes)
    assert in_bytes(found) < MOST_RESULT_TOKENS + 150


CALL = StepCall("g_0", "read_file", '{"path": "notes.md"}', "files", "read_file", result="Text.")
WRITTEN = '<think>Hm.</think>I look.<tool_call>{"name": "read_file"}</tool_call>'
KINDS = (
    Stretch("mark", 7),
    Stretch("reasoning", 3),
    Stretch("mark", 8),
    Stretch("content", 7),
    Stretch("call", len(WRITTEN) - 25),
)


def test_a_step_is_a_message_with_its_calls_and_the_results():
    two = Step(len(WRITTEN), (CALL, StepCall("g_1", "other", "{}", state="cancelled")))
    asked, first, second, last = messages_of(WRITTEN + "Done.", KINDS, [two])
    calls = (ToolCall("g_0", "read_file", CALL.arguments), ToolCall("g_1", "other", "{}"))
    assert asked == ChatMessage("assistant", "I look.", "Hm.", calls, written=WRITTEN)
    assert first == ChatMessage("tool", "Text.", tool_call_id="g_0", name="read_file")
    assert second.tool_call_id == "g_1"
    assert second.content
    assert last == ChatMessage("assistant", "Done.", written="Done.")
    assert messages_of(WRITTEN, KINDS, [two])[-1].role == "tool"
    done = Step(1, (replace(CALL, state="done"),))
    once, twice = (messages_of("ab", (), [done] * n) for n in (1, 2))
    assert once[1].content == twice[1].content == CALL.result
    assert twice[3].content != CALL.result  # which asks the model to answer
    assert twice[3].content.startswith(CALL.result)


@given(st.text(max_size=30), st.lists(st.integers(0, 30), max_size=4), st.lists(st.integers(1, 9)))
def test_nothing_that_was_written_is_lost(text, places, kinds):
    steps = [Step(min(place, len(text)), (CALL,)) for place in sorted(places)]
    stretches = [Stretch("reasoning" if n % 2 else "content", n) for n in kinds]
    messages = messages_of(text, stretches, steps)
    assert "".join(message.written for message in messages) == text
    assert sum(message.role == "tool" for message in messages) == len(steps)


def test_limits_and_calls_that_lead_nowhere_end_in_an_answer():
    def step(count, seconds):
        return Step(1, (replace(CALL, state="done", seconds=seconds),) * count)

    def ran(path, result):
        return Step(1, (replace(CALL, arguments=path, state="done", result=result),))

    a, b = '{"path": "a"}', '{"path": "b"}'
    first, spaced = ran(a, "blue"), ran('{ "path":"a" }', "blue")
    refused = Step(1, (replace(CALL, arguments="{}", state="refused"),))
    again = Step(1, (replace(first.calls[0], state="refused", result="No."),))  # the same call
    both = Step(1, (*first.calls, *ran(b, "red").calls))
    for ends, steps in (
        (True, [step(MOST_CALLS, 0)]),
        (True, [step(3, MOST_SECONDS / 3)]),
        *((True, [first, each]) for each in (spaced, again)),
        (True, [first, refused, spaced]),
        (True, [refused, refused]),
        (False, [step(MOST_CALLS - 1, 0)]),
        (False, [step(3, 99)]),
        *((False, steps) for steps in ([], [first])),
        *((False, [first, each]) for each in (ran(a, "red"), ran(b, "blue"), both, refused)),
    ):
        assert must_answer(steps) == ends, steps


DONE = StepCall(
    *("g", "files_read_file", '{"path": "notes.md", "head": [1]}', "files", "read_file"),
    *("", "done", "", 0.123, 2048),
)


@given(st.text(), st.text(), st.sampled_from(CALL_STATES))
def test_a_call_is_said_in_a_line_that_is_harmless(name, arguments, state):
    line = line_of(StepCall("g", name, arguments, state=state))
    assert "\n" not in line
    assert "\x1b" not in line
    assert line_of(DONE) == "read_file notes.md …, 2.05 kB, 0.1 s"


# The calls of an answer, by a model that calls for ever and a user who changes their mind

LOOSE = json.dumps(PATH | {"required": []})
OFFERED = given_tools([Offered("files", "read", schema=LOOSE), Offered("mail", "send")])
CALLS = st.tuples(
    st.sampled_from(["read", "send", "other"]),
    st.sampled_from(['{"path": "a"}', '{"path": "b"}', '{"path": 7}', "no"]),
    st.sampled_from(["once", "always", "refuse", "never"]),
    st.floats(0, 100),
    st.sampled_from(["red", "blue"]),
)


def written_calls(*calls):
    pieces = [
        piece
        for number, (name, arguments) in enumerate(calls)
        for piece in (CallPiece(number, name, arguments), CallPiece(number, ended=True))
    ]
    return Text("g", "", calls=tuple(pieces))


@given(st.lists(st.lists(CALLS, min_size=1, max_size=4), min_size=1, max_size=8))
def test_nothing_runs_unasked_and_every_answer_ends(script):
    calling, allowed = Calling(tools=OFFERED), set()
    for number in range(10 * MOST_CALLS):
        wished = script[number % len(script)]
        calling.hear(written_calls(*(each[:2] for each in wished)))
        assert calling.begin_step(f"g{number}", place=number)
        for call, (_, _, decision, seconds, text) in zip(calling.last, wished, strict=True):
            now = calling.call(call.id)
            assert now
            if now.state == "asked":
                calling.decide(now, decision)
                if decision == "always":
                    allowed.add((call.server, call.tool))
                elif decision == "never":
                    allowed.discard((call.server, call.tool))
            elif now.state == "running":
                assert (call.server, call.tool) in allowed
            now = calling.call(call.id)
            assert now
            if now.state == "running":
                result = Result(now.id, "done", text, seconds, 4)
                calling.put(finished(now, result, question="?", count=len))
        assert not calling.asked
        assert not calling.running
        assert all(call.result for call in calling.last)
        if must_answer(calling.steps):
            break
    else:
        pytest.fail("it never answers")
    ran = [call for step in calling.steps for call in step.calls if call.runs]
    assert len(ran) <= MOST_CALLS
    assert sum(call.seconds for call in ran[:-4]) <= MOST_SECONDS + 4 * 100


def test_a_decision_on_all_calls_of_a_tool_is_one_on_those_that_wait():
    calling = Calling(tools=OFFERED)
    calling.hear(
        written_calls(("read", '{"path": "a"}'), ("send", "{}"), ("read", '{"path": "b"}'))
    )
    assert calling.begin_step("g", place=1)
    calling.decide(calling.asked[0], "always")
    assert [call.state for call in calling.last] == ["running", "asked", "running"]
    calling.stop()
    assert [call.state for call in calling.last] == ["cancelled", "asked", "cancelled"]
    calling = Calling(tools=OFFERED)
    for number, repeats in enumerate((False, True)):  # which the user is told
        calling.hear(written_calls(("read", '{"path": "a"}')))
        assert calling.begin_step(f"g{number}", place=number)
        (call,) = calling.asked
        assert calling.repeats(call) == repeats
        calling.decide(call, "refuse" if repeats else "once")
        assert must_answer(calling.steps) == repeats
