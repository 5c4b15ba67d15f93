"""Who may ask now."""

import asyncio

import pytest

from engine.server.service import MOST_WAITING
from tests.support.engine.asking import asking
from tests.support.engine.scripted_host import LOADED, script

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "hello"}]}


def hanging(command):
    return script("a", id=command.id, then="hang")


@pytest.mark.parametrize("most_waiting", [2, MOST_WAITING])
async def test_who_comes_when_too_many_wait_is_told_when_to_come_again(most_waiting):
    async with asking(hanging, most_waiting=most_waiting) as (client, host):
        most = LOADED.parallel + most_waiting
        waiting = [asyncio.create_task(client.post(CHAT, json=BODY)) for _ in range(most)]
        while len(host.running) < most:
            await asyncio.sleep(0.01)
        refused = await client.post(CHAT, json=BODY)
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "5"
        assert refused.headers["x-should-retry"] == "true"
        assert refused.json()["error"]["code"] == "rate_limit_exceeded"
        anthropic = await client.post("/v1/messages", json={**BODY, "max_tokens": 1})
        assert anthropic.json()["error"]["type"] == "rate_limit_error"
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_health_and_models_are_answered_while_answers_are_written():
    async with asking(hanging) as (client, host):
        writing = asyncio.create_task(client.post(CHAT, json=BODY))
        while not host.running:
            await asyncio.sleep(0.01)
        assert (await client.get("/health")).status_code == 200
        counted = await client.post("/v1/messages/count_tokens", json=BODY)
        assert counted.json() == {"input_tokens": 1}
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
