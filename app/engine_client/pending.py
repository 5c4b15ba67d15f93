"""What the engine was asked for and has not done yet, and what it has loaded. No Qt, no process.

Generations run side by side and end in any order. Some belong to a guest, the local server, which
gives its commands their ids itself; the window has a part in them only when the process dies.

One rule decides whether a response is passed on: its generation is not over. Another decides what
a new process is asked for after a death: what had been loaded, then the loads that had not begun.
"""

from dataclasses import dataclass, replace
from typing import Literal
from uuid import uuid4

from engine.events import Done, Failed
from engine.protocol import (
    Count,
    Counted,
    Generate,
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

Question = Generate | Count
Work = Load | SetDrafter | Question | Unload
GUEST = "http-"  # how the ids of its commands begin


@dataclass(frozen=True, slots=True)
class Lost:
    """Work that will not be done: the ids of questions, and of the rest."""

    questions: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def is_guest(id: str) -> bool:
    """Whether this is the id of a command of the guest's, or of its generation."""
    return id.startswith(GUEST)


def id_of(answer: Response) -> str:
    """The id of the command or generation that a response is about; empty for that of none."""
    match answer:
        case Ready() | Ranks():
            return ""
        case Loading() | Loaded() | Unloaded() | Counted():
            return answer.id
        case _:
            return answer.generation


class EngineWork:
    """Attributes: `greeted`, whether the process is ready for commands; `loading`, whether it is
    loading a model or a drafter; `loaded`, the pair that it has, if any."""

    def __init__(self) -> None:
        self._owed: dict[str, Work] = {}  # in the order in which it was asked for
        self._cancelled: set[str] = set()
        self._begun = ""  # the id of the load or change of drafter that is being done
        self._again = ""  # the id of the load that the window did not ask for
        self._wanted: Load | None = None  # after a death: as it was asked for, drafting as now
        self.greeted = False
        self.loaded: Loaded | None = None

    @property
    def loading(self) -> bool:
        return self._begun != ""

    @property
    def next(self) -> Work | None:
        """What was asked for first: the engine is at it, or at what runs beside it."""
        return next(iter(self._owed.values()), None)

    def leads(self, macs: Macs) -> bool:
        """Whether the target is where `macs` says, and stays there whatever is still owed."""
        owed = self._owed.values()
        if self.loaded is None or any(isinstance(work, Unload) for work in owed):
            return False
        loads = (work.macs for work in owed if isinstance(work, Load))
        return all(
            (each.hosts, each.trusted) == (macs.hosts, macs.trusted)
            for each in (self.loaded.macs, *loads)
        )

    @property
    def generating(self) -> bool:
        return any(isinstance(work, Generate) for work in self._owed.values())

    def ask(self, work: Work) -> None:
        self._owed[work.id] = work

    def cancel(self, generation: str) -> bool:
        """Note that a generation is cancelled; returns whether it is not over and was not
        cancelled before."""
        asked = self._owed.get(generation)
        if not isinstance(asked, Generate) or generation in self._cancelled:
            return False
        self._cancelled.add(generation)
        return True

    def owes(self, generation: str) -> bool:
        """Whether a question is not answered; in a race the plain one is over with the other."""
        return isinstance(self._owed.get(command_of(generation)), Question)

    def finish(self, id: str) -> None:
        """Note that this work is done."""
        self._owed.pop(id, None)
        self._cancelled.discard(id)
        if id == self._begun:
            self._begun = ""

    def take(self, answer: Response) -> Literal["question", "process", "stale"]:
        """Take note of a response. Returns what it is about; a stale one is not passed on."""
        match answer:
            case Ready():
                self.greeted = True
            case Ranks():
                pass
            case Loading():
                self._begun = answer.id
            case Loaded():
                asked = self._owed.get(answer.id)
                load = asked if isinstance(asked, Load) else self._wanted
                self._wanted = load and replace(
                    load,
                    target=answer.target,
                    drafter=answer.drafter,
                    draft_length=answer.draft_length,
                )
                self.finish(answer.id)
                self.loaded = answer
            case Unloaded():
                self.loaded = None
                if isinstance(self._owed.get(answer.id), Unload):
                    self.finish(answer.id)
                    self._wanted = None  # as it was asked for
            case Counted():
                if not self.owes(answer.id):
                    return "stale"
                self.finish(answer.id)
                return "question"
            case Failed() if not self.owes(answer.generation):
                return self._take_failure(answer.generation)
            case _:
                if not self.owes(answer.generation):
                    return "stale"
                if isinstance(answer, Done | Failed):
                    self.finish(answer.generation)
                return "question"
        return "process"

    def begin(self) -> tuple[Work, ...]:
        """There is a new process. Returns what to ask it for first."""
        if self._wanted and not any(isinstance(work, Load) for work in self._owed.values()):
            self._again = uuid4().hex
            load = replace(self._wanted, id=self._again)
            self._owed = {load.id: load, **self._owed}
        return tuple(self._owed.values())

    def lose(self, *, keep_loads: bool) -> Lost:
        """The process is gone. Returns the work that was not done and is not asked for again.

        A load that had not begun did not cause the death, so the next process may do it. A
        question is never asked twice, because part of the answer has been passed on.
        """
        blamed = (self._begun, self._again)
        kept: dict[str, Work] = {
            id: work
            for id, work in self._owed.items()
            if keep_loads and isinstance(work, Load) and id not in blamed
        }
        lost = {id: work for id, work in self._owed.items() if id not in (*kept, self._again)}
        questions = tuple(id for id, work in lost.items() if isinstance(work, Question))
        self._owed, self._begun, self._again = kept, "", ""
        self._cancelled.clear()
        self.greeted, self.loaded = False, None
        return Lost(questions, tuple(id for id in lost if id not in questions))

    def _take_failure(self, id: str) -> Literal["process", "stale"]:
        if id and id not in self._owed:
            return "stale"
        if isinstance(self._owed.get(id), Load) and self.loaded is None:
            self._wanted = None  # what was loaded before was unloaded to make room
        self.finish(id)
        return "process"
