"""The client of `engine.process.protocol`: an engine's unfinished commands and its loaded pair.

The window, the server and the chat in a terminal run its process, each in its own way of waiting.

The laws of `engine.process.asking`, and these, for any order of commands, lines and deaths:

- The end of a command is `Failed`, or `Done` for a generation, `Counted` for a count, `Kept`,
  `Loaded` or `Unloaded` for the rest.
- A question is sent once, because a part of its answer may have been passed on.
- A load that had not begun did not cause a death, so the next process does it.
- The next process loads the last pair again, and drafts as before.
- A cancelled generation continues until its `Done`, so that its events add up.
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
from engine.process.asking import Asking
from engine.process.protocol import (
    COMMANDS,
    LONGEST_LINE_BYTES,
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
    Ranks,
    Ready,
    Response,
    SetDrafter,
    Unload,
    Unloaded,
    command_of,
)

FOLDER = Path(engine.__file__).parents[1]  # where `-m engine` finds this copy
GUEST = "http-"  # how the ids of the server's commands begin, also in the window's engine

Question = Generate | Count
Work = Load | SetDrafter | Question | Keep | Unload

_ENDS: dict[type[Work], Any] = {
    Load: Loaded | Failed,
    SetDrafter: Loaded | Failed,
    Generate: Done | Failed,
    Count: Counted | Failed,
    Keep: Kept | Failed,
    Unload: Unloaded | Failed,
}


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


class EngineClient(Asking[Work, Response, Delivery]):
    """Attributes, all of the present process: `loaded`, the pair that it has, if any; `ranks`, the
    Macs that hold its target together, as it saw them last, known until another process begins."""

    def __init__(
        self, *, protocol: int = PROTOCOL, without_engine: str = "Restart the engine."
    ) -> None:
        """`without_engine`: the remedy where a command is refused because no engine runs."""
        super().__init__("The engine", COMMANDS, RESPONSES, protocol=protocol)
        self._without_engine = without_engine
        self._begun = ""  # the id of the load or change of drafter that is being done
        self._again = ""  # the id of the load that no one asked for
        self._wanted: Load | None = None  # what a next process loads again
        self._led = False  # this process was asked to lead several Macs
        self.loaded: Loaded | None = None
        self.ranks: tuple[RankState, ...] = ()

    @property
    def held_bytes(self) -> int:
        return self.loaded.held_bytes if self.loaded else 0

    @property
    def loading(self) -> bool:
        """Whether the process loads a model or a drafter."""
        return self._begun != ""

    @property
    def next(self) -> Work | None:
        """The oldest command that is not done: the engine does it now, possibly with others."""
        return next(iter(self.owed.values()), None)

    @property
    def generating(self) -> bool:
        """Whether a generation is not over."""
        return any(isinstance(work, Generate) for work in self.owed.values())

    def suits(self, macs: Macs) -> bool:
        """Whether this process can load a target on these Macs: MLX can join one group in a
        process."""
        return not self._led or self._leads(macs)

    def ask(self, command: Work) -> Failed | None:
        """Send a command, or keep it for the process that follows. Returns the failure if neither
        can be.

        A load is kept also if no process is expected: it is a reason to start one.
        """
        match self._take(command, always=isinstance(command, Load)):
            case "too long":
                message = f"The conversation is over {LONGEST_LINE_BYTES >> 20} MB."
                remedy = "Send less, or start a new conversation."
                return Failed(command.id, message, remedy, "request")
            case "no process":
                return Failed(command.id, "The engine is not running.", self._without_engine)
        self._led |= self._process == "running" and _is_led(command)
        return None

    def cancel(self, generation: str) -> Delivery | None:
        """Cancel a generation that is not over. Returns its end where it was not sent yet."""
        asked = self.owed.get(generation)
        if isinstance(asked, Generate) and self._cancel(asked, Cancel(generation)):
            return Delivery(Done(generation, "cancelled", Stats()), asked)
        return None

    def hurry(self, generation: str) -> None:
        """End the reasoning of a generation. Does nothing if the process does not write it."""
        if isinstance(self.owed.get(generation), Generate):
            self._tell(Hurry(generation))

    def begin(self) -> None:
        """Send the new process the unfinished commands, and have it load the last pair."""
        self.ranks = ()
        if self._wanted and not any(isinstance(work, Load) for work in self.owed.values()):
            load = replace(self._wanted, id=uuid4().hex)
            self._again = load.id
            self.owed = {load.id: load, **self.owed}
        self._led = any(map(_is_led, self.owed.values()))
        super().begin()

    def lose(self, message: str, remedy: str = "", *, another: bool) -> list[Delivery]:
        """As `Asking.lose`: the next process does the loads that had not begun."""
        lost = super().lose(message, remedy, another=another)
        again, self._begun, self._again, self.loaded = self._again, "", "", None
        return [each for each in lost if each.command is None or each.command.id != again]

    def _outlives(self, command: Work) -> bool:
        return isinstance(command, Load) and command.id not in (self._begun, self._again)

    def _failure(self, command: Work, message: str, remedy: str) -> Delivery:
        return Delivery(Failed(command.id, message, remedy), command)

    def _heard(self, response: Response) -> Delivery | None:
        id = _id_of(response)
        asked = self.owed.get(command_of(id))
        if id != command_of(id) and not isinstance(asked, Generate):
            asked = None  # only an answer has a plain rival
        match response:
            case Ready(protocol):
                self._greet(protocol)
            case Ranks():
                if response.ranks == self.ranks:
                    return None
                self.ranks = response.ranks
            case Failed(""):
                self.own_failure = response.message
            case Failed():
                if asked is None:
                    return None
                if isinstance(asked, Load) and self.loaded is None and asked.id != self._again:
                    self._wanted = None  # the pair before was unloaded to make room
            case Loading() | Loaded() | Unloaded():
                asked = None if isinstance(asked, Question | Keep) else asked
                self._take_load(response, asked)
            case Counted() | Kept():
                if asked is None or not isinstance(response, _ENDS[type(asked)]):
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
        super()._finish(id)
        if id == self._begun:
            self._begun = ""

    def _leads(self, macs: Macs) -> bool:
        """Whether the target is where `macs` says, and stays there until all commands are done."""
        owed = self.owed.values()
        if self.loaded is None or any(isinstance(work, Unload) for work in owed):
            return False
        loads = (work.macs for work in owed if isinstance(work, Load))
        return all(each.hosts == macs.hosts for each in (self.loaded.macs, *loads))


def _is_led(command: Work) -> bool:
    """Whether a process that does this leads several Macs."""
    return isinstance(command, Load) and command.macs.hosts != ""


def _id_of(response: Response) -> str:
    """The id of the command or generation that a response is about; empty for the process."""
    match response:
        case Ready() | Ranks():
            return ""
        case Loading() | Loaded() | Unloaded() | Counted() | Kept():
            return response.id
        case _:
            return response.generation
