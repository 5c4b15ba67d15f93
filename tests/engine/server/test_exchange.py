"""Answers on their way: whole for every reader of lines, in every dialect."""

import json

import pytest

from tests.support.engine.asking import asking, run
from tests.support.engine.scripted_host import script

ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"  # of lines, for Python's str.splitlines
SAID = "".join(f"a{end}" for end in ENDS)
TOOL = {"name": "f", "parameters": {"type": "object"}}
CALL = json.dumps({"name": "f", "arguments": {"x": SAID}}, ensure_ascii=False)
ODD = {  # values of an argument, and what a client reads of the call
    r'"\ud83d"': "\ufffd",
    "1e999": "1e999",  # which Python reads as infinite
    "9" * 4301: "f",  # which Python does not read at all
}
TEMPLATE = "{{ tools }} <tool_call>{...}</tool_call> <think></think>"
HELLO = [{"role": "user", "content": "hello"}]
BODIES = {
    "/v1/chat/completions": {"messages": HELLO, "tools": [{"type": "function", "function": TOOL}]},
    "/v1/completions": {"prompt": "hello"},
    "/v1/responses": {"input": "hello", "tools": [{"type": "custom", "name": "f"}]},
    "/v1/messages": {"messages": HELLO, "max_tokens": 99, "tools": [{"name": "f"}]},
    "/api/chat": {"messages": HELLO, "tools": [{"type": "function", "function": TOOL}]},
    "/api/generate": {"prompt": "hello"},
}


def answered(path, target, *texts, stream):
    def play(command):
        return script(*texts, id=command.id, request=command.request)

    async def ask():
        async with asking(play, target=target) as (client, _):
            response = await client.post(path, json=BODIES[path] | {"stream": stream})
            assert response.status_code == 200, response.text
            return response.content.decode()

    return run(ask())


def values(text):
    """The values in the lines of a response."""
    lines = [line.removeprefix("data: ") for line in text.splitlines()]
    kept = [line for line in lines if line and not line.startswith((":", "event: ", "[DONE]"))]
    return [json.loads(line, parse_constant=pytest.fail) for line in kept]


@pytest.mark.parametrize("path", BODIES)
def test_every_line_of_an_answer_is_whole(path, tmp_path):
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    raw = path in ("/v1/completions", "/api/generate")
    call = () if raw else ("<tool_call>\n", CALL, "\n</tool_call>")
    for stream in (True, False):
        text = answered(path, str(tmp_path), SAID, *call, stream=stream)
        found = values(text)
        assert len(found) == 1 or stream
        assert "a\u2028a\u2029" in json.dumps(found, ensure_ascii=False)
        assert text.count("\\u2028") >= (1 if raw else 2)


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages", "/api/chat"])
def test_an_odd_value_in_a_call_costs_no_answer(path, tmp_path):
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    for value, read in ODD.items():
        call = f'<tool_call>\n{{"name": "f", "arguments": {{"x": {value}}}}}\n</tool_call>'
        assert read in str(values(answered(path, str(tmp_path), call, stream=False)))
