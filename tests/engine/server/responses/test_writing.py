"""Responses, and the events that they come in."""

import json
import re
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engine.events import TokenLogprob, TopToken
from engine.server.answers import (
    Began,
    Broken,
    CallArguments,
    CallBegan,
    Content,
    Ended,
    Piece,
    Reasoning,
    Usage,
    Waiting,
)
from engine.server.errors import Refusal, crowded
from engine.server.responses import KnownTool, ResponseWriter

USAGE = Usage(prompt=12, cached=5, completion=7, reasoning=2)
TOOLS = {
    "apply_patch": KnownTool("apply_patch", None, True, {}),
    "mcp__files__read": KnownTool("read", "mcp__files__", False, {}),
}
LIFE = ("created", "in_progress", "completed", "incomplete", "failed")


def written(*pieces: Piece) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The events of these pieces, and the whole response."""
    writer = ResponseWriter("1", "tiny", 0, {"tools": []}, TOOLS)
    events = []
    for piece in pieces:
        events += json.loads(json.dumps(writer.push(piece)))
    return events, writer.whole


def built(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The response that a client builds of the events, as strict as OpenAI's own."""
    response: dict[str, Any] = {}
    open_item: int | None = None
    for number, event in enumerate(deepcopy(events)):
        assert event["sequence_number"] == number
        name = event["type"].removeprefix("response.")
        if name in LIFE:
            assert (name == "created") == (number == 0)
            # An event about the response is the response: what it leaves out is lost.
            response = event["response"]
            continue
        output = response["output"]
        if name == "output_item.added":
            assert open_item is None
            assert event["output_index"] == len(output)
            open_item = event["output_index"]
            output.append(event["item"])
            continue
        assert event["output_index"] == open_item
        item = output[open_item]
        if name == "output_item.done":
            before = item | {"status": event["item"]["status"]}
            assert event["item"] == before
            output[open_item] = event["item"]
            open_item = None
            continue
        assert event["item_id"] == item["id"]
        match name.split("."):
            case ["content_part", "added"]:
                assert event["content_index"] == len(item["content"])
                item["content"].append(event["part"])
            case ["content_part", "done"]:
                assert item["content"][event["content_index"]] == event["part"]
            case ["output_text" | "reasoning_text", "delta"]:
                part = item["content"][event["content_index"]]
                part["text"] += event["delta"]
                if event.get("logprobs"):
                    part["logprobs"] += event["logprobs"]
            case ["output_text" | "reasoning_text", "done"]:
                assert item["content"][event["content_index"]]["text"] == event["text"]
            case ["function_call_arguments", "delta"]:
                item["arguments"] += event["delta"]
            case ["function_call_arguments", "done"]:
                assert item["arguments"] == event["arguments"]
            case ["custom_tool_call_input", "delta"]:
                item["input"] += event["delta"]
            case ["custom_tool_call_input", "done"]:
                assert item["input"] == event["input"]
            case unknown:
                raise AssertionError(unknown)
    return response


def test_a_text() -> None:
    events, response = written(
        Began(12, 5), Content("Hel"), Content("lo"), Ended("stop", "", USAGE)
    )
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert response["status"] == "completed"
    (message,) = response["output"]
    assert message["status"] == "completed"
    (part,) = message["content"]
    assert part == {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}
    assert response["usage"] == {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 0},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 19,
    }


def test_reasoning_is_an_item_of_its_own() -> None:
    _, response = written(Reasoning("Hm"), Reasoning("."), Content("Yes"), Ended("stop", "", USAGE))
    reasoning, message = response["output"]
    assert reasoning["type"] == "reasoning"
    assert reasoning["summary"] == []  # Codex cannot read an item without it
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "Hm."}]
    assert message["content"][0]["text"] == "Yes"


