"""One engine, and the generations that run in it; as a child it is killed and started again."""

import asyncio
import json
from dataclasses import replace

import pytest

from engine.events import Done, Failed, Text
from engine.process.protocol import Cancel, Count, Generate, Load, Macs
from engine.request import ChatMessage, Prompt, Request
from engine.server.child import EngineChild
from engine.server.link import EngineFailed, EngineLink
from engine.server.pool import Pair
from models.errors import Problem
from tests.support.engine.asking import SCRIPTED, engine, until
from tests.support.engine.scripted_host import LOST, newest_child, saying, script, scripted

ENDLESS = saying(*["more "] * 100_000)
HELLO = Prompt(messages=(ChatMessage("user", "hello you"),))


def prompt(*says, **more):
    """What makes a scripted engine play this."""
    return Prompt(text=json.dumps({"say": says, **more}))


async def test_how_to_think_holds_where_a_request_does_not_say():
    async with scripted(thinking="low", thinking_budget=9) as (link, host):
        for request in (Request(), Request(thinking="off", thinking_budget=0)):
            async with link.generate(HELLO, request) as events:
                assert [event async for event in events]
            await link.count(HELLO, request.thinking)
        asked = [command.request for command in host.taken if isinstance(command, Generate)]
        assert [(one.thinking, one.thinking_budget) for one in asked] == [("low", 9), ("off", 0)]
        assert all(one.keep_instructions for one in asked)
        counted = [command for command in host.taken if isinstance(command, Count)]
        assert [one.thinking for one in counted] == ["low", "off"]


async def test_to_leave_a_generation_cancels_it_and_it_is_forgotten():
    async with scripted(ENDLESS) as (link, host):
        async with link.generate(HELLO, Request()) as events:
            await anext(events)
        assert link.open == 1
        await until(lambda: not link.open)
        assert [c.id for c in host.taken if isinstance(c, Cancel)] == [events.id]


async def test_the_death_of_the_engine_fails_what_is_open():
    async with scripted() as (link, _):
        async with link.generate(prompt("a", then="die"), Request()) as events:
            last = [event async for event in events][-1]
        assert isinstance(last, Failed)
        assert (last.cause, link.loaded, link.open) == ("engine", None, 0)
        async with link.generate(HELLO, Request()) as events:
            assert [type(event) async for event in events] == [Failed]
        with pytest.raises(EngineFailed):
            await link.count(HELLO)


async def test_what_nobody_reads_ends_and_does_not_hold_the_others_up(monkeypatch):
    monkeypatch.setattr("engine.server.link._MOST_EVENTS", 500)

    async with scripted(ENDLESS) as (link, _), link.generate(HELLO, Request()) as ignored:
        await until(lambda: ignored.over)
        assert isinstance([event async for event in ignored][-1], Failed)


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


# As a child

LONG = prompt("a", "b", then="hang")


async def said(link, prompt):
    async with link.generate(prompt, Request()) as events:
        return "".join([event.delta async for event in events if isinstance(event, Text)])


async def test_it_is_ended_and_started_again():
    pair = Pair(
        link := EngineLink(), EngineChild(link, Load("l", "/models/tiny"), command=SCRIPTED)
    )
    for _ in range(2):
        await pair.start()
        assert (pair.state, await said(link, HELLO)) == ("loaded", "You said: hello you ")
        async with link.generate(LONG, Request()) as events:
            await anext(events)
            await pair.stop()
            assert isinstance([event async for event in events][-1], Done | Failed)
        assert pair.state == "not loaded"


async def test_a_pair_that_cannot_be_loaded_and_a_program_that_is_no_engine_are_problems():
    for options, remedy in (
        ({"target": "nowhere"}, "Choose another."),
        ({"command": ("sh", "-c", "echo hello; exec cat >&2")}, ""),
    ):
        with pytest.raises(Problem) as caught:
            async with engine(**options):
                pass
        assert caught.value.remedy == remedy or not remedy


async def test_an_engine_that_hangs_or_loses_a_mac_is_there_again():
    async with engine(macs=Macs("/two.json"), hangs_seconds=1.0) as (link, deaths):
        states = []
        link.ranks_changed = lambda: states.append([rank.state for rank in link.ranks])
        lost = prompt("a", then="lose")
        for number, asked in enumerate((lost, LONG), start=1):
            before = newest_child()
            async with link.generate(asked, Request()) as events:
                last = [event async for event in events][-1]
            assert isinstance(last, Failed)
            assert ((last.message, last.remedy) == LOST) == (asked is lost)
            assert last.cause == "engine"
            await until(lambda: len(states) == number and link.loaded)  # noqa: B023
            assert link.loaded.macs == Macs("/two.json")
            assert await said(link, HELLO) == "You said: hello you "
            assert newest_child() != before
        assert states == [["ready", "ready"]] * 2
        assert [LOST[0] in death for death in deaths] == [True, False]


@pytest.mark.slow
async def test_an_engine_that_is_slow_or_has_nothing_to_do_does_not_hang():
    async with engine(hangs_seconds=2.0) as (link, deaths):
        first = newest_child()
        await asyncio.sleep(3.0)
        assert await said(link, prompt(*"abcde", delay=0.6)) == "abcde"
        assert (newest_child(), deaths) == (first, [])
