"""Anthropic's own library for Python: messages, streamed, with tools, and counted."""

from functools import partial

import anthropic
from steps import (
    ADDRESS,
    ADDRESS_REFUSED,
    MODEL,
    PICTURE,
    QUESTION,
    SERVER,
    WEATHER,
    refused,
    same,
    step,
)

client = anthropic.Anthropic(base_url=SERVER, api_key="x", max_retries=0, timeout=120)
# The library has no `temperature` any more; older ones and other clients still send it.
GREEDY = {"model": MODEL, "messages": QUESTION, "max_tokens": 12, "extra_body": {"temperature": 0}}
# A tiny model does not stop calling by itself.
ANY = {"type": "any", "disable_parallel_tool_use": True}
TOOL = {
    "name": "weather",
    "description": WEATHER["description"],
    "input_schema": WEATHER["parameters"],
}


def texts(message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


@step("models")
def _():
    assert MODEL in [model.id for model in client.models.list(limit=1000)]


@step("a message")
def _():
    whole = client.messages.create(**GREEDY)
    same((whole.type, whole.role), ("message", "assistant"))
    assert texts(whole), whole
    assert whole.stop_reason in ("end_turn", "max_tokens"), whole
    assert 0 < whole.usage.output_tokens <= 12, whole.usage


@step("a message, streamed: the same text")
def _():
    whole = texts(client.messages.create(**GREEDY))
    with client.messages.stream(**GREEDY) as stream:
        same("".join(stream.text_stream), whole)
        final = stream.get_final_message()
    same(texts(final), whole)
    assert final.usage.output_tokens, final.usage


@step("counting is what the message takes")
def _():
    counted = client.messages.count_tokens(model=MODEL, messages=QUESTION, system="Be brief.")
    usage = client.messages.create(**GREEDY, system="Be brief.").usage
    read = usage.input_tokens + (usage.cache_read_input_tokens or 0)
    same(counted.input_tokens, read + (usage.cache_creation_input_tokens or 0))


@step("a tool that must be called")
def _():
    for choice in (ANY, {"type": "tool", "name": "weather"}):
        asked = {"tools": [TOOL], "tool_choice": choice, "max_tokens": 60}
        whole = client.messages.create(**GREEDY | asked)
        same(whole.stop_reason, "tool_use")
        calls = [block for block in whole.content if block.type == "tool_use"]
        same((calls[0].name, list(calls[0].input)), ("weather", ["city"]))


@step("a tool call, streamed, and its result")
def _():
    asked = {"tools": [TOOL], "tool_choice": ANY, "max_tokens": 60}
    with client.messages.stream(**GREEDY | asked) as stream:
        for _ in stream:
            pass
        final = stream.get_final_message()
    call = next(block for block in final.content if block.type == "tool_use")
    same(list(call.input), ["city"])
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
    messages = [
        *QUESTION,
        {"role": "assistant", "content": [block.to_dict() for block in final.content]},
        {"role": "user", "content": [result]},
    ]
    answer = client.messages.create(
        **GREEDY | {"messages": messages, "tools": [TOOL], "tool_choice": {"type": "none"}}
    )
    assert texts(answer), answer


@step("what is wrong is refused, in words that the library reads")
def _():
    for wrong in ({"messages": []}, {"max_tokens": 0}, {"extra_body": {"temperature": -1}}):
        ask = partial(client.messages.create, **GREEDY | wrong)
        body = refused(anthropic.BadRequestError, ask).body
        same((body["type"], body["error"]["type"]), ("error", "invalid_request_error"))


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}


def shown(*blocks):
    """A message that shows these."""
    text = {"type": "text", "text": QUESTION[0]["content"]}
    return GREEDY | {"messages": [{"role": "user", "content": [*blocks, text]}]}


@step("a message with a picture, whole, streamed and counted", sees=True)
def _():
    whole = client.messages.create(**shown(IMAGE))
    with client.messages.stream(**shown(IMAGE)) as stream:
        same(texts(stream.get_final_message()), texts(whole))
    counted, blind, two = (
        client.messages.count_tokens(model=MODEL, messages=shown(*blocks)["messages"]).input_tokens
        for blocks in ([IMAGE], [], [IMAGE, IMAGE])
    )
    same(two - counted, counted - blind)
    assert counted > blind
    used = whole.usage
    same(used.input_tokens + (used.cache_read_input_tokens or 0), counted)


@step("a picture in a tool's result", sees=True)
def _():
    call = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [IMAGE]}
    said = [
        *QUESTION,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    assert client.messages.create(**GREEDY | {"messages": said}).usage.output_tokens


@step("an address of a picture is refused", sees=True)
def _():
    image = {"type": "image", "source": {"type": "url", "url": ADDRESS}}
    ask = partial(client.messages.create, **shown(image))
    assert ADDRESS_REFUSED in str(refused(anthropic.BadRequestError, ask))
