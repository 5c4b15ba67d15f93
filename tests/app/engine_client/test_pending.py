"""What is owed, what is stale, and what outlives a death. No process."""

from dataclasses import replace

import pytest

from app.engine_client.pending import EngineWork, Lost, Work, id_of, is_guest
from engine.cluster.states import RankState
from engine.events import Done, Failed, Stats, Text, Waiting
from engine.protocol import (
    Count,
    Counted,
    Generate,
    Load,
    Loaded,
    Loading,
    Macs,
    Memory,
    Ranks,
    Ready,
    Response,
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
    rest = (Memory(), Sampling(), 4, False, True, Macs())
    return Loaded(id, target, "none", "auto", "float32", 4096, 260, "", *rest)


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


def test_what_is_loaded_again_is_as_it_was_asked_for() -> None:
    work = EngineWork()
    asked = Load(
        "load",
        "/a",
        memory=Memory(2048, 8),
        parallel=2,
        exact=True,
        learn=True,
        keep_bytes=0,
        macs=Macs("/hosts.json", trusted=True, mode="tensor"),
    )
    work.ask(asked)
    work.take(READY)
    work.take(loaded("load", "/a"))
    work.ask(SetDrafter("d", "lookup", "4"))
    work.take(replace(loaded("d", "/a"), drafter="lookup", draft_length="4"))
    work.ask(replace(asked, id="refused", keep_bytes=None))
    work.take(Failed("refused", "seen before it began", "r"))
    for _ in range(2):
        work.lose(keep_loads=True)
        (load,) = work.begin()
        assert load == replace(asked, id=load.id, drafter="lookup", draft_length="4")
        work.take(replace(loaded(load.id, "/a"), drafter="lookup", draft_length="4"))


def test_macs_are_led_until_they_are_left() -> None:
    macs = Macs("/hosts.json")
    work = with_model()
    assert not work.leads(macs)
    work.take(replace(loaded("load", "/a"), macs=macs))
    assert work.leads(Macs("/hosts.json", mode="tensor"))
    assert not work.leads(Macs("/others.json"))
    assert not work.leads(Macs())
    work.ask(Unload("u"))
    assert not work.leads(macs)


def test_macs_that_are_to_be_left_or_led_first_are_not_led() -> None:
    macs = Macs("/hosts.json")
    work = with_model()
    work.ask(Load("b", "/b", macs=macs))
    assert not work.leads(Macs())
    assert not work.leads(macs), "joining them may fail, and is tried once by a process"
    work.take(replace(loaded("b", "/b"), macs=macs))
    work.ask(Load("c", "/c", macs=macs))
    assert work.leads(macs)


def test_the_state_of_macs_is_about_the_process() -> None:
    ranks = Ranks((RankState(0, "127.0.0.1", "ready"),))
    assert id_of(ranks) == ""
    assert with_model().take(ranks) == "process"


def test_what_is_over_is_stale() -> None:
    work = with_model()
    work.ask(generate("g"))
    assert work.generating
    assert work.take(Text("other", "a")) == "stale"
    assert work.take(Text("g", "a")) == "question"
    assert work.take(DONE) == "question"
    assert not work.generating
    for late in (Text("g", "b"), DONE, Failed("g", "m", "r")):
        assert work.take(late) == "stale"
    assert work.take(Failed("", "m", "r")) == "process"


def test_the_plain_answer_of_a_race_is_over_with_the_other() -> None:
    work = with_model()
    work.ask(generate("g"))
    plain = rival_of("g")
    assert work.take(Text(plain, "a")) == "question"
    assert work.take(Done(plain, "stop", Stats())) == "question"
    assert work.generating
    assert work.take(Text("g", "a")) == "question"
    assert work.take(DONE) == "question"
    assert not work.generating
    assert work.take(Text(plain, "b")) == "stale"


def test_a_generation_is_cancelled_once() -> None:
    work = with_model()
    work.ask(generate("g"))
    assert [work.cancel(id) for id in ("g", "g", "other", "load")] == [True, False, False, False]
    assert work.take(Text("g", "a")) == "question"
    assert work.take(DONE) == "question"
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
    work.take(replace(loaded("d", "/a"), drafter="lookup", draft_length="4"))
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


def test_generations_end_in_any_order() -> None:
    work = with_model()
    for id in ("a", "b", "c"):
        work.ask(generate(id))
    assert work.take(Waiting("c", 0)) == "question"
    assert work.take(Done("b", "stop", Stats())) == "question"
    assert work.take(Text("b", "late")) == "stale"
    assert work.next == generate("a")
    assert work.take(Done("a", "stop", Stats())) == "question"
    assert work.next == generate("c")
    assert work.take(Failed("c", "m", "r")) == "question"
    assert not work.generating


def test_a_count_is_answered_once_and_is_no_generation() -> None:
    work = with_model()
    work.ask(Count("http-1", Prompt()))
    assert not work.generating
    assert not work.cancel("http-1")
    assert work.take(Counted("http-1", 7, "")) == "question"
    assert work.take(Counted("http-1", 7, "")) == "stale"
    work.ask(Count("http-2", Prompt()))
    assert work.lose(keep_loads=True) == Lost(("http-2",))


@pytest.mark.parametrize(
    ("answer", "id"),
    [
        (READY, ""),
        (Counted("http-1", 7, ""), "http-1"),
        (Text("http-2", "a"), "http-2"),
        (Unloaded("u"), "u"),
    ],
)
def test_a_response_is_the_guests_by_its_id(answer: Response, id: str) -> None:
    assert id_of(answer) == id
    assert is_guest(id_of(answer)) == id.startswith("http-")
