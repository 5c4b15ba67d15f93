"""A stream builds the whole answer, as strict clients put it together, however pieces are cut."""

import json
from copy import deepcopy
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.events import CallPiece, Prefill, Stats
from engine.server.answers import Ended, Said, Usage
from engine.server.anthropic import MessageWriter
from engine.server.responses import CustomInput, KnownTool, ResponseWriter

USAGE = Usage(stats=Stats(prompt_tokens=12, reused_tokens=5, accepted=7), reasoning=2)
TOOLS = {
    "apply_patch": KnownTool("apply_patch", None, True, {}),
    "mcp__files__read": KnownTool("read", "mcp__files__", False, {}),
}
LIFE = ("created", "in_progress", "completed", "incomplete", "failed")


@st.composite
def pieces(draw):
    """The pieces of an answer, cut anywhere."""
    found, calls = [Prefill("g", 0, 3, 1, 0.0)], 0
    kinds = st.sampled_from(["content", "reasoning", "call", None])
    for kind in draw(st.lists(kinds, max_size=6)):
        if kind is None:
            found.append(None)
        elif kind == "call":
            arguments = st.dictionaries(st.just("input") | st.text(), st.text())
            text = json.dumps(draw(arguments))
            cut = draw(st.integers(0, len(text)))
            found.append(CallPiece(calls, draw(st.sampled_from([*TOOLS, "f"]))))
            found += [CallPiece(calls, "", part) for part in (text[:cut], text[cut:]) if part]
            found.append(CallPiece(calls, ended=True))
            calls += 1
        else:
            found.append(Said(kind, draw(st.text(min_size=1))))
    return [*found, Ended(draw(st.sampled_from(["stop", "length", "tool_calls"])), "", USAGE)]


def written(writer, pieces):
    """The events of pieces, as a client reads them."""
    return [json.loads(json.dumps(event)) for piece in pieces for event in writer.push(piece)]


def message_of(events):
    """The message that a client of Anthropic's builds."""
    message, texts, opened = {}, {}, None
    for event in events:
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                assert opened is None
                opened = event["index"]
                assert opened == len(message["content"])
                message["content"].append(event["content_block"])
            case "content_block_delta":
                assert event["index"] == opened
                block, delta = message["content"][opened], event["delta"]
                match delta["type"]:
                    case "input_json_delta":
                        texts[opened] = texts.get(opened, "") + delta["partial_json"]
                    case "signature_delta":
                        block["signature"] = delta["signature"]
                    case kind:
                        name = kind.removesuffix("_delta")
                        block[name] += delta[name]
            case "content_block_stop":
                assert event["index"] == opened
                if opened in texts:
                    message["content"][opened]["input"] = json.loads(texts[opened])
                opened = None
            case "message_delta":
                message |= event["delta"] | {"usage": event["usage"]}
            case kind:
                assert kind == "ping" or (kind == "message_stop" and opened is None)
    return message


def response_of(events):
    """The response that OpenAI's clients build."""
    response, opened = {}, None
    for number, event in enumerate(deepcopy(events)):
        assert event["sequence_number"] == number
        name = event["type"].removeprefix("response.")
        if name in LIFE:
            assert (name == "created") == (number == 0)
            response = event["response"]  # it replaces all: what it leaves out is lost
            continue
        output = response["output"]
        if name == "output_item.added":
            assert opened is None
            opened = event["output_index"]
            assert opened == len(output)
            output.append(event["item"])
            continue
        assert event["output_index"] == opened
        item = output[opened]
        if name == "output_item.done":
            assert event["item"] == item | {"status": event["item"]["status"]}
            output[opened], opened = event["item"], None
            continue
        assert event["item_id"] == item["id"]
        part = item["content"][-1] if item.get("content") else item
        field = {"function_call_arguments": "arguments", "custom_tool_call_input": "input"}
        match name.split("."):
            case ["content_part", "added"]:
                assert event["content_index"] == len(item["content"])
                item["content"].append(event["part"])
            case ["content_part", "done"]:
                assert part == event["part"]
            case [kind, "delta"]:
                part[field.get(kind, "text")] += event["delta"]
            case [kind, "done"]:
                assert part[field.get(kind, "text")] == event[field.get(kind, "text")]
    return response


@given(pieces(), st.booleans())
def test_events_of_messages(pieces, omit):
    writer = MessageWriter("msg_1", "tiny", "req_1", max_tokens=7, omit_thinking=omit)
    assert message_of(written(writer, pieces)) == writer.whole


@given(pieces())
def test_events_of_responses(pieces):
    writer = ResponseWriter("1", "tiny", 0, {"tools": []}, TOOLS)
    events = written(writer, pieces)
    assert response_of(events) == writer.whole
    before = [event for event in events if event["type"].split(".")[-1] not in LIFE[2:]]
    assert response_of(before)["output"] == writer.whole["output"]


INPUTS = (  # of a custom tool: its arguments, and the text that it takes
    ('{"patch": "*"}', "*"),
    ('"*"', "*"),
    ('{"input": 5}', '{"input": 5}'),
    ('{"a": "b", "c": "d"}', '{"a": "b", "c": "d"}'),
    ("not json", "not json"),
    ("", ""),
    ('{"input": "cut', "cut"),
    ('{"input": "half \\ud83d and on"}', "half \ud83d and on"),
    ('{"input": "\\ud83d\\ud83d\\ude00\\ud83d"}', "\ud83d😀\ud83d"),
)


@given(
    st.text() | st.just('*** Begin Patch\n+"ä" \\ \U0001f600\t\n*** End Patch'),
    st.booleans(),
    st.sampled_from([None, 1]),
    st.lists(st.integers(0, 200), max_size=8),
)
def test_the_input_of_a_custom_tool_comes_as_it_is_written(text, ascii, indent, cuts):
    arguments = json.dumps({"input": text}, ensure_ascii=ascii, indent=indent)
    ends = sorted({0, *(min(cut, len(arguments)) for cut in cuts), len(arguments)})
    custom = CustomInput()
    given = [custom.push(arguments[a:b]) for a, b in pairwise(ends)]
    assert "".join([*given, custom.finish()]) == text
    assert text == "" or custom.finish() == ""
    custom, parts = CustomInput(), ['{"inp', 'ut": "a', "b\\", "nc\\ud8", '3d\\ude00"', "}"]
    assert [custom.push(part) for part in parts] == ["", "a", "b", "\nc", "😀", ""]
    for arguments, text in INPUTS:
        custom = CustomInput()
        assert custom.push(arguments) + custom.finish() == text
