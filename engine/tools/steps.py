"""The values of an answer that calls tools: its steps, and the calls of each.

An answer in several steps is one text, all that the model wrote, and its steps: the places in it
after which results were read. Knows when it has to end, how it is given back to the model, and how
a call is shown in a line; not which calls may run.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, get_args

from engine.request import ChatMessage, ToolCall
from engine.stretches import Stretch, cut, said
from models.in_words import one_line, size

CallState = Literal["asked", "running", "done", "failed", "refused", "cancelled"]
"""How a call is: `asked` while the user decides. `refused` by the user, a rule or a limit."""

CALL_STATES: tuple[CallState, ...] = get_args(CallState)
MOST_CALLS = 20  # of one answer
MOST_SECONDS = 300.0  # in which its tools run
_MOST_IDLE_STEPS = 2  # in a row, in which nothing ran
_WITHOUT_RESULT = "The call was stopped, so it has no result."
_OVER = "[Call no more tools. Answer the question with these results.]"
_LONGEST_LINE = 60  # characters of the arguments in it


@dataclass(frozen=True, slots=True)
class StepCall:
    """A call of a tool. `name` and `arguments` are the model's; `tool` is the name that the
    `server` knows, both empty for an unknown tool. `ran`: the arguments with which it ran, if
    the user changed them. `result`: the text that the model gets; `bytes` of all that the tool
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
    def key(self) -> tuple[str, str]:
        return self.server, self.tool

    @property
    def runs(self) -> bool:
        """Whether it was given to its server, or is being given."""
        return self.state not in ("asked", "refused")


@dataclass(frozen=True, slots=True)
class Step:
    """The calls before `place`, a number of code points of the answer's text, and whose
    results the model read there."""

    place: int
    calls: tuple[StepCall, ...]


def must_answer(steps: Sequence[Step]) -> bool:
    """Whether the model gets no more calls after these steps, and is to write its answer: a limit
    is reached, nothing ran in the last steps, or the calls of the last ran before, and brought
    nothing new."""
    *before, last = steps or (Step(0, ()),)
    spent = [call for step in steps for call in step.calls]
    idle = [step for step in steps[-_MOST_IDLE_STEPS:] if not any(call.runs for call in step.calls)]
    return (
        len(spent) >= MOST_CALLS
        or sum(call.seconds for call in spent) >= MOST_SECONDS
        or len(idle) == _MOST_IDLE_STEPS
        or (bool(last.calls) and all(_brings_nothing_new(call, before) for call in last.calls))
    )


def _brings_nothing_new(call: StepCall, before: Sequence[Step]) -> bool:
    results = [each.result for each in runs_before(call, before)]
    return bool(results) and (call.state == "refused" or call.result in results)


def runs_before(call: StepCall, before: Sequence[Step]) -> list[StepCall]:
    """The same call where it ran in the steps before."""
    earlier = (each for step in before for each in step.calls if each.runs)
    same = (each for each in earlier if each.key == call.key)
    return [each for each in same if alike(each.arguments, call.arguments)]


def alike(one: str, other: str) -> bool:
    """Whether two JSON texts say the same. Unlike in Python, true is not 1."""
    with suppress(ValueError, RecursionError):
        one, other = (json.dumps(json.loads(text), sort_keys=True) for text in (one, other))
    return one == other


def stopped(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps of an answer that has ended: no call runs any more."""

    def ended(call: StepCall) -> StepCall:
        return replace(call, state="cancelled") if call.state == "running" else call

    return tuple(replace(step, calls=tuple(map(ended, step.calls))) for step in steps)


def messages_of(
    content: str, stretches: Sequence[Stretch], steps: Sequence[Step]
) -> tuple[ChatMessage, ...]:
    """The messages of an answer as the model gets them: for each step the part of the text that it
    wrote before and the results, then the rest of the text, if there is any.

    Each part carries the very text that was written, so that its tokens stay the same. A call
    without a result gets a line that says so: templates want one for each call. So does the last
    result, if the model is to answer.
    """
    made = list[ChatMessage]()
    begin, last = 0, (len(steps), len(steps[-1].calls)) if must_answer(steps) else None
    for number, step in enumerate(steps, 1):
        its, stretches = cut(stretches, step.place - begin)
        made.append(_assistants(content[begin : step.place], its, step.calls))
        for place, call in enumerate(step.calls, 1):
            text = call.result or _WITHOUT_RESULT
            if (number, place) == last:
                text = f"{text}\n\n{_OVER}"
            made.append(ChatMessage("tool", text, tool_call_id=call.id, name=call.name))
        begin = step.place
    if content[begin:] or not steps:
        made.append(_assistants(content[begin:], stretches, ()))
    return tuple(made)


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
    """The values of a call's arguments in a short line, without lists and objects."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        value = arguments
    values = value.values() if isinstance(value, Mapping) else [value]
    texts = ("…" if isinstance(one, dict | list) else str(one) for one in values)
    line = one_line(" ".join(texts))
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1] + "…"
