"""Ollama's own library for Python: chats, texts, forms, tools, thinking, and the models here."""

import json

import ollama
from steps import (
    ADDRESS_REFUSED,
    MODEL,
    PERSON,
    PNG,
    QUESTION,
    SERVER,
    refused,
    same,
    step,
)

client = ollama.Client(SERVER, timeout=120)
GREEDY = {"temperature": 0, "num_predict": 12}
LONGER = {"temperature": 0, "num_predict": 60}


@step("the models that are here, and what is said of one")
def _():
    (listed,) = client.list().models
    same(listed.model, MODEL)
    (running,) = client.ps().models
    assert running.context_length > 0
    shown = client.show(MODEL)
    assert "completion" in shown.capabilities
    assert shown.modelinfo["general.architecture"]


@step("a chat, whole and streamed")
def _():
    whole = client.chat(MODEL, QUESTION, options=GREEDY)
    assert whole.message.content
    assert whole.done
    assert whole.eval_count > 0
    assert whole.total_duration > 0
    parts = list(client.chat(MODEL, QUESTION, options=GREEDY, stream=True))
    same("".join(part.message.content for part in parts), whole.message.content)
    same([part.done for part in parts[-2:]], [False, True])


@step("a text, whole, streamed and continued as it is")
def _():
    whole = client.generate(MODEL, "Why is the sky blue?", system="Be brief.", options=GREEDY)
    streamed = client.generate(
        MODEL, "Why is the sky blue?", system="Be brief.", options=GREEDY, stream=True
    )
    same("".join(part.response for part in streamed), whole.response)
    assert client.generate(MODEL, "Once upon a", raw=True, options=GREEDY).response


@step("JSON, and a schema")
def _():
    answer = client.chat(MODEL, QUESTION, format=PERSON, options=LONGER).message.content
    same(sorted(json.loads(answer)), ["age", "name"])
    assert client.generate(MODEL, "An object.", format="json", options=LONGER).response[0] == "{"


@step("a tool from a function of Python, and its result")
def _():
    def weather(city: str) -> str:
        """The weather in a city.

        Args:
            city: The city's name
        """
        return f"It rains in {city}."

    answer = client.chat(MODEL, QUESTION, tools=[weather], options=LONGER)
    assert answer.message.content or answer.message.tool_calls
    call = {"function": {"name": "weather", "arguments": {"city": "Paris"}}}
    said = [
        *QUESTION,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_name": "weather", "content": weather("Paris")},
    ]
    assert client.chat(MODEL, said, tools=[weather], options=GREEDY).message.content


@step("what is not here is refused, in words that the library reads")
def _():
    image = [{**QUESTION[0], "images": [b"\x89PNG"]}]
    for ask, word in (
        (lambda: client.chat(MODEL, image), "images"),
        (lambda: client.embed(MODEL, "a"), "Embeddings"),
        (lambda: client.pull(MODEL), "slipstream models"),
        (lambda: client.chat(MODEL, QUESTION, options={"mirostat": 2}), "mirostat"),
    ):
        assert word in str(refused(ollama.ResponseError, ask)), word


@step("pictures in a chat and beside a prompt", sees=True)
def _():
    assert "vision" in client.show(MODEL).capabilities
    blind = client.chat(MODEL, QUESTION, options=GREEDY).prompt_eval_count
    seen = client.chat(MODEL, [{**QUESTION[0], "images": [PNG, PNG]}], options=GREEDY)
    assert seen.prompt_eval_count > blind, seen
    text = client.generate(MODEL, QUESTION[0]["content"], images=[PNG], options=GREEDY)
    assert blind < text.prompt_eval_count < seen.prompt_eval_count, text


@step("an address of a picture is refused", sees=True)
def _():
    body = {"model": MODEL, "prompt": "See?", "images": ["file:///etc/passwd"]}
    answer = client._client.post("/api/generate", json=body)
    same(answer.status_code, 400)
    assert ADDRESS_REFUSED in answer.text
