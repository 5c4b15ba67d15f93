"""From the events of a generation to pieces, and from a request to the grammar of calls."""

from dataclasses import replace

import pytest

from engine.events import Prefill
from engine.process.protocol import Generate
from engine.server import answers
from tests.support.engine.asking import asking, events, run
from tests.support.engine.scripted_host import script

TEMPLATE = (
    "{% if tools %}<tools>{{ tools }}</tools> Reply <tool_call>{...}</tool_call>{% endif %}"
    "{% if x %}<think></think>{% endif %}"
)
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
HELLO = [{"role": "user", "content": "hello"}]
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": "é\\n"}}\n</tool_call>'


@pytest.fixture
def thinker(tmp_path):
    """The folder of a model that reasons and calls, as Qwen3 does."""
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    return str(tmp_path)


def saying(*texts):
    return lambda command: script(*texts, id=command.id, request=command.request)


async def test_tokens_from_disk_count_as_cached():
    """They are found one block after the other, behind the first event."""

    def play(command):
        for step in script("Hello", id=command.id, prompt_tokens=5000):
            yield step
            if isinstance(step, Prefill):
                yield replace(step, processed=1024, reused=1024)
                yield replace(step, processed=5000, reused=1024)

    async with asking(play) as (client, _):
        body = {"messages": HELLO, "stream": True, "stream_options": {"include_usage": True}}
        streamed = events(await client.post("/v1/chat/completions", json=body))
        *chunks, last, _ = [chunk for _, chunk in streamed]
        assert last["usage"]["prompt_tokens_details"] == {"cached_tokens": 1024}
        assert sum("role" in chunk["choices"][0]["delta"] for chunk in chunks) == 1


def answered(target, play, **body):
    """The choice of an answer, and what the engine was asked."""

    async def ask():
        async with asking(play, target=target) as (client, host):
            whole = await client.post("/v1/chat/completions", json={"messages": HELLO, **body})
            assert whole.status_code == 200, whole.text
            (asked,) = [command for command in host.taken if isinstance(command, Generate)]
            return whole.json()["choices"][0], asked

    return run(ask())


def test_a_tool_that_is_named_is_called_once(thinker):
    named = {"type": "function", "function": {"name": "f"}}
    grammars = [
        answered(thinker, saying(CALL), tools=TOOLS, **asked)[1].request.grammar
        for asked in (
            {"tool_choice": named},
            {"tool_choice": named, "parallel_tool_calls": False},
            {"tool_choice": "required"},
        )
    ]
    assert grammars[0] == grammars[1] != grammars[2]


def test_a_mistake_of_ours_is_an_error_and_no_end(monkeypatch, capfd):
    def fail(text, stretches):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(answers, "divided", fail)

    async def ask():
        async with asking(saying("a")) as (client, _):
            for stream in (False, True):
                body = {"messages": HELLO, "stream": stream}
                response = await client.post("/v1/chat/completions", json=body)
                assert response.status_code == (200 if stream else 500)
                assert "secret" not in response.text
                if stream:
                    assert events(response)[-1][1]["error"]["code"] == "server_error"

    run(ask())
    assert capfd.readouterr().err.count("ZeroDivisionError: secret") == 2
