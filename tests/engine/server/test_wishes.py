"""What neighbours' clients send: done, refused by name, or harmless, in each dialect."""

import json
import random
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from engine.process.protocol import Generate
from engine.request import Grammar, Sampling
from engine.server.anthropic import MessagesBody
from engine.server.bodies import DEEPEST, names_of, read_body
from engine.server.errors import Refusal
from engine.server.fields import SamplingFields, sampling_in
from engine.server.ollama import GenerateBody, OllamaChatBody, Options, read_fields
from engine.server.openai import ChatBody, CompletionBody
from engine.server.responses import ResponsesBody
from engine.server.wishes import HARMLESS, REFUSED
from tests.support.engine.asking import asking, run
from tests.support.engine.scripted_host import LOADED, saying

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
    """What the engine is asked for each body."""
    async with asking() as (client, host):
        for body in bodies:
            response = await client.post(path, json=BODIES[path] | body)
            assert response.status_code == 200, (path, body, response.text)
        asked = [one for one in host.taken if isinstance(one, Generate)]
    return [(one.prompt, one.request) for one in asked]


def read(path, body):
    """The body as an endpoint reads it."""
    kind = KINDS[path]
    reader = read_fields if path.startswith("/api/") else read_body
    return reader(kind, BODIES[path] | body)


@pytest.mark.parametrize("path", BODIES)
def test_each_name_that_is_not_done_is_refused_or_harmless(path):
    plain = read(path, {})
    for name in {*NAMED} - OWN[path] - {"messages", "prompt", "input", "options"}:
        with pytest.raises(Refusal, match=name) as caught:
            read(path, {name: ["wish"]})
        assert (caught.value.status, caught.value.param) == (400, name)
        assert len(caught.value.message.partition(". ")[2]) > 9, "no remedy"
        for nothing in (None, *NAMED[name]):
            assert read(path, {name: nothing}) == plain, name
    for name in IGNORED - OWN[path]:
        assert read(path, {name: "wish"}) == plain, name
    # No name has two outcomes.
    assert not {*NAMED} & IGNORED
    assert sum(len(names.split()) for names, _, _ in REFUSED) == len(NAMED)


@pytest.mark.parametrize("path", CHATS)
async def test_every_name_for_thinking_is_done(path):
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
    ((_, asked),) = await outcomes(path, {"think": "high", "thinking_budget": 9})
    assert (asked.thinking, asked.thinking_budget) == ("high", 9)


@pytest.mark.parametrize("path", BODIES)
async def test_other_names_of_neighbours_are_done_in_each_dialect(path):
    lengths = ("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens")
    found = await outcomes(
        path,
        *({"max_tokens": None, name: 7} for name in (*lengths, "n_predict", "num_predict")),
        *({"stop": "x"}, {"stop_sequences": ["x"]}, {"stop": ""}),
        *({"random_seed": 5}, {"seed": -1}),
        {"repeat_penalty": 1.5, "penalty_last_n": 5},
        {"guided_choice": ["yes", "no"]},
        {"min_p": 0.5, "top_k": 3},
    )
    requests = [request for _, request in found]
    assert [request.max_tokens for request in requests[:6]] == [7] * 6
    assert [request.stops for request in requests[6:9]] == [("x",), ("x",), ()]
    seeded, unseeded, repeated, _, chosen = (request.sampling for request in requests[9:])
    assert (seeded.seed, seeded.repeatable) == (5, True)
    assert (unseeded.seed, unseeded.repeatable) == (None, False)
    assert (repeated.repetition_penalty, repeated.penalty_window) == (1.5, 5)
    assert requests[-2].grammar == Grammar("regex", "yes|no")
    assert (chosen.min_p, chosen.top_k) == (0.5, 3)


@pytest.mark.parametrize("path", CHATS)
async def test_reasoning_is_left_out_where_that_is_wished(path, tmp_path):
    template = "{{ tools }} <tool_call>{...}</tool_call> <think></think>"
    (tmp_path / "chat_template.jinja").write_text(template, encoding="utf-8")

    thinking = saying("<think>", "Hidden", "</think>", "Shown")
    async with asking(thinking, target=str(tmp_path)) as (client, _):
        for wish in ({"include_reasoning": False}, {"reasoning": {"exclude": True}}, {}):
            for stream in (False, True):
                body = BODIES[path] | wish | {"stream": stream, "enable_thinking": True}
                text = (await client.post(path, json=body)).text
                assert ("Hidden" in text, "Shown" in text) == (not wish, True), text


