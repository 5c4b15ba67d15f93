"""The client of `engine.process.protocol`: an engine's unfinished commands and its loaded pair.

Pure: no process, no pipe, no clock. The caller runs the process, reports its beginning, each of its
lines and its end, writes the bytes of `to_send`, and passes on each `Delivery`. The window, the
server and the chat in a terminal do so, each in its own way of waiting.

Laws, for any order of commands, lines and deaths:

- Each command that is not refused has one end, and no response to it follows that: `Failed`, or
  `Done` for a generation, `Counted` for a count, `Loaded` or `Unloaded` for the rest.
- A question is sent once, because a part of its answer may have been passed on.
- A load that had not begun did not cause a death, so the next process does it.
- The next process loads the last pair again, and drafts as before.
- A generation is cancelled once, and continues until its `Done`, so that its events add up.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import engine
from engine.cluster.states import RankState
from engine.command_buffers import with_buffers
from engine.events import Done, Failed, Stats
from engine.process.protocol import (
    COMMANDS,
    LONGEST_LINE_BYTES,
    PROTOCOL,
    RESPONSES,
    Cancel,
    Command,
    Count,
    Counted,
    Generate,
    Hurry,
    Load,
    Loaded,
    Loading,
    Macs,
    Ranks,
    Ready,
    Response,
    SetDrafter,
    Unload,
    Unloaded,
    command_of,
)
from models.errors import Problem
from models.typed_json import WrongJson

FOLDER = Path(engine.__file__).parents[1]  # where `-m engine` finds this copy
GUEST = "http-"  # how the ids of the server's commands begin, also in the window's engine

Question = Generate | Count
Work = Load | SetDrafter | Question | Unload

_ENDS: dict[type[Work], Any] = {
    Load: Loaded | Failed,
    SetDrafter: Loaded | Failed,
    Generate: Done | Failed,
    Count: Counted | Failed,
    Unload: Unloaded | Failed,
}


class Garbled(Problem):
    """The engine wrote a line that cannot be read, so a response may be missing."""


class OtherVersion(Problem):
    """The engine speaks another version of the protocol."""


class Delivery(NamedTuple):
    """A response to pass on, and the command that it is about; None for the process itself."""

    response: Response
    command: Work | None


def host_command(target: str = "") -> tuple[str, ...]:
    """The command that starts an engine which will load `target`, in `FOLDER`; in a bundle
    `sys.executable` is the Python inside it.

    That Python ignores PYTHON* variables, so the fault handler is an option here.
    """
    command = (sys.executable, "-X", "faulthandler", "-m", "engine", "host")
    return with_buffers(command, target)


def is_guest(id: str) -> bool:
    """Whether the server chose the id of this command."""
    return id.startswith(GUEST)


class EngineClient:
    """Attributes, all of the present process: `greeted`, whether it is ready for commands;
    `loaded`, the pair that it has, if any; `ranks`, the Macs that hold its target together, as it
    saw them last, known until another process begins; `confessed`, its last message about itself,
    which may be why it ends.
    """

    def __init__(
        self, *, protocol: int = PROTOCOL, without_engine: str = "Restart the engine."
    ) -> None:
        """`without_engine`: the remedy where a command is refused because no engine runs."""
        self._protocol, self._without_engine = protocol, without_engine
        self._owed: dict[str, Work] = {}  # in the order in which it was asked for
        self._cancelled: set[str] = set()
        self._begun = ""  # the id of the load or change of drafter that is being done
        self._again = ""  # the id of the load that no one asked for
        self._wanted: Load | None = None  # what a next process loads again
        self._unsent = bytearray()
        self._running = False
        self._expected = False  # there is a process, or one will follow
        self._led = False  # this process was asked to lead several Macs
        self.greeted = False
        self.loaded: Loaded | None = None
        self.ranks: tuple[RankState, ...] = ()
        self.confessed = ""

    @property
    def loading(self) -> bool:
        """Whether the process loads a model or a drafter."""
        return self._begun != ""

    @property
    def next(self) -> Work | None:
        """The oldest command that is not done: the engine does it now, possibly with others."""
        return next(iter(self._owed.values()), None)

    @property
    def generating(self) -> bool:
        """Whether a generation is not over."""
        return any(isinstance(work, Generate) for work in self._owed.values())

    def suits(self, macs: Macs) -> bool:
        """Whether this process can load a target on these Macs: MLX can join one group in a
        process."""
        return not self._led or self._leads(macs)

    # What to ask

    def ask(self, command: Work) -> Failed | None:
        """Send a command, or keep it for the process that follows. Returns the failure if neither
        can be.

        A load is kept also if no process is expected: it is a reason to start one.
        """
        line = COMMANDS.to_line(command)
        if len(line) > LONGEST_LINE_BYTES:
            message = f"The conversation is over {LONGEST_LINE_BYTES >> 20} MB."
            remedy = "Send less, or start a new conversation."
            return Failed(command.id, message, remedy, "request")
        if not (self._expected or isinstance(command, Load)):
            return Failed(command.id, "The engine is not running.", self._without_engine)
        self._owed[command.id] = command
        self._send(command, line)
        return None

    def cancel(self, generation: str) -> Delivery | None:
        """Cancel a generation that is not over. Returns its end where it was not sent yet."""
        asked = self._owed.get(generation)
        if not isinstance(asked, Generate) or generation in self._cancelled:
            return None
        if not self._running:
            self._finish(generation)
            return Delivery(Done(generation, "cancelled", Stats()), asked)
        self._cancelled.add(generation)
        cancel = Cancel(generation)
        self._send(cancel, COMMANDS.to_line(cancel))
        return None

    def hurry(self, generation: str) -> None:
        """End the reasoning of a generation. Does nothing if the process does not write it."""
        if self._running and isinstance(self._owed.get(generation), Generate):
            hurry = Hurry(generation)
            self._send(hurry, COMMANDS.to_line(hurry))

    def to_send(self) -> bytes:
        """The lines for the process that were not returned before."""
        data = bytes(self._unsent)
        self._unsent.clear()
        return data

    # The life of a process

    def expect(self) -> None:
        """A process will begin: until then, keep commands for it."""
        self._expected = True

    def begin(self) -> None:
        """Send the new process the unfinished commands, and have it load the last pair."""
        self._running = self._expected = True
        self._led = False
        self.ranks, self.confessed = (), ""
        if self._wanted and not any(isinstance(work, Load) for work in self._owed.values()):
            load = replace(self._wanted, id=uuid4().hex)
            self._again = load.id
            self._owed = {load.id: load, **self._owed}
        for work in self._owed.values():
            self._send(work, COMMANDS.to_line(work))

    def lose(self, message: str, remedy: str, *, another: bool) -> list[Delivery]:
        """The process is gone. Returns a `Failed` with this text for each command that failed.

        With `another`, another process follows: it does the loads that had not begun, and the
        commands that come meanwhile.
        """
        lost = []
        for work in list(self._owed.values()):
            blamed = work.id in (self._begun, self._again)
            if not (another and isinstance(work, Load)) or blamed:
                del self._owed[work.id]
                if work.id != self._again:
                    lost.append(Delivery(Failed(work.id, message, remedy), work))
        self._begun = self._again = ""
        self._cancelled.clear()
        self._unsent.clear()
        self._running, self._expected = False, another
        self.greeted, self.loaded = False, None
        return lost

    def hear(self, line: bytes) -> Delivery | None:
        """Take a line of the process. Returns its response, unless that is stale.

        Raises Garbled and OtherVersion.
        """
        try:
            response = RESPONSES.read(line)
        except WrongJson:
            message = "The engine wrote an unreadable line."
            raise Garbled(message, "Install Slipstream again.") from None
        return self._take(response)

    def _take(self, response: Response) -> Delivery | None:
        id = _id_of(response)
        asked = self._owed.get(command_of(id))
        if id != command_of(id) and not isinstance(asked, Generate):
            asked = None  # only an answer has a plain rival
        match response:
            case Ready(protocol):
                if protocol != self._protocol:
                    raise OtherVersion(
                        f"The engine uses version {protocol} of the protocol, and this program "
                        f"version {self._protocol}.",
                        "Install Slipstream again.",
                    )
                self.greeted = True
            case Ranks():
                if response.ranks == self.ranks:
                    return None
                self.ranks = response.ranks
            case Failed(""):
                self.confessed = response.message
            case Failed():
                if asked is None:
                    return None
                if isinstance(asked, Load) and self.loaded is None and asked.id != self._again:
                    self._wanted = None  # the pair before was unloaded to make room
            case Loading() | Loaded() | Unloaded():
                asked = None if isinstance(asked, Question) else asked
                self._take_load(response, asked)
            case Counted():
                if not isinstance(asked, Count):
                    return None
            case _:
                if not isinstance(asked, Generate):
                    return None
        if asked and asked.id == id and isinstance(response, _ENDS[type(asked)]):
            self._finish(id)
        return Delivery(response, asked)

    def _take_load(self, response: Loading | Loaded | Unloaded, asked: Work | None) -> None:
        """Note what the process has loaded, or begins to."""
        match response:
            case Loading():
                self._begun = response.id
            case Loaded():
                load = asked if isinstance(asked, Load) else self._wanted
                self._wanted = load and replace(
                    load,
                    target=response.target,
                    drafter=response.drafter,
                    draft_length=response.draft_length,
                    measure=False,
                )
                self._begun, self.loaded = "", response
            case Unloaded():
                self.loaded = None
                if isinstance(asked, Unload):
                    self._wanted = None

    def _finish(self, id: str) -> None:
        del self._owed[id]
        self._cancelled.discard(id)
        if id == self._begun:
            self._begun = ""

    def _send(self, command: Command, line: bytes) -> None:
        if self._running:
            self._led |= isinstance(command, Load) and command.macs.hosts != ""
            self._unsent += line

    def _leads(self, macs: Macs) -> bool:
        """Whether the target is where `macs` says, and stays there until all commands are done."""
        owed = self._owed.values()
        if self.loaded is None or any(isinstance(work, Unload) for work in owed):
            return False
        loads = (work.macs for work in owed if isinstance(work, Load))
        return all(each.hosts == macs.hosts for each in (self.loaded.macs, *loads))


def _id_of(response: Response) -> str:
    """The id of the command or generation that a response is about; empty for the process."""
    match response:
        case Ready() | Ranks():
            return ""
        case Loading() | Loaded() | Unloaded() | Counted():
            return response.id
        case _:
            return response.generation
