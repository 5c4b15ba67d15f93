"""Finds what a chat template can say, by rendering short chats with it.

A template is a program, and its source does not show its output. So each ability is tried with
words that occur nowhere else, and looked for in the rendered text. If the template refuses a chat,
it lacks the ability. Knows no tokenizer; `engine.conversation.template` renders.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, get_args

from engine.near_ties import alike
from engine.replies.families import FamilyRow, ReasoningMarks
from engine.replies.found import (
    KEY,
    NAME,
    OTHER,
    OTHER_KEY,
    VALUE,
    answer_in,
    call_row,
    reasoning_marks,
)
from engine.request import Thinking

SWITCHES = ("enable_thinking", "thinking")
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)

Message = dict[str, Any]
Render = Callable[[Sequence[Message], Sequence[Message], Mapping[str, Any], bool], str]
"""Renders messages with tools and variables; the last argument asks for the beginning of an
answer. Raises any error of the template."""

_ASKED, _AGAIN, _SYSTEM = "questionword", "furtherword", "systemword"
_TOOL, _ARGUMENT, _VALUE, _OTHER = NAME, KEY, VALUE, OTHER
_RESULT, _SECOND, _THOUGHT, _ANSWER = "resultword", "secondword", "thoughtword", "answerword"
_ANSWER_TOO, _ID = "besideword", "callword"

_FORMS: tuple[tuple[Callable[[Message], Any], str | None], ...] = (
    (dict, ""),
    (json.dumps, ""),
    (dict, None),
    (json.dumps, None),
)
"""The forms of a call that are tried in turn: of its arguments, and of a missing text."""


@dataclass(frozen=True, slots=True)
class TemplateAbilities:
    """The abilities of a chat template; by default it can say everything.

    `system`, `tools`, `calls`, `results`: whether it shows them. `several_calls`: in one message;
    `calls_without_tools`: calls in a chat that lists no tools.
    `same_role`: whether it takes two messages of the user or the assistant in a row;
    `assistant_first`: a chat that the assistant begins; `empty_answers`: messages of the assistant
    without text; `lone_calls`: calls without results; `user_after_results`: a question after
    results. `arguments`: the form in which it expects a call's arguments; `names_in_ids`: whether
    the name of a call is in its id only; `text_beside_calls`: whether the text of a message with
    calls is shown, `text_before_calls`: in a message of its own; `empty_beside_calls`: whether a
    missing text may be "", or must be None. `switches`: its variables for thinking, of `SWITCHES`;
    `efforts`: the values of reasoning_effort that make a difference, of `EFFORTS`.

    `beginning`: the text after a question, before an answer that is to be written;
    `to_reasoning` and `to_text`: up to the reasoning of an answer, and up to the text of an answer
    without reasoning; `between`: the text between reasoning and answer; `behind`: the text that
    follows it. They are empty if the template does not show it. `notation`: how it writes calls and
    reasoning, as far as its texts show that.
    """

    system: bool = True
    tools: bool = True
    calls: bool = True
    calls_without_tools: bool = True
    several_calls: bool = True
    results: bool = True
    same_role: bool = True
    assistant_first: bool = True
    empty_answers: bool = True
    lone_calls: bool = True
    user_after_results: bool = True
    arguments: Literal["object", "text"] = "object"
    names_in_ids: bool = False
    text_beside_calls: bool = True
    text_before_calls: bool = True
    empty_beside_calls: bool = True
    switches: tuple[str, ...] = ()
    efforts: tuple[Effort, ...] = ()
    beginning: str = ""
    to_reasoning: str = ""
    to_text: str = ""
    between: str = ""
    behind: str = ""
    notation: FamilyRow | None = None

    @property
    def knows_tools(self) -> bool:
        """Whether tools, calls and results are all shown."""
        return self.tools and self.calls and self.results

    @property
    def choices(self) -> tuple[Thinking, ...]:
        """The choices that the user has for thinking, besides the makers' default."""
        both: tuple[Thinking, ...] = ("on", "off") if self.switches else ()
        return (*both, *(effort for effort in self.efforts if effort != "none"))

    def thinking(self, wish: Thinking) -> dict[str, Any]:
        """The variables that make the model think as it is wished: "on", "off" or an effort; none
        for "", and none that the template does not know.

        Where a template knows efforts only, "off" is the least of them.
        """
        if not wish:
            return {}
        off = wish == "off"
        variables: dict[str, Any] = dict.fromkeys(self.switches, not off)
        if wish in self.efforts:
            variables["reasoning_effort"] = wish
        elif off and not self.switches and self.efforts:
            variables["reasoning_effort"] = self.efforts[0]
        return variables

    def missing(self, begun: str, written: str) -> str | None:
        """The part of `written` (`to_reasoning` or `to_text`) that a prompt still lacks at its end.

        None if the prompt does not begin an answer in that way. Example: "\\n<think>" for a
        prompt that ends with "<assistant>", if `to_reasoning` is "<assistant>\\n<think>".
        """
        least = max(alike(written, self.beginning), 1)
        for length in range(len(written), least - 1, -1):
            if begun.endswith(written[:length]):
                return written[length:]
        return None


