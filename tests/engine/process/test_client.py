"""What an engine was asked for, what is stale, and what outlives a death. No process."""

from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from engine.cluster.states import RankState
from engine.events import Done, Failed, Stats, Text
from engine.exactness import Exactness
from engine.process.asking import Garbled, OtherVersion
from engine.process.client import EngineClient
from engine.process.protocol import (
    LONGEST_LINE_BYTES,
    LONGEST_RESPONSE_BYTES,
    PROTOCOL,
    RESPONSES,
    Cancel,
    Count,
    Counted,
    Generate,
    Hurry,
    Keep,
    Kept,
    Load,
    Loaded,
    Loading,
    Macs,
    Memory,
    Ranks,
    Ready,
    SetDrafter,
    Unload,
    Unloaded,
    parse_command,
    rival_of,
)
from engine.request import Prompt, Sampling

READY = Ready(PROTOCOL, "", "", "", "")
DONE = Done("g", "stop", Stats())


def generate(id):
    return Generate(id, "chat", Prompt())


def loaded(id, target):
    rest = (Memory(), Sampling(), 4, Exactness(0), Macs(), (), False, False, False, 0)
    return Loaded(id, target, "none", "auto", "float32", 4096, 260, "", *rest)


def loading(id, target):
    return Loading(id, target, "none", "auto", 0.0)


def hear(client, response):
    return client.hear(RESPONSES.to_line(response))


def started():
    """One whose engine has greeted."""
    client = EngineClient()
    client.begin()
    hear(client, READY)
    return client


def with_model(target="/a"):
    """One whose engine has loaded."""
    client = started()
    client.ask(Load("load", target))
    hear(client, loading("load", target))
    assert hear(client, loaded("load", target))
    sent(client)
    return client


def sent(client):
    """What is to be sent now."""
    return [parse_command(line) for line in client.to_send().splitlines()]


def lost(client, *, another=True):
    """The ids of what fails as the process dies."""
    return [about.id for _, about in client.lose("m", "r", another=another) if about]


def targets(client):
    """What a new process is asked to load."""
    client.begin()
    return [command.target for command in sent(client) if isinstance(command, Load)]


# What is loaded


def test_what_was_unloaded_or_made_room_is_not_loaded_again():
    client = with_model()
    client.ask(Unload("u"))
    assert client.next == Unload("u")
    hear(client, Unloaded("u"))
    assert (client.next, client.loaded) == (None, None)
    assert lost(client) == []
    assert targets(client) == []
    client = with_model()
    client.ask(Load("b", "/b"))
    hear(client, Failed("b", "seen before it began", "r"))
    assert client.loaded is not None
    client.ask(Load("b", "/b"))
    hear(client, Unloaded("b"))
    hear(client, Failed("b", "m", "r"))
    lost(client)
    assert targets(client) == []


def test_what_is_loaded_again_is_as_it_was_asked_for():
    client = started()
    more = {"parallel": 2, "exact": "on", "measure": True, "learn": True, "keep_bytes": 0}
    asked = Load("load", "/a", memory=Memory(2048, 8), macs=Macs("/hosts.json", "tensor"), **more)
    client.ask(asked)
    hear(client, loaded("load", "/a"))
    client.ask(SetDrafter("d", "lookup", "4"))
    hear(client, replace(loaded("d", "/a"), drafter="lookup", draft_length="4"))
    client.ask(replace(asked, id="refused", keep_bytes=None))
    hear(client, Failed("refused", "seen before it began", "r"))
    for _ in range(2):
        assert lost(client) == []
        sent(client)
        client.begin()
        (load,) = sent(client)
        again = {"drafter": "lookup", "draft_length": "4", "measure": False}
        assert load == replace(asked, id=load.id, **again)
        hear(client, replace(loaded(load.id, "/a"), drafter="lookup", draft_length="4"))


def test_macs_are_led_until_they_are_left():
    macs = Macs("/hosts.json")
    client = with_model()
    assert client.suits(macs), "it has led none"
    client.ask(Load("b", "/b", macs=macs))
    assert not client.suits(Macs())
    assert not client.suits(macs), "joining them may fail, and is tried once by a process"
    hear(client, replace(loaded("b", "/b"), macs=macs))
    assert client.suits(replace(macs, mode="tensor"))
    assert not client.suits(Macs("/others.json"))
    assert not client.suits(Macs())
    client.ask(Load("c", "/c", macs=macs))
    assert client.suits(macs)
    client.ask(Unload("u"))
    assert not client.suits(macs)


