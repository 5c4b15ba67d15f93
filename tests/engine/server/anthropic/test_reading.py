"""What Anthropic's bodies ask for."""

import json
from typing import Any

import pytest

from engine.request import ChatMessage, Grammar, ToolCall
from engine.server.answers import Ask
from engine.server.anthropic import MessagesBody, ask_of
from engine.server.bodies import read_body
from engine.server.errors import Refusal
from tests.support.engine.scripted_host import LOADED

HI = {"role": "user", "content": "Hi"}
TOOL = {"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}
IMAGE = "messages[1].content[0].type"
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}


def asked(**fields: Any) -> Ask:
    body = {"model": "claude-x", "max_tokens": 100, "messages": [HI], **fields}
    return ask_of(read_body(MessagesBody, body), LOADED)


def refused(**fields: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        asked(**fields)
    assert caught.value.status == 400
    return caught.value


def messages(*given: dict[str, Any], **fields: Any) -> tuple[ChatMessage, ...]:
    return asked(messages=list(given), **fields).prompt.messages


def test_the_least_a_client_sends() -> None:
    ask = asked()
    assert ask.prompt.messages == (ChatMessage("user", "Hi"),)
    assert ask.prompt.tools == ""
    assert ask.request.max_tokens == 100
    assert ask.request.sampling == LOADED.sampling


def test_null_is_as_good_as_nothing() -> None:
    names = ("system", "temperature", "top_p", "top_k", "tools", "tool_choice", "thinking")
    assert asked(**dict.fromkeys((*names, "stream", "stop_sequences", "output_config"))) == asked()


def test_sampling_and_ends() -> None:
    ask = asked(temperature=1, top_p=0.5, top_k=7, stop_sequences=["\n\nHuman:"], max_tokens=10**6)
    assert ask.request.sampling is not None
    chosen = ask.request.sampling
    assert (chosen.temperature, chosen.top_p, chosen.top_k) == (1, 0.5, 7)
    assert ask.request.stops == ("\n\nHuman:",)
    assert ask.request.max_tokens == LOADED.context_length


def test_temperatures_too_small_to_divide_by_are_greedy() -> None:
    for greedy in ({"temperature": 0}, {"temperature": 1e-9}, {"top_p": 0}):
        sampling = asked(**greedy).request.sampling
        assert sampling is not None
        assert sampling.greedy


def test_the_line_for_the_bill_is_left_out() -> None:
    def system(nonce: str) -> list[dict[str, Any]]:
        bill = f"x-anthropic-billing-header: cc_version=2.1.330; cch={nonce};"
        cached = {"type": "text", "text": "Code.", "cache_control": {"type": "ephemeral"}}
        return [{"type": "text", "text": bill}, {"type": "text", "text": "You are."}, cached]

    assert (
        asked(system=system("1")) == asked(system=system("2")) == asked(system="You are.\n\nCode.")
    )


def test_calls_and_their_results() -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "ä"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1"}
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    said = {"role": "assistant", "content": [thought, {"type": "text", "text": "I read."}, call]}
    text = {"type": "text", "text": "Go on."}

    def back(*results: dict[str, Any]) -> tuple[ChatMessage, ...]:
        return messages(HI, said, {"role": "user", "content": list(results)})

    calls = (ToolCall("toolu_1", "read", '{"path": "ä"}'),)
    assistant = ChatMessage("assistant", "I read.", reasoning="Hm.", tool_calls=calls)
    tool = ChatMessage("tool", "file", tool_call_id="toolu_1", name="read")
    assert back(result | {"content": "file"}, text) == (
        ChatMessage("user", "Hi"),
        assistant,
        tool,
        ChatMessage("user", "Go on."),
    )
    assert back(result | {"content": [{"type": "text", "text": "file"}]})[-1] == tool
    assert back(result)[-1].content == ""
    assert back(result | {"content": "no", "is_error": True})[-1].content == "Error: no"


def test_what_is_said_in_pieces_and_in_between() -> None:
    reminder = {"role": "system", "content": [{"type": "text", "text": "Agents: none."}]}
    directive: dict[str, Any] = {"role": "system", "content": [], "output_config": {}}
    redacted = {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}
    assert messages(HI, reminder, directive) == (ChatMessage("user", "Hi\n\nAgents: none."),)
    assert messages(HI, redacted, HI)[1] == ChatMessage("assistant", "")


def test_an_answer_that_the_client_has_begun_is_the_last_message() -> None:
    assert messages(HI, {"role": "assistant", "content": "{"})[-1] == ChatMessage("assistant", "{")


def test_tools_as_templates_expect_them() -> None:
    (tool,) = json.loads(asked(tools=[TOOL, SEARCH]).prompt.tools)
    assert tool["type"] == "function"
    assert tool["function"]["name"] == "read"
    assert tool["function"]["parameters"] == {"type": "object"}
    assert asked(tools=[]).prompt.tools == ""
    assert asked(tools=[TOOL], tool_choice={"type": "none"}).prompt.tools == ""


def test_a_tool_that_is_not_there_cannot_be_called() -> None:
    for fields in (
        {"tools": [SEARCH], "tool_choice": {"type": "tool", "name": "web_search"}},
        {"tools": [], "tool_choice": {"type": "any"}},
        {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "write"}},
    ):
        assert refused(**fields).param == "tool_choice"


