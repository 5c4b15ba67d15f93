"""Reads a reply while it is written: content, reasoning, and tool calls.

The parts follow from the text alone, not from how it was cut. Marks, and white space next to them,
are in no part. All other text is in one part, in order; text that looked like a call and is none
becomes content.

Within reasoning only its closing mark is looked for. Stop strings end the content, and neither
reasoning nor a call: `engine.conversation.text.AnswerText` looks for them.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal

from engine.replies.calls import Calls
from engine.replies.harmony import read_messages
from engine.replies.incoming import Incoming, Reading, Unreadable
from engine.replies.json_calls import hermes, llama, mistral, python_tag
from engine.replies.literal_calls import function_gemma, gemma, lfm
from engine.replies.parts import CallEnded, ContentPart, Part, ReasoningPart, joined
from engine.replies.syntax import Family, ReplySyntax
from engine.replies.tools import Tool
from engine.replies.xml_calls import glm, qwen
from engine.stretches import Kind, Stretch

CallReader = Callable[[Incoming, Calls], Reading[None]]

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
"""By family: the marks at which calls begin, and the reader of a call from its mark on."""


class ReplyParser:
    """Splits one reply into parts. Without `tools` no text is read as a call.

    `inside_reasoning`: the prompt ended within reasoning; see `ReplySyntax.begins_inside`.
    `certain`: a grammar has it that a call which begins is one, so that its text is a call's at
    once.
    """

    def __init__(
        self,
        syntax: ReplySyntax,
        *,
        tools: Sequence[Tool] = (),
        inside_reasoning: bool = False,
        certain: bool = False,
    ) -> None:
        self._syntax = syntax
        self._certain = certain
        self._incoming = Incoming()
        self._parts: list[Part] = []
        self._stretches: list[Stretch] = []
        self._covered = 0  # characters that have a stretch
        self._calls = Calls(self._incoming, self._called, tools)
        self._readers = _READERS.get(syntax.family, {}) if tools else {}
        self._unmarked = bool(tools) and syntax.family == "llama"
        self._reading = self._reply(inside_reasoning)
        if syntax.family == "harmony":
            self._reading = read_messages(
                self._incoming,
                self._calls if tools else None,
                content=self._content,
                reasoning=self._reasoned,
            )

    @property
    def ending(self) -> Literal["stop", "tool_calls"]:
        """The reason for the end, if neither the client nor the length ended the reply."""
        return "tool_calls" if self._calls.whole else "stop"

    def push(self, text: str) -> list[Part]:
        """Add text; return the parts that are certain now."""
        self._incoming.add(text)
        return self._advance()

    def finish(self) -> list[Part]:
        """End the reply; return the parts that were held back."""
        self._incoming.end()
        parts = self._advance()
        self._cover("mark", 0)
        return parts

    def stretches(self) -> list[Stretch]:
        """Return the stretches of the text that became certain since the last call of this."""
        found, self._stretches = self._stretches, []
        return found

    def _advance(self) -> list[Part]:
        with suppress(StopIteration):
            next(self._reading)
        parts = joined(self._parts)
        self._parts.clear()
        return parts

    def _content(self, text: str) -> None:
        if text:
            self._parts.append(ContentPart(text))
            self._cover("content", len(text))

    def _reasoned(self, text: str) -> None:
        self._parts.append(ReasoningPart(text))
        self._cover("reasoning", len(text))

    def _called(self, part: Part) -> None:
        self._parts.append(part)
        if isinstance(part, CallEnded) or self._certain:
            self._cover("call", self._incoming.position - self._covered)

    def _cover(self, kind: Kind, length: int) -> None:
        """Give the `length` characters that were taken last their stretch, and those before."""
        end = self._incoming.position
        before, length = end - length - self._covered, min(length, end - self._covered)
        self._stretches += [Stretch("mark", max(0, before)), Stretch(kind, length)]
        self._covered = end

    def _reply(self, inside_reasoning: bool) -> Reading[None]:
        reasoning, marks = self._syntax.reasoning, [*self._readers]
        if reasoning and reasoning.opening.startswith(self._syntax.special or "\0"):
            marks.append(
                reasoning.opening
            )  # a special token: no text spells it, so look everywhere
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

    def _beginning(self, *, behind_mark: bool) -> Reading[bool]:
        """Read reasoning or an unmarked call, which can only stand at the beginning of a reply or
        right behind a mark. Returns whether there was one."""
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

    def _reasoning(self) -> Reading[None]:
        """Read from behind the opening mark to behind the closing one."""
        assert self._syntax.reasoning
        closing = self._syntax.reasoning.closing
        yield from self._incoming.spaces()
        yield from self._incoming.text_until([closing], self._reasoned, trim=True)
        yield from self._incoming.spaces()
        self._incoming.take(len(closing))

    def _call(self, read: CallReader) -> Reading[bool]:
        """Read calls from a remembered mark on. Returns whether there was one."""
        try:
            yield from read(self._incoming, self._calls)
        except Unreadable:
            self._calls.give_up()
            self._content(self._incoming.taken())
            return False
        self._incoming.taken()
        return True
