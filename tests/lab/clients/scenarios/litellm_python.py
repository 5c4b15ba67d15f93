"""LiteLLM, which other programs ask through: OpenAI's and Anthropic's endpoints."""

import asyncio
import json
from functools import partial

import litellm
from steps import (
    ADDRESS_REFUSED,
    BASE,
    MODEL,
    PICTURE_URL,
    QUESTION,
    SERVER,
    WEATHER,
    refused,
    same,
    step,
)

litellm.telemetry = False
OPENAI = {"model": f"openai/{MODEL}", "api_base": BASE, "api_key": "x"}
ANTHROPIC = {"model": f"anthropic/{MODEL}", "api_base": SERVER, "api_key": "x"}
GREEDY = {
    "messages": QUESTION,
    "temperature": 0,
    "max_tokens": 12,
    "num_retries": 0,
    "timeout": 120,
}
TOOL = {"type": "function", "function": WEATHER}


def text(answer) -> str:
    return answer.choices[0].message.content


for name, provider in (("OpenAI", OPENAI), ("Anthropic", ANTHROPIC)):

    @step(f"{name}'s endpoint: whole and streamed")
    def _(provider=provider):
        whole = text(litellm.completion(**provider, **GREEDY))
        assert whole
        chunks = litellm.completion(**provider, **GREEDY, stream=True)
        same("".join(chunk.choices[0].delta.content or "" for chunk in chunks), whole)

    @step(f"{name}'s endpoint: a tool that is named must be called, whole and streamed")
    def _(provider=provider):
        choice = {"type": "function", "function": {"name": "weather"}}
        asked = {**provider, **GREEDY, "tools": [TOOL], "tool_choice": choice, "max_tokens": 60}
        (call,) = litellm.completion(**asked).choices[0].message.tool_calls
        same(list(json.loads(call.function.arguments)), ["city"])
        joined = litellm.stream_chunk_builder(list(litellm.completion(**asked, stream=True)))
        (streamed,) = joined.choices[0].message.tool_calls
        same(json.loads(streamed.function.arguments), json.loads(call.function.arguments))

    @step(f"{name}'s endpoint: eight at once are each as alone")
    def _(provider=provider):
        alone = text(litellm.completion(**provider, **GREEDY))

        async def together():
            return await asyncio.gather(
                *(litellm.acompletion(**provider, **GREEDY) for _ in range(8))
            )

        same({text(answer) for answer in asyncio.run(together())}, {alone})


@step("a schema")
def _():
    schema = {"name": "weather", "schema": WEATHER["parameters"], "strict": True}
    wanted = {"type": "json_schema", "json_schema": schema}
    asked = {**GREEDY, "max_tokens": 60, "response_format": wanted}
    same(list(json.loads(text(litellm.completion(**OPENAI, **asked)))), ["city"])


@step("a prompt that is too long raises its own error")
def _():
    message = [{"role": "user", "content": "word " * 9_000}]
    ask = partial(litellm.completion, **OPENAI, **GREEDY | {"messages": message})
    refused(litellm.ContextWindowExceededError, ask)


def shown(url):
    """A chat that shows a picture."""
    image = {"type": "image_url", "image_url": {"url": url}}
    content = [{"type": "text", "text": QUESTION[0]["content"]}, image]
    return GREEDY | {"messages": [{"role": "user", "content": content}]}


for name, provider in (("OpenAI", OPENAI), ("Anthropic", ANTHROPIC)):

    @step(f"{name}'s endpoint: a picture", sees=True)
    def _(provider=provider):
        blind = litellm.completion(**provider, **GREEDY).usage.prompt_tokens
        seen = litellm.completion(**provider, **shown(PICTURE_URL))
        assert seen.usage.prompt_tokens > blind, seen.usage
        assert seen.usage.completion_tokens


@step("an address of a picture is refused", sees=True)
def _():
    ask = partial(litellm.completion, **OPENAI, **shown("file:///etc/passwd"))
    assert ADDRESS_REFUSED in str(refused(litellm.BadRequestError, ask))
