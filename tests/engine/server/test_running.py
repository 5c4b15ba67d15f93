"""The whole server as a process: with an engine of its own, and attached to another's."""

import asyncio
import re
import shutil
import socket
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
from tests.support.engine.served import served
from tests.support.mostly_slow import mostly_slow

STORIES = Path(__file__).parents[2] / "data" / "stories260K"
CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "Once upon a time"}]}


@dataclass
class Window:
    """The other side of an attached server: answers its commands, and reads its status."""

    process: asyncio.subprocess.Process
    taken: list[object]
    statuses: list[ServerStatus]

    async def take(self):
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

    async def until(self, what):
        """The next status whose `what` is not empty."""
        while not (found := [one for one in self.statuses if getattr(one, what)]):
            await asyncio.sleep(0.01)
        return found[-1]


async def test_attached_it_uses_the_windows_engine_and_tells_what_it_does():
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


async def test_attached_it_says_where_it_cannot_listen():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with served("--attached", "--port", str(port)) as process:
            output, complaint = await process.communicate()
            assert process.returncode == 2
            (line,) = output.splitlines()
            assert str(port) in STATUSES.read(line).problem
            assert complaint.count(b"\n") == 1


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
async def test_what_cannot_be_is_one_line_with_a_remedy(arguments, words):
    async with served("--port", "0", *arguments) as process:
        _, complaint = await process.communicate()
        assert process.returncode == 2
        (line,) = complaint.decode().splitlines()
        assert line.startswith("slipstream: ")
        assert words in line


def test_a_place_that_others_can_reach_needs_a_key():
    with pytest.raises(Problem):
        Place(host="192.0.2.1")
    assert Place(host="192.0.2.1", key="x" * 20).address == "http://192.0.2.1:8737"
    assert Place(host="::1").address == "http://[::1]:8737"


@pytest.mark.slow
def test_two_models_answer_in_turn_and_at_once_and_leave_when_idle(tmp_path):
    shutil.copytree(STORIES, tmp_path / "twin")
    pair = ("--target", str(STORIES), "--drafter", "lookup", "--draft-length", "4")
    several = ("--allow", str(tmp_path / "twin"), "--keep", "2s", "--port", "0")

    async def ask():
        async with served(*pair, *several) as process:
            line = (await process.stdout.readline()).decode()
            (address,) = re.findall(r"http://127\.0\.0\.1:\d+", line)
            async with AsyncClient(base_url=address, timeout=120) as client:

                async def said(model):
                    body = {**BODY, "model": model, "max_tokens": 20, "temperature": 0}
                    answer = (await client.post(CHAT, json=body)).json()
                    assert answer["model"] == model
                    return str(answer["choices"][0]["message"]["content"])

                async def loaded():
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
