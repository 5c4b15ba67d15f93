"""What the tests of replies share: a reply read at once, cut anywhere, and put together again."""

import json
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from engine.events import CallPiece
from engine.replies.reading import ReplyReader
from engine.replies.tools import Tool
from engine.stretches import Kind

WEATHER = Tool(
    "get_weather",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "exact": {"type": "boolean"},
            "area": {"type": "object"},
            "marks": {"type": "array"},
            "share": {"type": "number"},
        },
        "required": ["city"],
        "additionalProperties": False,
    },
)
TIME = Tool("get_time", {"type": "object", "properties": {"zone": {"type": "string"}}})
TOOLS = (WEATHER, TIME)


@dataclass
class Reply:
    """`parts`: what was read, in order, neighbours of a kind joined; of a call its name and
    arguments. `broken`: the number of calls that began and are none."""

    content: str = ""
    reasoning: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    broken: int = 0
    parts: list[tuple[Kind, str]] = field(default_factory=list)


def read(syntax, pieces, *, tools=TOOLS, inside_reasoning=False, certain=False):
    """The whole reply; checks that its stretches cover it and its calls are whole. `certain`: a
    grammar has held it."""
    ending = syntax.reasoning.opening if inside_reasoning and syntax.reasoning else ""
    reader = ReplyReader(syntax, tools=tools, prompt_ending=ending, certain=certain)
    stretches, calls = [], list[CallPiece]()
    for piece in pieces:
        stretches += reader.push(piece)
        calls += reader.calls()
    stretches += reader.finish()
    calls += reader.calls()
    text, place, reply, left = "".join(pieces), 0, Reply(), deque(calls)
    for stretch in stretches:
        assert stretch.length
        part = text[place : place + stretch.length]
        place += stretch.length
        match stretch.kind:
            case "content":
                reply.content += part
            case "reasoning":
                reply.reasoning += part
            case "call":
                part = _call(reply, left) if left or not certain else ""
        if stretch.kind != "mark":
            before = reply.parts[-1:]
            if stretch.kind != "call" and before and before[0][0] == stretch.kind:
                reply.parts[-1] = (stretch.kind, before[0][1] + part)
            else:
                reply.parts.append((stretch.kind, part))
    assert place == len(text)
    assert not left
    begun = certain_calls(syntax, pieces, tools=tools, prompt_ending=ending)
    reply.broken = sum(bool(piece.name) for piece in begun) - len(reply.calls)
    return reply


def certain_calls(syntax, pieces, *, tools=TOOLS, prompt_ending=""):
    """The pieces of calls as they come where a grammar makes calls certain."""
    reader = ReplyReader(syntax, tools=tools, certain=True, prompt_ending=prompt_ending)
    found = []
    for piece in pieces:
        reader.push(piece)
        found += reader.calls()
    reader.finish()
    return [*found, *reader.calls()]


def _call(reply, left):
    """The name and the arguments of the next call, which is added to the reply."""
    first = left.popleft()
    assert first.name
    assert first.index == len(reply.calls)
    arguments = ""
    while not (piece := left.popleft()).ended:
        assert piece.index == first.index
        assert piece.arguments
        arguments += piece.arguments
    value = json.loads(arguments)
    assert isinstance(value, dict)
    reply.calls.append((first.name, value))
    return f"{first.name} {arguments}"


def cut(text, places):
    """The text in pieces, some of them empty."""
    ends = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(ends)]
