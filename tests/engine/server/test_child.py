"""The engine as a child: loaded, killed, started again."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from engine.events import Done, Failed, Text
from engine.process.protocol import Load, Macs
from engine.request import Prompt, Request
from engine.server.child import EngineChild
from engine.server.link import EngineLink
from engine.server.pool import Pair
from models.errors import Problem
from tests.support.engine.scripted_host import LOST, command, newest_child

TINY = "/models/tiny"
HELLO = Prompt(text="hello")
LONG = Prompt(text='{"say": ["a", "b"], "then": "hang"}')
SCRIPTED = command()


@asynccontextmanager
async def engine(target=TINY, *, macs=None, command=SCRIPTED, hangs_seconds=60.0):
    deaths = []
    link = EngineLink()
    load = Load("l", target, macs=macs or Macs())
    child = EngineChild(
        link,
        load,
        command=command,
        waits_seconds=(0.01,),
        hangs_seconds=hangs_seconds,
        report=deaths.append,
    )
    loaded = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(child.run(loaded))
    try:
        await asyncio.wait((running, loaded), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        yield link, deaths
    finally:
        loaded.cancel()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def said(link, prompt):
    async with link.generate(prompt, Request()) as events:
        return "".join([event.delta async for event in events if isinstance(event, Text)])


async def test_it_is_ended_and_started_again():
    pair = Pair(link := EngineLink(), EngineChild(link, Load("l", TINY), command=command()))
    for _ in range(2):
        await pair.start()
        assert (pair.state, await said(link, HELLO)) == ("loaded", "You said: hello ")
        async with link.generate(LONG, Request()) as events:
            await anext(events)
            await pair.stop()
            assert isinstance([event async for event in events][-1], Done | Failed)
        assert pair.state == "not loaded"


async def test_a_pair_that_cannot_be_loaded_is_a_problem():
    with pytest.raises(Problem) as caught:
        async with engine("nowhere"):
            pass
    assert caught.value.message == "The model was not found."
    assert caught.value.remedy == "Choose another."


async def test_a_program_that_is_no_engine_is_a_problem():
    with pytest.raises(Problem):
        async with engine(command=("sh", "-c", "echo hello; exec cat >&2")):
            pass


async def test_an_engine_that_hangs_or_loses_a_mac_is_there_again():
    async with engine(macs=Macs("/two.json"), hangs_seconds=1.0) as (link, deaths):
        states = []
        link.ranks_changed = lambda: states.append([rank.state for rank in link.ranks])
        lost = Prompt(text='{"say": ["a"], "then": "lose"}')
        for number, prompt in enumerate((lost, LONG), start=1):
            before = newest_child()
            async with link.generate(prompt, Request()) as events:
                last = [event async for event in events][-1]
            assert isinstance(last, Failed)
            assert ((last.message, last.remedy) == LOST) == (prompt is lost)
            assert last.cause == "engine"
            while len(states) < number or link.loaded is None:
                await asyncio.sleep(0.01)
            assert link.loaded.macs == Macs("/two.json")
            assert await said(link, HELLO) == "You said: hello "
            assert newest_child() != before
        assert states == [["ready", "ready"]] * 2
        assert [LOST[0] in death for death in deaths] == [True, False]


@pytest.mark.slow
async def test_an_engine_that_is_slow_or_has_nothing_to_do_does_not_hang():
    async with engine(hangs_seconds=2.0) as (link, deaths):
        first = newest_child()
        await asyncio.sleep(3.0)
        slow = Prompt(text='{"say": ["a", "b", "c", "d", "e"], "delay": 0.6}')
        assert await said(link, slow) == "abcde"
        assert (newest_child(), deaths) == (first, [])
