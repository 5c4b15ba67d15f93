"""Several pairs: which one a client means, when each is loaded and unloaded, and for whom there is
no memory."""

import asyncio
import json
import shutil
from contextlib import asynccontextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from threading import get_ident

import pytest

from engine.events import Done, Failed, Text
from engine.process.protocol import Cancel, Count, Generate, Load, Macs, Memory
from engine.request import ChatMessage, Prompt, Request
from engine.server import answers, models
from engine.server.child import EngineChild
from engine.server.errors import Refusal
from engine.server.link import EngineFailed, EngineLink
from engine.server.pair import Room
from engine.server.pool import Pair, Pool, keep_seconds
from engine.server.service import Service
from models.errors import Problem
from models.memory.machine import Machine
from models.records import Fit
from tests.support.engine.asking import client_of, engine, until
from tests.support.engine.scripted_host import (
    LOST,
    ScriptedHost,
    joined,
    newest_child,
    saying,
    script,
    scripted,
    told,
)

HANG = json.dumps({"say": ["a "], "then": "hang"})
SLOWLY = saying(*["word "] * 40, delay=0.005)
TORN = Problem("The weights are torn.", "Fetch them again.")
CHAT = {"messages": [{"role": "user", "content": "hi"}]}
STORIES = str(Path(__file__).parents[2] / "data" / "stories260K")
MB = 1_000_000


class ScriptedChild(EngineChild):
    """An engine in this event loop. Attributes: `lives`, how often it was started; `host`, the
    newest; `gate`: it is loaded once this is set; `problem`: why it cannot be loaded."""

    def __init__(self, link, load, *, play=told):
        super().__init__(link, load)
        self._play = play
        self.link = link
        self.host = ScriptedHost(play)
        self.lives = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.problem = None

    async def run(self, loaded):
        self.lives += 1
        await self.gate.wait()
        if self.problem is not None:
            raise self.problem
        self.host = ScriptedHost(self._play)
        async with joined(self.link, self.host):
            await self.link.load(self.load)
            loaded.set_result(None)
            await asyncio.Event().wait()


class MadeUpRoom(Room):
    """A machine with `total` MB. A pair takes what `sizes` say of its model, in MB, and 100 kB for
    its answers."""

    def __init__(self, total, **sizes):
        super().__init__()
        self.total, self.sizes = total, sizes

    async def taken(self, pair):
        size = self.sizes.get(Path(pair.target).name)
        return None if size is None else Fit("", "", 100, size * MB, 100_000, *[0] * 5, True, "")

    async def require(self, pair, *, staying, leaving=()):
        free = self.total * MB - sum(fit.needed_bytes for fit in staying)
        needed = (await self.taken(pair)).needed_bytes
        if needed > free:
            raise Problem(f"It needs {needed}, and {free} are available.", "Choose a smaller one.")


class Pooled:
    """A pool, a client of its server, and its children by name."""

    def __init__(self, pool, client, children):
        self.pool, self.client, self.children = pool, client, children

    async def asked(self, model, said="hello", **more):
        """The response to a chat with a model."""
        body = {"messages": [{"role": "user", "content": said}], **more}
        named = {} if model is None else {"model": model}
        return await self.client.post("/v1/chat/completions", json={**named, **body})

    @property
    def loaded(self):
        """The models that are loaded now."""
        return [each.name for each in self.pool.statuses if each.state == "loaded"]


@asynccontextmanager
async def pooled(
    *names, room=None, play=told, window=None, aliases=None, keep_seconds=float("inf")
):
    """A server of these models, none of which is loaded; `window`: with its engine as the first."""
    children = {}
    pairs = [] if window is None else [Pair(window)]
    for name in names:
        link = EngineLink()
        children[name] = ScriptedChild(link, Load(name, f"/models/{name}"), play=play)
        pairs.append(Pair(link, children[name], name=name, keep_seconds=keep_seconds))
    room = room or MadeUpRoom(0)
    pool = Pool(pairs, aliases=aliases or {}, room=room, tick_seconds=0.01)
    tending = asyncio.create_task(pool.tend())
    try:
        async with client_of(Service(pool)) as client:
            yield Pooled(pool, client, children)
    finally:
        tending.cancel()
        await asyncio.gather(tending, return_exceptions=True)
        await pool.close()


