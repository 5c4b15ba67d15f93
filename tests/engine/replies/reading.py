"""What the tests of replies share: a reply read at once, cut anywhere, and put together again."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from engine.replies.parser import ReplyParser
from engine.replies.parts import (
    CallArguments,
    CallBegan,
    CallBroken,
    CallEnded,
    ContentPart,
    Part,
    ReasoningPart,
    joined,
)
from engine.replies.syntax import ReplySyntax
from engine.replies.tools import Tool
from engine.stretches import divided

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
    content: str = ""
    reasoning: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    broken: int = 0
    pieces: list[Part] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    ending: str = ""


def read(
    syntax: ReplySyntax,
    pieces: str | Sequence[str],
    *,
    tools: Sequence[Tool] = TOOLS,
    inside_reasoning: bool = False,
) -> Reply:
    """The whole reply; checks that its parts come in an order that makes sense."""
    parser = ReplyParser(syntax, tools=tools, inside_reasoning=inside_reasoning)
    parts = [part for piece in pieces for part in parser.push(piece)] + parser.finish()
    reply = Reply(pieces=parts, parts=joined(parts), ending=parser.ending)
    name, arguments, began = "", "", -1
    for part in parts:
        match part:
            case ContentPart(text):
                assert not name
                assert text
                reply.content += text
            case ReasoningPart(text):
                assert not name
                assert text
                reply.reasoning += text
            case CallBegan(index, name):
                assert index == began + 1
                began, arguments = index, ""
            case CallArguments(index, text):
                assert index == began
                assert text
                arguments += text
            case CallEnded(index):
                assert index == began
                value = json.loads(arguments)
                assert isinstance(value, dict)
                reply.calls.append((name, value))
                name = ""
            case CallBroken(index):
                assert index == began
                reply.broken += 1
                name = ""
    assert not name
    text, stretches = "".join(pieces), parser.stretches()
    assert sum(one.length for one in stretches) == len(text)
    for kind, found in (("content", reply.content), ("reasoning", reply.reasoning)):
        assert "".join(part for each, part in divided(text, stretches) if each == kind) == found
    return reply


def cut(text: str, places: Sequence[int]) -> list[str]:
    """The text in pieces, some of them empty."""
    ends = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(ends)]
