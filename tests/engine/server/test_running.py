"""The whole server as a process: with an engine of its own, and attached to another's."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from httpx2 import AsyncClient

from engine.events import Text
from engine.process.client import GUEST
from engine.process.protocol import Cancel, Generate, parse_command
from engine.server.running import Place
from engine.server.status import STATUSES, ServerStatus
from models.errors import Problem
from tests.support.engine.asking import run
from tests.support.engine.scripted_host import LOADED, script, send
from tests.support.mostly_slow import mostly_slow

STORIES = Path(__file__).parents[2] / "data" / "stories260K"
CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "Once upon a time"}]}


@asynccontextmanager
async def served(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "engine", "serve", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]  # with the pipes nobody has read


@dataclass
class Window:
    """The other side of an attached server: answers its commands, and reads its status."""

    process: asyncio.subprocess.Process
    taken: list[object]
    statuses: list[ServerStatus]

    async def take(self) -> None:
        """Read what the server writes, until it ends."""
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        while line := await self.process.stdout.readline():
            if line.startswith(b'{"status"'):
                self.statuses.append(STATUSES.read(line))
                continue
            command = parse_command(line)
            self.taken.append(command)
            if isinstance(command, Generate):
                steps = script("Hel", "lo", id=command.id)
                send(self.process.stdin, next(steps))
                await asyncio.sleep(0.6)  # in which there is a status
                for step in steps:
                    send(self.process.stdin, step)

    async def until(self, what: str) -> ServerStatus:
        """The next status whose `what` is not empty."""
        while not (found := [one for one in self.statuses if getattr(one, what)]):
            await asyncio.sleep(0.01)
        return found[-1]


def test_attached_it_uses_the_windows_engine_and_tells_what_it_does() -> None:
    async def ask() -> None:
        async with served("--attached", "--port", "0") as process:
            assert process.stdin is not None
            window = Window(process, [], [])
            taking = asyncio.create_task(window.take())
            address = (await window.until("address")).address
            async with AsyncClient(base_url=address) as client:
                assert (await client.get("/health")).status_code == 503
                send(process.stdin, Text("the window's own", "not ours"))
                send(process.stdin, LOADED)
                while (await client.get("/health")).status_code != 200:
                    await asyncio.sleep(0.01)
                answer = await client.post(CHAT, json=BODY, headers={"user-agent": "Zed/1.2 (x)"})
                assert answer.json()["choices"][0]["message"]["content"] == "Hello"
            (generate,) = window.taken
            assert isinstance(generate, Generate)
            assert generate.id.startswith(GUEST)
            (request,) = (await window.until("requests")).requests
            assert (request.endpoint, request.client) == ("/chat/completions", "Zed")
            process.stdin.close()
            assert await process.wait() == 0
            await taking
            assert not any(isinstance(command, Cancel) for command in window.taken)

    run(ask())


def test_attached_it_says_where_it_cannot_listen() -> None:
    async def ask() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            async with served("--attached", "--port", str(port)) as process:
                output, complaint = await process.communicate()
                assert process.returncode == 2
                (line,) = output.splitlines()
                assert str(port) in STATUSES.read(line).problem
                assert complaint.count(b"\n") == 1

    run(ask())


REFUSED = [
    (["--host", "192.0.2.1"], "--key-file"),
    (["--host", "0.0.0.0"], "--host"),
    (["--key-file", "/dev/null"], "chmod"),
    (["--target", "/nowhere/at/all"], "/nowhere/at/all"),
    (["--context", "1", "--target", str(STORIES)], "context"),
    (["--allow", "no-such-model", "--target", str(STORIES)], "no-such-model"),
    (["--keep", "soon", "--target", str(STORIES)], "soon"),
]


@pytest.mark.parametrize(("arguments", "words"), mostly_slow(REFUSED, quick=REFUSED[:1]))
def test_what_cannot_be_is_one_line_with_a_remedy(arguments: list[str], words: str) -> None:
    async def ask() -> None:
        async with served("--port", "0", *arguments) as process:
            _, complaint = await process.communicate()
            assert process.returncode == 2
            (line,) = complaint.decode().splitlines()
            assert line.startswith("slipstream: ")
            assert words in line

    run(ask())


def test_a_place_that_others_can_reach_needs_a_key() -> None:
    with pytest.raises(Problem):
        Place(host="192.0.2.1")
    assert Place(host="192.0.2.1", key="x" * 20).address == "http://192.0.2.1:8737"
    assert Place(host="::1").address == "http://[::1]:8737"


@pytest.mark.slow
def test_a_model_answers_and_ctrl_c_ends_it_all(tmp_path: Path) -> None:
    async def ask() -> None:
        key = tmp_path / "key"
        arguments = ("--target", str(STORIES), "--drafter", "lookup", "--draft-length", "4")
        async with served(*arguments, "--port", "0", "--key-file", str(key)) as process:
            assert process.stdout is not None
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


@pytest.mark.slow
def test_two_models_answer_in_turn_and_at_once_and_leave_when_idle(tmp_path: Path) -> None:
    shutil.copytree(STORIES, tmp_path / "twin")
    pair = ("--target", str(STORIES), "--drafter", "lookup", "--draft-length", "4")
    several = ("--allow", str(tmp_path / "twin"), "--keep", "2s", "--port", "0")

    async def ask() -> None:
        async with served(*pair, *several) as process:
            assert process.stdout is not None
            line = (await process.stdout.readline()).decode()
            (address,) = re.findall(r"http://127\.0\.0\.1:\d+", line)
            async with AsyncClient(base_url=address, timeout=120) as client:

                async def said(model: str) -> str:
                    body = {**BODY, "model": model, "max_tokens": 20, "temperature": 0}
                    answer = (await client.post(CHAT, json=body)).json()
                    assert answer["model"] == model
                    return str(answer["choices"][0]["message"]["content"])

                async def loaded() -> list[str]:
                    listed = (await client.get("/v1/models")).json()["data"]
                    return [each["id"] for each in listed if each["state"] == "loaded"]

                first = await said("stories260K")
                assert await said("twin") == first
                texts = await asyncio.gather(*map(said, ("twin", "stories260K") * 3))
                assert set(texts) == {first}
                while await loaded():
                    await asyncio.sleep(0.1)
                assert not psutil.Process(process.pid).children()
                assert (await client.get("/health")).status_code == 200
                assert await said("twin") == first
                assert await loaded() == ["twin"]
                unknown = await client.post(CHAT, json={**BODY, "model": "gpt-9"})
                assert unknown.status_code == 404

    run(ask(), seconds=300)


@pytest.mark.slow
def test_attached_it_loads_other_models_itself() -> None:
    async def ask() -> None:
        async with served("--attached", "--port", "0", "--allow", str(STORIES)) as process:
            assert process.stdin is not None
            window = Window(process, [], [])
            taking = asyncio.create_task(window.take())
            address = (await window.until("address")).address
            async with AsyncClient(base_url=address, timeout=120) as client:
                assert (await client.post(CHAT, json=BODY)).status_code == 503
                send(process.stdin, LOADED)
                named = {**BODY, "model": "stories260K", "max_tokens": 5}
                answer = (await client.post(CHAT, json=named)).json()
                assert answer["model"] == "stories260K"
                assert not window.taken
                answer = (await client.post(CHAT, json=BODY)).json()
                assert answer["model"] == "tiny"
                while [model.state for model in window.statuses[-1].models] != ["loaded"] * 2:
                    await asyncio.sleep(0.05)
            process.stdin.close()
            assert await process.wait() == 0
            await taking

    run(ask(), seconds=180)


async def _talk(client: AsyncClient) -> None:
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


async def _complete(client: AsyncClient) -> None:
    path = "/v1/completions"
    body = {
        "prompt": "Once upon a time",
        "max_tokens": 12,
        "temperature": 0,
        "repetition_penalty": 1,  # or what is written has other probabilities than what is read
    }
    (written,) = (await client.post(path, json=body)).json()["choices"]
    echo = {**body, "echo": True, "logprobs": 1}
    (echoed,) = (await client.post(path, json=echo)).json()["choices"]
    assert echoed["text"] == f"{body['prompt']}{written['text']}"
    scores = echoed["logprobs"]
    assert len({len(values) for values in scores.values()}) == 1
    assert scores["token_logprobs"][0] is None
    assert all(score <= 0 for score in scores["token_logprobs"][1:])
    # What was written greedily is the likeliest, also where it is read as a prompt.
    again = {**echo, "prompt": echoed["text"], "max_tokens": 0}
    (read,) = (await client.post(path, json=again)).json()["choices"]
    assert read["text"] == echoed["text"]
    pairs = zip(read["logprobs"]["token_logprobs"], scores["token_logprobs"], strict=False)
    assert all(left == pytest.approx(right, abs=1e-4) for left, right in [*pairs][1:-1])
    predicted = {**BODY, "temperature": 0, "max_tokens": 30}
    plain = (await client.post(CHAT, json=predicted)).json()["choices"][0]["message"]["content"]
    guess = {"type": "content", "content": plain[:-9] + " wrong"}
    guessed = (await client.post(CHAT, json={**predicted, "prediction": guess})).json()
    assert guessed["choices"][0]["message"]["content"] == plain
    details = guessed["usage"]["completion_tokens_details"]
    assert details["accepted_prediction_tokens"] > 0


async def _hold_to_a_schema(client: AsyncClient) -> None:
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
