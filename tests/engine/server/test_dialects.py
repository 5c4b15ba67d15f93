"""The dialects over HTTP: what a request asks the engine for, and what its client gets.

A case is a line of tests/data/dialects: a `body` for a `path`, sent whole and as a stream. `asked`:
what the engine is asked for, or `same_as`, by which other body. `gives` and `streams`: what the
client gets if the engine `says` this, or `refused`. All of them say only a part of what must be
there: "*" is any value, "~text" is a value with this text, "!" is a field that must be missing.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from engine.events import Failed, Prefill
from engine.process.protocol import Generate
from engine.request import ChatMessage, ToolCall
from engine.server import answers
from engine.server.conversation import in_order
from tests.support.engine.asking import asking, events
from tests.support.engine.scripted_host import LOADED, saying, script

FOLDER = Path(__file__).parents[2] / "data" / "dialects"
DIALECTS = ["openai", "anthropic", "responses", "ollama"]
PARTS = 4  # of a dialect's cases, so that none takes long
HELLO = {"messages": [{"role": "user", "content": "hello"}]}
CHAT = "/v1/chat/completions"
FIM = {
    "qwen": ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>"],
    "starcoder": ["<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>"],
    "codellama": ["▁<PRE>", "▁<SUF>", "▁<MID>", "▁<EOT>"],
    "deepseek": ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
    "codestral": ["[SUFFIX]", "[PREFIX]"],
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The folders of models: one that reasons and calls as Qwen3 does, and some that fill gaps."""
    root = tmp_path_factory.mktemp("models")
    for name in ("thinker", *FIM):
        (root / name).mkdir()
    template = "{{ tools }} <tool_call>{...}</tool_call> <think></think>"
    (root / "thinker" / "chat_template.jinja").write_text(template)
    for name, tokens in FIM.items():
        added = {"added_tokens": [{"content": token} for token in tokens]}
        (root / name / "tokenizer.json").write_text(json.dumps(added))
    return {"": LOADED.target, **{path.name: str(path) for path in root.iterdir()}}


def differences(expected, found, place=""):
    """The places at which a value is not as expected."""
    if expected == "*":
        return []
    if isinstance(expected, str) and expected.startswith("~"):
        fits = expected[1:] in (found if isinstance(found, str) else json.dumps(found))
    elif isinstance(expected, dict) and isinstance(found, dict):
        wrong = []
        for name, value in expected.items():
            if (value == "!") == (name in found):
                wrong.append(f"{place}.{name} is {found.get(name, 'missing')!r}")
            elif value != "!":
                wrong += differences(value, found[name], f"{place}.{name}")
        return wrong
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return [line for n, pair in pairs for line in differences(*pair, f"{place}[{n}]")]
    else:
        fits = expected == found
    return [] if fits else [f"{place} is {found!r}, not {expected!r}"]


def playing(case):
    def play(command):
        if "fails" in case:
            message, remedy = "It does not work.", "Do otherwise."
            return iter([Failed(command.id, message, remedy, case["fails"], 5000, 4096)])
        how = {name: case[name] for name in ("then", "cut", "reused") if name in case}
        says = case.get("says", ["Hi"])
        return script(*says, id=command.id, request=command.request, **how)

    return play


class Sent:
    """What came of a body: the `response`, and what the engine was `asked` for, or None."""

    def __init__(self, response, host):
        self.response = response
        asked = [command for command in host.taken if isinstance(command, Generate)]
        host.taken.clear()
        self.asked = asdict(asked[0].prompt) | asdict(asked[0].request) if asked else None
        for name in ("tools", "options"):
            if self.asked and self.asked[name]:
                self.asked[name] = json.loads(self.asked[name])
        self.asked = json.loads(json.dumps(self.asked))

    @property
    def streamed(self):
        if self.response.headers["content-type"] == "application/x-ndjson":
            assert self.response.text.endswith("\n")
            return [json.loads(line) for line in self.response.text.splitlines()]
        found = events(self.response)
        assert all(
            not name or name == value["type"] for name, value in found if isinstance(value, dict)
        )
        return [value for _, value in found]

    def refused(self, expected):
        """The differences from a refusal, which may be just its field or a part of its message."""
        if not isinstance(expected, dict):
            about = "message" if isinstance(expected, str) and expected[0] == "~" else "param"
            expected = {about: expected}
        error = self.response.json()["error"]
        found = error if isinstance(error, dict) else {"message": error}
        status = expected.get("status", 400)
        found |= {"status": self.response.status_code}
        again = self.response.headers["x-should-retry"]
        assert again == ("true" if status == 503 else "false")
        return differences({"status": 400, **expected}, found)