def test_the_likeliest_token_is_not_penalized_by_default():
    default = Sampling(temperature=0.7, top_p=0.9, repetition_penalty=1.1)
    loaded = replace(LOADED, sampling=default)

    def sampling(**fields):
        return sampling_in(read_body(SamplingFields, fields), loaded)

    assert sampling() == default
    assert sampling(temperature=1.5, top_k=3) == replace(default, temperature=1.5, top_k=3)
    for likeliest in ({"temperature": 0}, {"temperature": 0.0001}, {"top_p": 0}):
        assert sampling(**likeliest) == Sampling()


# Bodies that are wrong in every way: refused, and nothing else happens

DATA = Path(__file__).parents[2] / "data"
SOUND = json.loads((DATA / "server_bodies.json").read_text())
NO_JSON = [
    b"",
    b"{",
    b"\xff\xfe{}",
    b'{"messages": NaN}',
    b'{"temperature": Infinity}',
    b'{"temperature": 1e999}',
    b'{"messages": "\\ud800"}',
    b'{"a": 1} {"b": 2}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"[" * DEEPEST + b"]" * DEEPEST + b" " + b"]",
    b'{"a": ' + b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1) + b"}",
    b"1" * 5000,
    b'{"seed": ' + b"9" * 5000 + b"}",
]
NO_OBJECT = [b"null", b"true", b"5", b'"text"', b"[]", b"[{}]"]


async def posted(client, path, body):
    response = await client.post(path, content=body, headers={"content-type": "application/json"})
    if response.status_code != 200:
        error = response.json()["error"]
        assert error if path.startswith("/api/") else error["message"]
        assert "Traceback" not in response.text
    return response.status_code


async def test_what_is_no_json_object_is_refused():
    async with asking() as (client, host):
        for path, body in product(SOUND, NO_JSON + NO_OBJECT):
            assert await posted(client, path, body) == 400, (path, body[:20])
        assert not any(isinstance(command, Generate) for command in host.taken)


def _values(value):
    """The places of all values within a value."""
    items = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    return [(), *((key, *rest) for key, item in items for rest in _values(item))]


def _with(value, place, new):
    if not place:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = _with(value[place[0]], place[1:], new)
    return copy


JUNK = [
    "\x00",
    "\U0010ffff" * 50,
    -1,
    -(10**30),
    1e308,
    True,
    [],
    {},
    [None],
    {"type": "x"},
    {"": None},
    ["x", 5],
    [{"role": "user"}],
    "<|im_end|>",
    "../../etc/passwd",
]


@pytest.mark.parametrize(
    "rounds", [150, pytest.param(10_000, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_spoilt_bodies_are_answered_or_refused_and_the_server_goes_on(rounds):
    chance = random.Random(rounds)

    def spoilt(path):
        body = SOUND[path]
        for _ in range(chance.randint(1, 3)):
            place = chance.choice(_values(body))
            body = _with(body, place, chance.choice(JUNK))
        data = bytearray(json.dumps(body, ensure_ascii=chance.random() < 0.5).encode())
        match chance.randrange(4):
            case 0:
                del data[chance.randrange(len(data) + 1) :]
            case 1 if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
            case 2:
                at = chance.randrange(len(data) + 1)
                data[at:at] = chance.choice([b"\\ud800", b"}", b",", b"\xc3", b"NaN", b'"'])
        return bytes(data)

    async def ask():
        refused = 0
        async with asking() as (client, host):
            for _ in range(rounds):
                path = chance.choice([*SOUND])
                body = spoilt(path)
                status = await posted(client, path, body)
                assert status in (200, 400), (path, body, status)
                refused += status == 400
            for path, good in SOUND.items():
                assert await posted(client, path, json.dumps(good).encode()) == 200
            assert not host.running
        assert refused > rounds / 2

    run(ask(), seconds=600)
