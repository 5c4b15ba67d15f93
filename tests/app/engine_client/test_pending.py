"""What is owed, what is stale, and what outlives a death. No process."""

from dataclasses import replace

from app.engine_client.pending import EngineWork, Lost, Work
from engine.events import Done, Failed, Stats, Text
from engine.protocol import (
    Generate,
    Load,
    Loaded,
    Loading,
    Memory,
    Ready,
    SetDrafter,
    Unload,
    Unloaded,
    rival_of,
)
from engine.request import Prompt, Sampling

READY = Ready(1, "", "", "", "")
DONE = Done("g", "stop", Stats())


def generate(id: str) -> Generate:
    return Generate(id, "chat", Prompt())


def loaded(id: str, target: str) -> Loaded:
    return Loaded(id, target, "none", "auto", "float32", 4096, 260, "", Memory(), Sampling())


def with_model(target: str = "/a") -> EngineWork:
    """One whose engine has greeted and loaded."""
    work = EngineWork()
    work.ask(Load("load", target))
    for answer in (READY, Loading("load", target, "none", "auto", 0.0), loaded("load", target)):
        assert work.take(answer) == "process"
    return work


def targets(work: EngineWork) -> list[str]:
    """What a new process is asked to load."""
    return [item.target for item in work.begin() if isinstance(item, Load)]


def test_what_was_unloaded_is_not_loaded_again() -> None:
    work = with_model()
    work.ask(Unload("u"))
    assert work.next == Unload("u")
    work.take(Unloaded("u"))
    assert (work.next, work.loaded) == (None, None)
    work.lose(keep_loads=True)
    assert targets(work) == []


def test_a_load_that_makes_room_first_is_still_owed() -> None:
    work = with_model()
    work.ask(Load("next", "/b"))
    work.take(Unloaded("next"))
    assert work.next == Load("next", "/b")


def test_what_is_loaded_again_has_the_same_memory() -> None:
    work = EngineWork()
    memory = Memory(2048, 8)
    work.ask(Load("load", "/a", memory=memory))
    work.take(READY)
    work.take(replace(loaded("load", "/a"), memory=memory))
    work.lose(keep_loads=True)
    assert [item.memory for item in work.begin() if isinstance(item, Load)] == [memory]


def test_what_is_over_is_stale() -> None:
    work = with_model()
    work.ask(generate("g"))
    assert work.generating
    assert work.take(Text("other", "a")) == "stale"
    assert work.take(Text("g", "a")) == "generation"
    assert work.take(DONE) == "generation"
    assert not work.generating
    for late in (Text("g", "b"), DONE, Failed("g", "m", "r")):
        assert work.take(late) == "stale"
    assert work.take(Failed("", "m", "r")) == "process"


def test_the_plain_answer_of_a_race_is_over_with_the_other() -> None:
    work = with_model()
    work.ask(generate("g"))
    plain = rival_of("g")
    assert work.take(Text(plain, "a")) == "generation"
    assert work.take(Done(plain, "stop", Stats())) == "generation"
    assert work.generating
    assert work.take(Text("g", "a")) == "generation"
    assert work.take(DONE) == "generation"
    assert not work.generating
    assert work.take(Text(plain, "b")) == "stale"


def test_a_generation_is_cancelled_once() -> None:
    work = with_model()
    work.ask(generate("g"))
    assert [work.cancel(id) for id in ("g", "g", "other", "load")] == [True, False, False, False]
    assert work.take(Text("g", "a")) == "generation"
    assert work.take(DONE) == "generation"
    assert not work.cancel("g")


def test_a_death_loses_generations_and_what_had_begun() -> None:
    work = with_model("/a")
    work.ask(Load("b", "/b"))
    work.ask(SetDrafter("d", "lookup"))
    work.ask(generate("g"))
    work.take(Loading("b", "/b", "none", "auto", 0.0))
    work.take(Unloaded("b"))
    assert work.loading
    assert work.lose(keep_loads=True) == Lost(("g",), ("b", "d"))
    assert not work.loading
    assert not work.greeted
    assert work.loaded is None
    assert targets(work) == ["/a"]


def test_a_load_that_had_not_begun_is_done_by_the_next() -> None:
    work = with_model("/a")
    work.ask(Load("b", "/b"))
    assert work.lose(keep_loads=True) == Lost()
    assert targets(work) == ["/b"]
    assert work.lose(keep_loads=False) == Lost((), ("b",))
    assert targets(work) == ["/a"]


def test_what_is_loaded_again_was_asked_for_by_nobody() -> None:
    work = with_model("/a")
    assert work.lose(keep_loads=True) == Lost()
    for _ in range(3):
        assert targets(work) == ["/a"]
        assert work.lose(keep_loads=True) == Lost()
    (load,) = work.begin()
    assert work.take(Loading(load.id, "/a", "none", "auto", 0.0)) == "process"
    assert work.lose(keep_loads=True) == Lost()
    assert targets(work) == ["/a"]


def test_the_drafter_of_the_last_answer_is_loaded_again() -> None:
    work = with_model("/a")
    work.ask(SetDrafter("d", "lookup", "4"))
    work.take(Loading("d", "/a", "lookup", "4", 0.0))
    work.take(Loaded("d", "/a", "lookup", "4", "float32", 4096, 260, "", Memory(), Sampling()))
    work.ask(SetDrafter("e", "nonsense"))
    work.take(Failed("e", "m", "r"))
    work.lose(keep_loads=True)
    (load,) = work.begin()
    assert load == Load(load.id, "/a", "lookup", "4")


def test_what_made_room_for_a_load_that_failed_stays_away() -> None:
    work = with_model("/a")
    work.ask(Load("b", "/b"))
    work.take(Failed("b", "seen before it began", "r"))
    assert work.loaded is not None
    work.ask(Load("b", "/b"))
    work.take(Unloaded("b"))
    work.take(Failed("b", "m", "r"))
    work.lose(keep_loads=True)
    assert targets(work) == []


def test_the_next_comes_in_the_order_it_was_asked_for() -> None:
    work = with_model("/a")
    asked: list[Work] = [generate("g"), Load("b", "/b")]
    for item in asked:
        work.ask(item)
    done: list[Work] = []
    while following := work.next:
        done.append(following)
        work.finish(following.id)
    assert done == asked
