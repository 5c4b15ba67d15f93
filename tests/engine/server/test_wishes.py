"""What neighbours' clients send: done, refused by name, or harmless, in each dialect."""

import json
from dataclasses import replace

import pytest

from engine.process.protocol import Generate
from engine.request import Sampling
from engine.server.anthropic import MessagesBody
from engine.server.bodies import names_of, read_body
from engine.server.errors import Refusal
from engine.server.fields import SamplingFields, sampling_in
from engine.server.ollama import GenerateBody, OllamaChatBody, Options, read_fields
from engine.server.openai import ChatBody, CompletionBody
from engine.server.responses import ResponsesBody
from engine.server.wishes import HARMLESS, REFUSED
from tests.support.engine.asking import asking, run
from tests.support.engine.scripted_host import LOADED, script

HELLO = [{"role": "user", "content": "hello you"}]
CHAT, COMPLETIONS, GENERATE = "/v1/chat/completions", "/v1/completions", "/api/generate"
BODIES = {
    CHAT: {"messages": HELLO},
    COMPLETIONS: {"prompt": "hello you"},
    "/v1/responses": {"input": "hello you"},
    "/v1/messages": {"messages": HELLO, "max_tokens": 9},
    "/api/chat": {"messages": HELLO, "stream": False},
    GENERATE: {"prompt": "hello you", "stream": False},
}
CHATS = [path for path in BODIES if path != COMPLETIONS]
KINDS = {
    CHAT: ChatBody,
    COMPLETIONS: CompletionBody,
    "/v1/responses": ResponsesBody,
    "/v1/messages": MessagesBody,
    "/api/chat": OllamaChatBody,
    GENERATE: GenerateBody,
}
OWN = {
    path: names_of(kind) | (names_of(Options) if path.startswith("/api/") else set())
    for path, kind in KINDS.items()
}
NAMED = {name: nothing for names, nothing, _ in REFUSED for name in names.split()}
IGNORED = {name for names in HARMLESS.values() for name in names.split()}


async def outcomes(path, *bodies):
    """What the engine is asked for each body, or the refusal."""
    found = []
    async with asking() as (client, host):
        for body in bodies:
            response = await client.post(path, json=BODIES[path] | body)
            if response.status_code == 400:
                error = response.json()["error"]
                found.append(error if isinstance(error, str) else error["message"])
                continue
            assert response.status_code == 200, (path, body, response.text)
            (asked,) = [one for one in host.taken if isinstance(one, Generate)]
            host.taken.clear()
            found.append((asked.prompt, asked.request))
    return found


def read(path, body):
    """The body as an endpoint reads it."""
    kind = KINDS[path]
    reader = read_fields if path.startswith("/api/") else read_body
    return reader(kind, BODIES[path] | body)


@pytest.mark.parametrize("path", BODIES)
def test_each_name_that_is_not_done_is_refused_or_harmless(path):
    plain = read(path, {})
    for name in {*NAMED} - OWN[path] - {"messages", "prompt", "input", "options"}:
        with pytest.raises(Refusal, match=f"{name} is not supported here") as caught:
            read(path, {name: ["wish"]})
        assert (caught.value.status, caught.value.param) == (400, name)
        assert len(caught.value.message.partition(". ")[2]) > 9, "no remedy"
        for nothing in (None, *NAMED[name]):
            assert read(path, {name: nothing}) == plain, name
    for name in IGNORED - OWN[path]:
        assert read(path, {name: "wish"}) == plain, name


def test_no_name_has_two_outcomes():
    assert not {*NAMED} & IGNORED
    assert sum(len(names.split()) for names, _, _ in REFUSED) == len(NAMED)


def test_what_belongs_to_another_endpoint_is_not_dropped():
    for path, body in (
        ("/v1/responses", {"input": None, "messages": HELLO}),
        (GENERATE, {"prompt": None, "messages": HELLO}),
        (COMPLETIONS, {"tools": [{"type": "function"}]}),
        (COMPLETIONS, {"enable_thinking": True}),
        (GENERATE, {"context": [1, 2]}),
        (CHAT, {"options": {"num_ctx": 9}}),
        (CHAT, {"system": "Be brief."}),
        ("/v1/messages", {"n": 2}),
    ):
        (words,) = run(outcomes(path, body))
        assert "is not supported here" in words, body