async def left(*tasks):
    """Clients go before they have their answers."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def content(answer):
    return answer.json()["choices"][0]["message"]["content"]


async def test_a_name_chooses_the_pair():
    aliases = {"claude-*": "org/small", "gone": "nowhere", "any": ""}
    async with pooled("big", "org/small", "a/twin", "b/twin", aliases=aliases) as served:
        for model, meant in {
            "": "big",
            "BIG": "big",
            "big:latest": "big",
            "org/small": "org/small",
            "Small": "org/small",
            "claude-haiku-9": "org/small",
            "any": "big",
            "b/twin": "b/twin",
        }.items():
            assert served.pool.named(model).name == meant
        for model in ("other", "gone", "twin", "/models/big", "../big"):
            with pytest.raises(Refusal) as refused:
                served.pool.named(model)
            assert (refused.value.status, refused.value.param) == (404, "model")
            assert "org/small" in refused.value.message


async def test_all_endpoints_take_the_model(monkeypatch):
    read_in = []  # these threads: a slow disk holds no stream up
    monkeypatch.setattr(models, "context_of", lambda target: read_in.append(get_ident()))
    async with pooled("one", "two") as served:
        for path, body in (
            ("/v1/completions", {"prompt": "hi"}),
            ("/v1/responses", {"input": "hi"}),
            ("/v1/messages", CHAT | {"max_tokens": 5}),
        ):
            answer = await served.client.post(path, json=body | {"model": "two"})
            assert answer.json()["model"] == "two"
        counting = CHAT | {"model": "two"}
        counted = await served.client.post("/v1/messages/count_tokens", json=counting)
        assert counted.json() == {"input_tokens": 1}
        unknown = await served.client.post("/v1/messages", json={"model": "three"})
        assert (unknown.status_code, unknown.json()["error"]["type"]) == (404, "not_found_error")
        assert served.loaded == ["two"]
        listed = (await served.client.get("/v1/models")).json()["data"]
        states = {each["id"]: each["state"] for each in listed}
        assert states == {"one": "not-loaded", "two": "loaded"}
        one = (await served.client.get("/v1/models/one")).json()
        assert (one["id"], one["state"]) == ("one", "not-loaded")
        assert len(read_in) == 2
        assert get_ident() not in read_in
        missing = await served.client.get("/v1/models/three")
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")
        assert (await served.client.get("/health")).status_code == 200


async def test_the_least_recently_used_makes_room():
    room = MadeUpRoom(100, one=40, two=40, three=40)
    async with pooled("one", "two", "three", room=room) as served:
        for model in ("one", "two", "one", "three"):
            assert content(await served.asked(model)) == "You said: hello "
        assert served.loaded == ["one", "three"]
        assert content(await served.asked("two")) == "You said: hello "
        assert served.loaded == ["two", "three"]
        reckon, writing = room.require, []

        async def asked_meanwhile(pair, **more):
            await reckon(pair, **more)
            if not writing:
                writing.append(asyncio.create_task(served.asked("three", HANG)))
                await until(lambda: served.children["three"].host.running)

        room.require = asked_meanwhile
        assert (await served.asked("one")).status_code == 200
        assert "two" not in served.loaded
        assert not writing[0].done()
        await left(*writing)


async def test_one_that_is_too_large_is_refused_and_the_others_stay():
    room = MadeUpRoom(100, one=40, two=40, huge=101)
    async with pooled("one", "two", "huge", room=room, play=SLOWLY) as served:
        await served.asked("two")
        writing = asyncio.create_task(served.asked("one"))
        await until(lambda: served.children["one"].host.running)
        refused = await served.asked("huge")
        assert refused.status_code == 503
        error = refused.json()["error"]
        assert (error["code"], error["param"]) == ("insufficient_memory", "model")
        assert str(100 * MB) in error["message"]
        assert refused.headers["x-should-retry"] == "false"
        assert content(await writing) == "word " * 40
        assert served.loaded == ["one", "two"]
        assert served.children["huge"].lives == 0


async def test_while_others_are_in_use_a_load_is_refused_until_they_are_idle():
    async with pooled("one", "two", room=MadeUpRoom(100, one=60, two=60)) as served:
        writing = asyncio.create_task(served.asked("one", HANG))
        await until(lambda: served.children["one"].host.running)
        refused = await served.asked("two")
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (503, "insufficient_memory")
        assert str(40 * MB - 100_000) in error["message"]
        assert "in use" in error["message"]
        assert refused.headers["x-should-retry"] == "true"
        assert int(refused.headers["retry-after"]) > 0
        body = CHAT | {"model": "two", "max_tokens": 60}
        anthropic = await served.client.post("/v1/messages", json=body)
        assert anthropic.json()["error"]["type"] == "overloaded_error"
        assert served.loaded == ["one"]
        await left(writing)
        assert content(await served.asked("two")) == "You said: hello "
        assert served.loaded == ["two"]


async def test_who_is_idle_is_unloaded_and_loaded_again_when_asked():
    async with pooled("one", "two", keep_seconds=0.05) as served:
        await served.asked("one")
        writing = asyncio.create_task(served.asked("two", HANG))
        await until(lambda: served.loaded == ["two"])
        assert (await served.client.get("/health")).status_code == 200
        assert content(await served.asked("one")) == "You said: hello "
        assert "two" in served.loaded, "it is in use"
        await left(writing)
        await until(lambda: not served.loaded)


async def test_a_request_says_how_long_its_pair_stays():
    async with pooled("one") as served:
        (one,) = served.pool.pairs
        async with served.pool.using(one, keep_seconds=0.0):
            await asyncio.sleep(0.03)
            assert (served.loaded, one.expires) == (["one"], inf)
        await until(lambda: not served.loaded)
        served.children["one"].problem = TORN
        with pytest.raises(Refusal):
            async with served.pool.using(one, keep_seconds=0.0):
                pass
        served.children["one"].problem = None
        unload = await served.client.post("/api/generate", json={"model": "one", "keep_alive": 0})
        assert unload.status_code == 200
        async with served.pool.using(one):
            pass
        assert one.expires == inf
        async with served.pool.using(one, keep_seconds=60.0):
            pass
        assert one.expires < inf
    times = {"10m": 600, "1h30m": 5400, "90": 90, "0": 0, "1.5s": 1.5, "250ms": 0.25, "-1": inf}
    assert {text: keep_seconds(text) for text in times} == times  # as Ollama has them
    for text in ("", "m", "10 m", "10x", "nan", "inf", "1e9", "--1"):
        with pytest.raises(Problem):
            keep_seconds(text)


async def test_a_load_keeps_clients_waiting_and_disturbs_no_stream(monkeypatch):
    monkeypatch.setattr(answers, "WAITING_SECONDS", 0.01)

    async with pooled("one", "two", play=SLOWLY) as served:
        await served.asked("one", max_tokens=1)
        gate = served.children["two"].gate
        gate.clear()
        body = CHAT | {"model": "two", "stream": True, "max_tokens": 100}
        loading = [
            asyncio.create_task(served.asked("two", stream=True)),
            asyncio.create_task(served.client.post("/v1/messages", json=body)),
        ]
        assert content(await served.asked("one")) == "word " * 40
        assert (await served.client.get("/v1/models/two")).json()["state"] == "loading"
        gate.set()
        openai, anthropic = await asyncio.gather(*loading)
        assert openai.text.startswith(": ")
        assert openai.text.endswith("data: [DONE]\n\n")
        assert anthropic.text.startswith("event: ping")
        assert "message_stop" in anthropic.text
        assert [child.lives for child in served.children.values()] == [1, 1]


async def test_a_load_that_fails_is_an_error_in_time(monkeypatch):
    async with pooled("one", "two") as served:
        two = served.children["two"]
        two.problem = TORN
        refused = await served.asked("two", stream=True)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "model_not_loaded")
        monkeypatch.setattr(answers, "WAITING_SECONDS", 0.01)
        two.gate.clear()
        late = asyncio.create_task(served.asked("two", stream=True))
        await until(lambda: two.lives == 2)
        await asyncio.sleep(0.05)
        two.gate.set()
        lines = (await late).text.strip().split("\n\n")
        assert json.loads(lines[-1].removeprefix("data: "))["error"]["code"] == "model_not_loaded"
        two.problem = None
        for model in ("two", "one"):
            assert content(await served.asked(model)) == "You said: hello "


async def test_who_leaves_while_a_model_loads_leaves_nothing_behind():
    async with pooled("one", keep_seconds=0.0) as served:
        child = served.children["one"]
        child.gate.clear()
        leaving = asyncio.create_task(served.asked("one", stream=True))
        await until(lambda: child.lives == 1)
        await left(leaving)
        assert served.pool.pairs[0].users == 0
        child.gate.set()
        await until(lambda: served.pool.pairs[0].state == "not loaded")
        child.gate.clear()
        waiting = asyncio.create_task(served.asked("one"))
        await until(lambda: child.lives == 2)
        await served.pool.close()
        for refused in (await waiting, await served.asked("one")):
            assert refused.status_code == 503
        assert child.lives == 2


async def test_the_windows_pair_is_one_of_them_and_has_precedence():
    room = MadeUpRoom(100, mine=60, other=30, large=75)
    async with (
        scripted(target="/models/mine") as (link, host),
        pooled("mine", "other", "large", room=room, window=link) as served,
    ):
        names = [each.name for each in served.pool.statuses]
        assert names == ["mine", "other", "large"]
        for model in (None, "mine", "other"):
            assert (await served.asked(model)).json()["model"] == (model or "mine")
        assert served.children["mine"].lives == 0
        assert (await served.asked("large")).status_code == 503, "the window's own stays"
        assert served.loaded == ["mine", "other"]
        assert sum(isinstance(each, Generate) for each in host.taken) == 2
        await link.load(served.children["large"].load)
        await until(lambda: served.loaded == ["large"])
        assert (await served.asked("other")).status_code == 503


# Whether there is memory for a pair, by the numbers of its files

STORY = Load("l", STORIES, "lookup")


async def taken(pair, here):
    return await Room(lambda: here).taken(pair)


def machine(available_bytes, *, unified=True):
    return Machine("m", 1 << 34, available_bytes, unified=unified)


@pytest.mark.parametrize("unified", [True, False])
async def test_a_pair_needs_room_beside_the_others_and_more_with_a_longer_context(unified):
    fit = await taken(STORY, machine(1 << 33))
    short = await taken(replace(STORY, memory=Memory(64)), machine(1 << 33))
    assert short.held_bytes == fit.held_bytes > 0
    assert short.needed_bytes < fit.needed_bytes

    async def require(pairs, staying=(), **others):
        here = machine(int(pairs * fit.needed_bytes), unified=unified)
        await Room(lambda: here).require(STORY, staying=[*staying], **others)

    await require(1.1)
    for pairs, staying in ((0.2, ()), (1.1, [fit] * 9)):
        with pytest.raises(Problem):
            await require(pairs, staying)
    await require(10.1, [fit] * 9)
    if not unified:  # where there is no limit, the weights come back
        await require(0.2, leaving=[fit] * 9)


async def test_what_is_not_known_is_not_refused_and_is_weighed_again(tmp_path):
    room, late = Room(lambda: machine(1 << 33)), replace(STORY, target=str(tmp_path / "late"))
    assert await room.taken(late) is None
    shutil.copytree(STORIES, tmp_path / "late")
    assert await room.taken(late) is not None
    none, unknown = machine(0), Load("l", str(tmp_path))
    assert await taken(unknown, none) is None
    assert await taken(replace(STORY, macs=Macs("/hosts.json")), none) is None
    await Room(lambda: none).require(unknown, staying=[])


# One engine, and the generations that run in it; as a child it is killed and started again


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
