"""Chat completions: what clients send, and the shapes that they get."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from engine.events import Failed
from engine.process.protocol import Generate
from engine.request import Grammar, ToolCall
from tests.support.engine.asking import asking, events, run
from tests.support.engine.scripted_host import Script, Step, script

HELLO = [{"role": "user", "content": "hello you"}]
PATH = "/v1/chat/completions"


def saying(*texts: str, **how: Any) -> Script:
    def play(command: Generate) -> Iterator[Step]:
        return script(*texts, id=command.id, request=command.request, **how)

    return play


async def sent(body: dict[str, Any], play: Script | None = None) -> tuple[Any, Generate]:
    """The response, and what the engine was asked for."""
    async with asking(play or saying("Hi")) as (client, host):
        response = await client.post(PATH, json={"messages": HELLO, **body})
        assert response.status_code == 200, response.text
        (generate,) = [command for command in host.taken if isinstance(command, Generate)]
        return response, generate


def test_an_answer_has_what_clients_read() -> None:
    response, _ = run(sent({}, saying("Hel", "lo", reused=3)))
    answer = response.json()
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "tiny"
    assert answer["id"].startswith("chatcmpl-")
    (choice,) = answer["choices"]
    assert choice == {
        "index": 0,
        "message": {"role": "assistant", "content": "Hello", "refusal": None},
        "finish_reason": "stop",
        "logprobs": None,
    }
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (5, 4, 9)
    assert usage["prompt_tokens_details"] == {"cached_tokens": 3}
    assert usage["slipstream"] == {
        "rounds": 2,
        "drafted": 2,
        "accepted": 2,
        "forced": 0,
        "draft": "lookup",
    }


def test_a_stream_is_the_answer_in_pieces() -> None:
    body = {"stream": True, "stream_options": {"include_usage": True}}
    response, _ = run(sent(body, saying("Hel", "lo ", "you")))
    names, values = zip(*events(response), strict=True)
    assert set(names) == {""}
    *chunks, last = values
    assert last == "[DONE]"
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    *pieces, figures = chunks
    assert figures["choices"] == []
    assert figures["usage"]["completion_tokens"] == 6
    assert [chunk["usage"] for chunk in pieces] == [None] * len(pieces)
    deltas = [chunk["choices"][0]["delta"] for chunk in pieces]
    assert [delta.get("role") for delta in deltas] == ["assistant", *[None] * (len(deltas) - 1)]
    assert "".join(delta.get("content", "") for delta in deltas) == "Hello you"
    assert deltas[-1] == {}
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in pieces]
    assert reasons == [*[None] * (len(pieces) - 1), "stop"]


def test_without_include_usage_no_chunk_has_any() -> None:
    response, _ = run(sent({"stream": True, "stream_options": {}}))
    assert not any("usage" in chunk for _, chunk in events(response)[:-1])


def test_null_is_the_same_as_nothing() -> None:
    fields = """
        model max_tokens max_completion_tokens temperature top_p top_k min_p stop seed n stream
        stream_options logprobs top_logprobs logit_bias presence_penalty frequency_penalty tools
        tool_choice parallel_tool_calls response_format prediction reasoning_effort modalities
        audio web_search_options functions function_call user metadata store service_tier
    """.split()  # noqa: SIM905
    _, nothing = run(sent({}))
    _, null = run(sent(dict.fromkeys(fields)))
    assert (null.prompt, null.request) == (nothing.prompt, nothing.request)


def test_what_chooses_tokens_gets_to_the_engine() -> None:
    body = {
        "temperature": 1,
        "top_p": 0.5,
        "top_k": 7,
        "seed": -1,
        "stop": ["a", "b"],
        "max_completion_tokens": 9,
        "logit_bias": {"5": -100},
        "prediction": {"type": "content", "content": [{"type": "text", "text": "guess"}]},
    }
    _, generate = run(sent(body))
    request, sampling = generate.request, generate.request.sampling
    assert sampling is not None
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (1.0, 0.5, 7)
    assert (sampling.seed, sampling.repeatable) == ((1 << 64) - 1, True)
    assert sampling.logit_bias == {5: -100.0}
    assert (request.stops, request.max_tokens, request.prediction) == (("a", "b"), 9, "guess")


def test_an_answer_may_be_as_long_as_the_context() -> None:
    _, free = run(sent({}))
    _, more = run(sent({"max_tokens": 10**9}))
    assert (free.request.max_tokens, more.request.max_tokens) == (4096, 4096)


def test_messages_get_to_the_engine() -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
    ]
    _, generate = run(sent({"messages": messages}))
    system, user, assistant, tool = generate.prompt.messages
    assert (system.role, system.content) == ("system", "Be brief.")
    assert (user.role, user.content) == ("user", "a\n\nb")
    assert (assistant.content, assistant.reasoning) == ("", "hm")
    assert assistant.tool_calls == (ToolCall("c1", "f", '{"x":1}'),)
    assert (tool.role, tool.tool_call_id, tool.content) == ("tool", "c1", "2")


def test_tools_and_options_get_to_the_template() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    body = {"tools": [tool], "reasoning_effort": "none", "chat_template_kwargs": {"x": 1}}
    _, generate = run(sent(body | {"thinking_budget": 9}))
    assert generate.request.thinking_budget == 9
    assert json.loads(generate.prompt.tools)[0]["function"]["name"] == "f"
    assert (generate.request.thinking, json.loads(generate.prompt.options)) == ("off", {"x": 1})
    _, none = run(sent({"tools": []}))
    assert none.prompt.tools == ""


def test_a_schema_gets_to_the_engine() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
    _, generate = run(sent({"response_format": form}))
    assert generate.request.grammar == Grammar("json schema", json.dumps(schema))


def test_log_probabilities_are_those_of_the_tokens_of_the_text() -> None:
    body = {"logprobs": True, "top_logprobs": 2}
    whole, generate = run(sent(body, saying("añb", "c")))
    assert generate.request.logprobs == 2
    content = whole.json()["choices"][0]["logprobs"]["content"]
    assert bytes(byte for token in content for byte in token["bytes"]).decode() == "añbc"
    assert [len(token["top_logprobs"]) for token in content] == [2] * len(content)
    streamed, _ = run(sent({**body, "stream": True}, saying("añb", "c")))
    pieces = [
        chunk["choices"][0]["logprobs"]["content"]
        for _, chunk in events(streamed)[:-1]
        if chunk["choices"][0]["logprobs"]
    ]
    assert [token for piece in pieces for token in piece] == content


def test_several_answers_have_seeds_and_places_of_their_own() -> None:
    def play(command: Generate) -> Iterator[Step]:
        assert command.request.sampling is not None
        return script(str(command.request.sampling.seed), id=command.id)

    async def ask() -> None:
        async with asking(play) as (client, _):
            whole = await client.post(PATH, json={"messages": HELLO, "n": 3, "seed": 7})
            texts = [choice["message"]["content"] for choice in whole.json()["choices"]]
            assert texts[0] == "7"
            assert len(set(texts)) == 3
            assert whole.json()["usage"]["prompt_tokens"] == 5
            assert whole.json()["usage"]["completion_tokens"] == 6
            streamed = await client.post(
                PATH, json={"messages": HELLO, "n": 3, "seed": 7, "stream": True}
            )
            joined = ["", "", ""]
            for _, chunk in events(streamed)[:-1]:
                (choice,) = chunk["choices"]
                joined[choice["index"]] += choice["delta"].get("content", "")
            assert joined == texts

    run(ask())


@pytest.mark.parametrize(
    ("cause", "status", "code"),
    [
        ("request", 400, "invalid_value"),
        ("too long", 400, "context_length_exceeded"),
        ("engine", 503, "engine_failed"),
    ],
)
def test_what_fails_before_the_first_byte_is_an_error_with_a_status(
    cause: str, status: int, code: str
) -> None:
    def play(command: Generate) -> Iterator[Step]:
        yield Failed(command.id, "It does not work.", "Do otherwise.", cause, 9000, 4096)  # type: ignore[arg-type]

    async def ask() -> None:
        async with asking(play) as (client, _):
            for stream in (False, True):
                response = await client.post(PATH, json={"messages": HELLO, "stream": stream})
                assert response.status_code == status
                assert response.json()["error"]["code"] == code

    run(ask())


def test_a_prompt_that_is_too_long_is_told_in_the_words_that_clients_look_for() -> None:
    """LiteLLM, and what asks through it, make a conversation shorter at these words alone."""

    def play(command: Generate) -> Iterator[Step]:
        yield Failed(command.id, "Too long.", "Shorten it.", "too long", 9000, 4096)

    async def ask() -> None:
        async with asking(play) as (client, _):
            response = await client.post(PATH, json={"messages": HELLO})
            message = response.json()["error"]["message"]
            assert "This model's maximum context length is 4096 tokens" in message
            assert "Shorten it." in message

    run(ask())


def test_what_fails_later_ends_a_stream_with_an_error() -> None:
    response, _ = run(sent({"stream": True}, saying("Hel", then="engine")))
    *_, (_, last) = events(response)
    assert last["error"]["code"] == "engine_failed"


SCHEMA = "response_format.json_schema.schema"
ADD = {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"a": '}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_time",
        "parameters": {"type": "object", "properties": {"tz": {"type": "string"}}},
    },
}


def test_a_history_is_told_and_not_judged() -> None:
    old = {"role": "assistant", "function_call": {"name": "add", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": [IMAGE, {"type": "text", "text": "2+3?"}]},
        {"role": "assistant", "content": None, "tool_calls": [ADD]},
        {"role": "tool", "tool_call_id": "a", "content": "The arguments were invalid."},
        old,
        {"role": "function", "name": "add", "content": "5"},
        {"role": "user", "content": ""},
    ]
    _, generate = run(sent({"messages": messages}))
    image, bad, _, called, five, empty = generate.prompt.messages
    assert image.content.startswith("[image: not shown")
    assert json.loads(bad.tool_calls[0].arguments) == {"arguments": '{"a": '}
    assert called.tool_calls[0].id == five.tool_call_id
    assert five.name == "add"
    assert empty.content == ""


def test_names_of_neighbours_are_done() -> None:
    _, generate = run(sent({"repeat_penalty": 1.1, "n_predict": 7, "repeat_last_n": 5, "top_k": 3}))
    sampling = generate.request.sampling
    assert sampling is not None
    assert (sampling.repetition_penalty, sampling.penalty_window) == (1.1, 5)
    assert generate.request.max_tokens == 7
    _, free = run(sent({"max_tokens": -1, "repeat_last_n": 0, "repeat_penalty": 2.0}))
    assert free.request.max_tokens == 4096
    assert free.request.sampling is not None
    assert not free.request.sampling.penalizes
    _, held = run(sent({"guided_choice": ["yes", "no"]}))
    assert held.request.grammar == Grammar("regex", "yes|no")


def test_tools_that_are_allowed() -> None:
    other = {"type": "function", "function": {"name": "other"}}
    choice = {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": [{"function": {"name": "get_time"}}]},
    }
    _, generate = run(sent({"tools": [TOOL, other], "tool_choice": choice}))
    assert [tool["function"]["name"] for tool in json.loads(generate.prompt.tools)] == ["get_time"]


def test_the_assistants_message_is_continued_unless_that_is_not_wanted() -> None:
    messages = [*HELLO, {"role": "assistant", "content": "Well"}]
    for field, role in (
        ({}, "assistant"),
        ({"continue_final_message": True}, "assistant"),
        ({"continue_final_message": False}, "user"),
        ({"add_generation_prompt": True}, "user"),
    ):
        _, generate = run(sent({"messages": messages, **field}))
        assert generate.prompt.messages[-1].role == role


def test_a_strict_tool_that_cannot_be_held_is_named() -> None:
    beyond = {"type": "object", "properties": {"a": {"type": "string", "not": {}}}}
    tool = {"type": "function", "function": {"name": "f", "parameters": beyond, "strict": True}}

    async def ask() -> None:
        async with asking() as (client, _):
            response = await client.post(PATH, json={"messages": HELLO, "tools": [tool]})
            error = response.json()["error"]
            assert (response.status_code, error["param"]) == (400, "tools")
            assert "strict tool f" in error["message"]

    run(ask())


def test_what_is_wrong_is_told_in_words_of_the_api() -> None:
    async def ask() -> None:
        async with asking() as (client, _):
            for body, words in (
                ({"stop": ["x"] * 17}, "at most 16 items, not 17"),
                ({"tools": [{"type": "function", "function": 5}]}, "a JSON object"),
                ({"messages": [{"role": "user", "content": [IMAGE]}]}, "reads text only"),
            ):
                response = await client.post(PATH, json={"messages": HELLO, **body})
                assert words in response.json()["error"]["message"]

    run(ask())


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content[0].type",
        ),
        ({"temperature": "0.7"}, "temperature"),
        ({"temperature": 2.5}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"n": 10**9}, "n"),
        ({"n": 0}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"top_logprobs": 21, "logprobs": True}, "top_logprobs"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"max_tokens": -2}, "max_tokens"),
        ({"typical_p": 0.5}, "typical_p"),
        ({"min_tokens": 5}, "min_tokens"),
        ({"text": {"format": {"type": "json_object"}}}, "text"),
        ({"grammar": "x"}, "guided_grammar"),
        ({"response_format": {"type": "json_schema", "json_schema": {"type": "object"}}}, SCHEMA),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {"99999": 1}}, "logit_bias"),
        ({"audio": {}}, "audio"),
        ({"modalities": ["audio"]}, "modalities[0]"),
        ({"web_search_options": {}}, "web_search_options"),
        ({"functions": []}, "functions"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.schema"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(body: dict[str, Any], param: str) -> None:
    async def ask() -> None:
        async with asking() as (client, host):
            response = await client.post(PATH, json={"messages": HELLO, **body})
            assert response.status_code == 400
            assert response.headers["x-should-retry"] == "false"
            error = response.json()["error"]
            assert (error["type"], error["param"]) == ("invalid_request_error", param)
            assert not any(isinstance(command, Generate) for command in host.taken)

    run(ask())


def test_values_that_php_and_forms_write_for_nothing_cost_no_request() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": []}}
    body = {"tools": [tool], "stream_options": [], "stop": "", "chat_template_kwargs": []}
    body |= {"logit_bias": [], "metadata": []}
    _, generate = run(sent(body))
    (given,) = json.loads(generate.prompt.tools)
    assert given["function"]["parameters"] == {"type": "object", "properties": {}}
    assert (generate.request.stops, generate.prompt.options) == ((), "")
