"""Reads a reply while it is written: content, reasoning, and calls of tools.

What is told follows from the text alone, not from how it was cut. Marks, and white space next to
them, are told by no part; all other text is, once, in its order: what looked like a call and is
none is content.

Within reasoning nothing but its closing mark is looked for. A stop string of the client's ends the
content, not the reasoning: whoever asks the engine for an answer gives it no stop strings where the
syntax has reasoning, and looks for them in the content, with `engine.text.StopStrings`.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal

from engine.replies.calls import Calls
from engine.replies.harmony import read_messages
from engine.replies.incoming import Incoming, Steps, Unreadable
from engine.replies.json_calls import hermes, llama, mistral, python_tag
from engine.replies.literal_calls import function_gemma, gemma, lfm
from engine.replies.parts import ContentPart, Part, ReasoningPart, joined
from engine.replies.syntax import Family, ReplySyntax
from engine.replies.tools import Tool
from engine.replies.xml_calls import glm, qwen

CallReader = Callable[[Incoming, Calls], Steps[None]]

_READERS: dict[Family, dict[str, CallReader]] = {
    "hermes": {"<tool_call>": hermes},
    "llama": {"<|python_tag|>": python_tag},
    "mistral": {"[TOOL_CALLS]": mistral},
    "mistral args": {"[TOOL_CALLS]": mistral},
    "qwen xml": {"<tool_call>": qwen, "<function=": qwen},
    "glm": {"<tool_call>": glm},
    "lfm": {"<|tool_call_start|>": lfm},
    "gemma": {"<|tool_call>": gemma},
    "function gemma": {"<start_function_call>": function_gemma},
}
"""By which mark a call is recognized, and what reads it from there, the mark included."""


class ReplyParser:
    """Parts of one reply. Without `tools` nothing is taken for a call.

    `inside_reasoning`: the prompt ended within reasoning; see `ReplySyntax.begins_inside`.
    """

    def __init__(
        self, syntax: ReplySyntax, *, tools: Sequence[Tool] = (), inside_reasoning: bool = False
    ) -> None:
        self._syntax = syntax
        self._incoming = Incoming()
        self._parts: list[Part] = []
        self._calls = Calls(self._incoming, self._parts.append, tools)
        self._readers = _READERS.get(syntax.family, {}) if tools else {}
        self._unmarked = bool(tools) and syntax.family == "llama"
        self._steps = self._reply(inside_reasoning)
        if syntax.family == "harmony":
            self._steps = read_messages(
                self._incoming,
                self._calls if tools else None,
                content=self._content,
                reasoning=self._reasoned,
            )

    @property
    def ending(self) -> Literal["stop", "tool_calls"]:
        """Why the reply ended, where neither the client nor its length ended it."""
        return "tool_calls" if self._calls.whole else "stop"

    def push(self, text: str) -> list[Part]:
        """The parts that are certain with this text."""
        self._incoming.add(text)
        return self._advance()

    def finish(self) -> list[Part]:
        """The parts that were held back, as no more text will come."""
        self._incoming.end()
        return self._advance()

    def _advance(self) -> list[Part]:
        with suppress(StopIteration):
            next(self._steps)
        parts = joined(self._parts)
        self._parts.clear()
        return parts

    def _content(self, text: str) -> None:
        if text:
            self._parts.append(ContentPart(text))

    def _reasoned(self, text: str) -> None:
        self._parts.append(ReasoningPart(text))

    def _reply(self, inside_reasoning: bool) -> Steps[None]:
        reasoning, marks = self._syntax.reasoning, [*self._readers]
        if reasoning and reasoning.opening.startswith(self._syntax.special or "\0"):
            marks.append(reasoning.opening)  # no text says this: it counts everywhere
        beginning, behind_mark = True, False
        if inside_reasoning and reasoning:
            yield from self._reasoning()
            behind_mark = True
        while True:
            if beginning and (yield from self._beginning(behind_mark=behind_mark)):
                behind_mark = True
                continue
            mark = yield from self._incoming.text_until(marks, self._content, trim=bool(marks))
            if not mark:
                return
            self._incoming.remember()
            yield from self._incoming.spaces()
            if mark not in self._readers:
                yield from self._incoming.expect(mark)
                self._incoming.taken()
                yield from self._reasoning()
                beginning = behind_mark = True
                continue
            beginning = behind_mark = yield from self._call(self._readers[mark])

    def _beginning(self, *, behind_mark: bool) -> Steps[bool]:
        """Reads what can only stand at the beginning of a reply, or right behind a mark; whether
        there was such a thing."""
        incoming = self._incoming
        incoming.remember()
        yield from incoming.spaces()
        if behind_mark:
            incoming.remember()
        reasoning = self._syntax.reasoning
        if reasoning and (opening := (yield from incoming.comes(reasoning.opening))):
            incoming.take(len(opening))
            incoming.taken()
            yield from self._reasoning()
            return True
        if self._unmarked and (yield from incoming.peek()) == "{":
            return (yield from self._call(llama))
        space = incoming.taken()
        if space and not (self._readers and (yield from incoming.comes(*self._readers))):
            self._content(space)
        return False

    def _reasoning(self) -> Steps[None]:
        """Reads from behind the opening mark to behind the closing one."""
        assert self._syntax.reasoning
        closing = self._syntax.reasoning.closing
        yield from self._incoming.spaces()
        yield from self._incoming.text_until([closing], self._reasoned, trim=True)
        yield from self._incoming.spaces()
        self._incoming.take(len(closing))

    def _call(self, read: CallReader) -> Steps[bool]:
        """Reads calls from a mark on, which is remembered; whether there was one."""
        try:
            yield from read(self._incoming, self._calls)
        except Unreadable:
            self._calls.give_up()
            self._content(self._incoming.taken())
            return False
        self._incoming.taken()
        return True
