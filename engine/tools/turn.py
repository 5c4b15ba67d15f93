"""The rules of an answer that calls tools: which calls run, which wait for the user, which are
answered at once, and what the model gets. Pure; shared by the window and the terminal.

The user switches tools on, so only those are known here. A call runs if the user allows it: once,
or always in this conversation, or by the server's own word that a tool only reads, which counts for
servers that the user trusts. What tools return is data, and never changes a rule.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from engine.documents import Document, Section
from engine.documents.passages import PassageIndex
from engine.documents.plan import plan
from engine.events import CallPiece
from engine.tools.protocol import Offered, Result
from engine.tools.steps import MOST_CALLS, MOST_SECONDS, Step, StepCall, alike
from models.in_words import one_line

Decision = Literal["once", "always", "refuse", "never"]
"""The user's answer to a call: run it; run it and all later ones of this tool in this conversation;
do not run it; refuse it and all later ones."""

CALL_SECONDS = 60.0
_LEAST_SECONDS = 10.0  # of a call that the user allows after the others took all the time
MOST_RESULT_TOKENS = 3000
_LONGEST_NAME = 64
_LONGEST_DESCRIPTION = 2000
_LONGEST_SCHEMA = 1 << 15  # characters of JSON: a longer one would fill the prompt
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_ANY_ARGUMENTS: Mapping[str, Any] = {"type": "object"}


# What the model is offered


@dataclass(frozen=True, slots=True)
class GivenTool:
    """A tool that the user switched on. `name`: as the model knows it."""

    name: str
    offered: Offered

    @property
    def key(self) -> tuple[str, str]:
        """The names of its server and of the tool there."""
        return self.offered.server, self.offered.name

    @property
    def schema(self) -> Mapping[str, Any]:
        """The schema of its arguments; of any arguments where the server's is none, or endless."""
        try:
            if len(self.offered.schema) <= _LONGEST_SCHEMA:
                value = json.loads(self.offered.schema)
                if isinstance(value, dict) and value.get("type", "object") == "object":
                    return {**value, "type": "object"}
        except (ValueError, RecursionError):
            pass
        return _ANY_ARGUMENTS


def given_tools(switched_on: Iterable[Offered]) -> tuple[GivenTool, ...]:
    """The tools with the names that the model gets: each its own, of letters, digits, "_" and "-";
    the server's name is put before it only where two tools share a name."""
    tools = list(dict.fromkeys(switched_on))
    plain = [_named(tool.name) for tool in tools]
    found: dict[str, Offered] = {}
    for tool, name in zip(tools, plain, strict=True):
        alone = plain.count(name) == 1
        wished = name if alone else _named(f"{tool.server}_{tool.name}")
        taken, number = wished, 1
        while taken in found or (taken in plain and not (alone and taken == name)):
            number += 1
            taken = f"{wished[: _LONGEST_NAME - len(f'_{number}')]}_{number}"
        found[taken] = tool
    return tuple(GivenTool(name, tool) for name, tool in found.items())


def _named(name: str) -> str:
    """A name that models and their templates accept."""
    plain = _NOT_IN_A_NAME.sub("_", name).strip("_") or "tool"
    if len(plain) <= _LONGEST_NAME:
        return plain
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{plain[: _LONGEST_NAME - 9]}_{digest}"


def tools_json(tools: Sequence[GivenTool]) -> str:
    """The tools as `engine.request.Prompt` takes them: their calls are held to their schemas."""
    if not tools:
        return ""
    functions = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": _shortened(tool.offered.description or tool.offered.title),
                "parameters": tool.schema,
                "strict": True,
            },
        }
        for tool in tools
    ]
    return json.dumps(functions, ensure_ascii=False).encode("utf-8", "replace").decode()


def about_tokens(tools: Iterable[Offered]) -> int:
    """About how many tokens these tools take in a prompt: three bytes are one, in most scripts."""
    return len(tools_json(given_tools(tools)).encode()) // 3


def _shortened(description: str) -> str:
    cut = len(description) > _LONGEST_DESCRIPTION
    return description[:_LONGEST_DESCRIPTION] + "…" * cut


# What becomes of a call


@dataclass(frozen=True, slots=True)
class Permissions:
    """What the user allowed in a conversation, by server and tool. `trusted`: the servers that are
    believed if they say that a tool only reads."""

    always: frozenset[tuple[str, str]] = frozenset()
    never: frozenset[tuple[str, str]] = frozenset()
    trusted: frozenset[str] = frozenset()

    def allows(self, tool: GivenTool) -> bool:
        """Whether a call of this tool runs unasked."""
        believed = tool.offered.read_only and tool.offered.server in self.trusted
        return tool.key in self.always or believed

    def after(self, call: StepCall, decision: Decision) -> "Permissions":
        """The permissions after the user decided on a call."""
        if decision == "always":
            return replace(self, always=self.always | {call.key}, never=self.never - {call.key})
        if decision == "never":
            return replace(self, always=self.always - {call.key}, never=self.never | {call.key})
        return self


