"""Messages, and the events that they come in."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

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
from engine.server.anthropic import MessageWriter
from engine.server.errors import Refusal

USAGE = Usage(prompt=12, cached=5, completion=7)


def written(*pieces: Piece, **settings: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The events of these pieces, and the whole message."""
    writer = MessageWriter("msg_1", "tiny", "req_1", max_tokens=USAGE.completion, **settings)
    events = [event for piece in pieces for event in writer.push(piece)]
    return json.loads(json.dumps(events)), writer.whole


def built(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The message that a client builds of the events."""
    message: dict[str, Any] = {}
    json_texts: dict[int, str] = {}
    open_block: int | None = None
    for event in events:
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                assert open_block is None
                assert event["index"] == len(message["content"])
                open_block = event["index"]
                message["content"].append(event["content_block"])
            case "content_block_delta":
                assert event["index"] == open_block
                block, delta = message["content"][open_block], event["delta"]
                match delta["type"]:
                    case "text_delta":
                        block["text"] += delta["text"]
                    case "thinking_delta":
                        block["thinking"] += delta["thinking"]
                    case "signature_delta":
                        block["signature"] = delta["signature"]
                    case "input_json_delta":
                        json_texts[open_block] = (
                            json_texts.get(open_block, "") + delta["partial_json"]
                        )
            case "content_block_stop":
                assert event["index"] == open_block
                if json_texts.get(open_block):
                    message["content"][open_block]["input"] = json.loads(json_texts[open_block])
                open_block = None
            case "message_delta":
                message |= event["delta"] | {"usage": event["usage"]}
            case "message_stop":
                assert open_block is None
            case kind:
                assert kind == "ping"
    return message


def test_a_text() -> None:
    ended = Ended("stop", "", USAGE)
    events, message = written(Began(12, 5), Content("He"), Content("llo"), ended)
    assert [event["type"] for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert message["content"] == [{"type": "text", "text": "Hello"}]
    assert (message["stop_reason"], message["stop_sequence"]) == ("end_turn", None)
    assert message["usage"] == {
        "input_tokens": 7,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 0,
        "output_tokens": 7,
    }


def test_thinking_has_a_signature() -> None:
    pieces = (
        Began(1, 0),
        Reasoning("Hm"),
        Reasoning("."),
        Content("Yes"),
        Ended("stop", "", USAGE),
    )
    events, message = written(*pieces)
    thinking, text = message["content"]
    assert thinking["thinking"] == "Hm."
    assert thinking["signature"]
    assert text == {"type": "text", "text": "Yes"}
    signed = [e for e in events if e.get("delta", {}).get("type") == "signature_delta"]
    assert [event["index"] for event in signed] == [0]


def test_thinking_can_be_omitted() -> None:
    pieces = (Began(1, 0), Reasoning("Hm"), Content("Yes"), Ended("stop", "", USAGE))
    events, message = written(*pieces, omit_thinking=True)
    assert message["content"][0]["thinking"] == ""
    assert message["content"][0]["signature"]
    assert "Hm" not in json.dumps(events)


def test_calls() -> None:
    events, message = written(
        Began(1, 0),
        CallBegan(0, "toolu_1", "read"),
        CallArguments(0, '{"path"'),
        CallArguments(0, ': "a"}'),
        CallBegan(1, "toolu_2", "now"),
        Ended("tool_calls", "", USAGE),
    )
    starts = [event["content_block"] for event in events if event["type"] == "content_block_start"]
    assert [start["input"] for start in starts] == [{}, {}]
    assert message["content"] == [
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}},
        {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
    ]
    assert message["stop_reason"] == "tool_use"


def test_ends() -> None:
    _, long = written(Began(1, 0), Content("a"), Ended("length", "", USAGE))
    assert long["stop_reason"] == "max_tokens"
    full = Usage(prompt=12, completion=USAGE.completion - 1)  # of what was asked for
    _, longest = written(Began(1, 0), Content("a"), Ended("length", "", full))
    assert longest["stop_reason"] == "model_context_window_exceeded"
    _, stopped = written(Began(1, 0), Content("a"), Ended("stop", "END", USAGE))
    assert (stopped["stop_reason"], stopped["stop_sequence"]) == ("stop_sequence", "END")
    events, _ = written(Began(1, 0), Broken(Refusal(503, "engine_failed", "It broke.")))
    assert events[-1]["type"] == "error"
    assert events[-1]["error"] == {"type": "overloaded_error", "message": "It broke."}


def test_a_ping_while_nothing_comes() -> None:
    events, _ = written(Waiting(), Began(1, 0), Waiting())
    assert [event["type"] for event in events] == ["ping", "message_start", "ping"]


arguments = st.dictionaries(st.text(), st.text()).map(json.dumps)


@st.composite
def answers(draw: st.DrawFn) -> list[Piece]:
    """The pieces of an answer, cut anywhere."""
    pieces: list[Piece] = [Began(3, 1)]
    calls = 0
    for kind in draw(st.lists(st.sampled_from(["text", "thought", "call", "wait"]), max_size=6)):
        match kind:
            case "text":
                pieces.append(Content(draw(st.text(min_size=1))))
            case "thought":
                pieces.append(Reasoning(draw(st.text(min_size=1))))
            case "wait":
                pieces.append(Waiting())
            case _:
                text = draw(arguments)
                cut = draw(st.integers(0, len(text)))
                parts = [CallArguments(calls, part) for part in (text[:cut], text[cut:]) if part]
                pieces += [CallBegan(calls, f"toolu_{calls}", "f"), *parts]
                calls += 1
    reason = draw(st.sampled_from(["stop", "length", "tool_calls"]))
    return [*pieces, Ended(reason, "", USAGE)]


@given(answers(), st.booleans())
def test_a_stream_builds_the_whole_message(pieces: list[Piece], omit: bool) -> None:
    events, message = written(*pieces, omit_thinking=omit)
    assert built(events) == message
    assert events[-1]["type"] == "message_stop"