def test_whether_the_model_is_to_think() -> None:
    for thinking, thinks in (
        (None, "off"),
        ({"type": "disabled"}, "off"),
        ({"type": "enabled", "budget_tokens": 1024}, "on"),
        ({"type": "adaptive"}, "on"),
        ({"type": "between_tools"}, "on"),
    ):
        assert asked(thinking=thinking).request.thinking == thinks
    assert asked(thinking={"type": "enabled", "budget_tokens": 9}).request.thinking_budget == 9
    ask = asked(thinking={"type": "adaptive"}, output_config={"effort": "max"})
    assert ask.request.thinking_budget is None
    assert (ask.request.thinking, ask.prompt.options) == ("max", "")


def test_effort_and_format() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    form = {"type": "json_schema", "schema": schema}
    ask = asked(output_config={"effort": "high", "format": form})
    assert json.loads(ask.prompt.options)["reasoning_effort"] == "high"
    assert ask.request.grammar == Grammar("json schema", json.dumps(schema))
    huge = {"type": "json_schema", "schema": {"description": "x" * (64 << 10)}}
    assert refused(output_config={"format": huge}).param == "output_config.format.schema"


def test_what_is_past_is_told_and_not_judged() -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "AAAA"}}
    result = {"type": "tool_result", "tool_use_id": "1", "content": [image]}
    call = {"type": "tool_use", "id": "1", "name": "read", "input": "{bad"}
    searched = {"type": "server_tool_use", "id": "2", "name": "web_search", "input": {}}
    seen, said, back = messages(
        {"role": "user", "content": [image, {"type": "text", "text": "See?"}]},
        {"role": "assistant", "content": [searched, call]},
        {"role": "user", "content": [result]},
    )
    assert (seen.content, [each.path for each in seen.pictures]) == ("See?", ["AAAA"])
    assert "server_tool_use" in said.content
    assert json.loads(said.tool_calls[0].arguments) == {"arguments": "{bad"}
    assert (back.content, [each.path for each in back.pictures]) == ("", ["AAAA"])
    assert messages({"role": "user", "content": [image]}, HI)[1] == ChatMessage("user", "Hi")


def test_the_older_name_of_a_form() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    form = {"type": "json_schema", "schema": schema}
    assert asked(output_format=form) == asked(output_config={"format": form})


def test_what_is_refused_names_its_field() -> None:
    for fields, param in (
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "8"}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": ""}]}, "messages[0].role"),
        ({"messages": [HI, {"role": "user", "content": [{"type": "image"}]}]}, IMAGE),
        ({"temperature": "0.7"}, "temperature"),
        ({"container": "c"}, "container"),
        ({"mcp_servers": [{"type": "url"}]}, "mcp_servers"),
        ({"stop_sequences": [""]}, "stop_sequences[0]"),
        ({"tools": [{"name": ""}]}, "tools[0].name"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"system": [{"type": "image"}]}, "system[0].type"),
    ):
        assert refused(**fields).param == param
