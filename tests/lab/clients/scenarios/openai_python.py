"""OpenAI's own library for Python: chat, completions, responses."""

import json
import math
from functools import partial

import openai
from person import Person
from steps import (
    ADDRESS,
    ADDRESS_REFUSED,
    BASE,
    MODEL,
    PICTURE_URL,
    QUESTION,
    WEATHER,
    refused,
    same,
    step,
)

client = openai.OpenAI(base_url=BASE, api_key="x", max_retries=0, timeout=120)
GREEDY = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 12}
TOOL = {"type": "function", "function": {**WEATHER, "strict": True}}
ONE_CALL = {"parallel_tool_calls": False}  # a tiny model does not stop calling by itself
ANSWER = client.chat.completions.create(**GREEDY).choices[0].message.content
ANN = "Ann is 30 years old. Who is that?"
ABOUT_ANN = GREEDY | {
    "messages": [{"role": "user", "content": ANN}], "max_tokens": 60, "response_format": Person
}  # fmt: skip
ALL_THAT_IS_WRONG = ({"temperature": -1}, {"top_p": -1}, {"n": 10**9}, {"messages": []})


@step("models")
def _():
    names = [model.id for model in client.models.list()]
    assert MODEL in names, names
    same(client.models.retrieve(MODEL).id, MODEL)


@step("a chat")
def _():
    whole = client.chat.completions.create(**GREEDY)
    same(whole.object, "chat.completion")
    same(whole.choices[0].message.role, "assistant")
    assert ANSWER, whole
    assert whole.choices[0].finish_reason in ("stop", "length"), whole
    assert 0 < whole.usage.completion_tokens <= 12, whole.usage
    parts = whole.usage.prompt_tokens + whole.usage.completion_tokens
    same(whole.usage.total_tokens, parts)


@step("a chat, streamed: the same text, one role, one usage")
def _():
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(client.chat.completions.create(**GREEDY, **options))
    same({chunk.object for chunk in chunks}, {"chat.completion.chunk"})
    same(len({chunk.id for chunk in chunks}), 1)
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    same("".join(delta.content or "" for delta in deltas), ANSWER)
    same([delta.role for delta in deltas if delta.role], ["assistant"])
    same([bool(chunk.usage) for chunk in chunks].count(True), 1)
    same(chunks[-1].choices, [])


@step("log probabilities, whole and streamed")
def _():
    options = {"logprobs": True, "top_logprobs": 3}
    whole = client.chat.completions.create(**GREEDY, **options)
    tokens = whole.choices[0].logprobs.content
    written = bytes(byte for token in tokens for byte in token.bytes).decode()
    assert written.startswith(whole.choices[0].message.content), written
    for token in tokens:
        same(len(token.top_logprobs), 3)
        assert math.isclose(token.logprob, token.top_logprobs[0].logprob, abs_tol=1e-4), token
    chunks = client.chat.completions.create(**GREEDY, **options, stream=True)
    found = [choice.logprobs for chunk in chunks for choice in chunk.choices]
    streamed = [token for part in found if part for token in part.content or ()]
    same([token.token for token in streamed], [token.token for token in tokens])


@step("a schema, through .parse()")
def _():
    found = client.chat.completions.parse(**ABOUT_ANN).choices[0].message.parsed
    assert isinstance(found, Person), found


@step("a schema, through .stream()")
def _():
    with client.chat.completions.stream(**ABOUT_ANN) as stream:
        for _ in stream:
            pass
        found = stream.get_final_completion().choices[0].message.parsed
    assert isinstance(found, Person), found


@step("a tool that is named must be called")
def _():
    asked = {"tools": [TOOL], "max_tokens": 60}
    choice = {"type": "function", "function": {"name": "weather"}}
    whole = client.chat.completions.create(**GREEDY | asked, tool_choice=choice).choices[0]
    same(whole.finish_reason, "tool_calls")
    (call,) = whole.message.tool_calls
    same((call.type, call.function.name), ("function", "weather"))
    same(list(json.loads(call.function.arguments)), ["city"])


@step("a tool call, streamed: the same as whole")
def _():
    asked = {"tools": [TOOL], "tool_choice": "required", "max_tokens": 60} | ONE_CALL
    (call,) = client.chat.completions.create(**GREEDY | asked).choices[0].message.tool_calls
    with client.chat.completions.stream(**GREEDY | asked) as stream:
        for _ in stream:
            pass
        (streamed,) = stream.get_final_completion().choices[0].message.tool_calls
    same(streamed.function.name, call.function.name)
    same(json.loads(streamed.function.arguments), json.loads(call.function.arguments))


