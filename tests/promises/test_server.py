"""A real server with a real engine answers as clients ask, and Ctrl-C ends all of it."""

import json
import os
import re
import signal
from pathlib import Path

import psutil
from httpx2 import AsyncClient

from tests.support.engine.asking import run
from tests.support.engine.served import served

STORIES = Path(__file__).parents[1] / "data" / "stories260K"
CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "Once upon a time"}]}


def test_a_model_answers_and_ctrl_c_ends_it_all(tmp_path):
    async def ask():
        key = tmp_path / "key"
        arguments = ("--target", str(STORIES), "--drafter", "lookup", "--draft-length", "4")
        async with served(*arguments, "--port", "0", "--key-file", str(key)) as process:
            line = (await process.stdout.readline()).decode()
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            assert found, line
            headers = {"x-api-key": key.read_text().strip()}
            async with AsyncClient(base_url=found[0], headers=headers, timeout=60) as client:
                await _talk(client)
                await _complete(client)
                await _hold_to_a_schema(client)
                engine = psutil.Process(process.pid).children()
                async with client.stream("POST", CHAT, json={**BODY, "stream": True}) as stream:
                    lines = stream.aiter_lines()
                    await anext(lines)
                    process.send_signal(signal.SIGINT)
                    rest = [line async for line in lines if line.startswith("data: ")]
                last = rest[-1].removeprefix("data: ")
                assert last == "[DONE]" or "error" in json.loads(last)
            assert await process.wait() == 0
            assert not [one for one in engine if one.is_running()]
            assert os.path.exists(key)

    run(ask(), seconds=180)


async def _talk(client):
    body = {**BODY, "max_tokens": 40, "temperature": 0}
    whole = (await client.post(CHAT, json=body)).json()
    text = whole["choices"][0]["message"]["content"]
    assert whole["usage"]["completion_tokens"] == 40
    joined = ""
    async with client.stream("POST", CHAT, json={**body, "stream": True}) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: {"):
                choice = json.loads(line.removeprefix("data: "))["choices"][0]
                joined += choice["delta"].get("content", "")
    assert joined == text
    several = (await client.post(CHAT, json={**body, "n": 3})).json()
    assert {choice["message"]["content"] for choice in several["choices"]} == {text}
    stopped = (await client.post(CHAT, json={**body, "stop": text[10:14]})).json()
    assert text.startswith(stopped["choices"][0]["message"]["content"])
    assert stopped["choices"][0]["finish_reason"] == "stop"
    seeded = [
        (await client.post(CHAT, json={**body, "temperature": 1, "seed": 5})).json()
        for _ in range(2)
    ]
    assert len({one["choices"][0]["message"]["content"] for one in seeded}) == 1
    long = {"messages": [{"role": "user", "content": "word " * 2000}]}
    refused = await client.post(CHAT, json=long)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "context_length_exceeded"


async def _complete(client):
    path = "/v1/completions"
    body = {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0, "logprobs": 1}
    (written,) = (await client.post(path, json=body)).json()["choices"]
    scores = written["logprobs"]
    assert "".join(scores["tokens"]) == written["text"]
    assert all(score <= 0 for score in scores["token_logprobs"])
    predicted = {**BODY, "temperature": 0, "max_tokens": 30}
    plain = (await client.post(CHAT, json=predicted)).json()["choices"][0]["message"]["content"]
    guess = {"type": "content", "content": plain[:-9] + " wrong"}
    guessed = (await client.post(CHAT, json={**predicted, "prediction": guess})).json()
    assert guessed["choices"][0]["message"]["content"] == plain
    details = guessed["usage"]["completion_tokens_details"]
    assert details["accepted_prediction_tokens"] > 0


async def _hold_to_a_schema(client):
    schema = {
        "type": "object",
        "properties": {"a": {"enum": ["x", "y"]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
    body = {**BODY, "max_tokens": 60, "temperature": 1, "response_format": form}
    for stream in (False, True):
        response = await client.post(CHAT, json={**body, "stream": stream})
        assert response.status_code == 200, response.text
        if not stream:
            content = response.json()["choices"][0]["message"]["content"]
            assert json.loads(content)["a"] in ("x", "y")
    bad = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "nothing"}}}
    refused = await client.post(CHAT, json={**body, "response_format": bad})
    assert refused.status_code == 400