@pytest.mark.parametrize("path", CHATS)
def test_every_name_for_thinking_is_done(path):
    names = (
        ({"enable_thinking": False}, "off"),
        ({"enable_thinking": True}, "on"),
        ({"think": False}, "off"),
        ({"think": True}, "on"),
        ({"think": "high"}, "high"),
        ({"thinking": {"type": "disabled"}}, "off"),
        ({"thinking": {"type": "enabled", "budget_tokens": 9}}, "on"),
        ({"thinking": False}, "off"),
        ({"thinking": "disabled"}, "off"),
        ({"reasoning": {"enabled": False}}, "off"),
        ({"reasoning": {"enabled": True}}, "on"),
        ({"reasoning": {"effort": "low", "summary": "auto"}}, "low"),
        ({"reasoning": {"effort": "none"}}, "off"),
        ({"reasoning": {"max_tokens": 9}}, "on"),
        ({"reasoning": "off"}, "off"),
        ({"reasoning_effort": "none"}, "off"),
        ({"reasoning_effort": "high"}, "high"),
        ({"chat_template_kwargs": {"enable_thinking": False}}, "off"),
        ({"chat_template_kwargs": {"thinking": True}}, "on"),
        ({"chat_template_kwargs": {"reasoning_effort": "low"}}, "low"),
        ({"reasoning_effort": "high", "enable_thinking": False}, "off"),
    )
    for body, thinking in names:
        assert read(path, body).wish == thinking, body
    budgets = (
        {"thinking_budget": 9},
        {"thinking_token_budget": 9},
        {"thinking_budget_tokens": 9},
        {"reasoning_budget": 9},
        {"thinking": {"type": "enabled", "budget_tokens": 9}},
        {"reasoning": {"max_tokens": 9}},
        {"reasoning_budget": -1},
    )
    assert [read(path, body).budget for body in budgets] == [9] * 6 + [None]
    ((_, asked),) = run(outcomes(path, {"think": "high", "thinking_budget": 9}))
    assert (asked.thinking, asked.thinking_budget) == ("high", 9)


@pytest.mark.parametrize("path", BODIES)
def test_other_names_of_neighbours_are_done_in_each_dialect(path):
    lengths = ("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens")
    found = run(
        outcomes(
            path,
            *({"max_tokens": None, name: 7} for name in (*lengths, "n_predict", "num_predict")),
            {"stop": "x"},
            {"stop_sequences": ["x"]},
            {"stop": ""},
            {"random_seed": 5},
            {"seed": -1},
            {"repeat_penalty": 1.5, "penalty_last_n": 5},
            {"guided_choice": ["yes", "no"]},
            {"min_p": 0.5, "top_k": 3},
        )
    )
    requests = [request for _, request in found]
    assert [request.max_tokens for request in requests[:6]] == [7] * 6
    first, second, third, seeded, unseeded, repeated, held, chosen = requests[6:]
    assert (first.stops, second.stops, third.stops) == (("x",), ("x",), ())
    assert (seeded.sampling.seed, seeded.sampling.repeatable) == (5, True)
    assert (unseeded.sampling.seed, unseeded.sampling.repeatable) == (None, False)
    assert (repeated.sampling.repetition_penalty, repeated.sampling.penalty_window) == (1.5, 5)
    assert held.grammar.source == "yes|no"
    assert (chosen.sampling.min_p, chosen.sampling.top_k) == (0.5, 3)


@pytest.mark.parametrize("path", CHATS)
async def test_reasoning_is_left_out_where_that_is_wished(path, tmp_path):
    template = "{{ tools }} <tool_call>{...}</tool_call> <think></think>"
    (tmp_path / "chat_template.jinja").write_text(template, encoding="utf-8")

    def thinking(command):
        return script("<think>", "Hidden", "</think>", "Shown", id=command.id)

    async with asking(thinking, target=str(tmp_path)) as (client, _):
        for wish in ({"include_reasoning": False}, {"reasoning": {"exclude": True}}, {}):
            for stream in (False, True):
                body = BODIES[path] | wish | {"stream": stream, "enable_thinking": True}
                text = (await client.post(path, json=body)).text
                assert ("Hidden" in text, "Shown" in text) == (not wish, True), text


@pytest.mark.parametrize("path", CHATS[:-1])
def test_the_number_of_tools_and_the_size_of_a_form_are_the_models_matter(path):
    tool = {"name": "f", "type": "function", "parameters": {"type": "object"}}
    schema = {"enum": [f"the value with the number {number:09}" for number in range(2000)]}
    form = {"guided_json": {"type": "object", "properties": {"a": schema}}}
    tools, held = run(outcomes(path, {"tools": [tool] * 259}, form))
    assert len(json.loads(tools[0].tools)) in (1, 259)  # of one name: responses have one
    assert len(held[1].grammar.source) > 70_000


def test_the_likeliest_token_is_not_penalized_by_default():
    default = Sampling(temperature=0.7, top_p=0.9, repetition_penalty=1.1)
    loaded = replace(LOADED, sampling=default)

    def sampling(**fields):
        return sampling_in(read_body(SamplingFields, fields), loaded)

    assert sampling() == default
    assert sampling(temperature=1.5, top_k=3) == replace(default, temperature=1.5, top_k=3)
    for likeliest in ({"temperature": 0}, {"temperature": 0.0001}, {"top_p": 0}):
        assert sampling(**likeliest) == Sampling()
