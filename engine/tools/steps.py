"""The values of an answer that calls tools: its steps, and the calls of each.

An answer in several steps is one text, all that the model wrote, and its steps: the places in it
behind which results were read. Knows how such an answer is given back to the model, and how a call
is said in a line; nothing of what may run.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from engine.request import ChatMessage, ToolCall
from engine.stretches import Stretch, cut, said
from models.in_words import one_line, size

CallState = Literal["asked", "running", "done", "failed", "refused", "cancelled"]
"""How a call is: `asked` while a person decides. `refused` by a person, a rule or a limit."""

CALL_STATES: tuple[CallState, ...] = get_args(CallState)
_WITHOUT_RESULT = "The call was stopped. There is no result."
_LONGEST_LINE = 60  # characters of the arguments in it


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

    @property
    def runs(self) -> bool:
        """Whether it was given to its server, or is being given."""
        return self.state not in ("asked", "refused")


@dataclass(frozen=True, slots=True)
class Step:
    """The calls that stand before `place`, a number of code points of the answer's text, and whose
    results the model read there."""

    place: int
    calls: tuple[StepCall, ...]


def messages_of(
    content: str, stretches: Sequence[Stretch], steps: Sequence[Step]
) -> tuple[ChatMessage, ...]:
    """The messages of an answer as the model gets them: for each step the part of the text that it
    wrote before and the results, then the rest of the text, if there is any.

    Each part carries the very text that was written, so that its tokens are those of before. A call
    without a result gets a line that says so: templates want one for each call.
    """
    return tuple(_messages(content, tuple(stretches), steps))


def _messages(
    content: str, stretches: tuple[Stretch, ...], steps: Sequence[Step]
) -> Iterator[ChatMessage]:
    begin = 0
    for step in steps:
        its, stretches = cut(stretches, step.place - begin)
        yield _assistants(content[begin : step.place], its, step.calls)
        for call in step.calls:
            text = call.result or _WITHOUT_RESULT
            yield ChatMessage("tool", text, tool_call_id=call.id, name=call.name)
        begin = step.place
    if content[begin:] or not steps:
        yield _assistants(content[begin:], stretches, ())


def _assistants(text: str, stretches: Sequence[Stretch], calls: Sequence[StepCall]) -> ChatMessage:
    return ChatMessage(
        "assistant",
        said(text, stretches).strip() if calls else said(text, stretches),
        reasoning=said(text, stretches, "reasoning"),
        tool_calls=tuple(ToolCall(call.id, call.name, call.arguments) for call in calls),
        written=text,
    )


def line_of(call: StepCall) -> str:
    """A call in one line for people: "read_file notes.md, 2 kB, 0.1 s"."""
    parts = [f"{call.tool or one_line(call.name)} {arguments_in_words(call.ran or call.arguments)}"]
    match call.state:
        case "done":
            parts += [size(call.bytes), f"{call.seconds:.1f} s"]
        case "asked":
            parts.append("waits for you")
        case _:
            parts.append(call.state)
    return ", ".join(part.strip() for part in parts)


def arguments_in_words(arguments: str) -> str:
    """The values of a call's arguments in a short line, without those of lists and objects."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        value = arguments
    values = value.values() if isinstance(value, Mapping) else [value]
    texts = ("…" if isinstance(one, dict | list) else str(one) for one in values)
    line = one_line(" ".join(texts))
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1] + "…"