def abilities_of(render: Render) -> TemplateAbilities:
    """Try a template."""
    return _Trial(render).abilities()


class _Trial:
    """A template that is tried."""

    def __init__(self, render: Render) -> None:
        self._render = render
        self._tools = [_tool()]
        for self._arguments, self._content in (*_FORMS, _FORMS[0]):
            self._history = self._shown(self._calls(_VALUE))
            in_python = f"'{_ARGUMENT}': '{_VALUE}'"  # its notation of an object
            if _VALUE in self._history and in_python not in self._history:
                break
        self._called = (_VALUE,) if _VALUE in self._history else ()

    def abilities(self) -> TemplateAbilities:
        user, again, answer = _said("user", _ASKED), _said("user", _AGAIN), _answered()
        plain = self._shown([user], tools=False)
        answered = self._shown([user, answer])
        wide = self._arguments({_ARGUMENT: _VALUE, OTHER_KEY: _OTHER})
        texts = [
            answer_in(self._shown(messages[:2]), answered)
            for messages in (
                self._calls(_VALUE),
                self._calls(_VALUE, _OTHER),
                _called([wide], content=self._content),
            )
        ]
        thought, between, behind = _written(self._shown([user, _reasoned()], tools=False), plain)
        text, _, behind_text = _written(self._shown([user, answer], tools=False), plain, _ANSWER)
        begun = partial(self._shown, [user], tools=False, begin=True)
        return TemplateAbilities(
            **self._of_roles(),
            **self._of_calls(),
            same_role=self._takes(user, again, words=(_ASKED, _AGAIN))
            and self._takes(user, answer, _answered(_SECOND), again, words=(_ANSWER, _SECOND)),
            empty_answers=self._takes(user, _answered(""), again, words=(_ASKED, _AGAIN)),
            names_in_ids=bool(texts[0])
            and _TOOL not in texts[0]
            and self._shown(self._calls(_VALUE)).count(_ID) > 1,
            switches=tuple(_switches(begun)),
            efforts=tuple(_efforts(begun)),
            beginning=_behind(begun(), plain),
            to_reasoning=thought,
            to_text=text,
            between=between,
            behind=behind_text or behind,
            notation=_notation(texts, reasoning=reasoning_marks(thought, between)),
        )

    def _of_roles(self) -> dict[str, Any]:
        """The abilities `system` and `assistant_first`."""
        user, system, answer = _said("user", _ASKED), _said("system", _SYSTEM), _answered()
        steps = self._calls(_VALUE)
        texts = [self._shown([system, user], tools=False)]
        texts += [self._shown([system, *steps[:count]], begin=True) for count in (1, 3)]
        return {
            "system": bool(texts[0]) and all(_SYSTEM in text for text in texts if text),
            "assistant_first": _SYSTEM + _ANSWER
            not in self._shown([system, answer, user], tools=False)
            and self._takes(answer, user, words=(_ANSWER, _ASKED))
            and self._takes(*steps[1:], words=self._called),
        }

    def _of_calls(self) -> dict[str, Any]:
        """The abilities for tools, calls and results."""
        steps, again = self._calls(_VALUE), _said("user", _AGAIN)  # question, call, result, ...
        called = self._called
        several = self._shown(self._calls(_VALUE, _OTHER))
        tools = _TOOL in self._shown(steps[:1], begin=True)
        return {
            "tools": tools,
            "calls": bool(called),
            "calls_without_tools": all(word in self._shown(steps, tools=False) for word in called),
            "several_calls": all(word in several for word in (_VALUE, _OTHER, _RESULT, _SECOND)),
            # A template that knows no tools may show results as messages of any role.
            "results": _RESULT in self._history and (tools or bool(called)),
            "lone_calls": self._takes(*steps[:2], words=called)
            and self._takes(*steps[:2], again, words=(*called, _AGAIN)),
            "user_after_results": self._takes(*steps[:3], again, words=(_RESULT, _AGAIN)),
            "arguments": "text" if self._arguments is json.dumps else "object",
            "text_beside_calls": self._keeps_text(with_call=True) or not called,
            "text_before_calls": self._keeps_text(with_call=False),
            "empty_beside_calls": self._content is not None,
        }

    def _shown(
        self,
        messages: Sequence[Message],
        variables: Mapping[str, Any] = MappingProxyType({}),
        *,
        tools: bool = True,
        begin: bool = False,
    ) -> str:
        try:
            return self._render(messages, self._tools if tools else (), variables, begin)
        except Exception:  # the program may raise anything
            return ""

    def _takes(self, *messages: Message, words: Sequence[str]) -> bool:
        text = self._shown(messages, begin=True)
        return all(word in text for word in words)

    def _keeps_text(self, *, with_call: bool) -> bool:
        """Whether a second call is shown after a text: of its own message, or of the one before."""
        content = _ANSWER_TOO if with_call else self._content
        before = "" if with_call else _ANSWER_TOO
        second = _called([self._arguments({_ARGUMENT: _OTHER})], content=content, before=before)
        text = self._shown([*self._calls(_VALUE)[:3], *second[1:]])
        return _OTHER in text.partition(_ANSWER_TOO)[2]

    def _calls(self, *values: str) -> list[Message]:
        """A question, an answer that calls the tool with each value, the results, an answer to
        them, and a question."""
        given = [self._arguments({_ARGUMENT: value}) for value in values]
        return _called(given, content=self._content)