def asked_calls(pieces: Iterable[CallPiece], *, id: str) -> tuple[StepCall, ...]:
    """The calls that a generation wrote to their ends. `id` begins the id of each: it must not be
    the id of another generation of the conversation."""
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    ended: list[int] = []
    for piece in pieces:
        if piece.name:
            names[piece.index], arguments[piece.index] = piece.name, ""
        arguments[piece.index] += piece.arguments
        if piece.ended:
            ended.append(piece.index)
    return tuple(StepCall(f"{id}_{i}", names[i], arguments[i]) for i in ended)


def judged(
    calls: Iterable[StepCall],
    tools: Sequence[GivenTool],
    permissions: Permissions,
    *,
    before: Sequence[Step] = (),
) -> tuple[StepCall, ...]:
    """The calls of a step with their states: `running` if a call may run at once, `asked` if the
    user decides, or `refused`, with the line that the model gets.

    `before`: the steps of the same answer.
    """
    by_name = {tool.name: tool for tool in tools}
    earlier = [call for step in before for call in step.calls]
    found: list[StepCall] = []
    for call in calls:
        tool = by_name.get(call.name)
        if tool is not None:
            call = replace(call, server=tool.offered.server, tool=tool.offered.name)
        if text := _refusal(call, tool, permissions, [*earlier, *found], by_name):
            call = _refused(call, text)
        elif tool is not None and permissions.allows(tool):
            call = replace(call, state="running")
        found.append(call)
    return tuple(found)


def _refusal(
    call: StepCall,
    tool: GivenTool | None,
    permissions: Permissions,
    earlier: Sequence[StepCall],
    names: Collection[str],
) -> str:
    """Why a call is refused, for the model; empty if it is not."""
    if len(earlier) >= MOST_CALLS:
        return f"The limit of {MOST_CALLS} calls is reached. Answer without tools."
    if tool is None:
        known = ", ".join(names) or "none"
        return f"Unknown tool {one_line(call.name)}. The tools are: {known}."
    if tool.key in permissions.never:
        return "The user does not allow this tool here. Go on without it."
    if fault := unfit(call.arguments, tool):
        again = any(each.tool == call.tool and each.result.startswith(_UNFIT) for each in earlier)
        advice = "Go on without this tool." if again else "Call it again with others."
        return f"{_UNFIT}: {fault}. {advice}"
    return ""


_UNFIT = "The arguments do not fit the tool"


def _refused(call: StepCall, text: str) -> StepCall:
    return replace(call, state="refused", result=text)


def decided(call: StepCall, decision: Decision, *, arguments: str = "") -> StepCall:
    """A call on which the user decided. `arguments`: the user's, if they replace the
    model's."""
    if decision in ("refuse", "never"):
        return _refused(call, "The user refused this call. Go on without it.")
    edited = bool(arguments) and not alike(arguments, call.arguments)
    return replace(call, state="running", ran=arguments if edited else "")


def unfit(arguments: str, tool: GivenTool) -> str:
    """Why these arguments do not fit the tool's schema, in a line; "" if they do."""
    # Imported when a model first calls a tool: the window opens sooner without it.
    from engine.tools.arguments import mistake_in

    return mistake_in(arguments, tool.schema)


# What the model gets


def finished(
    call: StepCall, result: Result, *, question: str, count: Callable[[str], int]
) -> StepCall:
    """A call that has ended, with the text that the model gets. `count(text)`: its tokens."""
    text = shortened(result.text, question=question, name=call.tool, count=count)
    if result.ending == "failed":
        text = f"The call failed: {text}" if text else "The call failed."
    elif result.ending == "cancelled":
        text = "The user stopped this call."
    elif not text.strip():
        text = "The tool returned nothing."
    if call.ran:
        text = f"[The user changed the arguments. These ran: {call.ran}]\n{text}"
    return replace(
        call, state=result.ending, result=text, seconds=result.seconds, bytes=result.bytes
    )


def shortened(text: str, *, question: str, name: str, count: Callable[[str], int]) -> str:
    """A result, or the passages of it that a question is about where it is too long to be read
    whole, below a line that says so."""
    text = text.encode("utf-8", "replace").decode()
    data = text.encode()
    if len(data) <= MOST_RESULT_TOKENS:  # which has no more tokens than bytes
        return text
    digest = hashlib.sha256(data).hexdigest()
    result = Document(name, "text", digest, (Section("lines", 1, text),))
    with PassageIndex() as index:
        found = plan(
            question, {1: result}, index=index, count=count, room=MOST_RESULT_TOKENS, share=1.0
        )
    (given,) = found.sent.documents
    if given.whole:
        return text
    passages = "\n".join(found.sent.given(1).splitlines()[1:-1]).strip("\n")
    return (
        f"[This result is long, about {found.whole_tokens:,} tokens. These are {given.in_words}. "
        f"To see others, call the tool for less.]\n{passages}"
    )


def seconds_left(steps: Sequence[Step]) -> float:
    """The time that the next call of an answer may take."""
    used = sum(call.seconds for step in steps for call in step.calls)
    return max(min(CALL_SECONDS, MOST_SECONDS - used), _LEAST_SECONDS)
