"""One engine, and the generations that run in it."""

import asyncio
from dataclasses import replace

import pytest

from engine.events import Done, Failed
from engine.process.protocol import Cancel, Count, Generate, Load
from engine.request import ChatMessage, Prompt, Request
from engine.server.link import EngineFailed
from tests.support.engine.scripted_host import script, scripted

HELLO = Prompt(messages=(ChatMessage("user", "hello you"),))


def endless(command):
    return script(*["more "] * 100_000, id=command.id)


async def test_how_to_think_holds_where_a_request_does_not_say():
    async with scripted(thinking="low", thinking_budget=9) as (link, host):
        for request in (Request(), Request(thinking="off", thinking_budget=5)):
            async with link.generate(HELLO, request) as events:
                assert [event async for event in events]
            await link.count(HELLO, request.thinking)
        asked = [command.request for command in host.taken if isinstance(command, Generate)]
        assert [(one.thinking, one.thinking_budget) for one in asked] == [("low", 9), ("off", 5)]
        assert all(one.keep_instructions for one in asked)
        counted = [command for command in host.taken if isinstance(command, Count)]
        assert [one.thinking for one in counted] == ["low", "off"]


async def test_to_leave_a_generation_cancels_it_and_it_is_forgotten():
    async with scripted(endless) as (link, host):
        async with link.generate(HELLO, Request()) as events:
            await anext(events)
        assert link.open == 1
        while link.open:
            await asyncio.sleep(0.01)
        assert [c.id for c in host.taken if isinstance(c, Cancel)] == [events.id]


async def test_the_death_of_the_engine_fails_what_is_open():
    def dying(command):
        return script("a", id=command.id, then="die")

    async with scripted(dying) as (link, _):
        async with link.generate(HELLO, Request()) as events:
            last = [event async for event in events][-1]
        assert isinstance(last, Failed)
        assert last.cause == "engine"
        assert link.loaded is None
        assert link.open == 0
        async with link.generate(HELLO, Request()) as events:
            assert [type(event) async for event in events] == [Failed]
        with pytest.raises(EngineFailed):
            await link.count(HELLO)


async def test_what_nobody_reads_ends_and_does_not_hold_the_others_up(monkeypatch):
    monkeypatch.setattr("engine.server.link._MOST_EVENTS", 500)

    async with scripted(endless) as (link, _), link.generate(HELLO, Request()) as ignored:
        while not ignored.over:
            await asyncio.sleep(0.01)
        last = [event async for event in ignored][-1]
        assert isinstance(last, Failed)


async def test_the_newest_remark_on_an_answer_is_kept_until_another_pair_is_loaded():
    def remarked(command):
        for step in script("Hello.", id=command.id):
            yield replace(step, remark="It drafts no more.") if isinstance(step, Done) else step

    async with scripted(remarked) as (link, _):
        async with link.generate(HELLO, Request()) as events:
            assert [event async for event in events]
        assert link.remark == "It drafts no more."
        await link.load(Load("other", "/models/other"))
        assert link.remark == ""