def test_what_a_process_says_of_itself_is_known_until_another_begins():
    ranks, failed = Ranks((RankState(0, "127.0.0.1", "ready"),)), Failed("", "m", "r")
    client = with_model()
    assert hear(client, ranks) == (ranks, None)
    assert hear(client, ranks) is None, "it is the same"
    assert hear(client, failed) == (failed, None)
    lost(client)
    assert (client.ranks, client.own_failure) == (ranks.ranks, "m")
    client.begin()
    assert (client.ranks, client.own_failure) == ((), "")


# What is asked for


def test_the_plain_answer_of_a_race_is_over_with_the_other():
    client = with_model()
    client.ask(generate("g"))
    plain = rival_of("g")
    assert hear(client, Text(plain, "a"))
    assert hear(client, Done(plain, "stop", Stats()))
    assert client.generating
    assert hear(client, Text("g", "a"))
    assert hear(client, DONE)
    assert not client.generating
    assert hear(client, Text(plain, "b")) is None
    client.ask(Count("c", Prompt()))
    assert not client.generating
    client.cancel("c")
    assert sent(client) == [generate("g"), Count("c", Prompt())]
    assert hear(client, Failed(rival_of("c"), "m", "r")) is None, "only an answer has a rival"
    assert hear(client, Counted("c", 7))
    assert hear(client, Counted("c", 7)) is None


def test_a_generation_that_runs_can_be_hurried_and_is_cancelled_once():
    client = with_model()
    client.hurry("g")
    client.ask(generate("g"))
    for id in ("g", "load"):
        client.hurry(id)
    for id in ("g", "g", "other", "load"):
        assert client.cancel(id) is None
    assert sent(client) == [generate("g"), Hurry("g"), Cancel("g")]
    assert hear(client, DONE)
    client.hurry("g")
    client.cancel("g")
    assert not sent(client)
    lost(client)  # what was not sent is cancelled at once
    assert client.ask(generate("g")) is None
    assert client.cancel("g") == (Done("g", "cancelled", Stats()), generate("g"))
    client.begin()
    assert not any(isinstance(command, Generate) for command in sent(client))


def test_what_cannot_be_asked_is_refused_at_once():
    client = EngineClient(without_engine="r")
    assert client.ask(generate("g")) == Failed("g", "The engine is not running.", "r")
    assert client.ask(Load("l", "/a")) is None, "it is kept for the next engine"
    assert targets(client) == ["/a"]
    assert lost(client, another=False) == ["l"]
    assert isinstance(client.ask(Unload("u")), Failed)
    client = with_model()
    refusal = client.ask(Count("c", Prompt(text="x" * LONGEST_LINE_BYTES)))
    assert refusal.cause == "request"
    assert sent(client) == []


def test_what_is_no_response_is_garbled_and_another_version_is_refused():
    client, before = started(), EngineClient()
    for line in (b"garbage\n", b"{}\n", b"x" * (LONGEST_RESPONSE_BYTES + 1), b"half a li", b""):
        with pytest.raises(Garbled):
            client.hear(line)
        assert client.excuses(line) == (line in (b"half a li", b""))
        assert before.excuses(line)  # a library may have printed it
    before.begin()
    with pytest.raises(OtherVersion):
        hear(before, replace(READY, protocol=PROTOCOL + 1))
    assert not before.greeted


def test_a_death_loses_generations_and_what_had_begun():
    client = with_model("/a")
    client.ask(Load("b", "/b"))
    client.ask(SetDrafter("d", "lookup"))
    client.ask(generate("g"))
    hear(client, loading("b", "/b"))
    hear(client, Unloaded("b"))
    assert client.loading
    assert lost(client) == ["b", "d", "g"]
    assert (client.loading, client.greeted, client.loaded) == (False, False, None)
    assert targets(client) == ["/a"]


# All of it, in any order

ENDS = {
    Load: (Loaded, Failed),
    SetDrafter: (Loaded, Failed),
    Generate: (Done, Failed),
    Count: (Counted, Failed),
    Keep: (Kept, Failed),
    Unload: (Unloaded, Failed),
}
BEFORE_THE_END = {
    Load: (Loading, Unloaded),
    SetDrafter: (Loading, Unloaded),
    Generate: (Text,),
    Count: (),
    Keep: (),
    Unload: (Loading, Loaded),
}
COMMANDS = (
    lambda id: Load(id, f"/{id}"),
    lambda id: SetDrafter(id, "lookup"),
    generate,
    lambda id: Count(id, Prompt()),
    Keep,
    Unload,
)
MADE_UP = (
    lambda id: loading(id, f"/{id}"),
    lambda id: loaded(id, f"/{id}"),
    Unloaded,
    lambda id: Counted(id, 7),
    lambda id: Kept(id, ()),
    lambda id: Text(id, "a"),
    lambda id: Done(id, "stop", Stats()),
    lambda id: Failed(id, "m", "r"),
    lambda id: Text(rival_of(id), "a"),
    lambda id: Done(rival_of(id), "stop", Stats()),
    lambda id: Failed(rival_of(id), "m", "r"),
)
AGO = st.integers(0, 2)  # which command: so many were asked for after it