@step("what is wrong is refused, in words that the library reads")
def _():
    for wrong in ALL_THAT_IS_WRONG:
        body = GREEDY | wrong
        ask = partial(client.chat.completions.create, **body)
        error = refused(openai.BadRequestError, ask)
        assert error.body["message"], error.body
        same(error.body["type"], "invalid_request_error")
        assert error.param in (None, *wrong), error.param


@step("completions: one text, several, and tokens")
def _():
    body = {"model": MODEL, "temperature": 0, "max_tokens": 6}
    one = client.completions.create(prompt="The capital of France is", **body).choices[0].text
    both = client.completions.create(prompt=["The capital of France is", "One two"], **body)
    same([choice.index for choice in both.choices], [0, 1])
    same(both.choices[0].text, one)
    chunks = client.completions.create(prompt="The capital of France is", stream=True, **body)
    same("".join(chunk.choices[0].text for chunk in chunks if chunk.choices), one)
    assert client.completions.create(prompt=[[504, 3575]], **body).choices[0].text


@step("responses: a text, and streamed")
def _():
    body = {"model": MODEL, "input": QUESTION[0]["content"], "temperature": 0}
    whole = client.responses.create(**body, max_output_tokens=16)
    assert whole.output_text, whole
    with client.responses.stream(**body, max_output_tokens=16) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    same(final.output_text, whole.output_text)
    assert kinds[0] == "response.created", kinds
    assert kinds[-1] in ("response.completed", "response.incomplete"), kinds


@step("responses: a schema, through .parse()")
def _():
    found = client.responses.parse(
        model=MODEL, input=ANN, temperature=0, max_output_tokens=60, text_format=Person
    )
    assert isinstance(found.output_parsed, Person), found


@step("responses: a tool call, and its result")
def _():
    tool = {"type": "function", "strict": True, **WEATHER}
    body = {"model": MODEL, "temperature": 0, "max_output_tokens": 60, "tools": [tool]} | ONE_CALL
    called = client.responses.create(**body, input=QUESTION, tool_choice="required")
    (call,) = (item for item in called.output if item.type == "function_call")
    same(list(json.loads(call.arguments)), ["city"])
    with client.responses.stream(**body, input=QUESTION, tool_choice="required") as stream:
        for _ in stream:
            pass
        output = stream.get_final_response().output
    same([item.arguments for item in output if item.type == "function_call"], [call.arguments])
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    items = [*QUESTION, *(item.to_dict() for item in called.output), result]
    assert client.responses.create(**body, input=items, tool_choice="none").output_text


def shown(url):
    """A chat that shows a picture."""
    image = {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
    content = [image, {"type": "text", "text": QUESTION[0]["content"]}]
    return GREEDY | {"messages": [{"role": "user", "content": content}]}


@step("a chat with a picture, whole and streamed, twice", sees=True)
def _():
    assert "vision" in next(iter(client.models.list())).capabilities
    blind = client.chat.completions.create(**GREEDY).usage.prompt_tokens
    whole, again = (client.chat.completions.create(**shown(PICTURE_URL)) for _ in range(2))
    assert whole.usage.prompt_tokens > blind, whole.usage
    same(again.choices[0].message.content, whole.choices[0].message.content)
    chunks = client.chat.completions.create(**shown(PICTURE_URL), stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    same(text, whole.choices[0].message.content)


@step("a chat with an address of a picture is refused", sees=True)
def _():
    for url in (ADDRESS, "file:///etc/passwd"):
        ask = partial(client.chat.completions.create, **shown(url))
        error = refused(openai.BadRequestError, ask)
        assert ADDRESS_REFUSED in error.message, error
        same(error.param, "messages[0].content[0]")


@step("responses: a picture, also in a tool's result; no address", sees=True)
def _():
    def ask(url):
        image = {"type": "input_image", "image_url": url, "detail": "auto"}
        call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
        items = [
            {"role": "user", "content": [image, {"type": "input_text", "text": "See?"}]},
            call,
            {"type": "function_call_output", "call_id": "c", "output": [image]},
            {"role": "user", "content": [{"type": "input_text", "text": "And now?"}, image]},
        ]
        return client.responses.create(model=MODEL, input=items, max_output_tokens=8)

    assert ask(PICTURE_URL).usage.input_tokens > 0
    assert ADDRESS_REFUSED in refused(openai.BadRequestError, partial(ask, ADDRESS)).message