def test_calls_are_what_the_client_named() -> None:
    events, response = written(
        CallBegan(0, "call_1", "apply_patch"),
        CallArguments(0, '{"input": "*** '),
        CallArguments(0, 'Begin\\n"}'),
        CallBegan(1, "call_2", "mcp__files__read"),
        CallArguments(1, '{"a": 1}'),
        CallBegan(2, "call_3", "unheard_of"),
        Ended("tool_calls", "", USAGE),
    )
    patch, read, unheard = response["output"]
    assert (patch["type"], patch["call_id"], patch["name"]) == (
        "custom_tool_call",
        "call_1",
        "apply_patch",
    )
    assert patch["input"] == "*** Begin\n"
    assert (read["type"], read["namespace"], read["name"]) == (
        "function_call",
        "mcp__files__",
        "read",
    )
    assert read["arguments"] == '{"a": 1}'
    assert (unheard["type"], unheard["name"]) == ("function_call", "unheard_of")
    assert response["status"] == "completed"
    deltas = [e["delta"] for e in events if e["type"] == "response.custom_tool_call_input.delta"]
    assert deltas == ["*** ", "Begin\n"]


def test_a_custom_call_that_is_not_as_agreed_comes_at_its_end() -> None:
    events, response = written(
        CallBegan(0, "call_1", "apply_patch"),
        CallArguments(0, '{"patch": "*"}'),
        Ended("tool_calls", "", USAGE),
    )
    assert response["output"][0]["input"] == "*"
    assert built(events) == response


def test_an_answer_that_is_too_long_is_incomplete() -> None:
    events, response = written(Content("a"), Ended("length", "", USAGE))
    assert events[-1]["type"] == "response.incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["status"] == "incomplete"


def test_a_failure_is_an_event_of_the_stream() -> None:
    refusal = Refusal(400, "context_length_exceeded", "Too long.", tokens=9, context=8)
    events, response = written(Broken(refusal))
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "failed",
    ]
    assert response["error"] == {"code": "context_length_exceeded", "message": "Too long."}
    assert response["status"] == "failed"


def test_codex_reads_how_long_it_is_to_wait() -> None:
    _, response = written(Broken(crowded(32)))
    assert response["error"]["code"] == "rate_limit_exceeded"
    assert re.search(r"(?i)try again in\s*\d+\s*seconds", response["error"]["message"])


def test_logprobs_come_with_the_text() -> None:
    score = TokenLogprob(1, (72,), -0.5, (TopToken(1, (72,), -0.5), TopToken(2, (0xC3,), -2.0)))
    events, response = written(Content("H", (score,)), Ended("stop", "", USAGE))
    (delta,) = [event for event in events if event["type"] == "response.output_text.delta"]
    (found,) = delta["logprobs"]
    assert (found["token"], found["logprob"]) == ("H", -0.5)
    assert [top["bytes"] for top in found["top_logprobs"]] == [[72], [0xC3]]
    assert response["output"][0]["content"][0]["logprobs"] == delta["logprobs"]


def test_while_nothing_comes_the_response_is_in_progress() -> None:
    events, _ = written(Waiting(), Content("a"), Waiting(), Content("b"), Ended("stop", "", USAGE))
    kept = [event for event in events if event["type"] == "response.in_progress"]
    assert len(kept) == 3
    # A client takes this for the whole response so far.
    assert kept[-1]["response"]["output"][0]["content"][0]["text"] == "a"


@st.composite
def answers(draw: st.DrawFn) -> list[Piece]:
    """The pieces of an answer, cut anywhere."""
    pieces: list[Piece] = []
    calls = 0
    kinds = st.lists(st.sampled_from(["text", "thought", "call", "wait"]), max_size=7)
    for kind in draw(kinds):
        match kind:
            case "text":
                pieces.append(Content(draw(st.text(min_size=1))))
            case "thought":
                pieces.append(Reasoning(draw(st.text(min_size=1))))
            case "wait":
                pieces += [Waiting(), Began(3, 1)]
            case _:
                text = draw(
                    st.dictionaries(st.just("input") | st.text(), st.text()).map(json.dumps)
                )
                cut = draw(st.integers(0, len(text)))
                parts = [CallArguments(calls, part) for part in (text[:cut], text[cut:]) if part]
                name = draw(st.sampled_from([*TOOLS, "other"]))
                pieces += [CallBegan(calls, f"call_{calls}", name), *parts]
                calls += 1
    reason = draw(st.sampled_from(["stop", "length", "tool_calls"]))
    return [*pieces, Ended(reason, "", USAGE)]


@given(answers())
def test_a_stream_builds_the_whole_response(pieces: list[Piece]) -> None:
    events, response = written(*pieces)
    assert built(events) == response
    without_the_last = [event for event in events if event["type"].split(".")[-1] not in LIFE[2:]]
    assert built(without_the_last)["output"] == response["output"]