def running(machine):
    return bool(machine.running)


class AnyEngine(RuleBasedStateMachine):
    """It is asked, answers rightly and wrongly, writes garbage and dies, in any order."""

    def __init__(self):
        super().__init__()
        self.client = EngineClient()
        self.running = self.expected = False
        self.asked = []
        self.open = {}  # accepted, and without an end
        self.begun = ""  # the load that had begun
        self.has = None  # what was loaded at last; None where that is not sure
        self.questions = []  # sent, ever
        self.cancels = []

    def command(self, ago):
        return self.asked[-1 - ago % len(self.asked)]

    def deliver(self, delivery):
        """Take what is passed on; returns whether it ended its command."""
        if delivery is None or (about := delivery.command) is None:
            return False
        response = delivery.response
        if about not in self.asked:
            assert isinstance(about, Load), "only a load is begun that nobody asked for"
            return False
        assert self.open[about.id] is about, "nothing follows an end"
        id = response.id if hasattr(response, "id") else response.generation
        if id == about.id and isinstance(response, ENDS[type(about)]):
            del self.open[id]
            return True
        if id == about.id:
            assert isinstance(response, BEFORE_THE_END[type(about)])
        else:
            assert id == rival_of(about.id)
            assert isinstance(about, Generate)
        return False

    @rule(kind=st.sampled_from(COMMANDS))
    def ask(self, kind):
        command = kind(f"c{len(self.asked)}")
        self.asked.append(command)
        refusal = self.client.ask(command)
        assert (refusal is None) == (self.expected or isinstance(command, Load))
        if refusal is None:
            self.open[command.id] = command
        else:
            assert refusal.generation == command.id

    @precondition(lambda self: self.asked)
    @rule(ago=AGO)
    def cancel(self, ago):
        command = self.command(ago)
        at_once = command.id in self.open and isinstance(command, Generate) and not self.running
        assert self.deliver(self.client.cancel(command.id)) == at_once

    @precondition(lambda self: self.running and self.asked)
    @rule(ago=AGO, kind=st.sampled_from(MADE_UP))
    def say(self, ago, kind):
        command = self.command(ago)
        response = kind(command.id)
        was_open = command.id in self.open
        ended = self.deliver(hear(self.client, response))
        own = getattr(response, "generation", command.id) == command.id
        assert ended == (was_open and own and isinstance(response, ENDS[type(command)]))
        if isinstance(response, Loading):
            self.begun = command.id
        elif isinstance(response, Loaded):
            known = was_open and isinstance(command, Load)
            self.begun, self.has = "", response if known else None
        elif isinstance(response, Unloaded | Failed):
            self.has = None

    @precondition(running)
    @rule()
    def load(self):
        self.ask(COMMANDS[0])
        for kind in MADE_UP[:2]:
            self.say(0, kind)

    @precondition(running)
    @rule(kind=st.sampled_from(MADE_UP[3:]))
    def say_what_nobody_asked(self, kind):
        assert hear(self.client, kind("stranger")) is None
        with pytest.raises(Garbled):
            self.client.hear(b'{"event": "text"}')

    @precondition(lambda self: not self.running)
    @rule()
    def begin(self):
        self.client.begin()
        self.running = self.expected = True
        commands = self.written()
        loads = any(isinstance(work, Load) for work in self.open.values())
        again = [command for command in commands if command not in self.asked]
        if self.has is not None:
            assert [load.target for load in again] == ([] if loads else [self.has.target])
        assert commands == [*again, *self.open.values()]
        hear(self.client, READY)

    @rule(another=st.booleans())
    def die(self, another):
        kept = {
            id: work
            for id, work in self.open.items()
            if another and isinstance(work, Load) and id != self.begun
        }
        for delivery in self.client.lose("m", "r", another=another):
            assert isinstance(delivery.response, Failed)
            assert self.deliver(delivery)
        assert self.open == kept
        self.running, self.expected, self.begun = False, another, ""

    @rule()
    def write(self):
        self.written()

    def written(self):
        """What was sent."""
        commands = sent(self.client)
        assert not commands or self.running
        self.questions += [each.id for each in commands if isinstance(each, Generate | Count)]
        self.cancels += [each.id for each in commands if isinstance(each, Cancel)]
        assert set(self.cancels) <= set(self.questions)
        for ids in (self.questions, self.cancels):
            assert len(set(ids)) == len(ids), "it is sent once"
        return commands

    def teardown(self):
        self.die(another=False)
        assert not self.open, "each command has an end"


TestAnyEngine = AnyEngine.TestCase
