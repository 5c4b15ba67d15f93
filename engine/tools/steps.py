"""The values of an answer that calls tools: its steps, and the calls of each.

An answer in several steps is one text, all that the model wrote, and its steps: the places in it
behind which results were read.
"""

from dataclasses import dataclass
from typing import Literal

CallState = Literal["asked", "running", "done", "failed", "refused", "cancelled"]
"""How a call is: `asked` while a person decides. `refused` by a person, a rule or a limit."""


@dataclass(frozen=True, slots=True)
class StepCall:
    """A call of a tool. `name` and `arguments` are the model's; `tool` is the name that the
    `server` knows, both empty if there is no such tool. `ran`: the arguments with which it ran, if
    a person changed them. `result`: the text that the model gets; `bytes` of all that the tool
    returned. Example of a line: read_file notes.md, 2 kB, 0.1 s."""

    id: str
    name: str
    arguments: str
    server: str = ""
    tool: str = ""
    ran: str = ""
    state: CallState = "asked"
    result: str = ""
    seconds: float = 0.0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """The calls that stand before `place`, a number of code points of the answer's text, and whose
    results the model read there."""

    place: int
    calls: tuple[StepCall, ...]
