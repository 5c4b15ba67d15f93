"""Several pairs: which one a client means, when each is loaded and unloaded, and for whom there is
no memory."""

import asyncio
import json
import shutil
from dataclasses import replace
from math import inf
from pathlib import Path
from threading import get_ident

import pytest

from engine.process.protocol import Generate, Load, Macs, Memory
from engine.request import Prompt, Request
from engine.server import answers, models
from engine.server.errors import Refusal
from engine.server.link import EngineLink
from engine.server.pair import Room
from engine.server.pool import Pair, Pool, keep_seconds
from models.errors import Problem
from models.memory.machine import Machine
from tests.support.engine.asking import until
from tests.support.engine.pooled import MB, ScriptedChild, pooled, sized
from tests.support.engine.scripted_host import saying, scripted

HANG = json.dumps({"say": ["a "], "then": "hang"})
SLOWLY = saying(*["word "] * 40, delay=0.005)
TORN = Problem("The weights are torn.", "Fetch them again.")
CHAT = {"messages": [{"role": "user", "content": "hi"}]}
STORIES = str(Path(__file__).parents[2] / "data" / "stories260K")


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


async def test_two_models_are_asked_in_turn_and_at_once():
    async with pooled("one", "two") as served:
        assert served.loaded == []
        for model in ("one", "two", "one"):
            answer = await served.asked(model)
            assert (answer.json()["model"], content(answer)) == (model, "You said: hello ")
        answers = await asyncio.gather(*(served.asked(model) for model in ("two", "one") * 4))
        assert [each.json()["model"] for each in answers] == ["two", "one"] * 4
        assert served.loaded == ["one", "two"]
        assert [child.lives for child in served.children.values()] == [1, 1]
        for model, child in served.children.items():
            asked = [each for each in child.host.taken if isinstance(each, Generate)]
            assert len(asked) == {"one": 6, "two": 5}[model]


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
    room = sized(100, one=40, two=40, three=40)
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
    room = sized(100, one=40, two=40, huge=101)
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
    async with pooled("one", "two", room=sized(100, one=60, two=60)) as served:
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


class LateChild(ScriptedChild):
    """An engine that ends once it may."""

    def __init__(self, link, load):
        super().__init__(link, load)
        self.ending, self.may_end, self.over = asyncio.Event(), asyncio.Event(), False

    async def run(self, loaded):
        try:
            await super().run(loaded)
        finally:
            self.ending.set()
            await self.may_end.wait()
            self.over = True


async def test_a_server_that_ends_while_it_unloads_a_model_waits_for_its_engine():
    child = LateChild(EngineLink(), Load("one", "/models/one"))
    pair = Pair(child.link, child, name="one", keep_seconds=0.0)
    pool = Pool([pair], tick_seconds=0.001)
    tending = asyncio.create_task(pool.tend())
    async with pool.using(pair):
        pass
    await child.ending.wait()
    await left(tending)
    child.may_end.set()
    await pool.close()
    assert child.over


async def test_idle_models_leave_also_after_the_window_has_lost_its_own_meanwhile():
    room, dying = sized(100, mine=30, one=30, two=30, large=75), {"say": [], "then": "die"}
    async with (
        scripted(target="/models/mine") as (link, _),
        pooled("one", "two", "large", room=room, window=link) as served,
    ):
        await served.asked("one")
        await served.asked("two")
        reckon = room.require

        async def lost_meanwhile(pair, **more):
            try:
                await reckon(pair, **more)
            finally:
                async with link.generate(Prompt(text=json.dumps(dying)), Request()) as events:
                    assert [event async for event in events]

        room.require = lost_meanwhile
        await link.load(served.children["large"].load)
        await until(lambda: "one" not in served.loaded)
        await served.client.post("/api/generate", json={"model": "two", "keep_alive": 0})
        await until(lambda: not served.loaded)


async def test_the_windows_pair_is_one_of_them_and_has_precedence():
    room = sized(100, mine=60, other=30, large=75)
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
