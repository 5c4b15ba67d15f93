"""What bodies of /v1/responses ask for."""

import json
from typing import Any

import pytest

from engine.request import ChatMessage, Grammar, ToolCall
from engine.server.answers import Ask
from engine.server.bodies import read_body
from engine.server.errors import Refusal
from engine.server.responses import ResponsesBody, ask_of, echoed
from tests.support.engine.scripted_host import LOADED

READ = {"type": "function", "name": "read", "parameters": {"type": "object"}, "strict": False}
PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "a"+'},
}
SERVER = {"type": "namespace", "name": "mcp__files__", "description": "", "tools": [READ]}
HOSTED = [{"type": "web_search"}, {"type": "local_shell"}, {"type": "tool_search"}]


def asked(**fields: Any) -> Ask:
    return ask_of(read_body(ResponsesBody, {"model": "x", **fields}), LOADED)


def refused(**fields: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        asked(**fields)
    assert caught.value.status == 400
    return caught.value


def messages(*items: dict[str, Any], **fields: Any) -> tuple[ChatMessage, ...]:
    return asked(input=list(items), **fields).prompt.messages


def functions(**fields: Any) -> dict[str, dict[str, Any]]:
    tools = json.loads(asked(input="", **fields).prompt.tools or "[]")
    return {tool["function"]["name"]: tool["function"] for tool in tools}


def test_a_text_and_instructions() -> None:
    ask = asked(input="Hi", instructions="Be brief.")
    assert ask.prompt.messages == (ChatMessage("system", "Be brief."), ChatMessage("user", "Hi"))
    assert ask.prompt.options == ask.prompt.tools == ""
    assert ask.request.sampling == LOADED.sampling
    assert ask.request.max_tokens == LOADED.context_length


def test_a_probe_has_no_input() -> None:
    for fields in ({}, {"input": []}, {"input": ""}, {"input": None}):
        assert asked(**fields, max_output_tokens=1).prompt.messages == (ChatMessage("user", ""),)


def test_null_is_as_good_as_nothing() -> None:
    names = [name for name in ResponsesBody.model_fields if name != "input"]
    assert asked(input="Hi", **dict.fromkeys(names)) == asked(input="Hi")


def test_a_conversation_of_items() -> None:
    text = [{"type": "input_text", "text": "Mend it."}]
    outputs = [{"type": "input_text", "text": "one"}, {"type": "input_text", "text": "two"}]
    thought = [{"type": "reasoning_text", "text": "Hm."}]
    made = messages(
        {"type": "message", "role": "developer", "content": "Rules."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Where."}]},
        {"role": "user", "content": text},
        {"type": "reasoning", "summary": [], "content": thought},
        {"role": "assistant", "content": [{"type": "output_text", "text": "I read."}]},
        {"type": "function_call", "call_id": "1", "name": "read", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "2", "name": "apply_patch", "input": '*\n"ä"'},
        {"type": "function_call_output", "call_id": "1", "output": "file"},
        {"type": "custom_tool_call_output", "call_id": "2", "output": outputs},
        {"role": "developer", "content": "Later."},
    )
    calls = (ToolCall("1", "read", "{}"), ToolCall("2", "apply_patch", '{"input": "*\\n\\"ä\\""}'))
    assert made == (
        ChatMessage("system", "Rules."),
        ChatMessage("user", "Where."),
        ChatMessage("user", "Mend it."),
        ChatMessage("assistant", "I read.", reasoning="Hm.", tool_calls=calls),
        ChatMessage("tool", "file", tool_call_id="1", name="read"),
        ChatMessage("tool", "one\n\ntwo\n\nLater.", tool_call_id="2", name="apply_patch"),
    )


def test_reasoning_may_have_only_a_summary() -> None:
    summary = [{"type": "summary_text", "text": "Thought."}]
    item = {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "gAAA"}
    assert messages({"role": "user", "content": "Hi"}, item)[1].reasoning == "Thought."
    assert messages({"role": "user", "content": "Hi"}, item | {"summary": []})[1].reasoning == ""


def test_a_custom_tool_is_a_function_of_a_text() -> None:
    (patch,) = functions(tools=[PATCH, *HOSTED]).values()
    assert patch["name"] == "apply_patch"
    assert patch["parameters"]["required"] == ["input"]
    assert patch["parameters"]["properties"]["input"]["type"] == "string"
    assert 'start: "a"+' in json.dumps(
        patch["parameters"]["properties"]["input"]["description"]
    ).replace("\\", "")
    assert patch["strict"]


def test_what_a_text_is_held_to() -> None:
    for form, pattern in (
        ({"type": "grammar", "syntax": "lark", "definition": 'start: "a"+'}, None),
        ({"type": "grammar", "syntax": "regex", "definition": "[a-z]+"}, "[a-z]+"),
        ({"type": "grammar", "syntax": "regex", "definition": "a(?=b)"}, None),
        ({"type": "text"}, None),
        (None, None),
    ):
        assert asked(tools=[PATCH | {"format": form}]).patterns.get("apply_patch") == pattern


def test_names_of_a_namespace_are_told_apart() -> None:
    assert [*functions(tools=[READ, SERVER])] == ["read", "mcp__files__read"]
    call = {"type": "function_call", "call_id": "1", "name": "read", "arguments": "{}"}
    (said,) = messages({"role": "user", "content": "Hi"}, call | {"namespace": "mcp__files__"})[1:]
    assert said.tool_calls[0].name == "mcp__files__read"


def test_tools_can_come_with_the_input() -> None:
    more = {"type": "additional_tools", "role": "developer", "tools": [PATCH]}
    body = {"model": "x", "input": [more, {"role": "user", "content": "Hi"}], "tools": [READ]}
    tools = json.loads(ask_of(read_body(ResponsesBody, body), LOADED).prompt.tools)
    assert [tool["function"]["name"] for tool in tools] == ["read", "apply_patch"]


def test_which_tools_may_be_called() -> None:
    tools = [READ, PATCH]
    assert [*functions(tools=tools, tool_choice="required")] == ["read", "apply_patch"]
    assert functions(tools=tools, tool_choice="none") == {}
    some = {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "custom", "name": "apply_patch"}],
    }
    assert [*functions(tools=tools, tool_choice=some)] == ["apply_patch"]
    assert functions(tools=[]) == {}


