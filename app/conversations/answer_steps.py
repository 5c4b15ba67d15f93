"""The steps of an answer, and what the user allowed tools, as they are stored; and the parts of an
answer in order.

Knows values and JSON; no SQL, and not how a tool runs.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from app.conversations.stored_json import read_or, write
from engine.stretches import Kind, Stretch, cut, divided
from engine.tools.steps import Step, StepCall, line_of
from engine.tools.turn import Permissions

# In SQL, the stored steps as `stopped` returns them. In a text of theirs, quotation marks are
# escaped.
STOPPED = """replace(steps, '"state": "running"', '"state": "cancelled"')"""


def permissions_to_json(permissions: Permissions) -> str:
    """Return what the user allowed in a conversation as one line of JSON; empty for nothing."""
    kept = {"always": sorted(permissions.always), "never": sorted(permissions.never)}
    return write(kept if any(kept.values()) else None)


def permissions_from_json(text: str) -> Permissions:
    """Return what `permissions_to_json` wrote; nothing is allowed if it is damaged."""
    kept = read_or(_Kept, text, _Kept())
    return Permissions(always=frozenset(kept.always), never=frozenset(kept.never))


@dataclass(frozen=True, slots=True)
class _Kept:
    always: tuple[tuple[str, str], ...] = ()
    never: tuple[tuple[str, str], ...] = ()


def in_order(
    text: str, stretches: Sequence[Stretch], steps: Sequence[Step]
) -> Iterator[tuple[Kind, str] | tuple[Literal["step"], Step]]:
    """Yield the parts of an answer's text with their kinds, and each step at its place."""
    begin = 0
    for step in steps:
        its, stretches = cut(stretches, step.place - begin)
        yield from divided(text[begin : step.place], its)
        yield "step", step
        begin = step.place
    yield from divided(text[begin:], stretches)


def line(call: StepCall) -> str:
    """Return a call of an answer that has ended as a line."""
    return line_of(replace(call, state="cancelled") if call.state == "asked" else call)


def laid_out(arguments: str) -> str:
    """Return arguments as people read them; unchanged if they are not JSON."""
    try:
        return json.dumps(json.loads(arguments), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments


def texts_of(call: StepCall) -> tuple[tuple[str, str], ...]:
    """Return what a call was given, and what the model got of it, each with its title."""
    asked = ("The model’s arguments" if call.ran else "Arguments", laid_out(call.arguments))
    ran = (("Arguments that ran", laid_out(call.ran)),) if call.ran else ()
    result = (("Result", call.result),) if call.result else ()
    return (asked, *ran, *result)
