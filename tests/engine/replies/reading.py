"""What the tests of replies share: a reply read at once, cut anywhere, and put together again; and
replies as templates of all families render them.

The templates in tests/data/templates are our own, and write calls as those of the models do; those
in shapes/ are as awkward as some of the models' are.
"""

import json
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from engine.conversation.template import render
from engine.events import CallPiece
from engine.replies.reading import ReplyReader
from engine.replies.syntax import Family, syntax_of
from engine.replies.tools import Tool
from engine.request import ChatMessage, Prompt
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


TEMPLATES = Path(__file__).parents[2] / "data" / "templates"


@dataclass(frozen=True)
class Case:
    """A template, and what stands before and after a reply in it.

    `not_in_text`: what a text among the arguments cannot say, as the template escapes nothing.
    """

    name: str
    family: Family
    before: str
    behind: str
    reasons: bool = True
    inside: bool = False
    most_calls: int = 3
    not_in_text: tuple[str, ...] = ()
    special: tuple[str, ...] = ()


THOUGHT = ("<|channel>", "<channel|>")
CASES = [
    Case("hermes", "hermes", "<|im_start|>assistant\n", "<|im_end|>"),
    Case(
        "qwen_xml", "qwen xml", "<|im_start|>assistant\n", "<|im_end|>",
        inside=True, not_in_text=("</",),
    ),
    Case(
        "llama", "llama", "assistant<|end_header_id|>\n\n", "<|eot_id|>", reasons=False,
        most_calls=1,
    ),
    Case("mistral", "mistral", "[/INST]", "<eos>", reasons=False, special=("[TOOL_CALLS]",)),
    Case("mistral_args", "mistral args", "[/INST]", "<eos>", special=("[THINK]", "[/THINK]")),
    Case("lfm", "lfm", "<|im_start|>assistant\n", "<|im_end|>", not_in_text=("'", "\\")),
    Case(
        "gemma", "gemma", "<|turn>model\n", "<turn|>", not_in_text=('<|"|>',), special=THOUGHT
    ),
    Case(
        "function_gemma", "function gemma", "<start_of_turn>model\n", "<end_of_turn>",
        reasons=False, not_in_text=("<escape>",),
    ),
    Case("glm", "glm", "<|assistant|>", "<|user|>", inside=True, not_in_text=("</",)),
    Case("harmony", "harmony", "<|start|>assistant", "<|call|>", most_calls=1),
]  # fmt: skip


def template(name):
    return (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")


def template_of(case):
    return template(case.name)


def syntax_in(case):
    return syntax_of(template_of(case), special=case.special)


def arguments_for(case):
    """Arguments of `get_weather`, of the types that its schema says."""
    texts = st.text(st.characters(exclude_categories=("Cs", "Cc"), include_characters="\n"))
    texts = texts.filter(lambda text: not any(one in text for one in case.not_in_text))
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | texts,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["a", "b", "c_d"]), inner, max_size=3)
        ),
        max_leaves=5,
    )
    return st.fixed_dictionaries(
        {"city": texts},
        optional={
            "days": st.integers() | st.just(2**63 + 1),
            "exact": st.booleans(),
            "area": st.dictionaries(st.sampled_from(["a", "b", "c_d"]), values, max_size=3),
            "marks": st.lists(values, max_size=3),
            "share": st.floats(allow_nan=False, allow_infinity=False),
        },
    )


def rendered(tokenizer, case, reply):
    """How the template writes a reply that it is told."""
    tokenizer.chat_template = template_of(case)
    question = ChatMessage("user", "why?")
    rendered = render(tokenizer, Prompt(messages=(question, reply, question)))
    behind = rendered.split(case.before, 1)[1]
    return behind[: behind.rindex(case.behind, 0, behind.rindex("why?"))]
