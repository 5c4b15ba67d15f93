"""The calls of an answer, by a model that calls for ever and a person who changes their mind."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events import CallPiece, Text
from engine.tools.calling import Calling
from engine.tools.protocol import Offered, Result
from engine.tools.steps import MOST_CALLS, MOST_SECONDS, must_answer
from engine.tools.turn import finished, given_tools

SCHEMA = json.dumps({"type": "object", "properties": {"path": {"type": "string"}}})
TOOLS = given_tools([Offered("files", "read", schema=SCHEMA), Offered("mail", "send")])
CALLS = st.tuples(
    st.sampled_from(["read", "send", "other"]),
    st.sampled_from(['{"path": "a"}', '{"path": "b"}', '{"path": 7}', "no"]),
    st.sampled_from(["once", "always", "refuse", "never"]),
    st.floats(0, 100),
    st.sampled_from(["red", "blue"]),
)


def called(*calls):
    pieces = [
        piece
        for number, (name, arguments) in enumerate(calls)
        for piece in (CallPiece(number, name, arguments), CallPiece(number, ended=True))
    ]
    return Text("g", "", calls=tuple(pieces))


@given(st.lists(st.lists(CALLS, min_size=1, max_size=4), min_size=1, max_size=8))
def test_nothing_runs_unasked_and_every_answer_ends(script):
    calling, allowed = Calling(tools=TOOLS), set[tuple[str, str]]()
    for number in range(10 * MOST_CALLS):
        wished = script[number % len(script)]
        calling.hear(called(*(each[:2] for each in wished)))
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
    calling = Calling(tools=TOOLS)
    calling.hear(called(("read", '{"path": "a"}'), ("send", "{}"), ("read", '{"path": "b"}')))
    assert calling.begin_step("g", place=1)
    calling.decide(calling.asked[0], "always")
    assert [call.state for call in calling.last] == ["running", "asked", "running"]
    calling.stop()
    assert [call.state for call in calling.last] == ["cancelled", "asked", "cancelled"]


def test_a_call_that_ran_before_is_known_as_such():
    calling = Calling(tools=TOOLS)
    for number, repeats in enumerate((False, True)):
        calling.hear(called(("read", '{"path": "a"}')))
        assert calling.begin_step(f"g{number}", place=number)
        (call,) = calling.asked
        assert calling.repeats(call) == repeats
        calling.decide(call, "once" if number == 0 else "refuse")
        assert must_answer(calling.steps) == repeats