def test_a_tool_that_is_not_there_cannot_be_called() -> None:
    for choice in ("required", {"type": "function", "name": "write"}):
        assert refused(tools=HOSTED, tool_choice=choice).param == "tool_choice"


def test_the_form_of_the_answer() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    form = {"type": "json_schema", "name": "n", "strict": True, "schema": schema}
    wanted = Grammar("json schema", json.dumps(schema))
    assert asked(input="", text={"verbosity": "low", "format": form}).request.grammar == wanted
    any_object = asked(input="", text={"format": {"type": "json_object"}}).request.grammar
    assert any_object == Grammar("json schema", '{"type": "object"}')
    assert asked(input="", text={"format": {"type": "text"}}).request.grammar is None


def test_effort_logprobs_and_truncation() -> None:
    for effort, thinking in (("low", "low"), ("none", "off"), ("unheard", "on"), (None, "")):
        ask = asked(input="", reasoning={"effort": effort, "summary": "auto"})
        assert ask.request.thinking == thinking
    assert asked(input="", thinking_budget=9).request.thinking_budget == 9
    assert asked(input="", top_logprobs=3).request.logprobs == 3
    included = asked(input="", include=["message.output_text.logprobs"])
    assert included.request.logprobs == 0
    assert asked(input="", include=["reasoning.encrypted_content"]).request.logprobs is None
    assert asked(input="", truncation="auto").request.overflow == "rolling"
    assert asked(input="").request.overflow == "stop"


def test_what_a_response_repeats() -> None:
    hosted = {"type": "image_generation", "output_format": "none of theirs"}
    repeated = echoed({"tools": [READ, hosted], "temperature": None, "store": True, "x": 1})
    assert repeated["tools"] == [READ]
    assert repeated["store"] is False
    assert repeated["tool_choice"] == "auto"
    assert repeated["parallel_tool_calls"] is True
    assert "x" not in repeated


def test_what_is_past_is_told_and_not_judged() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    call = {"type": "function_call", "call_id": "c", "name": "view", "arguments": "{bad"}
    seen, said, back = messages(
        {"role": "user", "content": [image, {"type": "input_text", "text": "See?"}]},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}},
        call,
        {"type": "function_call_output", "call_id": "c", "output": [image]},
    )
    assert (seen.content, [each.path for each in seen.pictures]) == ("See?", [image["image_url"]])
    assert "web_search_call" in said.content
    assert json.loads(said.tool_calls[0].arguments) == {"arguments": "{bad"}
    assert (back.content, [each.path for each in back.pictures]) == ("", [image["image_url"]])


def test_no_limit_and_other_names_of_one() -> None:
    assert asked(input="Hi", max_output_tokens=-1) == asked(input="Hi")
    assert asked(input="Hi", max_tokens=5) == asked(input="Hi", max_output_tokens=5)


def test_what_is_refused_names_its_field() -> None:
    for fields, param in (
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"background": True}, "background"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input[0].content[0].type",
        ),
        ({"input": [{"role": "tool", "content": ""}]}, "input[0].role"),
        ({"tools": [{"type": "custom", "name": ""}]}, "tools[0].name"),
        ({"temperature": 3}, "temperature"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format.schema"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.name"),
    ):
        assert refused(**{"input": "Hi", **fields}).param == param
