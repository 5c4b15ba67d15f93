"""One engine, and the generations that run in it."""

import asyncio
from dataclasses import replace

import pytest

from engine.events import Done, Failed, Text
from engine.process.protocol import Cancel, Count, Generate, Load
from engine.request import ChatMessage, Prompt, Request
from engine.server.link import EngineFailed
from tests.support.engine.asking import run
from tests.support.engine.scripted_host import script, scripted

HELLO = Prompt(messages=(ChatMessage("user", "hello you"),))


def endless(command):
    return script(*["more "] * 100_000, id=command.id)


def test_the_events_of_an_answer_come_in_order_and_end():
    async def answer():
        async with scripted() as (link, _), link.generate(HELLO, Request()) as events:
            return [event async for event in events]

    events = run(answer())
    assert "".join(e.delta for e in events if isinstance(e, Text)) == "You said: hello you "
    assert isinstance(events[-1], Done)


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


def test_generations_side_by_side_get_their_own_events():
    async def one(link, word):
        prompt = Prompt(text=word)
        async with link.generate(prompt, Request()) as events:
            return "".join([e.delta async for e in events if isinstance(e, Text)])

    async def several():
        async with scripted() as (link, _):
            return await asyncio.gather(*(one(link, f"w{n}") for n in range(20)))

    assert run(several()) == [f"You said: w{n} " for n in range(20)]


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


def test_tokens_are_counted_while_an_answer_is_written():
    async def count():
        async with scripted(endless) as (link, _), link.generate(HELLO, Request()) as events:
            await anext(events)
            return (await link.count(HELLO)).tokens

    assert run(count()) == 2


async def test_what_nobody_reads_ends_and_does_not_hold_the_others_up(monkeypatch):
    monkeypatch.setattr("engine.server.link._MOST_EVENTS", 500)

    async with scripted(endless) as (link, _), link.generate(HELLO, Request()) as ignored:
        while not ignored.over:
            await asyncio.sleep(0.01)
        last = [event async for event in ignored][-1]
        assert isinstance(last, Failed)


def test_the_newest_remark_on_an_answer_is_kept():
    """Until another pair is loaded."""

    def remarked(command):
        for step in script("Hello.", id=command.id):
            yield replace(step, remark="It drafts no more.") if isinstance(step, Done) else step

    async def ask():
        async with scripted(remarked) as (link, _):
            async with link.generate(HELLO, Request()) as events:
                assert [event async for event in events]
            remarks = [link.remark]
            await link.load(Load("other", "/models/other"))
            return [*remarks, link.remark]

    assert run(ask()) == ["It drafts no more.", ""]
