"""An answer in steps, as it is given back to the model and said in a line."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from engine.request import ChatMessage, ToolCall
from engine.stretches import Stretch
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


@given(st.text(max_size=30), st.lists(st.integers(0, 30), max_size=4), st.lists(st.integers(1, 9)))
def test_nothing_that_was_written_is_lost(text, places, kinds):
    steps = [Step(min(place, len(text)), (CALL,)) for place in sorted(places)]
    stretches = [Stretch("reasoning" if n % 2 else "content", n) for n in kinds]
    messages = messages_of(text, stretches, steps)
    assert "".join(message.written for message in messages) == text
    assert sum(message.role == "tool" for message in messages) == len(steps)


def test_limits_end_the_calls_of_an_answer():
    def step(count, seconds):
        return Step(1, (replace(CALL, state="done", seconds=seconds),) * count)

    assert [must_answer([step(most, 0)]) for most in (MOST_CALLS, MOST_CALLS - 1)] == [True, False]
    assert [must_answer([step(3, each)]) for each in (MOST_SECONDS / 3, 99)] == [True, False]


def test_calls_that_lead_nowhere_end_in_an_answer():
    def ran(arguments, result):
        return Step(1, (replace(CALL, arguments=arguments, state="done", result=result),))

    first, spaced = ran('{"path": "a"}', "blue"), ran('{ "path":"a" }', "blue")
    refused = Step(1, (replace(CALL, arguments="{}", state="refused"),))
    assert not must_answer(())
    assert not must_answer([first])
    assert must_answer([first, spaced])
    again = Step(1, (replace(first.calls[0], state="refused", result="No."),))
    assert must_answer([first, again]), "a person sees that it is the same call"
    assert must_answer([first, refused, spaced])
    assert not must_answer([first, ran('{"path": "a"}', "red")])
    assert not must_answer([first, ran('{"path": "b"}', "blue")])
    assert not must_answer([first, Step(1, (*first.calls, *ran('{"path": "b"}', "red").calls))])
    assert not must_answer([first, refused])
    assert must_answer([refused, refused])


def test_a_model_that_is_to_answer_is_asked_to_behind_the_results():
    done = replace(CALL, state="done")
    once, twice = (messages_of("ab", (), [Step(1, (done,))] * n) for n in (1, 2))
    assert once[1].content == CALL.result
    assert twice[1].content == CALL.result
    assert twice[3].content != CALL.result
    assert twice[3].content.startswith(CALL.result)


def test_a_call_is_said_in_a_line():
    done = StepCall(
        *("g", "files_read_file", '{"path": "notes.md", "head": [1]}', "files", "read_file"),
        *("", "done", "", 0.123, 2048),
    )
    assert line_of(done) == "read_file notes.md …, 2.05 kB, 0.1 s"


@given(st.text(), st.text(), st.sampled_from(CALL_STATES))
def test_the_line_is_one_and_harmless(name, arguments, state):
    line = line_of(StepCall("g", name, arguments, state=state))
    assert "\n" not in line
    assert "\x1b" not in line