def _notation(texts: Sequence[str], *, reasoning: ReasoningMarks | None) -> FamilyRow | None:
    """The notation in answers with one call, with two, and with one of two arguments."""
    single, two, wide = texts
    row = call_row(single, two=two, wide=wide)
    return FamilyRow((row,), reasoning=reasoning) if row else None


def _switches(shown: Callable[[Mapping[str, Any]], str]) -> list[str]:
    """The switches that change the beginning of an answer, or of the prompt."""
    return [name for name in SWITCHES if shown({name: True}) != shown({name: False})]


def _efforts(shown: Callable[[Mapping[str, Any]], str]) -> list[Effort]:
    """The efforts that the template tells apart from a word that it cannot know; the usual ones if
    it repeats any word."""

    def with_effort(effort: str) -> str:
        return shown({"reasoning_effort": effort, **dict.fromkeys(SWITCHES, True)})

    unknown = with_effort(_OTHER)
    if _OTHER in unknown:
        return ["low", "medium", "high"]
    found = {effort: with_effort(effort) for effort in EFFORTS}
    return [effort for effort, text in found.items() if text and text != unknown]


def _written(whole: str, plain: str, first: str = _THOUGHT) -> tuple[str, str, str]:
    """Return the text before the word `first`, between it and the answer, and after the answer."""
    before, found, rest = whole.rpartition(first)
    if not found or _ANSWER not in whole:
        return "", "", ""
    start = _behind(before, plain)
    if first == _ANSWER:
        return start, "", rest
    between, found, behind = rest.partition(_ANSWER)
    return (start, between, behind) if found else ("", "", "")


def _behind(text: str, plain: str) -> str:
    return text[alike(text, plain) :]


def _said(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def _answered(content: str = _ANSWER) -> Message:
    return _said("assistant", content)


def _reasoned() -> Message:
    return _answered() | {"reasoning_content": _THOUGHT, "thinking": _THOUGHT}


def _tool() -> Message:
    schema = {"type": "object", "properties": {_ARGUMENT: {"type": "string", "description": "x"}}}
    schema |= {"required": [_ARGUMENT]}
    function = {"name": _TOOL, "description": "x", "parameters": schema}
    return {"type": "function", "function": function}


def _called(values: Sequence[Any], *, content: str | None, before: str = "") -> list[Message]:
    calls: list[Message] = []
    results: list[Message] = []
    for number, (arguments, result) in enumerate(zip(values, (_RESULT, _SECOND), strict=False)):
        id = f"{_ID}{number}"
        function = {"name": _TOOL, "arguments": arguments}
        calls.append({"id": id, "type": "function", "function": function})
        results.append({"role": "tool", "content": result, "tool_call_id": id, "name": _TOOL})
    return [
        _said("user", _ASKED),
        *([_said("assistant", before)] if before else []),
        {"role": "assistant", "content": content, "tool_calls": calls},
        *results,
        _said("assistant", _ANSWER),
        _said("user", _AGAIN),
    ]