async def wrong_in(case, client, host):
    """What is not as a case says."""

    async def sent(body, *, stream=False):
        host.play = playing(case)
        return Sent(await client.post(case["path"], json=body | {"stream": stream}), host)

    body, wrong = case["body"], []
    whole = await sent(body)
    if "refused" in case:
        wrong += whole.refused(case["refused"])
        if "fails" not in case:
            wrong += differences(None, whole.asked, "asked")
    elif "fails" not in case:
        status = {"engine": 503, "too long": 400}.get(case.get("then"), 200)
        wrong += differences(status, whole.response.status_code, "status")
    wrong += differences(case.get("asked", "*"), whole.asked, "asked")
    wrong += differences(case.get("gives", "*"), whole.response.json(), "gives")
    if "same_as" in case:
        wrong += differences((await sent(case["same_as"])).asked, whole.asked, "asked")
    if "streams" in case:
        wrong += differences(case["streams"], (await sent(body, stream=True)).streamed, "streams")
    elif "fails" in case and not case.get("whole_only"):
        wrong += (await sent(body, stream=True)).refused(case["refused"])
    return wrong


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_each_case(dialect, part, models):
    lines = (FOLDER / f"{dialect}.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [json.loads(line) for line in lines[part::PARTS]]
    wrong = {}
    for model in dict.fromkeys(case.get("model", "") for case in cases):
        async with asking(target=models[model]) as (client, host):
            for number, case in enumerate(cases):
                if case.get("model", "") == model:
                    wrong[part + number * PARTS + 1, case["is"]] = await wrong_in(
                        case, client, host
                    )
    assert {case: found for case, found in wrong.items() if found} == {}


@pytest.mark.parametrize(
    ("path", "body", "kept"),
    [
        (CHAT, HELLO, ": the answer is not ready yet\n\n"),
        ("/v1/completions", {"prompt": "hello"}, ": the answer is not ready yet\n\n"),
        ("/v1/messages", {**HELLO, "max_tokens": 9}, 'event: ping\ndata: {"type":"ping"}\n\n'),
        ("/v1/responses", {"input": "hello"}, "event: response.in_progress\n"),
        ("/api/chat", HELLO, '"message":{"role":"assistant","content":""},"done":false}\n'),
    ],
)
async def test_a_stream_is_kept_alive_while_nothing_comes(path, body, kept, monkeypatch):
    monkeypatch.setattr(answers, "WAITING_SECONDS", 0.001)

    async with asking(saying("a", "b", delay=0.1)) as (client, _):
        response = await client.post(path, json=body | {"stream": True})
        assert response.text.count(kept) > 2, response.text


async def test_several_answers_have_seeds_and_places_of_their_own():
    def play(command):
        return script(str(command.request.sampling.seed), id=command.id)

    async with asking(play) as (client, _):
        body = {**HELLO, "n": 3, "seed": 7}
        whole = (await client.post(CHAT, json=body)).json()
        texts = [choice["message"]["content"] for choice in whole["choices"]]
        assert texts[0] == "7"
        assert len(set(texts)) == 3
        assert (whole["usage"]["prompt_tokens"], whole["usage"]["completion_tokens"]) == (5, 6)
        joined = ["", "", ""]
        streamed = await client.post(CHAT, json=body | {"stream": True})
        for _, chunk in events(streamed)[:-1]:
            (choice,) = chunk["choices"]
            joined[choice["index"]] += choice["delta"].get("content", "")
        assert joined == texts


async def test_prompts_are_answered_in_their_order():
    def play(command):
        return script(command.prompt.text or str(command.prompt.tokens), id=command.id)

    async with asking(play) as (client, _):
        for prompt, said in (
            (["a", "b"], ["a", "a", "b", "b"]),
            ([[1, 2], [3]], ["(1, 2)", "(1, 2)", "(3,)", "(3,)"]),
        ):
            body = {"prompt": prompt, "n": 2}
            found = (await client.post("/v1/completions", json=body)).json()["choices"]
            assert [choice["text"] for choice in found] == said


async def test_tokens_from_disk_count_as_cached():
    """They are found one block after the other, after the first event."""

    def play(command):
        for step in script("Hello", id=command.id, prompt_tokens=5000):
            yield step
            if isinstance(step, Prefill):
                yield replace(step, processed=1024, reused=1024)
                yield replace(step, processed=5000, reused=1024)

    async with asking(play) as (client, _):
        body = HELLO | {"stream": True, "stream_options": {"include_usage": True}}
        *chunks, last, _ = [chunk for _, chunk in events(await client.post(CHAT, json=body))]
        assert last["usage"]["prompt_tokens_details"] == {"cached_tokens": 1024}
        assert sum("role" in chunk["choices"][0]["delta"] for chunk in chunks) == 1


async def test_a_tool_that_is_named_is_called_once(models):
    named = {"type": "function", "function": {"name": "f"}}
    async with asking(target=models["thinker"]) as (client, host):
        for choice in (
            {"tool_choice": named},
            {"tool_choice": named, "parallel_tool_calls": False},
            {"tool_choice": "required"},
        ):
            assert (await client.post(CHAT, json=CALLING[CHAT] | choice)).status_code == 200
        asked = [one.request.grammar for one in host.taken if isinstance(one, Generate)]
        assert asked[0] == asked[1] != asked[2]


async def test_a_mistake_of_ours_is_an_error_and_no_end(monkeypatch, capfd):
    monkeypatch.setattr(answers, "divided", Mock(side_effect=ZeroDivisionError("secret")))
    async with asking() as (client, _):
        for stream in (False, True):
            response = await client.post(CHAT, json=HELLO | {"stream": stream})
            assert response.status_code == (200 if stream else 500)
            assert "secret" not in response.text
            if stream:
                assert events(response)[-1][1]["error"]["code"] == "server_error"
    assert capfd.readouterr().err.count("ZeroDivisionError: secret") == 2


# Lines

ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"  # of lines, for Python's str.splitlines
SAID = "".join(f"a{end}" for end in ENDS)
TOOL = {"name": "f", "parameters": {"type": "object"}}
CALLING = {
    CHAT: HELLO | {"tools": [{"type": "function", "function": TOOL}]},
    "/v1/completions": {"prompt": "hello"},
    "/v1/responses": {"input": "hello", "tools": [{"type": "custom", "name": "f"}]},
    "/v1/messages": HELLO | {"max_tokens": 99, "tools": [{"name": "f"}]},
    "/api/chat": HELLO | {"tools": [{"type": "function", "function": TOOL}]},
    "/api/generate": {"prompt": "hello"},
}
RAW = ("/v1/completions", "/api/generate")  # which know no calls
ODDLY = ("/v1/responses", "/v1/messages", "/api/chat")  # where a client reads a value of a call
ODD = {  # values of an argument, and what a client reads of the call
    r'"\ud83d"': "\ufffd",
    "1e999": "1e999",  # which Python reads as infinite
    "9" * 4301: "f",  # which Python does not read at all
}


def values(text):
    """The values in the lines of a response."""
    lines = [line.removeprefix("data: ") for line in text.splitlines()]
    kept = [line for line in lines if line and not line.startswith((":", "event: ", "[DONE]"))]
    return [json.loads(line, parse_constant=pytest.fail) for line in kept]


@pytest.mark.parametrize("path", CALLING)
async def test_every_line_of_an_answer_is_whole(path, models):
    """Whatever it says, and whatever a call has for a value."""

    async def answered(*texts, stream=False):
        host.play = saying(*texts)
        response = await client.post(path, json=CALLING[path] | {"stream": stream})
        assert response.status_code == 200, response.text
        return response.content.decode()

    call = json.dumps({"name": "f", "arguments": {"x": SAID}}, ensure_ascii=False)
    called = () if path in RAW else ("<tool_call>\n", call, "\n</tool_call>")
    async with asking(target=models["thinker"]) as (client, host):
        for stream in (True, False):
            text = await answered(SAID, *called, stream=stream)
            found = values(text)
            assert len(found) == 1 or stream
            assert "a\u2028a\u2029" in json.dumps(found, ensure_ascii=False)
            assert text.count("\\u2028") >= (1 if path in RAW else 2)
        for value, read in ODD.items() if path in ODDLY else ():
            call = f'{{"name": "f", "arguments": {{"x": {value}}}}}'
            text = await answered(f"<tool_call>\n{call}\n</tool_call>")
            assert read in str(values(text))


# Conversations that templates would refuse


CALL = ToolCall("call_1", "read", "{}")


def test_the_parts_of_a_reply_become_one_and_a_late_system_message_stays_where_it_is():
    messages = [
        ChatMessage("system", "a"),
        ChatMessage("system", ""),
        ChatMessage("system", "b"),
        ChatMessage("user", "c"),
        ChatMessage("user", "d"),
        ChatMessage("assistant", "", reasoning="Hm."),
        ChatMessage("assistant", "e"),
        ChatMessage("assistant", "", tool_calls=(CALL,)),
    ]
    reply = ChatMessage("assistant", "e", reasoning="Hm.", tool_calls=(CALL,))
    assert in_order(messages) == (*messages[:5], reply)
    # In front, it would void the cache of everything after it.
    front, late = (
        [ChatMessage("system", "a"), ChatMessage("user", "b")],
        ChatMessage("system", "late"),
    )
    assert in_order([*front, late]) == (front[0], ChatMessage("user", "b\n\nlate"))
    said = [*front, ChatMessage("assistant", "c")]
    assert in_order([*said, late]) == (*said, ChatMessage("user", "late"))
    called = [*said, ChatMessage("tool", "d", tool_call_id="x")]
    assert in_order([*called, late])[-1] == ChatMessage("tool", "d\n\nlate", tool_call_id="x")


PAST = [json.loads(line) for line in (FOLDER / "past.jsonl").read_text("utf-8").splitlines()]
WHOLE = "party \ufffd (cut)"
NEWEST = {"role": "user", "content": "Go on."}


async def asked_with(*requests):
    """The messages that the engine is asked with for each path and body, as JSON escapes it."""
    async with asking() as (client, host):
        headers = {"content-type": "application/json"}
        for path, body in requests:
            response = await client.post(path, content=json.dumps(body), headers=headers)
            assert response.status_code == 200, (body, response.text)
        return [one.prompt.messages for one in host.taken if isinstance(one, Generate)]


def chat(*past):
    return "/v1/chat/completions", {"messages": [*past, NEWEST]}


def anthropic(*past):
    return "/v1/messages", {"messages": [*past, NEWEST], "max_tokens": 9}


def responses(*past):
    return "/v1/responses", {"input": [*past, NEWEST]}


def ollama(*past):
    return "/api/chat", {"messages": [*past, NEWEST], "stream": False}


WRITERS = (chat, anthropic, responses, ollama)


def rows(dialect, *names):
    """Those of a dialect that have these values."""
    kept = [row for row in PAST if row["dialect"] == dialect.__name__ and names[0] in row]
    return [[row[name] for name in names] for row in kept]


@pytest.mark.parametrize("dialect", WRITERS)
async def test_half_a_character_costs_no_request(dialect):
    ((halves,),) = rows(dialect, "halves")
    half = {"role": "system", "content": WHOLE.replace("\ufffd", "\ud83d")}
    (messages,) = await asked_with(dialect(half, *halves))
    assert messages[0].content == messages[2].content == WHOLE
    (call,) = messages[1].tool_calls
    assert WHOLE in json.loads(call.arguments)
    assert WHOLE in str(json.loads(call.arguments)[WHOLE])
    str(messages).encode()


@pytest.mark.parametrize("dialect", WRITERS)
async def test_nothing_that_is_past_is_judged(dialect):
    """Each row has its role, and its part of the message."""
    later, kept = {"role": "user", "content": "And?"}, rows(dialect, "past", "role", "part")
    found = await asked_with(*(dialect(past, later) for past, _, _ in kept))
    for (past, role, part), (first, *_) in zip(kept, found, strict=True):
        assert (first.role, part in str(first)) == (role, True), (past, first)
